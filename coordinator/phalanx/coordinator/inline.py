"""Driving a run in this process: what both inline drivers share, and the one for threads.

The other one, for an event loop, is in :mod:`phalanx.coordinator.on_loop`. They differ only in how they call a task
and a saver; every decision is the run's.
"""

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.coordinator.answers import NO_ANSWERS
from phalanx.coordinator.backlog import Backlog
from phalanx.coordinator.busy import IfBusy, Turn
from phalanx.coordinator.messages import (
    Commit,
    Dispatch,
    Emit,
    Event,
    Fail,
    Finish,
    Launch,
    Order,
    SaveWrites,
    TaskFailed,
    TaskFinished,
    TaskInterrupted,
    WarnOfJoin,
)
from phalanx.coordinator.observe import RunObserver, tell_of_join, tell_of_step, tell_of_task
from phalanx.coordinator.opening import Opened, Place, open_place, opened_anew
from phalanx.coordinator.plan import Task
from phalanx.coordinator.recorder import Recorder, deltas_of, open_run, stamp
from phalanx.coordinator.run import Run
from phalanx.coordinator.saver_access import SaverHere
from phalanx.coordinator.saving import Saving, explained
from phalanx.coordinator.terms import ANEW, Position, RunSettings
from phalanx.coordinator.threads import Job, ThreadTeam
from phalanx.coordinator.timers import Timers
from phalanx.errors import AsyncOnlyError, GraphInterrupt, UnserializableError
from phalanx.types import StreamMode
from phalanx.worker.attempt import Attempt, Ended, Raised
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.lineage import Lineage, LooseAnswer
from phalanx.worker.run_task import StateView, run_to_end
from phalanx.worker.task_context import RunContext, TaskContext


def event_of(launch: Launch, ended: Ended, answers: Sequence[object] = ()) -> Event:
    """How an attempt ended, as the run is told.

    Args:
        answers: what the task was answered.
    """
    task_id = launch.task.id
    if not isinstance(ended, Raised):
        return TaskFinished(task_id, ended.writes, cached=ended.cached)
    if isinstance(ended.error, GraphInterrupt):
        return TaskInterrupted(task_id, ended.error.interrupts, answers=answers)
    return TaskFailed(task_id, ended.error, launch.attempt, ended.retry_after_s, ended.first_try_at, answers=answers)


def lineage_below(run: Run, opened_at: Position, lineage: Lineage) -> Lineage:
    """What graphs inside have to know of how a run began.

    Args:
        run: the run, which has started.
        opened_at: where it stood before.
        lineage: what was known before; returned as it is where there is nothing to add.
    """
    if run.beginning is ANEW and run.answers is NO_ANSWERS:
        return lineage
    return replace(
        lineage,
        answers={**lineage.answers, **run.answers.by_id},
        loose=LooseAnswer(*run.answers.loose) if run.answers.loose else lineage.loose,
        again=run.beginning.again,
        moved=run.moved,
        before=(opened_at.checkpoint_id, run.position.checkpoint_id)
        if run.beginning.fork
        else run.beginning.before or lineage.before,
    )


