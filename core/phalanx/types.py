"""What a graph's author writes and reads: ``Send``, ``Command``, ``Overwrite``, and snapshots of a thread's state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from phalanx.config import RunnableConfig

All = Literal["*"]
"""Every node."""

StreamMode = Literal["values", "updates"]
"""What a stream yields: the whole state after each step, or each task's update as it finishes."""

STREAM_MODES: Final[tuple[StreamMode, ...]] = ("values", "updates")

NodeName = TypeVar("NodeName", bound=str)

OVERWRITE_KEY: Final = "__overwrite__"
"""The key of the dict form of :class:`Overwrite`."""


class Send:
    """A packet: run ``node`` in the next superstep with ``arg`` as its whole input.

    Every packet is a task of its own, so a list of packets is a fan-out. The argument reaches the node as it is; it is
    not merged with the state.

    Args:
        node: the node's name.
        arg: its input. On a cluster it must be serializable.

    Example:
        >>> Send("count_words", {"path": "a.txt"})
        Send(node='count_words', arg={'path': 'a.txt'})
    """

    __slots__ = ("arg", "node")

    node: str
    arg: Any

    def __init__(self, node: str, arg: Any) -> None:
        self.node = node
        self.arg = arg

    def __hash__(self) -> int:
        return hash((self.node, self.arg))

    def __repr__(self) -> str:
        return f"Send(node={self.node!r}, arg={self.arg!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Send) and self.node == other.node and self.arg == other.arg


@dataclass(frozen=True, kw_only=True)  # no slots: typing notes the parameter of Command[str](...) on the instance
class Command(Generic[NodeName]):
    """What a node returns to update the state and say where to go next, in one value.

    Args:
        graph: the graph it is for: ``None`` for this one, ``Command.PARENT`` for the one above.
        update: a state update: a dict, a list of ``(key, value)`` pairs, or an instance of the state's class.
        resume: answers for interrupts, when a command is given as a run's input.
        goto: where to go in addition to the node's own edges: a name, a ``Send``, or a sequence of both.
    """

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"

    graph: str | None = None
    update: Any | None = None
    resume: Any | None = None
    goto: Send | Sequence[Send | NodeName] | NodeName = ()

    def __repr__(self) -> str:
        given = ((name, getattr(self, name)) for name in ("graph", "update", "resume", "goto"))
        return f"Command({', '.join(f'{name}={value!r}' for name, value in given if value)})"


@dataclass(slots=True)
class Overwrite:
    """A write that replaces a reducer channel's value instead of being reduced into it.

    Other writes of that superstep to the same channel are dropped; two of these in one superstep are an error.

    Example:
        >>> {"messages": Overwrite([])}
        {'messages': Overwrite(value=[], type='__overwrite__')}
    """

    value: Any
    type: Literal["__overwrite__"] = "__overwrite__"


@dataclass(frozen=True, slots=True)
class Interrupt:
    """A question a node asked with ``interrupt``: its value and the id an answer is addressed to."""

    value: Any
    id: str


class PregelTask(NamedTuple):
    """A task of the next superstep as :class:`StateSnapshot` shows it."""

    id: str
    name: str
    path: tuple[str | int, ...]
    error: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    state: "RunnableConfig | StateSnapshot | None" = None
    result: Any | None = None


class StateSnapshot(NamedTuple):
    """A thread's state at one checkpoint.

    Fields:
        values: the state's values; absent keys have never been written.
        next: the nodes that would run next, one name a task.
        config: addresses this checkpoint.
        metadata: ``source``, ``step``, ``parents`` and what the run's config added.
        created_at: ISO 8601, UTC.
        parent_config: addresses the checkpoint before, if there is one.
        tasks: the tasks of the next step, with what is known of their outcome.
        interrupts: the unanswered questions of all tasks.
    """

    values: Any
    next: tuple[str, ...]
    config: RunnableConfig
    metadata: dict[str, Any] | None
    created_at: str | None
    parent_config: RunnableConfig | None
    tasks: tuple[PregelTask, ...]
    interrupts: tuple[Interrupt, ...]


Update: TypeAlias = tuple[str, Any]
"""One write: the channel and the value."""

__all__ = [
    "OVERWRITE_KEY",
    "STREAM_MODES",
    "All",
    "Command",
    "Interrupt",
    "Overwrite",
    "PregelTask",
    "Send",
    "StateSnapshot",
    "StreamMode",
    "Update",
]
