"""Running random graphs, and what a run shows."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.differential.bare_graphs import BareBuild, BarePlan
from tests.differential.building import Book, Build, refusal_from_afar
from tests.differential.plans import GraphPlan, Turn
from tests.differential.states import LibraryName, canonical, library

_numbers: Final = itertools.count(1)

AnyPlan = GraphPlan | BarePlan
_WRONG: Final = "Expected dict, got 5"  # ours says more

ErrorText = tuple[str, str]
"""The name of its class, and its first line."""


@dataclass
class Shown:
    """What can be seen of one run: the streams, the error, the state afterwards and the tasks it ran."""

    values: list[Any] = field(default_factory=list[Any])
    updates: list[list[str]] = field(default_factory=lambda: [[]])  # sorted, between two ``values``
    executed: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])
    error: ErrorText | None = None
    raised: list[ErrorText] = field(default_factory=list[ErrorText])
    state: Any = None
    history: Any = None


class Running:
    """A graph with its thread.

    Args:
        name: whose library.
        plan: the graph.
        loop: runs it, if it is to run on an event loop.
        cluster: runs its tasks, if they are not to run in this process.
    """

    def __init__(
        self, name: LibraryName, plan: AnyPlan, loop: asyncio.Runner | None = None, cluster: Any = None
    ) -> None:
        self.plan, self.loop = plan, loop
        self.book = Book()
        self.runs = 0
        self.name = name
        if isinstance(plan, BarePlan):
            self.build: Build | BareBuild = BareBuild(name, plan, self.book)
        else:
            self.build = Build(name, plan, self.book, library(name).cache())
        saver = library(name).saver() if plan.keep and cluster is None else None
        self.graph: Any = self.build.compiled(saver, name=f"random-{next(_numbers)}")
        if cluster is not None:
            self.graph = self.graph.with_cluster(cluster)
        self.config = {"recursion_limit": plan.limit, "configurable": {"thread_id": f"t{next(_numbers)}"}}
        if not plan.keep:
            self.config.pop("configurable")
        self.options: dict[str, Any] = {"context": {"tenant": 1}}
        if plan.keep and name == "langgraph" and not plan.nests:
            # Else it stores in the background what the next step may have changed. Graphs without a saver inside one
            # with a saver cannot bear it, though.
            self.options["durability"] = "sync"

    def turn(self, turn: Turn) -> Shown:
        """Run with the input of a turn."""
        fresh = self.runs == 0 or not self.plan.keep
        return self.run(self.build.given(turn, fresh=fresh))

    def go_on(self) -> Shown:
        """Run on after a failure, with nobody failing any more."""
        self.book.healthy = True
        try:
            return self.run(None)
        finally:
            self.book.healthy = False

    def run(self, given: object) -> Shown:
        """Stream one run, and look at the state after it."""
        shown = Shown()
        self.runs += 1
        self.book.executed.clear()
        self.book.raised.clear()
        modes = ["values", "updates"]
        try:
            if self.loop is None:
                self._take(shown, self.graph.stream(given, self.config, stream_mode=modes, **self.options))
            else:
                chunks = self.graph.astream(given, self.config, stream_mode=modes, **self.options)
                self.loop.run(self._atake(shown, chunks))
        except Exception as error:
            refusal = refusal_from_afar(error)
            text = (refusal or str(error)).split("\n")[0]
            shown.error = (
                "ValidationError" if refusal else type(error).__name__,
                _WRONG if text.startswith(_WRONG) else text,
            )
        shown.executed = sorted(self.book.executed)
        shown.raised = sorted(self.book.raised)
        shown.updates = [sorted(block) for block in shown.updates]
        if self.plan.keep:
            shown.state = self._state()
        return shown

    def result(self, given: object) -> Any:
        """What a run returns."""
        if self.loop is None:
            return self.graph.invoke(given, self.config, **self.options)
        return self.loop.run(self.graph.ainvoke(given, self.config, **self.options))

    @property
    def step(self) -> int | None:
        """The last superstep that is stored."""
        found = self._state() or {}
        step: int | None = found.get("step")
        return step

    def history(self) -> list[Any] | None:
        """The thread's checkpoints, newest first; ``None`` where theirs cannot show them."""
        try:
            return [_snapshot(each, errors=False) for each in self.graph.get_state_history(self.config)]
        except Exception:
            if self.name == "langgraph":
                return None
            raise

    def _take(self, shown: Shown, chunks: Iterator[tuple[str, Any]]) -> None:
        for mode, data in chunks:
            _note(shown, mode, data)

    async def _atake(self, shown: Shown, chunks: AsyncIterator[tuple[str, Any]]) -> None:
        async for mode, data in chunks:
            _note(shown, mode, data)

    def _state(self) -> dict[str, Any] | None:
        """The thread's state; ``None`` where theirs cannot show it, since it can be neither read nor updated."""
        try:
            return _snapshot(self.graph.get_state(self.config))
        except Exception:
            if self.name == "langgraph":
                return None
            raise


def _note(shown: Shown, mode: str, data: Any) -> None:
    if mode == "values":
        shown.values.append(data)
        shown.updates.append([])
    else:
        shown.updates[-1].append(canonical(data))


def _snapshot(state: Any, *, errors: bool = True) -> dict[str, Any]:
    return {
        "values": state.values,
        "next": state.next,
        "source": state.metadata and state.metadata["source"],
        "step": state.metadata and state.metadata["step"],
        "tasks": [(task.name, task.path[0], errors and task.error is None) for task in state.tasks],
        "parent": state.parent_config is not None,
    }