@dataclass(slots=True)
class InlineRun:
    """One run in this process, on its way.

    Attributes:
        context: what its tasks share.
        place: where in a thread it belongs; ``None`` if nothing is kept.
        saver: keeps the thread's state; without one the run stands alone.
        run: the run, once the driver has begun.
        listens: the modes in which what graphs inside stream is wanted.
        if_busy: what to do when another run drives the thread.
    """

    blueprint: Blueprint
    settings: RunSettings
    context: RunContext
    place: Place | None
    saver: BaseCheckpointSaver | None
    observer: RunObserver
    run: Run = field(init=False)
    saving: Saving | None = None
    view: StateView = field(init=False)
    timers: Timers = field(default_factory=Timers)
    listens: frozenset[StreamMode] = frozenset()
    if_busy: IfBusy = "refuse"

    def __post_init__(self) -> None:
        if self.listens:
            self._listen(self.context.lineage)

    def _listen(self, lineage: Lineage) -> None:
        """Have graphs inside tell what they stream, us and whoever listens further out."""
        above, above_modes, own = lineage.below, lineage.below_modes, self.listens

        def hear(namespace: tuple[str, ...], mode: StreamMode, data: object) -> None:
            if above is not None and mode in above_modes:
                above(namespace, mode, data)
            if mode in own:
                self._tell(Emit(mode, data, namespace))

        inside = replace(lineage, below=hear, below_modes=own | above_modes)
        self.context = replace(self.context, lineage=inside)

    def _turn(self) -> Turn | None:
        """This run's turn to drive its thread; a graph inside a task has that of the run around it."""
        if self.saver is None or self.place is None or self.place.around is not None:
            return None
        run_id = self.context.config.get("run_id")
        return Turn(self.saver, self.place.thread_id, "of this process" if run_id is None else str(run_id))

    def _tell(self, emit: Emit) -> None:
        """Take what a graph inside streams to whoever streams this run."""
        raise NotImplementedError

    def _open(self, opened: Opened) -> Run:
        lineage = self.context.lineage
        self.run, values = open_run(
            self.blueprint, self.settings, opened.found, lineage.namespace, opened.beginning, opened.histories
        )
        if self.saver is not None and self.place is not None:
            address, config = self.place.address(), self.context.config
            deltas = deltas_of(self.blueprint, opened.found, self.run.state)
            recorder = Recorder(address, config, lineage.parents, values, self.blueprint.untracked, deltas)
            recorder.snapshots_only = lineage.durability == "exit"
            lasts = self.place.around is None or self.place.lasts
            self.saving = Saving(recorder, self.saver, lineage.durability or "sync", lasts)
        return self.run

    def _start(self, given: object) -> list[Order]:
        """Begin, and tell the graphs inside what they have to know of it."""
        run = self.run
        opened_at = run.position
        orders = run.start(given, stamp(run))
        lineage = lineage_below(run, opened_at, self.context.lineage)
        if lineage is not self.context.lineage:
            self.context = replace(self.context, lineage=lineage)
        return orders

    def _begin(self, order: Dispatch) -> None:
        """A superstep begins: tell the observer, and freeze what its tasks see."""
        tell_of_step(self.observer, order)
        if self.run.answers is NO_ANSWERS and not self.context.lineage.namespace:
            self.context.lineage.loose.take()  # it was for the first superstep
        self.view = StateView(self.run.state.channels, self.run.limits)
        self.timers.begin(self.blueprint.step_timeout_s, time.monotonic())

    def _attempt(self, launch: Launch) -> Attempt:
        """An attempt of a task of the running superstep."""
        run, task = self.run, launch.task
        context = TaskContext(
            self.context,
            task.name,
            task.id,
            task.path,
            task.triggers,
            run.position.step,
            run.position.checkpoint_id,
            launch.attempt,
            launch.first_try_at or time.time(),
            task.error,
            run.answers_to(task.id),
            nth=task.nth,
        )
        arg = (lambda: task.arg) if task.is_push else None
        return Attempt(self.blueprint, self.blueprint.nodes[task.name], self.view, context, arg, task.timeout)

    def _patience_s(self) -> float | None:
        """How long to wait for an event before a timer is to be looked at."""
        return self.timers.next_in(time.monotonic())

    def _check_step_time(self) -> None:
        """Raise ``TimeoutError`` when the superstep has taken too long."""
        if self.timers.out_of_time(time.monotonic()):
            raise self.run.timed_out()

    def _ended(self, task: Task, event: Event) -> list[Order]:
        """Take a task's outcome to the run."""
        orders = self.run.handle(event)
        tell_of_task(self.observer, self.run.position.step, task, event, orders)
        return orders


