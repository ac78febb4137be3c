"""One tree of errors. A subclass exists where the caller can do something else; its docstring says when it is raised.

Every error passes all its arguments to ``super().__init__`` and builds its text in ``__str__``, so that it survives the
way from a worker to the coordinator.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from math import inf
from typing import Any, Final, Literal, cast


class ErrorCode(Enum):
    """Codes that name a kind of mistake; they end the message as ``(code: …)``."""

    GRAPH_RECURSION_LIMIT = "GRAPH_RECURSION_LIMIT"
    INVALID_CONCURRENT_GRAPH_UPDATE = "INVALID_CONCURRENT_GRAPH_UPDATE"
    INVALID_GRAPH_NODE_RETURN_VALUE = "INVALID_GRAPH_NODE_RETURN_VALUE"
    MULTIPLE_SUBGRAPHS = "MULTIPLE_SUBGRAPHS"
    INVALID_CHAT_HISTORY = "INVALID_CHAT_HISTORY"


def create_error_message(*, message: str, error_code: ErrorCode) -> str:
    """The message with its code behind it, so that users can search for it."""
    return f"{message} (code: {error_code.value})"


class PhalanxError(Exception):
    """The root of every error Phalanx raises on purpose."""


# --- what a graph's author or caller did ------------------------------------------------------------------------------


class GraphRecursionError(PhalanxError, RecursionError):
    """The run used all supersteps that ``recursion_limit`` allows and had not come to an end."""


class InvalidUpdateError(PhalanxError):
    """A write that a channel or the state cannot take: two values for a plain key in one step, a node that returns a
    non-dict, a packet to ``END``. The step it belongs to is not committed."""


class EmptyInputError(PhalanxError):
    """There is nothing to run: no input was given and the thread has nothing left to do."""


class EmptyChannelError(PhalanxError):
    """A channel was read that holds no value."""


class UnknownInterruptError(PhalanxError, ValueError):
    """An answer is addressed to a question that nobody asks, or that is answered already. Nothing was stored or run."""


_INVALID_RESUME: Final = "__invalid_resume__"


def mark_invalid_resume(error: BaseException) -> None:
    """Note on an error that it is about an answer that did not fit."""
    with suppress(AttributeError):  # an error that cannot be written on
        setattr(error, _INVALID_RESUME, True)


def is_invalid_resume(error: BaseException) -> bool:
    """Whether the error says that an answer does not fit the ``response_schema`` of its question."""
    return bool(getattr(error, _INVALID_RESUME, False))


class UnknownNodeError(InvalidUpdateError):
    """A ``Send`` or ``Command(goto=…)`` names a node that the graph does not have."""


class GraphBubbleUp(PhalanxError):
    """Control flow that leaves a node as an exception and is not a failure."""


class GraphInterrupt(GraphBubbleUp):
    """Tasks have asked something and wait for answers; ``args[0]`` holds the ``Interrupt`` objects. It leaves a node
    that asks, and a graph inside a node; at the top the run ends with the questions in its result instead."""

    def __init__(self, interrupts: Sequence[object] = ()) -> None:
        super().__init__(interrupts)

    @property
    def interrupts(self) -> "Sequence[Any]":
        """What was asked."""
        return cast("Sequence[Any]", self.args[0])


class ParentCommand(GraphBubbleUp):
    """A ``Command`` for the graph above; at the top there is none, and it reaches the caller."""


class AsyncOnlyError(PhalanxError, TypeError):
    """A coroutine function was reached by a synchronous call of the graph. No part of it has run."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f'No synchronous function provided to "{self.name}": it is a coroutine function, or a graph that has one. '
            f"Call the graph with ainvoke() or astream(), or run it on a cluster, whose workers run both kinds"
        )


class NodeCancelledError(PhalanxError):
    """A node's own code raised ``asyncio.CancelledError``; nobody had cancelled it."""

    def __init__(self, node: str, message: str | None = None) -> None:
        super().__init__(node, message)
        self.node = node
        self.message = message

    def __str__(self) -> str:
        said = f": {self.message}" if self.message else ""
        return f"Node {self.node!r} raised asyncio.CancelledError although nothing had cancelled it{said}"


