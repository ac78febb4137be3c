"""Driving a run in this process: what both inline drivers share, and the one for threads.

The other one, for an event loop, is in :mod:`phalanx.coordinator.on_loop`. They differ only in how they call a task
and a saver; every decision is the run's.
"""

from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from phalanx.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.ids import checkpoint_id
from phalanx.config import RunnableConfig
from phalanx.coordinator.messages import (
    Commit,
    Dispatch,
    Emit,
    Event,
    Fail,
    Finish,
    Order,
    SaveWrites,
    Stamp,
    TaskFailed,
    TaskFinished,
)
from phalanx.coordinator.observe import RunObserver
from phalanx.coordinator.plan import Task
from phalanx.coordinator.recorder import Recorder, open_run
from phalanx.coordinator.run import Run, RunSettings
from phalanx.coordinator.threads import ThreadTeam
from phalanx.errors import AsyncOnlyError
from phalanx.types import Update
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.run_task import Caller, StateView, call_here, run_task, run_to_end
from phalanx.worker.task_context import note_task, task_config


def stamp(run: Run) -> Stamp:
    """A new checkpoint id and the time, for the step the run is in."""
    return Stamp(checkpoint_id(run.position.step, run.position.checkpoint_id), datetime.now(UTC).isoformat())


@dataclass(slots=True)
class InlineRun:
    """One run in this process, on its way.

    Attributes:
        saver: keeps the thread's state; without one the run stands alone.
        run: the run, once the driver has begun.
    """

    blueprint: Blueprint
    settings: RunSettings
    config: RunnableConfig
    saver: BaseCheckpointSaver | None
    observer: RunObserver
    run: Run = field(init=False)
    recorder: Recorder | None = None

    def output(self) -> object:
        """What the run returned."""
        return self.run.output()

    def _open(self, found: CheckpointTuple | None) -> Run:
        self.run, values = open_run(self.blueprint, self.settings, found)
        if self.saver is not None:
            self.recorder = Recorder(CheckpointAddress.of(self.config), self.config, values)
        return self.run

    def _coroutine(self, task: Task, view: StateView, call: Caller) -> Coroutine[object, None, list[Update]]:
        """The task's procedure, to be driven with ``call``."""
        node = self.run.blueprint.nodes[task.name]
        step = self.run.position.step
        value = task.arg if task.is_push else view.read(node.reader)

        def config() -> RunnableConfig:
            return task_config(self.config, task.name, task.id, task.path, task.triggers, step)

        return run_task(node, value, view, call, config)

    def _execute(self, task: Task, view: StateView) -> Event:
        """Execute a task in this thread, to its end."""
        try:
            return TaskFinished(task.id, run_to_end(self._coroutine(task, view, call_here)))
        except Exception as error:
            return TaskFailed(task.id, note_task(error, task.name, task.id))

    def _begin(self, order: Dispatch) -> StateView:
        """A superstep begins: tell the observer, and freeze what its tasks see."""
        self.observer.step_started(order.step, len(order.tasks), sorted({task.name for task in order.tasks}))
        return StateView(self.run.state.channels)

    def _ended(self, event: Event) -> list[Order]:
        """Take a task's outcome to the run."""
        task = self.run.tasks[event.task_id]
        failed = isinstance(event, TaskFailed)
        self.observer.task_ended(self.run.position.step, task.name, task.id, worker=None, failed=failed)
        return self.run.handle(event)


@dataclass(slots=True)
class InlineDriver(InlineRun):
    """Drives a run in the calling thread, with more threads for tasks that can run side by side."""

    def drive(self, given: object) -> Generator[Emit, None, None]:
        """Drive the run to its end.

        Raises:
            AsyncOnlyError: the graph has nodes that only run on an event loop.
            Exception: what ended the run: a node's error, or one of ours.
        """
        if self.blueprint.async_nodes:
            raise AsyncOnlyError(self.blueprint.async_nodes[0])
        run = self._open(self.saver.get_tuple(self.config) if self.saver else None)
        team = ThreadTeam(self.config.get("max_concurrency"))
        orders = run.start(given, stamp(run))
        try:
            while True:
                for order in orders:
                    if isinstance(order, Emit):
                        yield order
                    elif isinstance(order, Fail):
                        raise order.error
                    elif isinstance(order, Dispatch):
                        view = self._begin(order)
                        for event in team.run(order.tasks, partial(self._execute, view=view)):
                            for result in self._ended(event):
                                self._save(result)
                                if isinstance(result, Emit):
                                    yield result
                    else:
                        self._save(order)
                if isinstance(orders[-1], Finish):
                    return
                orders = run.close_step(stamp(run))
        finally:
            team.close()

    def _save(self, order: Order) -> None:
        """Make a commit or a task's writes durable."""
        if self.saver is None or self.recorder is None:
            return
        if isinstance(order, Commit):
            self.saver.put(*self.recorder.put_arguments(order, self.run.state))
        elif isinstance(order, SaveWrites):
            self.saver.put_writes(*self.recorder.put_writes_arguments(order))
