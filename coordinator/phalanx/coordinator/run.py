"""One run of one graph, as a state machine: facts in, orders out.

A run does no I/O, reads no clock and makes no ids. Its life:

1. :meth:`Run.start` applies the input (or picks up where the thread stopped) and orders the first superstep.
2. :meth:`Run.handle` takes what happened to tasks, in any order; what arrives twice, late or for another superstep
   changes nothing.
3. When :attr:`Run.barrier_full`, the driver calls :meth:`Run.close_step`, which applies all writes at once, orders the
   commit and then the next superstep, or the end.

Whoever carries the orders out decides only *where and when* tasks execute. The results cannot depend on it: writes are
applied in path order, and nothing is applied before the barrier is full.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from phalanx.channels import NamedBarrierValue
from phalanx.checkpoint.serde import encode_exception
from phalanx.coordinator.apply import TaskWrites, apply_writes
from phalanx.coordinator.commands import apply_command, as_command, check_command, command_task
from phalanx.coordinator.messages import (
    Abandon,
    Commit,
    Dispatch,
    Emit,
    Event,
    Fail,
    Finish,
    Launch,
    Order,
    SaveWrites,
    Source,
    Stamp,
    TaskFailed,
    TaskFinished,
    WarnOfJoin,
)
from phalanx.coordinator.output import Keys, as_names, read_values, shown_update
from phalanx.coordinator.plan import Task, handler_task, path_order, plan
from phalanx.coordinator.state import GraphState, NextVersion, count_up
from phalanx.errors import (
    EmptyInputError,
    ErrorCode,
    GraphBubbleUp,
    GraphDrained,
    GraphRecursionError,
    InvalidUpdateError,
    create_error_message,
)
from phalanx.managed import StepLimits
from phalanx.protocol.names import ERROR, HANDED_OVER, INPUT
from phalanx.types import Command, StreamMode, Update
from phalanx.worker.blueprint import Blueprint


@dataclass(frozen=True, slots=True)
class Position:
    """Where in a thread's history a run stands.

    Attributes:
        checkpoint_id: the checkpoint it goes on from; made up for a fresh thread.
        stored: whether that checkpoint exists in storage, so that it can be a parent.
        step: the number of the next superstep; -1 on a fresh thread, for the input.
    """

    checkpoint_id: str
    stored: bool
    step: int


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
        drain_reason: why the run is to stop before its next superstep; ``None`` while it is not.
    """

    recursion_limit: int
    modes: frozenset[StreamMode]
    output: Keys
    eager_failure: bool = False
    next_version: NextVersion = count_up
    kept: bool = False
    drain_reason: Callable[[], str | None] = lambda: None


@dataclass(frozen=True, slots=True)
class Pending:
    """What storage knows of tasks that ran from a checkpoint without their superstep being applied.

    Attributes:
        commands: the writes of the commands that were given on the checkpoint, in order.
        finished: their writes, by task id.
        handed_over: the errors of those whose error handler is to run in their place, by task id.
    """

    commands: Sequence[Sequence[Update]] = ()
    finished: Mapping[str, Sequence[Update]] = field(default_factory=dict[str, Sequence[Update]])
    handed_over: Mapping[str, BaseException] = field(default_factory=dict[str, BaseException])


NOTHING_PENDING: Final = Pending()


