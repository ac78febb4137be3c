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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, takewhile
from typing import cast

from phalanx.channels import NamedBarrierValue
from phalanx.checkpoint.serde import encode_exception
from phalanx.coordinator.answers import NO_ANSWERS, Answers, Asked, inherited_answers, match_answers
from phalanx.coordinator.apply import TaskWrites, apply_writes
from phalanx.coordinator.commands import apply_command, as_command, check_command, command_task, says_more
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
    TaskInterrupted,
    WarnOfJoin,
)
from phalanx.coordinator.output import as_names, read_values, shown_update
from phalanx.coordinator.plan import Task, handler_task, path_order, plan
from phalanx.coordinator.state import GraphState
from phalanx.coordinator.stops import note_gone_on
from phalanx.coordinator.terms import ANEW, NOTHING_PENDING, Beginning, Pending, Position, RunSettings
from phalanx.errors import (
    EmptyInputError,
    ErrorCode,
    GraphBubbleUp,
    GraphDrained,
    GraphRecursionError,
    InvalidUpdateError,
    create_error_message,
    is_invalid_resume,
)
from phalanx.managed import StepLimits
from phalanx.protocol.names import ERROR, HANDED_OVER, INPUT, INTERRUPT, RESUME
from phalanx.types import Command, Interrupt, StreamMode, Update
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.lineage import task_namespace
from phalanx.worker.questions import question_id


