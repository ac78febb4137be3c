"""What a graph's author writes and reads: ``Send``, ``Command``, ``Overwrite``, and snapshots of a thread's state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, cast

from xxhash import xxh3_128_hexdigest

from phalanx.config import RunnableConfig, current_surroundings

All = Literal["*"]
"""Every node."""

StreamMode = Literal["values", "updates"]
"""What a stream yields: the whole state after each step, or each task's update as it finishes."""

STREAM_MODES: Final[tuple[StreamMode, ...]] = ("values", "updates")

NodeName = TypeVar("NodeName", bound=str)

OVERWRITE_KEY: Final = "__overwrite__"
"""The key of the dict form of :class:`Overwrite`."""


StreamWriter = Callable[[Any], None]
"""What a node calls to stream data of its own."""


@dataclass(frozen=True, slots=True)
class TimeoutPolicy:
    """How long one attempt of a task may take. Each attempt has its full time; its writes are lost when it runs out.

    Args:
        run_timeout: from the attempt's start to its end; seconds or a ``timedelta``.
        idle_timeout: between two signs of progress.
        refresh_on: what counts as progress: ``"auto"`` for anything the task streams or writes and for
            ``runtime.heartbeat()``, ``"heartbeat"`` for the latter alone.
    """

    run_timeout: float | timedelta | None = None
    idle_timeout: float | timedelta | None = None
    refresh_on: Literal["auto", "heartbeat"] = "auto"

    @classmethod
    def coerce(cls, value: "float | timedelta | TimeoutPolicy | None") -> "TimeoutPolicy | None":
        """The policy in seconds; a number or ``timedelta`` is a ``run_timeout``. ``None`` when nothing is limited.

        Raises:
            ValueError: a time is not greater than 0, or ``refresh_on`` is unknown.
            TypeError: it is none of these.
        """
        if value is None:
            return None
        given = value if isinstance(value, TimeoutPolicy) else cls(run_timeout=value)
        if given.refresh_on not in ("auto", "heartbeat"):
            raise ValueError(f"refresh_on must be 'auto' or 'heartbeat'; got {given.refresh_on!r}")
        run_s = _seconds("run_timeout", given.run_timeout)
        idle_s = _seconds("idle_timeout", given.idle_timeout)
        return None if run_s is None and idle_s is None else cls(run_s, idle_s, given.refresh_on)

    @property
    def run_s(self) -> float | None:
        """``run_timeout`` in seconds."""
        return _seconds("run_timeout", self.run_timeout)

    @property
    def idle_s(self) -> float | None:
        """``idle_timeout`` in seconds."""
        return _seconds("idle_timeout", self.idle_timeout)


