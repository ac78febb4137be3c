"""What a node is given about its run: ``Runtime``, injected by the parameter name ``runtime``."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Generic

from typing_extensions import TypeVar

from phalanx.config import current_surroundings
from phalanx.types import StreamWriter

ContextT = TypeVar("ContextT", default=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionInfo:
    """Which execution of which task this is.

    Attributes:
        checkpoint_id: the checkpoint the superstep started from.
        checkpoint_ns: the task's place in its thread.
        task_id: the same for every attempt of the task.
        thread_id, run_id: as the config names them, if it does.
        node_attempt: 1 for the first try, one more for each retry.
        node_first_attempt_time: when the first try began, in seconds since the epoch.
    """

    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    node_first_attempt_time: float | None = None

    def patch(self, **overrides: Any) -> "ExecutionInfo":
        """A copy with changes."""
        return replace(self, **overrides)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Who runs the graph, where a server does."""

    assistant_id: str
    graph_id: str
    user: Any = None


class RunControl:
    """A switch to stop a run between two supersteps; given to ``invoke`` or ``stream`` as ``control=``.

    Safe to use from several threads, and by several runs.
    """

    __slots__ = ("_lock", "_reason")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: str | None = None

    def __repr__(self) -> str:
        return f"<RunControl {'running' if self._reason is None else f'drain: {self._reason}'}>"

    def request_drain(self, reason: str = "shutdown") -> None:
        """Ask the run to stop before its next superstep. The first reason given is the one that counts.

        Raises:
            TypeError: the reason is no text.
        """
        if not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"the reason to drain must be a text; got {reason!r} of type {type(reason).__name__}")
        with self._lock:
            if self._reason is None:
                self._reason = reason

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to stop."""
        return self._reason is not None

    @property
    def drain_reason(self) -> str | None:
        """Why, if it was."""
        return self._reason


def write_nothing(_: Any) -> None:
    """The stream writer where nobody listens."""


def beat_nothing() -> None:
    """The heartbeat of a task that has no idle timeout."""


@dataclass(frozen=True, kw_only=True)  # no slots: typing notes the parameter of Runtime[Context](...) on the instance
class Runtime(Generic[ContextT]):
    """A node's view of its run.

    Attributes:
        context: what the caller passed as ``context=``, made an instance of the graph's ``context_schema``.
        store: the graph's store.
        stream_writer: streams data of the node's own.
        heartbeat: says that the node makes progress; see ``TimeoutPolicy.idle_timeout``.
        previous: what an entrypoint returned the last time.
        execution_info: which task and attempt this is.
        server_info: who runs the graph, where a server does.
        control: the run's switch; see :class:`RunControl`.
    """

    context: ContextT = field(default=None)  # type: ignore[assignment]
    store: Any = None
    stream_writer: StreamWriter = write_nothing
    heartbeat: Callable[[], None] = beat_nothing
    previous: Any = None
    execution_info: ExecutionInfo | None = None
    server_info: ServerInfo | None = None
    control: RunControl | None = None

    @property
    def idempotency_key(self) -> str:
        """A text that is the same for every attempt of this task, and for no other task: for calls that must not happen
        twice.

        Raises:
            RuntimeError: this is not the runtime of a task.
        """
        if self.execution_info is None:
            raise RuntimeError("this Runtime belongs to no task, so there is nothing to be idempotent about")
        return self.execution_info.task_id

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to stop."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """Why, if it was."""
        return None if self.control is None else self.control.drain_reason

    def merge(self, other: "Runtime[ContextT]") -> "Runtime[ContextT]":
        """A copy with the fields of ``other`` over ours; what ``other`` leaves at its default stays ours."""
        given = {
            each.name: value
            for each in fields(Runtime)
            if (value := getattr(other, each.name)) is not None and value is not each.default
        }
        return replace(self, **given)

    def override(self, **overrides: Any) -> "Runtime[ContextT]":
        """A copy with fields replaced."""
        return replace(self, **overrides)

    def patch_execution_info(self, **overrides: Any) -> "Runtime[ContextT]":
        """A copy whose execution info is changed.

        Raises:
            RuntimeError: it has none.
        """
        if self.execution_info is None:
            raise RuntimeError("this Runtime has no execution_info to patch: it belongs to no task")
        return replace(self, execution_info=self.execution_info.patch(**overrides))


DEFAULT_RUNTIME: Final[Runtime[Any]] = Runtime()
"""A runtime in which nothing is set."""


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:
    """The runtime of the task that runs here.

    Args:
        context_schema: only for type checkers: what ``runtime.context`` is.

    Raises:
        RuntimeError: no task does.
    """
    return current_surroundings("get_runtime").runtime


__all__ = ["ExecutionInfo", "RunControl", "Runtime", "ServerInfo", "get_runtime"]
