"""Where a run stands, what it was asked to do, and what it takes up: what a :class:`~phalanx.coordinator.run.Run` is
made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from phalanx.coordinator.output import Keys
from phalanx.coordinator.state import NextVersion, count_up
from phalanx.coordinator.stops import NO_STOPS, Stops
from phalanx.types import Interrupt, StreamMode, Update


@dataclass(frozen=True, slots=True)
class Position:
    """Where in a thread's history a run stands.

    Attributes:
        checkpoint_id: the checkpoint it goes on from; made up for a fresh thread.
        stored: whether that checkpoint exists in storage, so that it can be a parent.
        step: the number of the next superstep; -1 on a fresh thread, for the input.
        namespace: where in the thread that checkpoint is.
    """

    checkpoint_id: str
    stored: bool
    step: int
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What the caller chose.

    Attributes:
        recursion_limit: the most supersteps.
        modes: the stream modes to emit.
        output: what ``values`` and ``updates`` show.
        eager_failure: whether the first failure abandons its siblings (event loop), or they run to their end (threads,
            cluster).
        next_version: how versions are counted.
        kept: whether the run's thread is kept.
        stops: the nodes to stop at.
        drain_reason: why the run is to stop before its next superstep; ``None`` while it is not.
    """

    recursion_limit: int
    modes: frozenset[StreamMode]
    output: Keys
    eager_failure: bool = False
    next_version: NextVersion = count_up
    kept: bool = False
    stops: Stops = NO_STOPS
    drain_reason: Callable[[], str | None] = lambda: None


@dataclass(frozen=True, slots=True)
class Pending:
    """What storage knows of tasks that ran from a checkpoint without their superstep being applied.

    Attributes:
        commands: the writes of the commands that were given on the checkpoint, in order.
        finished: their writes, by task id.
        handed_over: the errors of those whose error handler is to run in their place, by task id.
        questions: what tasks asked that have not come to their end, or had asked before, by task id.
        answers: what tasks were answered, by task id.
    """

    commands: Sequence[Sequence[Update]] = ()
    finished: Mapping[str, Sequence[Update]] = field(default_factory=dict[str, Sequence[Update]])
    handed_over: Mapping[str, BaseException] = field(default_factory=dict[str, BaseException])
    questions: Mapping[str, Sequence[Interrupt]] = field(default_factory=dict[str, Sequence[Interrupt]])
    answers: Mapping[str, Sequence[object]] = field(default_factory=dict[str, Sequence[object]])

    @property
    def may_change(self) -> bool:
        """Whether what is pending may become something else later: a question may be answered anew at any time."""
        return bool(self.questions or self.answers)


NOTHING_PENDING: Final = Pending()


@dataclass(frozen=True, slots=True)
class Beginning:
    """How a run takes up what is stored.

    Attributes:
        fork: it goes back to an older checkpoint: it begins with a copy of it, and everything after that runs again.
        latest: what it goes back to is where the thread is: that is copied only if something is due there.
        again: the thread has gone on from the checkpoint before; what was answered there may be answered anew.
        continues: a graph inside goes on where it was left; its input is not new.
        answers: what a graph inside was answered, by the id of the question.
        before: the checkpoint that an update branched off from, and the one it made, from which the run begins: what
            graphs inside did in between is not for it.
    """

    fork: bool = False
    latest: bool = False
    again: bool = False
    continues: bool = False
    answers: Mapping[str, object] = field(default_factory=dict[str, object])
    before: tuple[str, str] | None = None


ANEW: Final = Beginning()
