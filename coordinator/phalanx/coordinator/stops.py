"""Static breakpoints: nodes before or after which a run stops, to be gone on with by another. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from phalanx.coordinator.state import GraphState
from phalanx.protocol.names import INTERRUPT
from phalanx.worker.blueprint import Blueprint

Names = frozenset[str] | Literal["*"]


@dataclass(frozen=True, slots=True)
class Stops:
    """Where a run stops.

    Attributes:
        before, after: the nodes; ``"*"`` for all that can be seen.
    """

    before: Names = frozenset()
    after: Names = frozenset()

    def hits(self, names: Names, blueprint: Blueprint, state: GraphState, nodes: Iterable[str]) -> bool:
        """Whether to stop at tasks of ``nodes``: if they are named, and something has changed since the last stop."""
        if not names:
            return False
        named = any(not blueprint.nodes[node].hidden and (names == "*" or node in names) for node in nodes)
        return named and has_moved(state)


NO_STOPS: Final = Stops()


def has_moved(state: GraphState) -> bool:
    """Whether a channel changed since a run last went on from a stop."""
    seen = state.seen.get(INTERRUPT, {})
    return any(
        name not in seen or version > seen[name]  # type: ignore[operator]
        for name, version in state.versions.items()
    )


def note_gone_on(state: GraphState) -> None:
    """A run goes on: what it stopped at before does not stop it again."""
    state.seen[INTERRUPT] = dict(state.versions)