@dataclass(slots=True)
class Run:
    """The state machine. See the module's header for how it is driven.

    Attributes:
        pending: what is known of the first superstep's tasks from an earlier run.
        tasks: the running superstep's, by id. A failed task whose error handler runs is replaced by the handler's.
        attempts: the attempts begun of tasks that were tried more than once.
        disowned: the errors of tasks that an error handler was to deal with, which the graph no longer has.
        unsaved: the channels that commands changed since the last checkpoint.
    """

    blueprint: Blueprint
    state: GraphState
    position: Position
    settings: RunSettings
    pending: Pending = field(default_factory=lambda: NOTHING_PENDING)
    namespace: str = ""
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    attempts: dict[str, int] = field(default_factory=dict[str, int])
    disowned: dict[str, BaseException] = field(default_factory=dict[str, BaseException])
    writes: dict[str, Sequence[Update]] = field(default_factory=dict[str, Sequence[Update]])
    failures: dict[str, BaseException] = field(default_factory=dict[str, BaseException])
    unsaved: frozenset[str] = frozenset()
    last_step: int = field(init=False)
    _showed: bool = False

    def __post_init__(self) -> None:
        self.last_step = self.position.step + self.settings.recursion_limit + 1

    # --- facts --------------------------------------------------------------------------------------------------------

    def start(self, given: object, stamp: Stamp) -> list[Order]:
        """Begin with an input, or go on where the thread stopped: as it is when the input is ``None``, or as a
        ``Command`` says.

        Raises:
            EmptyInputError: there is neither an input nor anything to go on from.
            InvalidUpdateError: the input is not one that this graph can take.
        """
        for writes in self.pending.commands:
            self._apply_command(writes)
        if given is None:
            if not self.state.versions:
                raise EmptyInputError(
                    f"Received no input for {self.blueprint.input_channels}: the input is None, and the thread has no "
                    f"state to go on from; pass a dict of state keys"
                )
            return [*self._values(), *self._next_step()]
        command = as_command(given)
        if command is not None:
            check_command(command, kept=self.settings.kept)
            if self.state.versions:
                return self._go_on_with(command)
        abandoned = [TaskWrites(task.path, task.name, task.triggers, ()) for task in self._plan()]
        first = TaskWrites((), INPUT, (), self._input_writes(given))
        changed = apply_writes(self.blueprint, self.state, [*abandoned, first], self.settings.next_version)
        return [self._commit("input", stamp, changed), *self._next_step()]

    def _go_on_with(self, command: "Command[str]") -> list[Order]:
        """Go on where the thread stopped, with what a command says on top."""
        if self.blueprint.command_writes is None:
            raise InvalidUpdateError(
                f"{self.blueprint.called} takes no Command as input: its blueprint has no command_writes"
            )
        writes = self.blueprint.command_writes(command)
        self._apply_command(writes)
        pseudo_task = command_task(len(self.pending.commands))
        saved = SaveWrites(self.position.checkpoint_id, pseudo_task, writes)
        return [*([saved] if writes else []), *self._values(), *self._next_step()]

    def handle(self, event: Event) -> list[Order]:
        """Take a fact about a task of the current superstep. A task's first outcome counts; others change nothing."""
        if not self.awaits(event.task_id):
            return []
        task = self.tasks[event.task_id]
        match event:
            case TaskFinished():
                return self._finished(task, event)
            case TaskFailed():
                return self._failed(task, event)

    def awaits(self, task_id: str) -> bool:
        """Whether a task of the current superstep has no outcome yet."""
        return task_id in self.tasks and task_id not in self.writes and task_id not in self.failures

    @property
    def barrier_full(self) -> bool:
        """Whether every task of the superstep has an outcome, or one failure settles it."""
        if self.settings.eager_failure and self.failures:
            return True
        return len(self.writes) + len(self.failures) == len(self.tasks)

    def close_step(self, stamp: Stamp) -> list[Order]:
        """The barrier is full: apply the superstep and order what comes next."""
        assert self.barrier_full, f"step {self.position.step} closed with {len(self.tasks)} tasks before all had ended"
        if self.failures:
            return [Fail(self._first_failure())]
        outcomes = [TaskWrites(t.path, _place_of(t), t.triggers, self.writes[t.id]) for t in self.tasks.values()]
        try:
            changed = apply_writes(self.blueprint, self.state, outcomes, self.settings.next_version)
        except Exception as error:  # a channel refused, or the user's reducer raised: the step is not applied
            error.add_note(f"While applying the writes of superstep {self.position.step}; the checkpoint is as before")
            return [Fail(error)]
        updated = self.state.updated or frozenset()
        shown = [] if updated.isdisjoint(as_names(self.settings.output)) else self._values()
        return [*shown, self._commit("loop", stamp, changed), *self._next_step()]

    @property
    def limits(self) -> StepLimits:
        """Where the running superstep stands between the first and the last that is allowed."""
        return StepLimits(self.position.step, self.last_step)

    def timed_out(self) -> TimeoutError:
        """The error of a superstep that took longer than the graph's ``step_timeout``."""
        left = sorted({task.name for task in self.tasks.values() if self.awaits(task.id)})
        return TimeoutError(
            f"Timed out: superstep {self.position.step} of {self.blueprint.called} took longer than its step_timeout "
            f"of {self.blueprint.step_timeout_s} s; still running: {', '.join(left)}"
        )

    def output(self) -> object:
        """What the run returns: the output channels as they are now; ``None`` if it wrote to none of them."""
        return read_values(self.state, self.settings.output) if self._showed else None

    def _input_writes(self, given: object) -> list[Update]:
        """The writes that a run's input means.

        Raises:
            TypeError: several channels take the input, and it is no dict.
            EmptyInputError: it has none of them.
        """
        channels = self.blueprint.input_channels
        if isinstance(channels, str):
            return [(channels, given)]
        if not isinstance(given, dict):
            raise TypeError(
                f"Expected a dict for the input channels {', '.join(channels)}; got {given!r} ({type(given).__name__})"
            )
        values = cast("dict[str, object]", given)
        writes = [(name, values[name]) for name in channels if name in values]
        if not writes:
            raise EmptyInputError(
                f"Received no input for {[*channels]}: the input has the keys {[*values]}; pass one of those channels"
            )
        return writes

    # --- inside -------------------------------------------------------------------------------------------------------

    def _apply_command(self, writes: Sequence[Update]) -> None:
        self.unsaved |= apply_command(self.blueprint, self.state, writes, self.settings.next_version)

    def _emits(self, mode: StreamMode) -> bool:
        return mode in self.settings.modes

    def _values(self) -> list[Order]:
        """Show the state, to whoever wants to see it."""
        self._showed = True
        return [Emit("values", read_values(self.state, self.settings.output))] if self._emits("values") else []

    def _plan(self) -> list[Task]:
        where = self.position
        return plan(
            self.blueprint,
            self.state,
            checkpoint_id=where.checkpoint_id,
            namespace=self.namespace,
            step=where.step,
        )

    def _commit(self, source: Source, stamp: Stamp, changed: frozenset[str]) -> Commit:
        before = self.position
        self.position = Position(stamp.checkpoint_id, True, before.step + 1)
        changed, self.unsaved = changed | self.unsaved, frozenset()
        return Commit(
            stamp,
            before.checkpoint_id if before.stored else None,
            source,
            before.step,
            changed,
        )

    def _next_step(self) -> list[Order]:
        self.tasks, self.attempts, self.writes, self.failures = {}, {}, {}, {}
        limit = self.settings.recursion_limit
        if self.position.step > self.last_step:
            message = (
                f"Recursion limit of {limit} reached without hitting a stop condition. "
                f"You can increase the limit by setting the `recursion_limit` config key."
            )
            error = GraphRecursionError(
                create_error_message(message=message, error_code=ErrorCode.GRAPH_RECURSION_LIMIT)
            )
            due = sorted({task.name for task in self._plan()})
            error.add_note(f"Nodes still due in {self.blueprint.called}: {', '.join(due) or 'none'}")
            return [Fail(error)]
        self.tasks = {task.id: task for task in self._plan()}
        if not self.tasks:
            return [*self._waiting_joins(), Finish()]
        reason = self.settings.drain_reason()
        if reason is not None:
            return [Fail(GraphDrained(reason))]
        orders = self._restored()
        left = [task for task in self.tasks.values() if task.id not in self.writes]
        return [*orders, Dispatch(self.position.step, left)]

    def _restored(self) -> list[Order]:
        """Take what is pending: tasks that finished are not run again, nor those whose error handler is to run."""
        pending, self.pending = self.pending, NOTHING_PENDING
        orders: list[Order] = []
        for task_id, error in pending.handed_over.items():
            if task_id in self.tasks:
                self.handle(TaskFailed(task_id, error, restored=True))
        for task_id, writes in pending.finished.items():
            orders += self.handle(TaskFinished(task_id, writes, restored=True))
        return orders

    def _waiting_joins(self) -> list[Order]:
        """A warning for each join that has seen some of its sources, and will not see the others."""
        orders: list[Order] = []
        for name, node in self.blueprint.joins.items():
            channel = cast("NamedBarrierValue[str]", self.state.channels[name])
            if channel.seen and channel.seen != channel.names:
                orders.append(WarnOfJoin(node, sorted(channel.seen), sorted(channel.names - channel.seen)))
        return orders

    def _finished(self, task: Task, event: TaskFinished) -> list[Order]:
        self.writes[task.id] = event.writes
        orders: list[Order] = []
        if not event.restored:
            orders.append(SaveWrites(self.position.checkpoint_id, task, event.writes))
        if self._emits("updates") and not self.blueprint.nodes[task.name].hidden:
            shown: dict[str, object] = {task.name: shown_update(event.writes, self.settings.output)}
            if event.restored or event.cached:
                shown["__metadata__"] = {"cached": True}
            orders.append(Emit("updates", shown))
        return orders

    def _failed(self, task: Task, event: TaskFailed) -> list[Order]:
        error = event.error
        if event.retry_after_s is not None:
            if event.attempt < self.attempts.get(task.id, 1):  # heard of before
                return []
            attempt = self.attempts[task.id] = event.attempt + 1
            return [Launch(task, attempt, event.retry_after_s, event.first_try_at)]
        if isinstance(error, GraphBubbleUp):
            self.failures[task.id] = error
            return [Abandon()] if self.settings.eager_failure else []
        told: list[Update] = [(ERROR, shown_error(error))]
        if self.blueprint.nodes[task.name].policies.error_handler is None:
            if event.restored:  # the graph has lost the handler since: the task runs again
                self.disowned[task.id] = error
                return []
            self.failures[task.id] = error
            saved = SaveWrites(self.position.checkpoint_id, task, told)
            return [saved, Abandon()] if self.settings.eager_failure else [saved]
        handler = handler_task(self.blueprint, task, error)
        del self.tasks[task.id]
        self.tasks[handler.id] = handler
        told.append((HANDED_OVER, encode_exception(error)))
        return [] if event.restored else [SaveWrites(self.position.checkpoint_id, task, told), Launch(handler)]

    def _first_failure(self) -> BaseException:
        failed = sorted(self.failures, key=lambda task_id: path_order(self.tasks[task_id].path))
        first = self.failures[failed[0]]
        if len(failed) > 1:
            others = ", ".join(sorted({self.tasks[task_id].name for task_id in failed[1:]}))
            first.add_note(f"{len(failed) - 1} more tasks of this superstep failed (nodes: {others})")
        return first


def _place_of(task: Task) -> str:
    """The node in whose place a task ran: an error handler's is that of the node that failed."""
    return task.name if task.error is None else task.error.node


def shown_error(error: BaseException) -> str:
    """An error as a checkpoint tells of it; some cannot even say what they are."""
    try:
        return repr(error)
    except Exception:
        return f"{type(error).__name__}(<its repr failed>)"
