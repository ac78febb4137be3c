"""What a run is told (facts) and what it asks for (orders). Frozen, and free of any process, clock or connection."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from phalanx.coordinator.plan import Task
from phalanx.types import Interrupt, StreamMode, Update

# --- facts ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the core must not make itself: the next checkpoint's id and the time (ISO 8601, UTC)."""

    checkpoint_id: str
    at: str


@dataclass(frozen=True, slots=True)
class TaskFinished:
    """A task ran and wrote.

    Attributes:
        restored: it did so in an earlier run, and its writes come from storage.
        cached: it did not run; its writes come from the cache.
    """

    task_id: str
    writes: Sequence[Update]
    restored: bool = False
    cached: bool = False


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """An attempt of a task raised.

    Attributes:
        attempt: which one, from 1; how often the node was tried, not how often the task was handed out.
        retry_after_s: seconds until its next attempt; ``None`` if that was the last.
        first_try_at: when the first attempt began, in seconds since the epoch.
        restored: it did so in an earlier run, and that is known from storage.
        answers: what the task was answered, if it took an answer that nobody had asked for.
    """

    task_id: str
    error: BaseException
    attempt: int = 1
    retry_after_s: float | None = None
    first_try_at: float = 0.0
    restored: bool = False
    answers: Sequence[object] = ()


@dataclass(frozen=True, slots=True)
class TaskInterrupted:
    """A task has asked something, and waits for the answer; or a graph inside of it has, or stopped.

    Attributes:
        interrupts: what was asked.
        restored: it did so in an earlier run, and was not answered since.
        answers: what the task was answered, if it took an answer that nobody had asked for.
    """

    task_id: str
    interrupts: Sequence[Interrupt]
    restored: bool = False
    answers: Sequence[object] = ()


Event = TaskFinished | TaskFailed | TaskInterrupted

Source = Literal["input", "loop", "update", "fork"]
"""What made a checkpoint: a run's input, a superstep, an update from outside, or going back to an older one."""

# --- orders -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Execute these tasks of superstep ``step``, in this order as far as order matters to what is started first."""

    step: int
    tasks: Sequence[Task]


@dataclass(frozen=True, slots=True)
class Launch:
    """Execute this task as well, in the superstep that runs: a further attempt, or an error handler.

    Attributes:
        attempt: which attempt it is, from 1.
        after_s: seconds to wait before. Nobody waits for it but a timer.
        first_try_at: when the first attempt began, in seconds since the epoch; 0 if this is the first.
    """

    task: Task
    attempt: int = 1
    after_s: float = 0.0
    first_try_at: float = 0.0


@dataclass(frozen=True, slots=True)
class SaveWrites:
    """Make a finished task's writes durable, as writes pending on checkpoint ``checkpoint_id``."""

    checkpoint_id: str
    task: Task
    writes: Sequence[Update]


@dataclass(frozen=True, slots=True)
class Commit:
    """The run's state is now this checkpoint; make it durable.

    Attributes:
        changed: the channels whose version the superstep changed.
        exact: whether the writes pending on the checkpoint before are those that made this one of it, no more and no
            less, so that a channel's value can be rebuilt from them.
    """

    stamp: Stamp
    parent_id: str | None
    source: Source
    step: int
    changed: frozenset[str]
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Emit:
    """Give this to whoever streams the run.

    Attributes:
        namespace: of the graph inside that it comes from; empty for the run's own.
    """

    mode: StreamMode
    data: object
    namespace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WarnOfJoin:
    """The run ends while a join still waits: some of its sources ran and others did not, so its node never did.

    Attributes:
        node: the node behind the join.
        ran, missing: its sources.
    """

    node: str
    ran: Sequence[str]
    missing: Sequence[str]


@dataclass(frozen=True, slots=True)
class Abandon:
    """What is still executing of this superstep no longer matters; a driver that can stop it does."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The run came to its end."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The run ends with this error. Nothing of the current superstep was applied."""

    error: BaseException


Order = Dispatch | Launch | SaveWrites | Commit | Emit | WarnOfJoin | Abandon | Finish | Fail
