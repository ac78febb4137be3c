"""Running an attempt on an event loop. A module of its own, so that threads do without asyncio."""

import asyncio
import contextvars
import inspect
import logging
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any, Final, TypeVar, cast

from phalanx.cache.base import BaseCache, FullKey
from phalanx.config import SURROUNDINGS
from phalanx.errors import NodeCancelledError, NodeTimeoutError
from phalanx.types import Update
from phalanx.worker.attempt import Attempt, Ended, Entries
from phalanx.worker.functions import UserFunction
from phalanx.worker.task_context import TaskContext
from phalanx.worker.timeouts import Clockwork

T = TypeVar("T")

_CANCEL_PATIENCE_S: Final = 1.0
"""How long a coroutine whose time is up may take to clean up before it is left behind."""

logger = logging.getLogger("phalanx.worker")


async def call_on_loop(function: UserFunction, value: object, context: TaskContext) -> object:
    """Call a function from an event loop: coroutine functions on it, others in a thread with this task's context."""
    arguments = context.arguments_for(function)
    token = SURROUNDINGS.set(context)
    try:
        if function.coroutine is not None:
            return await function.coroutine(value, **arguments)
        assert function.sync is not None
        surrounded, bound = contextvars.copy_context(), function.sync
        result = await asyncio.get_running_loop().run_in_executor(
            None, lambda: surrounded.run(bound, value, **arguments)
        )
        return await cast("Awaitable[object]", result) if inspect.isawaitable(result) else result
    finally:
        SURROUNDINGS.reset(token)


class CacheOnLoop:
    """Calls a cache without blocking the event loop."""

    async def get(self, cache: BaseCache[Any], key: FullKey) -> Sequence[Update] | None:
        return (await cache.aget([key])).get(key)

    async def set(self, cache: BaseCache[Any], entries: Entries) -> None:
        await cache.aset(entries)


_ON_LOOP = CacheOnLoop()


async def attempt_on_loop(attempt: Attempt) -> Ended:
    """Run an attempt on the running event loop.

    Raises:
        asyncio.CancelledError: it was cancelled from outside.
    """
    try:
        procedure = attempt.procedure(call_on_loop, _ON_LOOP)
        if attempt.timeout is None:
            return await procedure
        return await await_bounded(attempt.wind_up(attempt.timeout), procedure)
    except asyncio.CancelledError as error:
        current = asyncio.current_task()
        if current is None or current.cancelling():
            raise
        return attempt.raised(NodeCancelledError(attempt.node.name, str(error) or None))
    except Exception as error:
        return attempt.raised(error)


async def await_bounded(clockwork: Clockwork, coroutine: Coroutine[object, object, T]) -> T:
    """Await ``coroutine`` for as long as the clocks allow, then cancel it.

    Raises:
        NodeTimeoutError: its time is up.
        BaseException: what it raised.
    """
    task = asyncio.ensure_future(coroutine)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=clockwork.left_s())
    except NodeTimeoutError as error:
        await _cancel(task, error.node)
        raise
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    return task.result()


async def _cancel(task: "asyncio.Task[T]", node: str) -> None:
    task.cancel()
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # what it raises now is lost, quietly
    _, left = await asyncio.wait({task}, timeout=_CANCEL_PATIENCE_S)
    if left:
        logger.warning("node %r was cancelled when its time was up and goes on nevertheless; it is left behind", node)
