"""Calling a user's function from an event loop. A module of its own, so that threads do without asyncio."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable
from typing import cast

from phalanx.config import RunnableConfig
from phalanx.worker.functions import UserFunction
from phalanx.worker.run_task import arguments_for


async def call_on_loop(function: UserFunction, value: object, config: RunnableConfig) -> object:
    """Call a function from an event loop: coroutine functions on it, others in a thread with this task's context."""
    arguments = arguments_for(function, config)
    if function.coroutine is not None:
        return await function.coroutine(value, **arguments)
    assert function.sync is not None
    context = contextvars.copy_context()
    bound = function.sync
    result = await asyncio.get_running_loop().run_in_executor(None, lambda: context.run(bound, value, **arguments))
    return await cast("Awaitable[object]", result) if inspect.isawaitable(result) else result