class NodeTimeoutError(PhalanxError):
    """One attempt of a task took longer than its ``run_timeout``, or showed no progress for its ``idle_timeout``.

    It is no ``TimeoutError``, so that the default retry policy tries again.
    """

    def __init__(
        self,
        node: str,
        elapsed: float,
        *,
        kind: Literal["idle", "run"],
        idle_timeout: float | None = None,
        run_timeout: float | None = None,
    ) -> None:
        super().__init__(node, elapsed, kind, idle_timeout, run_timeout)
        self.node = node
        self.elapsed = elapsed
        self.kind: Literal["idle", "run"] = kind
        self.idle_timeout = idle_timeout
        self.run_timeout = run_timeout

    @property
    def timeout(self) -> float:
        """The time that ran out, in seconds."""
        return (self.idle_timeout if self.kind == "idle" else self.run_timeout) or 0.0

    def __reduce__(self) -> tuple[object, ...]:
        return _timeout_error, self.args

    def __str__(self) -> str:
        idly = " without making progress" if self.kind == "idle" else ""
        return (
            f"Node {self.node!r} exceeded its {self.kind} timeout of {self.timeout:.3f}s{idly} "
            f"(elapsed: {self.elapsed:.3f}s)."
        )


def _timeout_error(
    node: str, elapsed: float, kind: Literal["idle", "run"], idle_timeout: float | None, run_timeout: float | None
) -> NodeTimeoutError:
    return NodeTimeoutError(node, elapsed, kind=kind, idle_timeout=idle_timeout, run_timeout=run_timeout)


@dataclass(frozen=True, slots=True)
class NodeError:
    """What an error handler is told: the node that failed, and with what.

    Attributes:
        node: the node's name.
        error: what its last attempt raised.
    """

    node: str
    error: BaseException


class GraphDrained(GraphBubbleUp):
    """A run was asked to stop and did so between two supersteps; ``reason`` is what was given for it.

    With a checkpointer the thread keeps what was done, and ``invoke(None)`` goes on from there.
    """

    def __init__(self, reason: str = "shutdown") -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"Graph drained: {self.reason}"


# --- values that cannot travel ----------------------------------------------------------------------------------------


class SerializationError(PhalanxError):
    """A value could not be turned into bytes or back. The subclasses say which way."""


class UnserializableError(SerializationError, TypeError):
    """A value holds something without a safe encoding. ``path`` is the way to it inside the value (``['a'][3].b``)."""

    def __init__(self, type_name: str, path: str = "", hint: str = "", where: str = "") -> None:
        super().__init__(type_name, path, hint, where)
        self.type_name = type_name
        self.path = path
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        where = f"{self.where}: " if self.where else ""
        at = f" at {self.path}" if self.path else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{where}cannot serialize a value of type {self.type_name}{at}{hint}"


class UnknownTypeError(SerializationError):
    """Stored bytes name a class that is not registered in this process. Nothing was imported and nothing was called."""

    def __init__(self, type_name: str) -> None:
        super().__init__(type_name)
        self.type_name = type_name

    def __str__(self) -> str:
        return (
            f"stored data names the type {self.type_name!r}, which is not registered here; "
            f"register the class with phalanx.checkpoint.serde.register(...) or use it in the graph's state schema"
        )


class CorruptDataError(SerializationError):
    """Stored bytes are truncated, malformed, too large or too deep."""


# --- a cache ----------------------------------------------------------------------------------------------------------


