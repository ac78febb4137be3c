"""The cluster driver: who runs the cluster loop for a caller.

``invoke`` runs it in the calling thread. ``stream`` and the asynchronous calls run it in a thread of its own, so that a
slow reader does not hold up the run or its lease.
"""

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from queue import SimpleQueue

from phalanx.checkpoint.redis.client import BLOCK_S
from phalanx.coordinator.cluster_loop import ClusterLoop, StoppedError
from phalanx.coordinator.messages import Emit
from phalanx.coordinator.run import Run


class ClusterDriver:
    """Runs a :class:`ClusterLoop` for a caller, in one of three ways."""

    def __init__(self, loop: ClusterLoop) -> None:
        self._loop = loop

    @property
    def run(self) -> Run:
        """The run, once it has begun."""
        return self._loop.run

    def drive(self, given: object) -> Generator[Emit, None, None]:
        """Drive the run; see :meth:`ClusterLoop.emits` for errors. Without stream modes it needs no thread."""
        if not self._loop.settings.modes:
            yield from self._loop.emits(given)
            return
        queue: SimpleQueue[Emit | BaseException | None] = SimpleQueue()
        thread = self._start(given, queue.put)
        try:
            while (item := queue.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self._stop(thread)

    async def adrive(self, given: object) -> AsyncGenerator[Emit, None]:
        """Drive the run in a thread, for a caller on an event loop."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[Emit | BaseException | None] = asyncio.Queue()

        def put(item: Emit | BaseException | None) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, item)

        thread = self._start(given, put)
        try:
            while (item := await queue.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            self._loop.stopping.set()  # at once: what ends from here on is kept, and not applied
            await loop.run_in_executor(None, self._stop, thread)

    def _start(self, given: object, put: Callable[[Emit | BaseException | None], None]) -> threading.Thread:
        def pump() -> None:
            try:
                for emit in self._loop.emits(given):
                    put(emit)
                put(None)
            except StoppedError:
                put(None)
            except BaseException as error:
                put(error)

        run = contextvars.copy_context().run
        thread = threading.Thread(target=run, args=(pump,), name="phalanx-run", daemon=True)
        thread.start()
        return thread

    def _stop(self, thread: threading.Thread) -> None:
        self._loop.stopping.set()
        thread.join(timeout=2 * BLOCK_S + 1)
