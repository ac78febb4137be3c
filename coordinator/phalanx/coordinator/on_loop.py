"""Driving a run on the caller's event loop: coroutine nodes run on it, others in threads."""

import asyncio
import contextvars
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from phalanx.coordinator.inline import InlineRun, stamp
from phalanx.coordinator.messages import (
    Abandon,
    Commit,
    Dispatch,
    Emit,
    Event,
    Fail,
    Finish,
    Order,
    SaveWrites,
    TaskFailed,
    TaskFinished,
)
from phalanx.coordinator.plan import Task
from phalanx.errors import NodeCancelledError
from phalanx.worker.call_on_loop import call_on_loop
from phalanx.worker.run_task import StateView
from phalanx.worker.task_context import note_task


@dataclass(slots=True)
class LoopDriver(InlineRun):
    """Drives a run on the running event loop. The first failure of a superstep cancels the tasks beside it."""

    async def adrive(self, given: object) -> AsyncGenerator[Emit, None]:
        """Drive the run to its end.

        Raises:
            Exception: what ended the run: a node's error, or one of ours.
        """
        self.settings = replace(self.settings, eager_failure=True)
        run = self._open(await self.saver.aget_tuple(self.config) if self.saver else None)
        orders = run.start(given, stamp(run))
        limit = self.config.get("max_concurrency")
        while True:
            for order in orders:
                if isinstance(order, Emit):
                    yield order
                elif isinstance(order, Fail):
                    raise order.error
                elif isinstance(order, Dispatch):
                    view = self._begin(order)
                    async with aclosing(_execute_all(order.tasks, partial(self._aexecute, view=view), limit)) as events:
                        async for event in events:
                            results = self._ended(event)
                            for result in results:
                                await self._asave(result)
                                if isinstance(result, Emit):
                                    yield result
                            if any(isinstance(result, Abandon) for result in results):
                                break
                else:
                    await self._asave(order)
            if isinstance(orders[-1], Finish):
                return
            orders = run.close_step(stamp(run))

    async def _aexecute(self, task: Task, view: StateView) -> Event:
        """Execute a task. A node without coroutines goes to a thread as a whole, with this task's context."""
        functions = self.blueprint.nodes[task.name].functions
        if functions and all(function.coroutine is None for function in functions):
            context, loop = contextvars.copy_context(), asyncio.get_running_loop()
            return await loop.run_in_executor(None, lambda: context.run(self._execute, task, view))
        try:
            return TaskFinished(task.id, await self._coroutine(task, view, call_on_loop))
        except asyncio.CancelledError as error:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise
            cancelled = NodeCancelledError(task.name, str(error) or None)
            return TaskFailed(task.id, note_task(cancelled, task.name, task.id))
        except Exception as error:
            return TaskFailed(task.id, note_task(error, task.name, task.id))

    async def _asave(self, order: Order) -> None:
        """Make a commit or a task's writes durable."""
        if self.saver is None or self.recorder is None:
            return
        if isinstance(order, Commit):
            await self.saver.aput(*self.recorder.put_arguments(order, self.run.state))
        elif isinstance(order, SaveWrites):
            await self.saver.aput_writes(*self.recorder.put_writes_arguments(order))


async def _execute_all(
    tasks: Sequence[Task], execute: Callable[[Task], Awaitable[Event]], limit: int | None
) -> AsyncGenerator[Event, None]:
    """Execute tasks side by side, at most ``limit`` at once, and yield their events as they come.

    When it is closed early, what still runs is cancelled and awaited, so that no node outlives its superstep.
    """
    if len(tasks) == 1:
        yield await execute(tasks[0])
        return
    events: asyncio.Queue[Event] = asyncio.Queue()
    todo = deque(tasks)

    async def work() -> None:
        while todo:
            events.put_nowait(await execute(todo.popleft()))

    workers = [asyncio.ensure_future(work()) for _ in range(min(limit or len(tasks), len(tasks)))]
    try:
        for _ in tasks:
            yield await events.get()
    finally:
        todo.clear()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
