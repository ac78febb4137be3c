"""A team of threads for the tasks of one superstep.

One thread starts; more join only when tasks wait, none has finished for a moment, and the process was not busy
computing: threads help tasks that wait, and hinder tasks that compute. So a thousand quick tasks cost no thread
switches, and a thousand that wait for something soon run side by side. A future per task would cost more than many a
task; here a task costs two queue operations.

A task that is alone, with nothing else to wait for, runs in the calling thread.
"""

import contextvars
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from phalanx.coordinator.messages import Emit, Event, TaskFailed

DEFAULT_THREADS: Final = 64
_GROW_AFTER_S: Final = 0.001
_BUSY_PATIENCE_S: Final = 0.05
_BUSY: Final = 0.7  # the share of one processor that computing threads keep busy

Job: TypeAlias = tuple[str, Callable[[], Event]]
"""A task's id, and what executes it; that must return an event and never raise an ``Exception``."""


def _execute_alone(context: contextvars.Context, job: Job) -> Event:
    task_id, execute = job
    try:
        return context.run(execute)
    except BaseException as error:  # SystemExit or the like must not end a thread that the superstep waits for
        return TaskFailed(task_id, error)


class _Crew:
    """The queues that a team's threads share. Held apart from the team, so that threads do not keep it alive."""

    __slots__ = ("done", "todo")

    def __init__(self) -> None:
        self.todo: SimpleQueue[Callable[[], Event] | None] = SimpleQueue()
        self.done: SimpleQueue[Event | Emit] = SimpleQueue()

    def work(self) -> None:
        while (job := self.todo.get()) is not None:
            self.done.put(job())


class ThreadTeam:
    """Executes jobs in threads and hands out what happened to them, as it happens.

    Args:
        limit: the most jobs at once; also the most threads.
        listens: whether jobs may :meth:`tell` something on their way; then none runs in the calling thread.
    """

    def __init__(self, limit: int | None = None, *, listens: bool = False) -> None:
        self._limit = limit or DEFAULT_THREADS
        self._listens = listens
        self._crew = _Crew()
        self._size = 0
        self._busy = False
        self._patience_s = _BUSY_PATIENCE_S
        self._lone: Job | None = None
        self._outstanding = 0

    def submit(self, jobs: Sequence[Job]) -> None:
        """Take jobs to execute, in this order."""
        if not self._outstanding and len(jobs) == 1 and not self._listens:
            self._lone, self._outstanding = jobs[0], 1
            return
        lone = [] if self._lone is None else [self._lone]
        self._lone = None
        self._outstanding += len(jobs)
        self._enqueue([*lone, *jobs])

    def _enqueue(self, jobs: Sequence[Job]) -> None:
        context = contextvars.copy_context()
        todo = self._crew.todo
        for job in jobs:
            todo.put(partial(_execute_alone, context.copy(), job))
        if not self._size:
            self._grow()

    def tell(self, emit: Emit) -> None:
        """Hand out something from a job that is not its end."""
        self._crew.done.put(emit)

    def next(self, timeout_s: float | None = None) -> Event | Emit | None:
        """Wait for the next event, or what a job tells; ``None`` when ``timeout_s`` is over without one."""
        if not self._outstanding:
            time.sleep(timeout_s or 0.0)
            return None
        lone, self._lone = self._lone, None
        if lone is not None and timeout_s is None:
            event: Event | Emit | None = contextvars.copy_context().run(lone[1])  # what it sets is its own
        else:
            if lone is not None:
                self._enqueue([lone])
            event = self._from_threads(timeout_s)
        if event is not None and not isinstance(event, Emit):
            self._outstanding -= 1
        return event

    def _from_threads(self, timeout_s: float | None) -> Event | Emit | None:
        crew = self._crew
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self._size < self._limit and not crew.todo.empty():
            wall, computed = time.perf_counter(), time.process_time()
            patience_s = self._patience_s if self._busy else _GROW_AFTER_S
            if deadline is not None:
                patience_s = min(patience_s, max(0.0, deadline - time.monotonic()))
            try:
                return crew.done.get(timeout=patience_s)
            except Empty:
                if deadline is not None and time.monotonic() >= deadline:
                    return None
                wall, computed = time.perf_counter() - wall, time.process_time() - computed
                self._grow(busy=computed > _BUSY * wall)
        try:
            return crew.done.get(timeout=None if deadline is None else max(0.0, deadline - time.monotonic()))
        except Empty:
            return None

    def _grow(self, *, busy: bool = False) -> None:
        self._busy = busy
        if busy:  # one more, ever more slowly: a computing task must not shut out one that would only wait
            self._patience_s *= 2
            self._add(1)
        else:
            self._add(max(1, min(self._size, self._limit - self._size, self._crew.todo.qsize())))

    def _add(self, threads: int) -> None:
        for _ in range(threads):
            self._size += 1
            threading.Thread(target=self._crew.work, name=f"phalanx-task-{self._size}", daemon=True).start()

    def close(self) -> None:
        """Drop jobs that have not started and let the threads end when their job does."""
        crew = self._crew
        while True:
            try:
                crew.todo.get_nowait()
            except Empty:
                break
        for _ in range(self._size):
            crew.todo.put(None)
        self._size = self._outstanding = 0
        self._lone = None
        self._crew = _Crew()