@dataclass(slots=True)
class Run:
    """The state machine. See the module's header for how it is driven.

    Attributes:
        namespace: where in the thread the run's checkpoints go; empty for the outermost graph.
        beginning: how it takes up what is stored.
        pending: what is known of the first superstep's tasks from an earlier run.
        answers: what it was answered.
        moved: the places of the tasks of the checkpoint it goes back to, and where they are in the copy.
        interrupts: what tasks of the running superstep have asked, by task id.
        stopped: whether it ended at a breakpoint.
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
    beginning: Beginning = field(default_factory=lambda: ANEW)
    answers: Answers = field(default_factory=lambda: NO_ANSWERS)
    moved: Mapping[str, str] = field(default_factory=dict[str, str])
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    attempts: dict[str, int] = field(default_factory=dict[str, int])
    disowned: dict[str, BaseException] = field(default_factory=dict[str, BaseException])
    writes: dict[str, Sequence[Update]] = field(default_factory=dict[str, Sequence[Update]])
    failures: dict[str, BaseException] = field(default_factory=dict[str, BaseException])
    interrupts: dict[str, Sequence[Interrupt]] = field(default_factory=dict[str, Sequence[Interrupt]])
    stopped: bool = False
    unsaved: frozenset[str] = frozenset()
    last_step: int = field(init=False)
    _showed: bool = False
    _exact: bool = True
    _answered: dict[str, Sequence[object]] = field(default_factory=dict[str, Sequence[object]])

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
        if self.beginning.continues:
            begun = self.beginning
            self.answers = inherited_answers(begun.answers, self.plan(), self._asked(), again=begun.again)
            return [*self._fork(stamp), *self._go_on()]
        if given is None:
            if not self.state.versions:
                raise EmptyInputError(
                    f"Received no input for {self.blueprint.input_channels}: the input is None, and the thread has no "
                    f"state to go on from; pass a dict of state keys"
                )
            return [*self._fork(stamp), *self._go_on()]
        command = as_command(given)
        if command is not None:
            check_command(command, kept=self.settings.kept)
            if self.state.versions:
                return self._go_on_with(command, stamp)
            if command.resume is not None:
                raise EmptyInputError(
                    f"Received an answer, and nothing has run on this thread of {self.blueprint.called} that could "
                    f"have asked; is the thread_id right?"
                )
        abandoned = [TaskWrites(task.path, task.name, task.triggers, ()) for task in self.plan()]
        first = TaskWrites((), INPUT, (), self.input_writes(given))
        changed = apply_writes(self.blueprint, self.state, [*abandoned, first], self.settings.next_version)
        exact = not self.pending.finished and not self.pending.commands and not self.pending.may_change
        self.pending = NOTHING_PENDING
        return [self._commit("input", stamp, changed, exact=exact), *self._next_step()]

    def _asked(self) -> Asked:
        pending = self.pending
        return Asked(self.position.namespace, pending.questions, pending.answers, frozenset(pending.finished))

    def _go_on_with(self, command: "Command[str]", stamp: Stamp) -> list[Order]:
        """Go on where the thread stopped, with what a command says on top.

        Raises:
            UnknownInterruptError: it answers what nobody asks; nothing has been changed.
            RuntimeError: it answers one of several questions without saying which.
        """
        if command.resume is not None:
            self.answers = match_answers(command.resume, self.plan(), self._asked(), again=self.beginning.again)
        writes: Sequence[Update] = ()
        if says_more(command):
            if self.blueprint.command_writes is None:
                raise InvalidUpdateError(
                    f"{self.blueprint.called} takes no Command as input: its blueprint has no command_writes"
                )
            writes = self.blueprint.command_writes(command)
        orders = self._fork(stamp, writes)
        if writes and not orders:
            self._apply_command(writes)
            pseudo_task = command_task(len(self.pending.commands))
            orders.append(SaveWrites(self.position.checkpoint_id, pseudo_task, writes))
        return [*orders, *self._go_on()]

    def _fork(self, stamp: Stamp, command: Sequence[Update] = ()) -> list[Order]:
        """Begin with a copy of an older checkpoint, if that is how the run begins; its tasks are new ones then.

        Args:
            command: what a command writes, which is in the copy then.
        """
        if not self.beginning.fork:
            return []
        old, before = self.position, self.plan()
        if self.beginning.latest and not before:
            return []
        self.pending = NOTHING_PENDING
        self._apply_command(command)
        elsewhere = old.namespace != self.namespace
        commit = self._commit("fork", stamp, frozenset(self.state.versions) if elsewhere else frozenset())
        copies = {task.path: task for task in self.plan()}
        self.moved = {
            task_namespace(old.namespace, was.name, was.id): task_namespace(self.namespace, now.name, now.id)
            for was in before
            if (now := copies.get(was.path)) is not None
        }
        return [commit]

    def _go_on(self) -> list[Order]:
        note_gone_on(self.state)
        return [*self._values(), *self._next_step()]

    def handle(self, event: Event) -> list[Order]:
        """Take a fact about a task of the current superstep. A task's first outcome counts; others change nothing."""
        if not self.awaits(event.task_id):
            return []
        task = self.tasks[event.task_id]
        match event:
            case TaskFinished():
                return self._finished(task, event)
            case TaskFailed():
                return [*self._new_answers(task, event.answers), *self._failed(task, event)]
            case TaskInterrupted():
                return [*self._new_answers(task, event.answers), *self._interrupted(task, event)]

    def awaits(self, task_id: str) -> bool:
        """Whether a task of the current superstep has no outcome yet."""
        ended = task_id in self.writes or task_id in self.failures or task_id in self.interrupts
        return task_id in self.tasks and not ended

    def answers_to(self, task_id: str) -> Sequence[object]:
        """What a task was answered, in the order of its questions."""
        return self._answered.get(task_id, ())

    @property
    def barrier_full(self) -> bool:
        """Whether every task of the superstep has an outcome, or one failure settles it."""
        if self.settings.eager_failure and self.failures:
            return True
        return len(self.writes) + len(self.failures) + len(self.interrupts) == len(self.tasks)

    def close_step(self, stamp: Stamp) -> list[Order]:
        """The barrier is full: apply the superstep and order what comes next."""
        assert self.barrier_full, f"step {self.position.step} closed with {len(self.tasks)} tasks before all had ended"
        self.answers = NO_ANSWERS  # they were for this superstep
        if self.failures:
            return [Fail(self._first_failure())]
        if self.interrupts:
            return [*self._told_of_interrupts(), Finish()]
        outcomes = [TaskWrites(t.path, _place_of(t), t.triggers, self.writes[t.id]) for t in self.tasks.values()]
        try:
            changed = apply_writes(self.blueprint, self.state, outcomes, self.settings.next_version)
        except Exception as error:  # a channel refused, or the user's reducer raised: the step is not applied
            error.add_note(f"While applying the writes of superstep {self.position.step}; the checkpoint is as before")
            return [Fail(error)]
        updated = self.state.updated or frozenset()
        shown = [] if updated.isdisjoint(as_names(self.settings.output)) else self._values()
        ran, stops = self.tasks.values(), self.settings.stops
        commit = self._commit("loop", stamp, changed, exact=self._exact)
        if stops.after and stops.hits(stops.after, self.blueprint, self.state, map(_place_of, ran)):
            return [*shown, commit, *self._stop()]
        return [*shown, commit, *self._next_step()]

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

    @property
    def questions(self) -> tuple[Interrupt, ...]:
        """What the run ended with that is to be answered, in the order of its tasks."""
        tasks = sorted((self.tasks[task_id] for task_id in self.interrupts), key=lambda task: path_order(task.path))
        return tuple(question for task in tasks for question in self.interrupts[task.id])

    @property
    def interrupted(self) -> bool:
        """Whether the run ended to be gone on with: at a question or a breakpoint."""
        return self.stopped or bool(self.interrupts)

    def input_writes(self, given: object) -> list[Update]:
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

    def plan(self) -> list[Task]:
        """The tasks that are due."""
        where = self.position
        return plan(
            self.blueprint,
            self.state,
            checkpoint_id=where.checkpoint_id,
            namespace=where.namespace,
            step=where.step,
        )

    def _commit(self, source: Source, stamp: Stamp, changed: frozenset[str], *, exact: bool = False) -> Commit:
        before = self.position
        self.position = Position(stamp.checkpoint_id, True, before.step + 1, self.namespace)
        changed, self.unsaved = changed | self.unsaved, frozenset()
        return Commit(
            stamp,
            before.checkpoint_id if before.stored and before.namespace == self.namespace else None,
            source,
            before.step,
            changed,
            exact,
        )

    def _next_step(self) -> list[Order]:
        self.tasks, self.attempts, self.writes, self.failures, self.interrupts = {}, {}, {}, {}, {}
        limit = self.settings.recursion_limit
        if self.position.step > self.last_step:
            message = (
                f"Recursion limit of {limit} reached without hitting a stop condition. "
                f"You can increase the limit by setting the `recursion_limit` config key."
            )
            error = GraphRecursionError(
                create_error_message(message=message, error_code=ErrorCode.GRAPH_RECURSION_LIMIT)
            )
            due = sorted({task.name for task in self.plan()})
            error.add_note(f"Nodes still due in {self.blueprint.called}: {', '.join(due) or 'none'}")
            return [Fail(error)]
        self.tasks = {task.id: task for task in self.plan()}
        if not self.tasks:
            return [*self._waiting_joins(), Finish()]
        stops = self.settings.stops
        if stops.before and stops.hits(stops.before, self.blueprint, self.state, map(_name_of, self.tasks.values())):
            return self._stop()
        reason = self.settings.drain_reason()
        if reason is not None:
            return [Fail(GraphDrained(reason))]
        orders = self._restored()
        tasks = self.tasks.values()
        restored = self.writes or self.interrupts or self.failures
        left = [task for task in tasks if self.awaits(task.id)] if restored else [*tasks]
        return [*orders, Dispatch(self.position.step, left)]

    def _stop(self) -> list[Order]:
        """End the run at a breakpoint."""
        self.stopped = True
        told = self._emits("updates") and not self.namespace  # of a graph inside, the graph around it tells
        return [*([Emit("updates", {INTERRUPT: ()})] if told else []), Finish()]

    def _restored(self) -> list[Order]:
        """Take what is pending: tasks that finished are not run again, nor those whose error handler is to run, nor
        those whose question stays open while others are answered."""
        if self.pending is NOTHING_PENDING and self.answers is NO_ANSWERS:
            self._answered, self._exact = self._inherited(), True
            return []
        pending, self.pending = self.pending, NOTHING_PENDING
        answers = self.answers
        self._answered = {**pending.answers, **answers.own}
        orders: list[Order] = [
            SaveWrites(self.position.checkpoint_id, self.tasks[task_id], [(RESUME, given)])
            for task_id, given in answers.own.items()
        ]
        for task_id, error in pending.handed_over.items():
            if task_id in self.tasks:
                self.handle(TaskFailed(task_id, error, restored=True))
        known = pending.finished.keys() <= self.tasks.keys()
        self._exact = known and not self.beginning.again and not pending.may_change
        for task_id, writes in pending.finished.items():
            if task_id not in answers.tasks:
                orders += self.handle(TaskFinished(task_id, writes, restored=True))
        if answers.by_id:
            for task_id, questions in pending.questions.items():
                if questions and task_id not in answers.tasks:  # without: a graph inside stopped, and may go on
                    orders += self.handle(TaskInterrupted(task_id, questions, restored=True))
        return orders

    def _inherited(self) -> dict[str, Sequence[object]]:
        """What tasks were answered of a graph inside that nobody keeps: it runs anew, and asks the same."""
        given = self.beginning.answers
        if not given or self.settings.kept:
            return {}
        found: dict[str, Sequence[object]] = {}
        for task in self.tasks.values():
            place = task_namespace(self.namespace, task.name, task.id)
            ids = takewhile(given.__contains__, (question_id(place, number) for number in count()))
            found[task.id] = [given[identity] for identity in ids]
        return found

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
        if is_invalid_resume(error) and task.id in self.answers.own:  # it is forgotten, so that another may be given
            told.append((RESUME, [*self.answers.own[task.id][:-1]]))
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

    def _interrupted(self, task: Task, event: TaskInterrupted) -> list[Order]:
        self.interrupts[task.id] = event.interrupts
        self._showed = self._showed or bool(event.interrupts)
        orders: list[Order] = []
        if not event.restored:
            orders.append(SaveWrites(self.position.checkpoint_id, task, [(INTERRUPT, [*event.interrupts])]))
        shown = {INTERRUPT: tuple(event.interrupts)}
        if not event.interrupts:  # a graph inside stopped at a breakpoint; that is told at the end
            return orders
        if self._emits("updates"):
            orders.append(Emit("updates", shown))
        if self._emits("values"):
            values = read_values(self.state, self.settings.output)
            orders.append(Emit("values", {**cast("dict[str, object]", values), **shown} if _is_dict(values) else shown))
        return orders

    def _new_answers(self, task: Task, answers: Sequence[object]) -> list[Order]:
        """Keep an answer that a task took although nobody had asked."""
        if len(answers) <= len(self.answers_to(task.id)):
            return []
        self._answered[task.id] = answers
        return [SaveWrites(self.position.checkpoint_id, task, [(RESUME, [*answers])])]

    def _told_of_interrupts(self) -> list[Order]:
        """What the end at questions, or at a breakpoint inside, shows; of a graph inside, the graph around it tells."""
        if self.namespace:
            return []
        stopped = self._emits("updates") and not self.questions
        return [*self._show_finished(), *([Emit("updates", {INTERRUPT: ()})] if stopped else [])]

    def _show_finished(self) -> list[Order]:
        """The run ends at questions: show what the tasks beside them wrote, although the superstep is not over."""
        finished = [
            TaskWrites(t.path, _place_of(t), (), self.writes[t.id]) for t in self.tasks.values() if t.id in self.writes
        ]
        try:
            apply_writes(self.blueprint, self.state, finished, self.settings.next_version)
        except Exception:  # they contradict each other, which is for the superstep's end to say
            return []
        updated = self.state.updated or frozenset()
        return [] if updated.isdisjoint(as_names(self.settings.output)) else self._values()

    def _first_failure(self) -> BaseException:
        failed = sorted(self.failures, key=lambda task_id: path_order(self.tasks[task_id].path))
        first = self.failures[failed[0]]
        if len(failed) > 1:
            others = ", ".join(sorted({self.tasks[task_id].name for task_id in failed[1:]}))
            first.add_note(f"{len(failed) - 1} more tasks of this superstep failed (nodes: {others})")
        return first


def _name_of(task: Task) -> str:
    return task.name


def _is_dict(value: object) -> bool:
    return isinstance(value, dict)


def _place_of(task: Task) -> str:
    """The node in whose place a task ran: an error handler's is that of the node that failed."""
    return task.name if task.error is None else task.error.node


def shown_error(error: BaseException) -> str:
    """An error as a checkpoint tells of it; some cannot even say what they are."""
    try:
        return repr(error)
    except Exception:
        return f"{type(error).__name__}(<its repr failed>)"
