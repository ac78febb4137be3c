"""Driving a run on the caller's event loop: coroutine nodes run on it, others in threads."""

import asyncio
import contextvars
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from phalanx.coordinator.inline import InlineRun, event_of
from phalanx.coordinator.loop_backlog import LoopBacklog, stored
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
    WarnOfJoin,
)
from phalanx.coordinator.observe import tell_of_join
from phalanx.coordinator.opening import Opened, open_place, opened_anew
from phalanx.coordinator.recorder import stamp
from phalanx.coordinator.saver_access import SaverOnLoop
from phalanx.coordinator.saving import explained
from phalanx.errors import NodeCancelledError, UnserializableError
from phalanx.worker.attempt import Attempt, Ended
from phalanx.worker.call_on_loop import attempt_on_loop

AsyncJob: TypeAlias = Callable[[], Awaitable[Event]]
"""Executes a task on the event loop, and raises nothing unless it is cancelled."""


@dataclass(slots=True)
class LoopDriver(InlineRun):
    """Drives a run on the running event loop. The first failure of a superstep cancels the tasks beside it."""

    team: "LoopTeam" = field(init=False)
    backlog: LoopBacklog | None = None

    async def adrive(self, given: object) -> AsyncGenerator[Emit, None]:
        """Drive the run to its end.

        Raises:
            TimeoutError: a superstep took longer than ``step_timeout``.
            Exception: what ended the run: a node's error, or one of ours.
        """
        self.settings = replace(self.settings, eager_failure=True)
        turn = self._turn()
        if turn is not None:
            await turn.atake(self.if_busy)
        try:
            async with aclosing(self._adrive(given)) as emits:
                async for emit in emits:
                    yield emit
        finally:
            if turn is not None:
                turn.release()

    async def _adrive(self, given: object) -> AsyncGenerator[Emit, None]:
        run = self._open(await self._opened(given))
        self.team = LoopTeam(self.context.config.get("max_concurrency"), listens=bool(self.listens))
        ended_well = False
        try:
            orders = self._start(given)
            while True:
                for order in orders:
                    if isinstance(order, Dispatch):
                        self._begin(order)
                        self.team.submit([self._job(Launch(task)) for task in order.tasks])
                        while not run.barrier_full:
                            for result in await self._next_results():
                                if isinstance(result, Emit):
                                    yield result
                                else:
                                    await self._carry_out(result)
                    elif isinstance(order, Emit):
                        yield order
                    else:
                        await self._carry_out(order)
                if isinstance(orders[-1], Finish):
                    ended_well = not run.interrupted
                    return
                orders = run.close_step(stamp(run))
        finally:
            await self.team.close()
            await self._save_last(ended_well)

    def _tell(self, emit: Emit) -> None:
        self.team.tell(emit)

    async def _opened(self, given: object) -> Opened:
        if self.saver is None or self.place is None:
            return opened_anew(self.context.lineage)
        return await open_place(SaverOnLoop(self.saver), self.blueprint, self.place, given)

    async def _next_results(self) -> list[Order]:
        """Wait for what happens next in the running superstep, and take it to the run."""
        if self.timers:
            self.team.submit([self._job(due) for due in self.timers.due(time.monotonic())])
        event = await self.team.next(self._patience_s())
        if event is None:
            self._check_step_time()
            return []
        if isinstance(event, Emit):
            return [event]
        return self._ended(self.run.tasks[event.task_id], event)

    async def _carry_out(self, order: Order) -> None:
        match order:
            case Commit() | SaveWrites():
                await self._asave(order)
            case Launch():
                self.timers.add(order, time.monotonic())
            case Abandon():
                await self.team.close()
            case Fail():
                raise order.error
            case WarnOfJoin():
                tell_of_join(self.observer, self.blueprint, order)
            case _:
                pass

    def _job(self, launch: Launch) -> AsyncJob:
        return partial(self._aexecute, launch)

    async def _aexecute(self, launch: Launch) -> Event:
        """Execute a task. What it raises is its failure, of whatever class: the superstep waits for its event."""
        attempt = self._attempt(launch)
        try:
            return event_of(launch, await _run_on_loop(attempt), attempt.context.answers)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                if not self.team.cancelled_by_itself(asyncio.current_task()):
                    raise
                error = NodeCancelledError(launch.task.name, str(error) or None)
            return event_of(launch, attempt.raised(error), attempt.context.answers)

    async def _asave(self, order: Commit | SaveWrites) -> None:
        """Make a commit or a task's writes durable."""
        saving, state = self.saving, self.run.state
        if saving is None:
            return
        try:
            for saved in saving.take(order, state):
                if saving.durability == "async":
                    if self.backlog is None:
                        self.backlog = LoopBacklog(SaverOnLoop(saving.saver))
                    await self.backlog.add(saved)
                else:
                    await stored(saved, SaverOnLoop(saving.saver))
        except UnserializableError as error:
            raise explained(error, order, saving.saver, state) from error

    async def _save_last(self, ended_well: bool) -> None:
        """The run is over: make durable what is not yet."""
        if self.saving is None:
            return
        for saved in self.saving.at_end(ended_well=ended_well):
            await stored(saved, SaverOnLoop(self.saving.saver))
        if self.backlog is not None:
            await self.backlog.close()