@dataclass(slots=True)
class InlineDriver(InlineRun):
    """Drives a run in the calling thread, with more threads for tasks that can run side by side."""

    team: ThreadTeam = field(init=False)
    backlog: Backlog | None = None

    def drive(self, given: object) -> Generator[Emit, None, None]:
        """Drive the run to its end.

        Raises:
            AsyncOnlyError: the graph has nodes that only run on an event loop.
            TimeoutError: a superstep took longer than ``step_timeout``.
            Exception: what ended the run: a node's error, or one of ours.
        """
        if self.blueprint.async_nodes:
            raise AsyncOnlyError(self.blueprint.async_nodes[0])
        turn = self._turn()
        if turn is not None:
            turn.take(self.if_busy)
        try:
            yield from self._drive(given)
        finally:
            if turn is not None:
                turn.release()

    def _drive(self, given: object) -> Generator[Emit, None, None]:
        run = self._open(self._opened(given))
        self.team = ThreadTeam(self.context.config.get("max_concurrency"), listens=bool(self.listens))
        ended_well = False
        try:
            orders = self._start(given)
            while True:
                for order in orders:
                    yield from self._carry_out(order)
                if isinstance(orders[-1], Finish):
                    ended_well = not run.interrupted
                    return
                orders = run.close_step(stamp(run))
        finally:
            self.team.close()
            self._save_last(ended_well)

    def _tell(self, emit: Emit) -> None:
        self.team.tell(emit)

    def _opened(self, given: object) -> Opened:
        if self.saver is None or self.place is None:
            return opened_anew(self.context.lineage)
        return run_to_end(open_place(SaverHere(self.saver), self.blueprint, self.place, given))

    def _carry_out(self, order: Order) -> Generator[Emit, None, None]:
        match order:
            case Emit():
                yield order
            case Commit() | SaveWrites():
                self._save(order)
            case Dispatch():
                yield from self._execute(order)
            case Launch():
                self.timers.add(order, time.monotonic())
            case Fail():
                raise order.error
            case WarnOfJoin():
                tell_of_join(self.observer, self.blueprint, order)
            case _:
                pass

    def _execute(self, order: Dispatch) -> Generator[Emit, None, None]:
        """Execute the tasks of a superstep, until its barrier is full."""
        self._begin(order)
        run, team = self.run, self.team
        team.submit([self._job(Launch(task)) for task in order.tasks])
        while not run.barrier_full:
            if self.timers:
                team.submit([self._job(due) for due in self.timers.due(time.monotonic())])
            event = team.next(self._patience_s())
            if event is None:
                self._check_step_time()
                continue
            if isinstance(event, Emit):
                yield event
                continue
            for result in self._ended(run.tasks[event.task_id], event):
                yield from self._carry_out(result)

    def _job(self, launch: Launch) -> Job:
        return launch.task.id, partial(self._run_here, launch)

    def _run_here(self, launch: Launch) -> Event:
        attempt = self._attempt(launch)
        return event_of(launch, attempt.run_here(), attempt.context.answers)

    def _save(self, order: Commit | SaveWrites) -> None:
        """Make a commit or a task's writes durable."""
        saving, state = self.saving, self.run.state
        if saving is None:
            return
        try:
            for saved in saving.take(order, state):
                if saving.durability == "async":
                    if self.backlog is None:
                        self.backlog = Backlog(SaverHere(saving.saver))
                    self.backlog.add(saved)
                else:
                    run_to_end(saved.store(SaverHere(saving.saver)))
        except UnserializableError as error:
            raise explained(error, order, saving.saver, state) from error

    def _save_last(self, ended_well: bool) -> None:
        """The run is over: make durable what is not yet."""
        if self.saving is None:
            return
        for saved in self.saving.at_end(ended_well=ended_well):
            run_to_end(saved.store(SaverHere(self.saving.saver)))
        if self.backlog is not None:
            self.backlog.close()
