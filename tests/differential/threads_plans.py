"""Random threads as data, each made from a kind and a number.

A graph of at most four nodes that ask, fail, lead on with packets and commands, and are or call graphs of their own,
three deep; and what is done on one thread of it: runs with an input, with nothing, with answers and commands, from the
latest checkpoint or an older one, and updates from outside.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal, TypeVar

T = TypeVar("T")

Kind = Literal["asking", "stops", "inside", "updates", "travel", "everything"]
Step = Literal["ask", "call", "fail"]
Kept = Literal["inherited", "lasting", "none"]
Way = Literal["invoke", "stream", "deep"]
Durable = Literal["sync", "async", "exit"]

KINDS: Final[tuple[Kind, ...]] = ("asking", "stops", "inside", "updates", "travel", "everything")
NAMES: Final = ("a", "b", "c", "d")
LEAD_ON: Final = 2  # a packet's task, and a loop, lead on only this often


@dataclass(frozen=True)
class Node:
    """A node, which does its steps and then writes.

    Attributes:
        body: asks, calls the graph inside, or fails unless the thread is told to be healthy; in this order.
        inner: the graph inside; without a ``call`` in the body it is the node itself.
        writes: the keys it writes, beside a note in the log.
        packets, gotos: the nodes that its command leads to.
        coroutine: that it is one, if the run is on an event loop.
    """

    body: tuple[Step, ...] = ()
    inner: "Graph | None" = None
    writes: tuple[str, ...] = ()
    packets: tuple[int, ...] = ()
    gotos: tuple[int, ...] = ()
    defer: bool = False
    coroutine: bool = False

    @property
    def waits(self) -> bool:
        """Whether it has to be a coroutine: it is one, or calls one."""
        return self.coroutine or (self.inner is not None and any(node.waits for node in self.inner.nodes))


@dataclass(frozen=True)
class Graph:
    """A graph.

    Attributes:
        entries: the first nodes.
        edges: from node to node.
        joins: nodes that wait for several.
        loops: from node to node while the counter is low.
        kept: how its state is kept, if it is inside another.
        before, after: its breakpoints; -1 stands for every node.
    """

    nodes: tuple[Node, ...]
    entries: tuple[int, ...] = (0,)
    edges: tuple[tuple[int, int], ...] = ()
    joins: tuple[tuple[tuple[int, ...], int], ...] = ()
    loops: tuple[tuple[int, int], ...] = ()
    kept: Kept = "inherited"
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()

    @property
    def graphs(self) -> tuple["Graph", ...]:
        """It and those inside it."""
        return (self, *(graph for node in self.nodes if node.inner for graph in node.inner.graphs))

    @property
    def nests(self) -> bool:
        """Whether there are graphs inside."""
        return len(self.graphs) > 1


Name = Literal["none", "end", "input", "start", "copy"]


@dataclass(frozen=True)
class Change:
    """An update from outside: in whose name, and which keys; ``None`` for none at all."""

    node: int | Name = 0
    values: tuple[tuple[str, int], ...] | None = ()


@dataclass(frozen=True)
class Act:
    """What is done on a thread.

    Attributes:
        do: a run with one of several inputs, or an update.
        values: the input, or what the command updates.
        gotos: where a command leads.
        answered: the positions of the questions that are answered.
        answer: which answer it is.
        changes: the supersteps of an update.
        at: how far back in the history it starts; ``None`` for where the thread is.
        inside: that it starts from, or updates, the state of a graph inside of a task that is due.
        before, after: breakpoints of this run; -1 stands for every node.
        healthy: that no node fails.
    """

    do: Literal["input", "nothing", "answer", "answers", "command", "update"] = "input"
    values: tuple[tuple[str, int], ...] = ()
    gotos: tuple[int, ...] = ()
    answered: tuple[int, ...] = (0,)
    answer: int = 0
    changes: tuple[tuple[Change, ...], ...] = ((Change(),),)
    at: int | None = None
    inside: bool = False
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    healthy: bool = False
    way: Way = "invoke"
    durability: Durable = "sync"


@dataclass(frozen=True)
class Thread:
    """A graph and what is done on one thread of it."""

    graph: Graph
    acts: tuple[Act, ...] = (Act(),)


@dataclass(frozen=True)
class Odds:
    """How likely, out of 100, a thread of a kind has what not every thread has."""

    inner: int = 0
    stops: int = 0
    updates: int = 0
    travel: int = 0
    fails: int = 5
    commands: int = 0
    durability: int = 0


_ODDS: Final[dict[Kind, Odds]] = {
    "asking": Odds(fails=10, durability=15),
    "stops": Odds(stops=60, inner=8),
    "inside": Odds(inner=45),
    "updates": Odds(updates=50, travel=15),
    "travel": Odds(travel=45, updates=10),
    "everything": Odds(25, 25, 20, 25, 10, 15, 20),
}

_BODIES: Final[tuple[tuple[Step, ...], ...]] = ((), (), (), ("ask",), ("ask",), ("ask", "ask"), ("ask", "ask", "ask"))
_CALLS: Final[tuple[tuple[Step, ...], ...]] = (
    ("call",),
    ("call",),
    ("call", "call"),
    ("ask", "call"),
    ("call", "ask"),
    ("ask", "call", "ask", "call"),
)


def thread_plan(kind: Kind, number: int, *, asynchronous: bool = False) -> Thread:
    """The thread of a kind with a number, always the same."""
    return _Maker(Random(f"thread {kind} {number} {asynchronous}"), _ODDS[kind], asynchronous).thread()


class _Maker:
    """Makes one thread by chance."""

    def __init__(self, random: Random, odds: Odds, asynchronous: bool) -> None:
        self.random, self.odds, self.asynchronous = random, odds, asynchronous

    # --- chance -------------------------------------------------------------------------------------------------------

    def likely(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def one(self, of: Sequence[T]) -> T:
        return self.random.choice(of)

    def some(self, make: Callable[[], T], most: int, least: int = 0) -> tuple[T, ...]:
        return tuple(dict.fromkeys(make() for _ in range(self.random.randint(least, most))))

    # --- the graph ----------------------------------------------------------------------------------------------------

    def thread(self) -> Thread:
        size = self.random.randint(1, len(NAMES))
        acts = [Act(values=self._values(), way=self._way(), durability=self._durability())]
        acts += (self._act(size) for _ in range(self.random.randint(2, 5)))
        return Thread(self._graph(size, 0), tuple(acts))

    def _graph(self, size: int, depth: int, *, unkept: bool = False) -> Graph:
        entries = self.some(lambda: self.random.randrange(size), 2, 1)
        edges = [(place - 1, place) for place in range(1, size) if self.likely(55)]
        if size > 1:
            edges += self.some(lambda: self._forward(size), 1)
        choice: tuple[Kept, ...] = ("inherited", "inherited", "none", "lasting")
        # With theirs, a state may last although that of the graph around is not kept.
        kept: Kept = self.one(choice[: 3 if unkept else 4]) if depth else "inherited"
        unkept = unkept or kept == "none"
        nodes = tuple(self._node(size, depth, unkept=unkept) for _ in range(size))
        if any(
            node.packets for node in nodes
        ):  # else two tasks may share a state that lasts, and it is luck whose counts
            nodes = tuple(_without_lasting(node) for node in nodes)
        return Graph(
            nodes,
            entries,
            tuple(dict.fromkeys(edges)),
            self.some(lambda: self._join(size), 1) if self.likely(25) else (),
            self.some(lambda: (self.random.randrange(size), self.random.randrange(size)), 1) if self.likely(25) else (),
            kept,
            *(self._stops(size) if depth == 0 or self.likely(20) else ((), ())),
        )

    def _forward(self, size: int) -> tuple[int, int]:
        source = self.random.randrange(size - 1)
        return source, self.random.randint(source + 1, size - 1)

    def _join(self, size: int) -> tuple[tuple[int, ...], int]:
        return self.some(lambda: self.random.randrange(size), 2, 1), self.random.randrange(size)

    def _stops(self, size: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if not self.likely(self.odds.stops):
            return (), ()
        return self._some_stops(size), self._some_stops(size)

    def _some_stops(self, size: int) -> tuple[int, ...]:
        return (-1,) if self.likely(20) else self.some(lambda: self.random.randrange(size), 2)

    def _node(self, size: int, depth: int, *, unkept: bool) -> Node:
        inner = None
        body: tuple[Step, ...] = self.one(_BODIES)
        if depth < 3 and self.likely(self.odds.inner // (depth + 1)):
            inner = self._graph(self.random.randint(1, 2), depth + 1, unkept=unkept)
            body = self.one(_CALLS) if self.likely(50) else ()
        if unkept:  # what is asked there cannot be answered
            body = tuple(step for step in body if step != "ask")
        if self.likely(self.odds.fails) and (inner is None or body):
            last = self.likely(60)
            body = tuple[Step, ...]((*body, "fail") if last else ("fail", *body))
        packets, gotos = (self.some(lambda: self.random.randrange(size), 2) for _ in range(2))
        return Node(
            body,
            inner,
            self.some(lambda: self.one(("value", "count")), 2),
            packets if self.likely(20) else (),
            gotos if self.likely(12) else (),
            defer=self.likely(8),
            coroutine=self.asynchronous and self.likely(70),
        )

    # --- what is done -------------------------------------------------------------------------------------------------

    def _act(self, size: int) -> Act:
        odds = self.odds
        at = self.random.randrange(8) if self.likely(odds.travel) else None
        act = Act(at=at, inside=bool(odds.inner) and at is None and self.likely(6))
        if self.likely(odds.updates):
            return replace(act, do="update", changes=self._changes(size))
        stops = self._some_stops(size) if self.likely(odds.stops // 3) else ()
        act = replace(
            act,
            do=self.one(("answer", "answer", "answer", "answers", "answers", "answers", "nothing", "nothing", "input")),
            values=self._values(),
            gotos=self.some(lambda: self.random.randrange(size), 2),
            answered=self.some(lambda: self.random.randrange(4), 3, 1),
            answer=self.random.randrange(8),
            before=stops if self.likely(50) else (),
            after=stops,
            healthy=self.likely(60),
            way=self._way(),
            durability=self._durability(),
        )
        return replace(act, do="command") if self.likely(odds.commands) else act

    def _changes(self, size: int) -> tuple[tuple[Change, ...], ...]:
        steps = self.random.randint(1, 3) if self.likely(30) else 1
        return tuple(
            (self._change(size), *self.some(lambda: self._change(size, named=True), 1 if self.likely(25) else 0))
            for _ in range(steps)
        )

    def _change(self, size: int, *, named: bool = False) -> Change:
        names: tuple[Name, ...] = ("none", "none", "end", "input", "start", "copy")
        node: int | Name = self.random.randrange(size) if named or self.likely(60) else self.one(names)
        nothing = self.likely(70) if node in ("end", "copy") else self.likely(10)
        return Change(node, None if nothing else self._values())

    def _values(self) -> tuple[tuple[str, int], ...]:
        values = [(key, self.random.randint(0, 3)) for key in ("log", "value", "count") if self.likely(45)]
        return tuple(values) or (("value", self.random.randint(0, 9)),)

    def _way(self) -> Way:
        return self.one(("invoke", "stream", "deep"))

    def _durability(self) -> Durable:
        return self.one(("async", "exit")) if self.likely(self.odds.durability) else "sync"


def _without_lasting(node: Node) -> Node:
    """A node without graphs inside whose state lasts."""
    if node.inner is None:
        return node
    kept: Kept = "inherited" if node.inner.kept == "lasting" else node.inner.kept
    inner = replace(node.inner, kept=kept, nodes=tuple(map(_without_lasting, node.inner.nodes)))
    return replace(node, inner=inner)
