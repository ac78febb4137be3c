"""Driving a run in this process: what both inline drivers share, and the one for threads.

The other one, for an event loop, is in :mod:`phalanx.coordinator.on_loop`. They differ only in how they call a task
and a saver; every decision is the run's.
"""

import time
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial

from phalanx.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from phalanx.checkpoint.configs import CheckpointAddress
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
    WarnOfJoin,
)
from phalanx.coordinator.observe import RunObserver, tell_of_join, tell_of_step, tell_of_task
from phalanx.coordinator.plan import Task
from phalanx.coordinator.recorder import Recorder, open_run, stamp
from phalanx.coordinator.run import Run, RunSettings
from phalanx.coordinator.threads import Job, ThreadTeam
from phalanx.coordinator.timers import Timers
from phalanx.errors import AsyncOnlyError
from phalanx.worker.attempt import Attempt, Ended, Raised
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.run_task import StateView
from phalanx.worker.task_context import RunContext, TaskContext


def event_of(launch: Launch, ended: Ended) -> Event:
    """How an attempt ended, as the run is told."""
    task_id = launch.task.id
    if isinstance(ended, Raised):
        return TaskFailed(task_id, ended.error, launch.attempt, ended.retry_after_s, ended.first_try_at)
    return TaskFinished(task_id, ended.writes, cached=ended.cached)


@dataclass(slots=True)
class InlineRun:
    """One run in this process, on its way.

    Attributes:
        context: what its tasks share.
        saver: keeps the thread's state; without one the run stands alone.
        run: the run, once the driver has begun.
    """

    blueprint: Blueprint
    settings: RunSettings
    context: RunContext
    saver: BaseCheckpointSaver | None
    observer: RunObserver
    run: Run = field(init=False)
    recorder: Recorder | None = None
    view: StateView = field(init=False)
    timers: Timers = field(default_factory=Timers)

    def output(self) -> object:
        """What the run returned."""
        return self.run.output()

    def _open(self, found: CheckpointTuple | None) -> Run:
        self.run, values = open_run(self.blueprint, self.settings, found)
        if self.saver is not None:
            config = self.context.config
            self.recorder = Recorder(CheckpointAddress.of(config), config, values, self.blueprint.untracked)
        return self.run

    def _begin(self, order: Dispatch) -> None:
        """A superstep begins: tell the observer, and freeze what its tasks see."""
        tell_of_step(self.observer, order)
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

    def drive(self, given: object) -> Generator[Emit, None, None]:
        """Drive the run to its end.

        Raises:
            AsyncOnlyError: the graph has nodes that only run on an event loop.
            TimeoutError: a superstep took longer than ``step_timeout``.
            Exception: what ended the run: a node's error, or one of ours.
        """
        if self.blueprint.async_nodes:
            raise AsyncOnlyError(self.blueprint.async_nodes[0])
        run = self._open(self.saver.get_tuple(self.context.config) if self.saver else None)
        self.team = ThreadTeam(self.context.config.get("max_concurrency"))
        orders = run.start(given, stamp(run))
        try:
            while True:
                for order in orders:
                    yield from self._carry_out(order)
                if isinstance(orders[-1], Finish):
                    return
                orders = run.close_step(stamp(run))
        finally:
            self.team.close()

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
            for result in self._ended(run.tasks[event.task_id], event):
                yield from self._carry_out(result)

    def _job(self, launch: Launch) -> Job:
        return launch.task.id, partial(self._run_here, launch)

    def _run_here(self, launch: Launch) -> Event:
        return event_of(launch, self._attempt(launch).run_here())

    def _save(self, order: Commit | SaveWrites) -> None:
        """Make a commit or a task's writes durable."""
        if self.saver is None or self.recorder is None:
            return
        if isinstance(order, Commit):
            self.saver.put(*self.recorder.put_arguments(order, self.run.state))
        else:
            self.saver.put_writes(*self.recorder.put_writes_arguments(order))