def _seconds(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds or a timedelta; got {value!r} ({type(value).__name__})")
    if not value > 0:
        raise ValueError(f"{name} must be greater than 0; got {value!r}")
    return float(value)


def default_retry_on(error: Exception) -> bool:
    """Whether trying again may help: yes for lost connections, servers in trouble and errors of unknown kinds; no for
    mistakes in code or data and for what the operating system refuses."""
    if isinstance(error, ConnectionError):
        return True
    status = _http_status(error)
    if status is not None:
        return 500 <= status < 600
    return not isinstance(error, _HOPELESS)


_HOPELESS: Final = (
    *(ValueError, TypeError, ArithmeticError, ImportError, LookupError, NameError, SyntaxError),
    *(RuntimeError, ReferenceError, StopIteration, StopAsyncIteration, OSError),
)


def _http_status(error: Exception) -> int | None:
    """The status in an ``HTTPError`` of the client libraries httpx and requests; such errors carry the response."""
    for cls in type(error).__mro__:
        library = cls.__module__.partition(".")[0]
        if (library, cls.__name__) in (("httpx", "HTTPStatusError"), ("requests", "HTTPError")):
            status = getattr(getattr(error, "response", None), "status_code", 500)
            return status if isinstance(status, int) else 500
    return None


class RetryPolicy(NamedTuple):
    """When and how often a failed task is tried again.

    Fields:
        initial_interval: seconds before the second attempt.
        backoff_factor: by how much each interval is longer than the one before.
        max_interval: the longest interval in seconds.
        max_attempts: how often the task is tried, the first time included.
        jitter: add up to a second to each interval, so that tasks which failed together are not tried together.
        retry_on: an exception class, a sequence of them, or a predicate.
    """

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    jitter: bool = True
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] = default_retry_on

    def check(self, where: str) -> None:
        """Refuse numbers that mean nothing.

        Args:
            where: whose policy it is, for the message.

        Raises:
            ValueError: one is too small.
            TypeError: one is none.
        """
        least: dict[str, float] = {"initial_interval": 0, "backoff_factor": 0, "max_interval": 0, "max_attempts": 1}
        for name, smallest in least.items():
            value: object = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                raise TypeError(f"{name} in the retry_policy of {where} must be a number; got {value!r}")
            if not value >= smallest:
                raise ValueError(f"{name} in the retry_policy of {where} must be at least {smallest}; got {value!r}")
        wanted: object = self.retry_on
        several = isinstance(wanted, (list, tuple))
        classes = cast("Sequence[object]", wanted) if several else (wanted,)
        for each in classes:
            is_class = isinstance(each, type) and issubclass(cast("type[object]", each), BaseException)
            if not is_class and (several or isinstance(each, type) or not callable(each)):
                raise TypeError(
                    f"retry_on must be an Exception class, a list or tuple of them, or a callable that takes the "
                    f"exception; in the retry_policy of {where} it is {each!r}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy:
    """That a node's writes are remembered and used again for the same input, in whichever run or thread.

    Args:
        key_func: from a node's input to what identifies it; by default every part of the input counts.
        ttl: seconds until what was remembered is forgotten; never unless given.
    """

    key_func: Callable[..., str | bytes] | None = None
    ttl: int | None = None

    def __post_init__(self) -> None:
        ttl = cast("object", self.ttl)
        if ttl is not None and (not isinstance(ttl, (int, float)) or isinstance(ttl, bool)):
            raise TypeError(f"the ttl of a CachePolicy must be a number of seconds or None; got {ttl!r}")


class Send:
    """A packet: run ``node`` in the next superstep with ``arg`` as its whole input.

    Every packet is a task of its own, so a list of packets is a fan-out. The argument reaches the node as it is; it is
    not merged with the state.

    Args:
        node: the node's name.
        arg: its input. On a cluster it must be serializable.
        timeout: how long this packet's task may take, instead of what its node allows; a number is seconds.

    Example:
        >>> Send("count_words", {"path": "a.txt"})
        Send(node='count_words', arg={'path': 'a.txt'})
    """

    __slots__ = ("arg", "node", "timeout")

    node: str
    arg: Any
    timeout: TimeoutPolicy | None

    def __init__(self, node: str, arg: Any, timeout: "float | timedelta | TimeoutPolicy | None" = None) -> None:
        self.node = node
        self.arg = arg
        self.timeout = TimeoutPolicy.coerce(timeout)

    def __hash__(self) -> int:
        return hash((self.node, self.arg, self.timeout))

    def __repr__(self) -> str:
        timeout = "" if self.timeout is None else f", timeout={self.timeout!r}"
        return f"Send(node={self.node!r}, arg={self.arg!r}{timeout})"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Send)
            and self.node == other.node
            and self.arg == other.arg
            and self.timeout == other.timeout
        )


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
    """A question that a node asked with :func:`interrupt`.

    Attributes:
        value: what was asked.
        id: what an answer is addressed to: ``Command(resume={id: answer})``.
        response_schema: what an answer must be, as a JSON schema.
    """

    value: Any
    id: str = "placeholder-id"
    response_schema: Any = None

    @classmethod
    def from_ns(cls, value: Any, ns: str, *, response_schema: Any = None) -> "Interrupt":
        """The question with the id that belongs to a task's place in its thread."""
        return cls(value, xxh3_128_hexdigest(ns.encode("utf-8", "surrogatepass")), response_schema)


def interrupt(value: Any, *, response_schema: dict[str, Any] | type | None = None) -> Any:
    """Stop here, ask the caller of the graph something, and return the answer.

    The first time, the task ends and its node's other code does not run: the run returns with the question under
    ``__interrupt__``. When the caller goes on with ``Command(resume=answer)``, the node runs *again from its first
    line*, and this call returns the answer. A node may ask several times; each call gets its own answer, in the order
    of the calls. So what a node does before it asks must be fit to be done again.

    Args:
        value: what to ask; it travels to the caller, so it must be something that can be stored.
        response_schema: what an answer must be. A type is checked (an answer becomes an instance of it); a JSON schema
            is only shown to whoever answers.

    Raises:
        GraphInterrupt: there is no answer yet. It is not to be caught.
        pydantic.ValidationError: the answer does not fit; it is forgotten, and another may be given.
        RuntimeError: no task of a graph runs here.
    """
    return current_surroundings("interrupt").ask(value, response_schema)


class StateUpdate(NamedTuple):
    """One update of a thread's state from outside; see ``bulk_update_state``.

    Fields:
        values: what the node would have returned.
        as_node: the node in whose name it is made.
        task_id: the pending task in whose place it is made, where the node has several.
    """

    values: Any
    as_node: str | None = None
    task_id: str | None = None


Durability = Literal["sync", "async", "exit"]
"""When a checkpoint is stored: before the next superstep begins; in the background, in order; or when the run ends."""


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
    "CachePolicy",
    "Command",
    "Durability",
    "Interrupt",
    "Overwrite",
    "PregelTask",
    "RetryPolicy",
    "Send",
    "StateSnapshot",
    "StateUpdate",
    "StreamMode",
    "StreamWriter",
    "TimeoutPolicy",
    "Update",
    "default_retry_on",
    "interrupt",
]
