"""Random graphs of bare nodes over channels, as data, built with either library."""

import hashlib
import operator
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal

from tests.differential.building import Book
from tests.differential.plans import Failure, Turn
from tests.differential.states import LibraryName, canonical, library

CHANNELS: Final = ("x", "y", "log", "topic", "short", "any")
_NODES: Final = ("n0", "n1", "n2", "n3")


@dataclass(frozen=True)
class Entry:
    """One write of a node: its output, a text made of it, or a constant."""

    channel: str = "x"
    kind: Literal["output", "mapped", "constant", "nothing", "unless none"] = "output"


@dataclass(frozen=True)
class BareNode:
    """A node: what makes it run, what it reads besides, and where it writes.

    ``alone`` makes it run for the first channel only, whose bare value it gets. ``silent_after`` is the step after
    which it returns ``None``.
    """

    triggers: tuple[str, ...] = ("x",)
    alone: bool = True
    quiet: bool = False
    reads: tuple[str, ...] = ()
    entries: tuple[Entry, ...] = ()
    silent_after: int = 3
    failure: Failure | None = None
    coroutine: bool = False


@dataclass(frozen=True)
class BarePlan:
    """A graph, and the runs it makes on one thread."""

    nodes: tuple[BareNode, ...]
    takes: tuple[str, ...] = ("x",)
    gives: tuple[str, ...] = ("log",)
    accumulates: bool = False
    keep: bool = True
    limit: int = 6
    turns: tuple[Turn, ...] = (Turn((("x", "in"),)),)

    # What graphs of this kind never have.
    nests = nests_often = handles = caches = goes_up = False

    @property
    def unclear_next(self) -> bool:
        """Whether theirs shows nodes as due that are not: those of a channel that can be read before it is written."""
        return any("log" in node.triggers for node in self.nodes)


def bare_plan(number: int, *, asynchronous: bool = False) -> BarePlan:
    """The graph with a number, always the same."""
    random = Random(f"bare {number} {asynchronous}")

    def channels(most: int, least: int = 0) -> tuple[str, ...]:
        return tuple(random.sample(CHANNELS, random.randint(least, most)))

    def entry() -> Entry:
        return Entry(random.choice(CHANNELS), random.choice(("output", "mapped", "constant", "nothing", "unless none")))

    def node() -> BareNode:
        # A node that gets a dict gets at least two keys: theirs confuses a dict of one key with the bare value.
        fails = random.randrange(100) < 10
        return BareNode(
            # Not the log: it can be read before it is written, so theirs may run a node for it at once.
            tuple(random.sample([name for name in CHANNELS if name != "log"], 2)),
            random.random() < 0.5,
            random.random() < 0.3,
            channels(2, 2),
            tuple(entry() for _ in range(random.randint(0, 3))),
            random.randint(0, 5),
            Failure(random.choice(("ValueError", "OwnError")), random.choice((1, 99))) if fails else None,
            asynchronous and random.random() < 0.7,
        )

    takes = channels(2, 1)
    first = BareNode(takes[:1], entries=(entry(), entry()))
    return BarePlan(
        (first, *(node() for _ in range(random.randint(0, 3)))),
        takes,
        channels(3, 1),
        random.random() < 0.5,
        random.random() < 0.8,
        random.randint(2, 7),
        tuple(Turn(tuple((name, f"in{each}") for name in takes)) for each in range(random.randint(1, 3))),
    )


class BareBuild:
    """Builds one graph.

    Args:
        name: whose ``Pregel`` to use.
        plan: the graph.
        book: what its nodes note.
    """

    def __init__(self, name: LibraryName, plan: BarePlan, book: Book) -> None:
        self.library, self.plan, self.book = library(name), plan, book

    def compiled(self, checkpointer: object, **options: Any) -> Any:
        """The graph, ready to run."""
        gives = self.plan.gives
        return self.library.pregel.Pregel(
            nodes={name: self._node(name, node) for name, node in zip(_NODES, self.plan.nodes, strict=False)},
            channels=self._channels(),
            input_channels=self.plan.takes[0] if len(self.plan.takes) == 1 else [*self.plan.takes],
            output_channels=gives[0] if len(gives) == 1 else [*gives],
            stream_channels=[*CHANNELS],
            stream_mode="values",
            checkpointer=checkpointer,
            **options,
        )

    def given(self, turn: Turn, *, fresh: bool) -> Any:
        """The input of a turn."""
        given: dict[str, Any] = dict(turn.given) if turn.given else {}
        values = {name: [value] if name == "log" else value for name, value in given.items()}
        return values if len(self.plan.takes) > 1 else values.get(next(iter(self.plan.takes), ""), "in")

    def _channels(self) -> dict[str, Any]:
        kinds = self.library.channels
        return {
            "x": kinds.LastValue(Any),
            "y": kinds.LastValue(Any),
            "log": kinds.BinaryOperatorAggregate(list, operator.add),
            "topic": kinds.Topic(Any, accumulate=self.plan.accumulates),
            "short": kinds.EphemeralValue(Any),
            "any": kinds.AnyValue(Any),
        }

    def _node(self, name: str, node: BareNode) -> Any:
        builder = self.library.pregel.NodeBuilder()
        if node.alone:
            builder = builder.subscribe_only(node.triggers[0])
        else:
            builder = builder.subscribe_to(*node.triggers, read=not node.quiet)
            if node.reads:
                builder = builder.read_from(*node.reads)
        builder = builder.do(self._action(name, node))
        for entry in node.entries:
            builder = self._written(builder, name, entry)
        return builder

    def _written(self, builder: Any, name: str, entry: Entry) -> Any:
        def as_log(output: Any) -> Any:
            return [f"{name}:{output}"] if entry.channel == "log" else f"{name}:{output}"

        def as_text(output: Any) -> Any:
            return None if output is None else as_log(output)

        match entry.kind:
            case "output" if entry.channel != "log":
                return builder.write_to(entry.channel)
            case "constant":
                return builder.write_to(**{entry.channel: as_log("fixed")})
            case "nothing" if entry.channel != "log":
                return builder.write_to(**{entry.channel: None})
            case "unless none" if entry.channel != "log":
                return builder.write_to(**{entry.channel: as_text})
            case _:
                return builder.write_to(**{entry.channel: as_log})

    def _action(self, name: str, node: BareNode) -> Callable[..., Any]:
        def action(value: Any, config: Any, runtime: Any) -> Any:
            step = config["metadata"]["langgraph_step"]
            self.book.note(step, name, value)
            self.book.check(name, node.failure, runtime.execution_info.node_attempt)
            return None if step % 7 > node.silent_after else hashlib.md5(canonical(value).encode()).hexdigest()[:4]

        async def acoroutine(value: Any, config: Any, runtime: Any) -> Any:
            return action(value, config, runtime)

        action.__annotations__ = acoroutine.__annotations__ = {}
        return acoroutine if node.coroutine else action
