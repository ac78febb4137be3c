"""A team of threads for the tasks of one superstep.

One thread starts; more join only when tasks wait, none has finished for a moment, and the process was not busy
computing: threads help tasks that wait, and hinder tasks that compute. So a thousand quick tasks cost no thread
switches, and a thousand that wait for something soon run side by side. A future per task would cost more than many a
task; here a task costs two queue operations.
"""

import contextvars
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

from phalanx.coordinator.messages import Event, TaskFailed
from phalanx.coordinator.plan import Task

DEFAULT_THREADS: Final = 64
_GROW_AFTER_S: Final = 0.001
_BUSY_PATIENCE_S: Final = 0.05
_BUSY: Final = 0.7  # the share of one processor that computing threads keep busy

Execute = Callable[[Task], Event]


def _execute_alone(context: contextvars.Context, execute: Execute, task: Task) -> Event:
    try:
        return context.run(execute, task)
    except BaseException as error:  # SystemExit or the like must not end a thread that the superstep waits for
        return TaskFailed(task.id, error)


class _Crew:
    """The queues that a team's threads share. Held apart from the team, so that threads do not keep it alive."""

    __slots__ = ("done", "todo")

    def __init__(self) -> None:
        self.todo: SimpleQueue[Callable[[], Event] | None] = SimpleQueue()
        self.done: SimpleQueue[Event] = SimpleQueue()

    def work(self) -> None:
        while (job := self.todo.get()) is not None:
            self.done.put(job())


class ThreadTeam:
    """Executes tasks in threads and yields what happened to them, as it happens.

    Args:
        limit: the most tasks at once; also the most threads.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit or DEFAULT_THREADS
        self._crew = _Crew()
        self._size = 0
        self._busy = False
        self._patience_s = _BUSY_PATIENCE_S

    def run(self, tasks: Sequence[Task], execute: Execute) -> Iterator[Event]:
        """Execute ``tasks``; ``execute`` must return an event and never raise."""
        if len(tasks) == 1:
            yield execute(tasks[0])
            return
        context = contextvars.copy_context()
        crew = self._crew
        for task in tasks:
            crew.todo.put(partial(_execute_alone, context.copy(), execute, task))
        if not self._size:
            self._grow()
        for _ in tasks:
            yield self._next()

    def _next(self) -> Event:
        crew = self._crew
        while self._size < self._limit and not crew.todo.empty():
            wall, computed = time.perf_counter(), time.process_time()
            try:
                return crew.done.get(timeout=self._patience_s if self._busy else _GROW_AFTER_S)
            except Empty:
                wall, computed = time.perf_counter() - wall, time.process_time() - computed
                self._grow(busy=computed > _BUSY * wall)
        return crew.done.get()

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
        """Drop tasks that have not started and let the threads end when their task does."""
        crew = self._crew
        while True:
            try:
                crew.todo.get_nowait()
            except Empty:
                break
        for _ in range(self._size):
            crew.todo.put(None)
        self._size = 0
        self._crew = _Crew()
