"""One attempt of one task, from its input to how it ended: from the cache if it was run before, within its time limits,
and with the answer to whether it is to be tried again.

Threads, event loops and worker processes all run tasks through this. They differ in how a user's function and a cache
are called, which is a parameter of the one procedure.
"""

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from phalanx.cache.base import BaseCache, FullKey
from phalanx.cache.key import task_cache_key
from phalanx.errors import GraphBubbleUp, NodeCancelledError, is_invalid_resume
from phalanx.types import TimeoutPolicy, Update
from phalanx.worker.blueprint import Blueprint, Node
from phalanx.worker.retrying import retry_after
from phalanx.worker.run_task import Caller, StateView, call_here, run_task, run_to_end
from phalanx.worker.task_context import TaskContext, note_task
from phalanx.worker.timeouts import Clockwork, run_bounded

logger = logging.getLogger("phalanx.worker")


@dataclass(frozen=True, slots=True)
class Wrote:
    """An attempt that came to its end. ``cached`` tells that the node did not run."""

    writes: Sequence[Update]
    cached: bool = False


@dataclass(frozen=True, slots=True)
class Raised:
    """An attempt that failed.

    Attributes:
        retry_after_s: seconds until the next one, if there is to be one.
        first_try_at: when the first one began, in seconds since the epoch.
        answers: what the task was answered, if it took an answer to no question.
    """

    error: BaseException
    retry_after_s: float | None = None
    first_try_at: float = 0.0
    answers: Sequence[object] = ()


Ended = Wrote | Raised

Entries = Mapping[FullKey, tuple[Sequence[Update], int | None]]


class CacheAccess(Protocol):
    """Calls a cache the way its surroundings allow."""

    async def get(self, cache: BaseCache[Any], key: FullKey) -> Sequence[Update] | None: ...
    async def set(self, cache: BaseCache[Any], entries: Entries) -> None: ...


class CacheHere:
    """Calls a cache in this thread. Never suspends."""

    async def get(self, cache: BaseCache[Any], key: FullKey) -> Sequence[Update] | None:
        return cache.get([key]).get(key)

    async def set(self, cache: BaseCache[Any], entries: Entries) -> None:
        cache.set(entries)


_HERE = CacheHere()


@dataclass(slots=True)
class Attempt:
    """One attempt of a task.

    Attributes:
        view: the state as of the step's start.
        arg: gives a packet's argument; ``None`` for a task whose input is read from the state.
        timeout: what limits this attempt: the packet's own policy, or the node's.
        killable: whether this process may be ended when the time is up, so that no thread need be left behind.
    """

    blueprint: Blueprint
    node: Node
    view: StateView
    context: TaskContext
    arg: Callable[[], object] | None = None
    timeout: TimeoutPolicy | None = None
    killable: bool = False

    @property
    def process_limit_s(self) -> float | None:
        """How long the process that runs it in a thread may live; ``None`` where it does not matter to it."""
        policy = self.timeout
        return policy.run_s if policy is not None and self.killable and policy.idle_s is None else None

    def run_here(self) -> Ended:
        """Run it in this thread; with a time limit, in another one that can be left behind."""
        try:
            if self.timeout is None or self.process_limit_s is not None:
                return run_to_end(self.procedure(call_here, _HERE))
            clockwork = self.wind_up(self.timeout)
            return run_bounded(clockwork, lambda: run_to_end(self.procedure(call_here, _HERE)))
        except Exception as error:
            return self.raised(error)

    def wind_up(self, timeout: TimeoutPolicy) -> Clockwork:
        """Start the clocks."""
        clockwork = self.context.clockwork = Clockwork(self.node.name, timeout)
        return clockwork

    async def procedure(self, call: Caller, access: CacheAccess) -> Ended:
        """Read the input, look into the cache, else run the task.

        Raises:
            Exception: whatever the user's code raises.
        """
        node, cache = self.node, self.blueprint.cache
        value = self._read() if self.arg is None else self.arg()
        policy = node.policies.cache
        if policy is None or cache is None or not node.actions:
            return Wrote(await run_task(node, value, self.view, call, self.context))
        key, ttl = task_cache_key(policy, node.cache_namespace, value)
        remembered = await self._remembered(access, cache, key)
        if remembered is not None:
            return Wrote(remembered, cached=True)
        writes = await run_task(node, value, self.view, call, self.context)
        try:
            await access.set(cache, {key: (writes, ttl)})
        except Exception as error:  # what the node did is done, and must neither be lost nor be done again
            self._warn_of_cache("remember what it wrote", error)
        return Wrote(writes)

    async def _remembered(self, access: CacheAccess, cache: BaseCache[Any], key: FullKey) -> list[Update] | None:
        """What the cache holds. A cache that fails, or holds something else, holds nothing."""
        try:
            found = await access.get(cache, key)
            return None if found is None else [(channel, written) for channel, written in found]
        except Exception as error:
            self._warn_of_cache("look for what it wrote before", error)
            return None

    def _warn_of_cache(self, what: str, error: Exception) -> None:
        logger.warning("node %r (task %s) could not %s: %s", self.node.name, self.context.task_id, what, error)

    def _read(self) -> object:
        handled = self.context.error
        return self.view.read(self.blueprint.reader_of(self.node.name, "" if handled is None else handled.node))

    def raised(self, error: BaseException) -> Raised:
        """What an error of the attempt means."""
        policies = self.node.policies.retry or self.blueprint.retry
        note_task(error, self.node.name, self.context.task_id)
        if not policies or isinstance(error, (NodeCancelledError, GraphBubbleUp)) or is_invalid_resume(error):
            return Raised(error)
        try:
            after_s = retry_after(policies, error, self.context.attempt, random.random())
            return Raised(error, after_s, self.context.first_attempt_at)
        except Exception as own:  # the policy's predicate is the user's code too
            note_task(own, self.node.name, self.context.task_id)
            own.__context__ = error
            return Raised(own)
