"""Random graphs as data, each made from a kind and a number.

A graph of at most five nodes over a small state: edges, joins, conditional edges, packets, commands, loops that end by
a counter, loops that end by the recursion limit, deferred nodes, failures, retries, error handlers, caches, nested
graphs, states of several classes, and the inputs of several turns on one thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, Literal, TypeVar

T = TypeVar("T")

Kind = Literal["shapes", "policies", "states", "nested", "turns", "everything"]
StateKind = Literal["dict", "dataclass", "pydantic", "root"]
ErrorName = Literal["ValueError", "KeyError", "RuntimeError", "ConnectionError", "OwnError"]

KINDS: Final[tuple[Kind, ...]] = ("shapes", "policies", "states", "nested", "turns", "everything")
NAMES: Final = ("a", "b", "c", "d", "e")
ALWAYS: Final = 99


@dataclass(frozen=True)
class Target:
    """Where a command or a path leads: a node by number, the end, a name nobody has, or a packet for a node."""

    kind: Literal["node", "end", "unknown", "send"] = "end"
    node: int = 0


@dataclass(frozen=True)
class Failure:
    """That the first attempts of a node fail, until the thread is told to go on after a failure."""

    error: ErrorName = "ValueError"
    attempts: int = ALWAYS


@dataclass(frozen=True)
class Retry:
    """How often a node is tried, and after which errors: those of the default policy if none are named."""

    most: int = 2
    on: tuple[ErrorName, ...] = ()


Form = Literal["dict", "command", "pairs", "list", "nothing", "number", "instance", "up"]


@dataclass(frozen=True)
class Answer:
    """What a node or an error handler does: fail or make writes, in which form, and where its command leads."""

    writes: tuple[str, ...] = ()
    form: Form = "dict"
    gotos: tuple[Target, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class NodePlan:
    """A node: what it does or which graph it is, and its policies.

    ``narrow`` says that it reads some keys only, one of which is its own.
    """

    answer: Answer = Answer()
    inner: "GraphPlan | None" = None
    defer: bool = False
    narrow: bool = False
    cached: bool = False
    retries: tuple[Retry, ...] = ()
    handler: Answer | None = None
    coroutine: bool = False


@dataclass(frozen=True)
class BranchPlan:
    """A conditional edge: ``early`` while the counter is below ``limit``, then ``late``."""

    source: int  # -1 is the start
    early: tuple[Target, ...] = ()
    late: tuple[Target, ...] = ()
    limit: int = 0
    mapped: bool = False


@dataclass(frozen=True)
class Turn:
    """One run: its input, and whether the thread goes on after it failed.

    ``as_command`` makes the input the update of a ``Command`` that leads to ``gotos``; ``as_instance`` makes it an
    instance of the state's class.
    """

    given: tuple[tuple[str, Any], ...] | None = ()
    as_command: bool = False
    as_instance: bool = False
    gotos: tuple[Target, ...] = ()
    recover: bool = True


@dataclass(frozen=True)
class GraphPlan:
    """A graph, and the runs it makes on one thread.

    ``managed`` puts the remaining steps into the state; ``narrow_input`` and ``narrow_output`` give it schemas of fewer
    keys.
    """

    nodes: tuple[NodePlan, ...]
    entries: tuple[int, ...] = (0,)
    edges: tuple[tuple[int, int], ...] = ()  # to -1 is to the end
    joins: tuple[tuple[tuple[int, ...], int], ...] = ()
    branches: tuple[BranchPlan, ...] = ()
    state: StateKind = "dict"
    managed: bool = False
    narrow_input: bool = False
    narrow_output: bool = False
    default_retries: tuple[Retry, ...] = ()
    default_handler: Answer | None = None
    default_cached: bool = False
    keep: bool = True
    limit: int = 8
    turns: tuple[Turn, ...] = (Turn(),)

    @property
    def nests(self) -> bool:
        """Whether a node is a graph."""
        return any(node.inner for node in self.nodes)

    @property
    def nests_often(self) -> bool:
        """Whether several tasks may run a graph, so that several graphs may fail side by side.

        That is so with several of them, if packets lead to one, which may then run beside itself, and inside one.
        """
        inner = [number for number, node in enumerate(self.nodes) if node.inner]
        often = any(node.inner.nests_often for node in self.nodes if node.inner)
        return often or len(inner) > 1 or not self._sent_to.isdisjoint(inner)

    @property
    def _sent_to(self) -> set[int]:
        """The nodes that packets may lead to."""
        answers = [self.default_handler, *(answer for node in self.nodes for answer in (node.answer, node.handler))]
        inside = [node.answer for outer in self.nodes if outer.inner for node in outer.inner.nodes]
        answers += [answer for answer in inside if answer.form == "up"]
        targets = [target for answer in answers if answer for target in answer.gotos]
        targets += [target for branch in self.branches for target in (*branch.early, *branch.late)]
        targets += [target for turn in self.turns for target in turn.gotos]
        return {target.node % len(self.nodes) for target in targets if target.kind == "send"}

    @property
    def handles(self) -> bool:
        """Whether there are error handlers."""
        return self.default_handler is not None or any(node.handler for node in self.nodes)

    @property
    def caches(self) -> bool:
        """Whether writes are remembered."""
        return self.default_cached or any(node.cached or (node.inner and node.inner.caches) for node in self.nodes)

    @property
    def goes_up(self) -> bool:
        """Whether a node tells the graph around its own where to go."""
        return any(node.answer.form == "up" or (node.inner and node.inner.goes_up) for node in self.nodes)

    @property
    def unclear_next(self) -> bool:
        """Whether theirs does not show well what comes next.

        It does not show where a command that is an input leads; and with graphs inside, it is stored in the background
        while the next step changes it.
        """
        return self.nests or any(turn.as_command and turn.gotos for turn in self.turns)


@dataclass(frozen=True)
class Odds:
    """How likely, out of 100, a graph or a node of a kind has what not every graph has."""

    failure: int = 6
    policies: int = 0
    cached: int = 0
    state: int = 0
    inner: int = 0
    commands: int = 0
    more_turns: int = 30
    wrong_value: int = 1


_ODDS: Final[dict[Kind, Odds]] = {
    "shapes": Odds(),
    "policies": Odds(failure=35, policies=45, cached=20, more_turns=60),
    "states": Odds(state=90, wrong_value=3),
    "nested": Odds(inner=35, failure=8, more_turns=50),
    "turns": Odds(commands=50, more_turns=90, failure=15),
    "everything": Odds(15, 25, 10, 40, 15, 25, 60, 2),
}

_WRITES: Final = ("value", "other", "log", "log", "count", "count", "overwrite", "unknown", "runtime")
_CLASS_WRITES: Final = (*_WRITES, "secret", "bad")
_FORMS: Final[tuple[Form, ...]] = ("dict", "dict", "dict", "command", "command", "pairs", "list", "nothing")
_ERRORS: Final[tuple[ErrorName, ...]] = ("ValueError", "KeyError", "RuntimeError", "ConnectionError", "OwnError")


def graph_plan(kind: Kind, number: int, *, asynchronous: bool = False) -> GraphPlan:
    """The graph of a kind with a number, always the same."""
    return _Maker(Random(f"{kind} {number} {asynchronous}"), _ODDS[kind], asynchronous).graph()


class _Maker:
    """Makes one graph by chance."""

    def __init__(self, random: Random, odds: Odds, asynchronous: bool) -> None:
        self.random = random
        self.odds = odds
        self.asynchronous = asynchronous
        self.state: StateKind = "dict"

    # --- chance -------------------------------------------------------------------------------------------------------

    def likely(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def some(self, make: Callable[[], T], most: int, least: int = 0) -> tuple[T, ...]:
        return tuple(make() for _ in range(self.random.randint(least, most)))

    def one(self, of: Sequence[T]) -> T:
        return self.random.choice(of)

    # --- parts --------------------------------------------------------------------------------------------------------

    def graph(self) -> GraphPlan:
        if self.likely(self.odds.state):
            self.state = self.one(("dataclass", "pydantic", "pydantic", "root", "dict"))
        return self._graph(self.random.randint(1, len(NAMES)), depth=0)

    def _graph(self, size: int, depth: int) -> GraphPlan:
        odds, policies = self.odds, self.likely(self.odds.policies)
        # Which one ends an inner graph, of several in one step, is a matter of timing with theirs: so only its first
        # node can, and then nothing fails and no packet goes to it.
        up = depth > 0 and self.likely(50)
        nodes = tuple(self._node(size, depth, up=up and place == 0) for place in range(size))
        if up:
            nodes = tuple(_that_holds(node) for node in nodes)
        default_handler = self._answer(size) if policies and self.likely(20) else None
        if default_handler:
            # Ours gives a default handler the whole state; test_found_differences.py knows of it.
            nodes = tuple(replace(node, narrow=False) for node in nodes)
        narrow = self.state in ("dict", "pydantic") and bool(odds.state) and depth == 0
        return GraphPlan(
            nodes,
            tuple(dict.fromkeys(self.some(lambda: self.random.randrange(size), 2, 1))),
            tuple(dict.fromkeys(self.some(lambda: (self.random.randrange(size), self._end(size)), size + 1))),
            self.some(lambda: self._join(size), 2),
            () if up else self.some(lambda: self._branch(size), 2),
            self.state,
            managed=self.state in ("dict", "dataclass") and bool(odds.state) and self.likely(30),
            narrow_input=narrow and self.likely(30),
            narrow_output=narrow and self.likely(30),
            default_retries=self.some(self._retry, 1) if policies else (),
            default_handler=default_handler,
            default_cached=policies and self.likely(10),
            keep=depth == 0 and self.likely(80),
            limit=self.random.randint(3, 10) if self.likely(30) else 8,
            turns=self._turns(size) if depth == 0 else (),
        )

    def _end(self, size: int) -> int:
        return self.random.randrange(-1, size)

    def _node(self, size: int, depth: int, *, up: bool) -> NodePlan:
        odds = self.odds
        inner = None
        if depth < 2 and self.likely(odds.inner):
            inner = self._graph(self.random.randint(1, 2), depth + 1)
        answer = self._answer(size)
        return NodePlan(
            replace(answer, form="up", gotos=_one_packet(answer.gotos)) if up else answer,
            inner,
            defer=self.likely(15),
            narrow=inner is None and self.state != "root" and bool(odds.state) and self.likely(15),
            cached=self.likely(odds.cached),
            retries=self.some(self._retry, 2, 1) if self.likely(odds.policies) else (),
            handler=self._answer(size) if self.likely(odds.policies * 2 // 3) else None,
            coroutine=self.asynchronous and self.likely(75),
        )

    def _answer(self, size: int) -> Answer:
        writes = _CLASS_WRITES if self.odds.state else _WRITES
        form = self.one(_FORMS)
        if self.likely(self.odds.wrong_value):
            form = "number"
        elif self.state != "dict" and self.likely(20):
            form = "instance"
        return Answer(
            tuple(dict.fromkeys(self.some(lambda: self.one(writes), 3))),
            form,
            self._targets(size),
            Failure(self.one(_ERRORS), self.one((1, 2, ALWAYS))) if self.likely(self.odds.failure) else None,
        )

    def _targets(self, size: int, most: int = 2) -> tuple[Target, ...]:
        kinds: tuple[Literal["node", "end", "unknown", "send"], ...] = (
            "node",
            "node",
            "send",
            "send",
            "end",
            "unknown",
        )
        return self.some(lambda: Target(self.one(kinds), self.random.randrange(size)), most)

    def _join(self, size: int) -> tuple[tuple[int, ...], int]:
        sources = dict.fromkeys(self.some(lambda: self.random.randrange(size), 3, 1))
        return tuple(sources), self.random.randrange(size)

    def _branch(self, size: int) -> BranchPlan:
        targets = self._targets(size), self._targets(size)
        return BranchPlan(self._end(size), *targets, self.random.randint(0, 3), self.likely(50))

    def _retry(self) -> Retry:
        return Retry(self.random.randint(1, 3), self.some(lambda: self.one(_ERRORS), 3))

    def _turns(self, size: int) -> tuple[Turn, ...]:
        turns = [self._turn(size, first=True)]
        while len(turns) < 4 and self.likely(self.odds.more_turns):
            turns.append(self._turn(size, first=False))
        return tuple(turns)

    def _turn(self, size: int, *, first: bool) -> Turn:
        as_command = self.likely(self.odds.commands // (5 if first else 1))
        given = dict[str, Any]()
        if self.likely(50):
            given["value"] = self.random.randint(0, 9)
        if self.likely(30):
            given["log"] = list(self.some(lambda: self.one("xy"), 2))
        if self.likely(30):
            given["count"] = self.random.randint(0, 2)
        if self.likely(15):
            given["strange"] = 1
        if self.odds.wrong_value > 1 and self.likely(self.odds.wrong_value):
            given["value"] = "wrong"
        nothing = not first and not as_command and self.likely(self.odds.commands // 5)
        return Turn(
            None if nothing else tuple(given.items()),
            as_command,
            as_instance=self.state in ("dataclass", "pydantic")
            and given.keys() <= {"log", "count"}
            and self.likely(30),
            gotos=self._targets(size) if as_command else (),
            recover=self.likely(80),
        )


def _one_packet(targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """Targets with one packet at most: a graph inside does not know its generation, and two would multiply."""
    packets = [target for target in targets if target.kind == "send"]
    return tuple(target for target in targets if target not in packets[1:] or target is packets[0])


def _that_holds(node: NodePlan) -> NodePlan:
    """A node that neither fails nor leads anywhere in its own graph, unless it goes up."""
    answer = replace(node.answer, failure=None, gotos=node.answer.gotos if node.answer.form == "up" else ())
    if answer.form == "number":
        answer = replace(answer, form="dict")
    return replace(node, answer=answer, handler=None, inner=None)