class CacheUnavailableError(PhalanxError, ConnectionError):
    """A cache's server does not answer or refuses us, or its file is locked, full, broken or not ours to use."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return f"the cache at {self.where} cannot be used ({self.reason}); is that the right place, and is it in order?"


# --- the cluster ------------------------------------------------------------------------------------------------------


class ClusterError(PhalanxError):
    """The cluster could not do what was asked."""


class ClusterUnreachableError(ClusterError, ConnectionError):
    """The state server or the broker does not answer at its URL."""

    def __init__(self, role: str, url: str, reason: str) -> None:
        super().__init__(role, url, reason)
        self.role = role
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return f"the {self.role} at {self.url} does not answer ({self.reason}); is it running, and is the URL right?"


class GraphNotNamedError(ClusterError):
    """A graph was given to a cluster but workers have no name to find it by."""


class GraphNotRegisteredError(ClusterError):
    """A worker received a task of a graph that its registry does not hold."""

    def __init__(self, graph: str, known: Sequence[str], worker: str) -> None:
        super().__init__(graph, tuple(known), worker)
        self.graph = graph
        self.known = tuple(known)
        self.worker = worker

    def __str__(self) -> str:
        known = ", ".join(self.known) if self.known else "none"
        return (
            f"worker {self.worker} knows no graph named {self.graph!r} (it knows: {known}); "
            f"start it with: phalanx worker --graph {self.graph}=path/to/file.py:attribute"
        )


class GraphVersionError(ClusterError):
    """A worker holds another version of the graph than the coordinator."""

    def __init__(self, graph: str, expected: str, found: str, worker: str) -> None:
        super().__init__(graph, expected, found, worker)
        self.graph = graph
        self.expected = expected
        self.found = found
        self.worker = worker

    def __str__(self) -> str:
        return (
            f"worker {self.worker} holds another version of graph {self.graph!r} "
            f"(coordinator {self.expected}, worker {self.found}); deploy the same code to both and restart the worker"
        )


class ThreadBusyError(ClusterError):
    """Another run is driving this thread. One driver a thread: wait for it, or use another ``thread_id``; a run with
    ``if_busy="enqueue"`` waits by itself. ``expires_in_s`` is when its right to do so ends, unless renewed; infinity
    within one process."""

    def __init__(self, thread_id: str, owner: str, expires_in_s: float) -> None:
        super().__init__(thread_id, owner, expires_in_s)
        self.thread_id = thread_id
        self.owner = owner
        self.expires_in_s = expires_in_s

    def __str__(self) -> str:
        lease = "" if self.expires_in_s == inf else f" (its lease ends in {self.expires_in_s:.1f} s unless renewed)"
        return (
            f"thread {self.thread_id!r} is being driven by another run, {self.owner}{lease}; wait for that one "
            f"(if_busy='enqueue' does) or use another thread_id"
        )


class StaleLeaseError(ClusterError):
    """This coordinator lost its lease on the thread: another one took it, or the state server lost it. The superstep at
    hand was not committed; what was committed before stays."""


class NodeLostError(ClusterError):
    """A task lost its worker process more often than allowed. It may be what kills them."""

    def __init__(self, node: str, task_id: str, attempts: int, workers: Sequence[str]) -> None:
        super().__init__(node, task_id, attempts, tuple(workers))
        self.node = node
        self.task_id = task_id
        self.attempts = attempts
        self.workers = tuple(workers)

    def __str__(self) -> str:
        return (
            f"node {self.node!r} (task {self.task_id}) lost its worker process {self.attempts} times "
            f"(workers: {', '.join(self.workers)}); it may be what kills them: look at memory and native code"
        )


class RemoteNodeError(PhalanxError):
    """A node raised an exception in a worker, of a class this process does not have. Text and traceback are kept."""

    def __init__(self, type_name: str, message: str) -> None:
        super().__init__(type_name, message)
        self.type_name = type_name
        self.message = message

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}"


class RemoteTraceback(Exception):
    """The cause of an exception that came from a worker; its text is the traceback as the worker saw it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


__all__ = [
    "AsyncOnlyError",
    "CacheUnavailableError",
    "ClusterError",
    "ClusterUnreachableError",
    "CorruptDataError",
    "EmptyChannelError",
    "EmptyInputError",
    "ErrorCode",
    "GraphBubbleUp",
    "GraphDrained",
    "GraphNotNamedError",
    "GraphNotRegisteredError",
    "GraphRecursionError",
    "GraphVersionError",
    "InvalidUpdateError",
    "NodeCancelledError",
    "NodeError",
    "NodeLostError",
    "NodeTimeoutError",
    "ParentCommand",
    "PhalanxError",
    "RemoteNodeError",
    "RemoteTraceback",
    "SerializationError",
    "StaleLeaseError",
    "ThreadBusyError",
    "UnknownNodeError",
    "UnknownTypeError",
    "UnserializableError",
    "create_error_message",
]
