"""The edges of a graph, found by following it superstep by superstep without running a node.

A blueprint knows what its nodes may write. Here every node writes all of it: its plain edges each time, and every way
out of its conditional edges and commands the first time. Whatever that triggers runs in the next superstep, and an edge
is a write that triggered something. So an edge is drawn only if it can be taken, a join once all its sources can run,
and a deferred node after what keeps it waiting.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NamedTuple, cast

from phalanx.channels import LastValueAfterFinish, NamedBarrierValue, NamedBarrierValueAfterFinish
from phalanx.constants import END
from phalanx.coordinator.output import as_names
from phalanx.protocol.names import branch_channel
from phalanx.worker.blueprint import Blueprint, Node

_STEPS: Final = 251
"""How long a loop is followed. Which node of an endless loop is drawn as its last depends on it."""


class Way(NamedTuple):
    """An edge as it was found."""

    source: str
    target: str
    conditional: bool
    label: str | None


class Exit(NamedTuple):
    """A way out of a node: the channel it writes, or ``END``."""

    channel: str
    conditional: bool
    label: str | None


@dataclass(slots=True)
class DryRun:
    """What was found.

    Attributes:
        first: the nodes that a run's input triggers.
        ways: the edges.
        last: the nodes of the last superstep.
    """

    first: list[str] = field(default_factory=list[str])
    ways: set[Way] = field(default_factory=set[Way])
    last: list[str] = field(default_factory=list[str])

    @property
    def ordered(self) -> list[Way]:
        """The edges by source and target; of several between two nodes the plain one comes first."""
        return sorted(self.ways, key=lambda way: (way.source, way.target, way.conditional, way.label or ""))


def dry_run(blueprint: Blueprint) -> DryRun:
    """Follow a graph from its input to where nothing is left to run, or until a loop has nothing new to show."""
    gates = _Gates(blueprint)
    exits = {name: _Exits.of(blueprint, node) for name, node in blueprint.nodes.items()}
    found = DryRun()
    known: dict[str, set[tuple[str, bool, str | None]]] = {}  # by channel: who writes it, and how
    seen: set[str] = set()
    tasks = found.first = gates.open_after({channel: set() for channel in as_names(blueprint.input_channels)})
    for step in count(1):
        before = len(found.ways)
        written: dict[str, set[str]] = {}
        for name in tasks:
            for channel, conditional, label in exits[name].written(again=name in seen):
                if channel == END:
                    found.ways.add(Way(name, END, conditional, label))
                    continue
                written.setdefault(channel, set()).add(name)
                known.setdefault(channel, set()).add((name, conditional, label))
        seen.update(tasks)
        found.last = tasks
        declared = {channel for name in tasks for channel in exits[name].channels}
        tasks = gates.open_after(written)
        for name in tasks:
            triggers = blueprint.nodes[name].triggers
            found.ways |= {Way(how[0], name, *how[1:]) for channel in triggers for how in known.get(channel, ())}
            if declared.isdisjoint(triggers):  # it has waited for these to come to an end
                found.ways |= {Way(source, name, True, None) for source in found.last}
        if not tasks or (step >= _STEPS and len(found.ways) == before):
            break
    return found


@dataclass(frozen=True, slots=True)
class _Exits:
    """The ways out of a node: those it always takes, and those it may take."""

    plain: tuple[str, ...]
    conditional: frozenset[Exit]

    @classmethod
    def of(cls, blueprint: Blueprint, node: Node) -> "_Exits":
        return cls(node.edges, frozenset(_conditional_exits(blueprint, node)))

    @property
    def channels(self) -> set[str]:
        return {*self.plain, *(channel for channel, _, _ in self.conditional)}

    def written(self, *, again: bool) -> Iterator[Exit]:
        """What the node writes in a superstep. The conditional ways are tried once, or no loop would end."""
        may_be = set[str]() if again else {channel for channel, _, _ in self.conditional}
        yield from (Exit(channel, False, None) for channel in self.plain if channel not in may_be)
        yield from () if again else self.conditional


def _conditional_exits(blueprint: Blueprint, node: Node) -> Iterator[Exit]:
    for branch in node.branches:
        if branch.ends is None:
            yield from (_exit_to(end, None) for end in _anywhere_else(blueprint, node))
        else:
            yield from (_exit_to(end, str(answer)) for answer, end in branch.ends.items())
    yield from (_exit_to(end, label) for end, label in node.destinations.items())


def _exit_to(end: str, label: str | None) -> Exit:
    return Exit(END if end == END else branch_channel(end), True, None if label == end else label)


def _anywhere_else(blueprint: Blueprint, node: Node) -> Iterator[str]:
    """Where a path may lead that does not say where."""
    for other in blueprint.nodes.values():
        if other.name != node.name and branch_channel(other.name) in other.triggers:
            yield other.name
    yield END


class _Gates:
    """The channels that trigger nodes: which of them are open after a superstep's writes."""

    def __init__(self, blueprint: Blueprint) -> None:
        self._nodes_of = blueprint.trigger_to_nodes
        self._order = {name: place for place, name in enumerate(blueprint.nodes)}
        self._triggers = {name: node.triggers for name, node in blueprint.nodes.items()}
        self._needs: dict[str, set[str]] = {}
        self._late: set[str] = set()
        self._written: dict[str, set[str]] = {}
        for name in self._nodes_of:
            channel: object = blueprint.channels.get(name)
            if isinstance(channel, (NamedBarrierValue, NamedBarrierValueAfterFinish)):
                self._needs[name] = set(cast("NamedBarrierValue[str]", channel).names)
            if isinstance(channel, (LastValueAfterFinish, NamedBarrierValueAfterFinish)):
                self._late.add(name)

    def open_after(self, written: dict[str, set[str]]) -> list[str]:
        """The nodes that run next, when these channels were written by these nodes."""
        for channel, writers in written.items():
            if channel in self._nodes_of:
                self._written.setdefault(channel, set()).update(writers)
        opened = {channel for channel in written if channel not in self._late and self._is_open(channel)}
        opened = opened or {channel for channel in self._late if self._is_open(channel)}
        names = {name for channel in opened for name in self._nodes_of[channel]}
        for name in names:
            for channel in self._triggers[name]:
                if self._is_open(channel):
                    del self._written[channel]
        return sorted(names, key=self._order.__getitem__)

    def _is_open(self, channel: str) -> bool:
        return channel in self._written and self._needs.get(channel, set()) <= self._written[channel]