async def _run_on_loop(attempt: Attempt) -> Ended:
    """Run an attempt. A node without coroutines goes to a thread as a whole, with this task's context."""
    functions = attempt.node.functions
    if functions and all(function.coroutine is None for function in functions):
        context, loop = contextvars.copy_context(), asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: context.run(attempt.run_here))
    return await attempt_on_loop(attempt)


class LoopTeam:
    """Executes jobs side by side on the running event loop and hands out their events, as they come.

    A job that is alone, with nothing else to wait for, runs in the caller's own task.

    Args:
        limit: the most jobs at once.
        listens: whether jobs may :meth:`tell` something on their way; then none runs in the caller's own task.
    """

    def __init__(self, limit: int | None = None, *, listens: bool = False) -> None:
        self._limit = limit
        self._listens = listens
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._todo: deque[AsyncJob] = deque()
        self._events: asyncio.Queue[Event | Emit] = asyncio.Queue()
        self._workers: set[asyncio.Task[None]] = set()
        self._outstanding = 0
        self._closing = False
        self._live = 0  # workers that have not ended
        self._about_to_work = 0  # of those, the ones that have not taken a job yet

    def submit(self, jobs: Sequence[AsyncJob]) -> None:
        """Take jobs to execute, in this order."""
        self._todo.extend(jobs)
        self._outstanding += len(jobs)

    def tell(self, emit: Emit) -> None:
        """Hand out something from a job that is not its end; from any thread."""
        if threading.get_ident() == self._thread:
            self._events.put_nowait(emit)  # at once, so that it comes before the job's end
        else:
            self._loop.call_soon_threadsafe(self._events.put_nowait, emit)

    async def next(self, timeout_s: float | None = None) -> Event | Emit | None:
        """Wait for the next event, or what a job tells; ``None`` when ``timeout_s`` is over without one."""
        if timeout_s is None and self._outstanding == len(self._todo) == 1 and not self._listens:
            event: Event | Emit = await self._todo.popleft()()
            self._outstanding -= 1
            return event
        self._start()
        try:
            async with asyncio.timeout(timeout_s):
                event = await self._events.get()
        except TimeoutError:
            return None
        if not isinstance(event, Emit):
            self._outstanding -= 1
        return event

    def cancelled_by_itself(self, task: "asyncio.Task[Any] | None") -> bool:
        """Whether the job that runs in a task has cancelled that task itself; then it goes on as if it had not."""
        if self._closing or task not in self._workers:  # we have cancelled it, or somebody has who waits for us
            return False
        while task.cancelling():
            task.uncancel()
        return True

    def _start(self) -> None:
        """Let as many work as may and as there is work for."""
        room = len(self._todo) - self._about_to_work
        if self._limit is not None:
            room = min(room, self._limit - self._live)
        for _ in range(room):
            self._live += 1
            self._about_to_work += 1
            worker = asyncio.ensure_future(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    async def _work(self) -> None:
        self._about_to_work -= 1
        try:
            while self._todo:
                self._events.put_nowait(await self._todo.popleft()())
        finally:
            self._live -= 1

    async def close(self) -> None:
        """Cancel what still runs and wait for its end, so that no node outlives its superstep."""
        self._todo.clear()
        self._closing = True
        workers = [*self._workers]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        self._workers.clear()
        self._outstanding = self._live = self._about_to_work = 0
        self._closing = False
        self._events = asyncio.Queue()
