"""The event loop of a worker process: one, for as long as the process lives, in a thread of its own.

A client that a node made on its first call still belongs to the running loop on its second.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress


class LoopThread:
    """Starts its thread when first used."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def start(self, coroutine: Coroutine[object, object, None]) -> Callable[[], object]:
        """Run a coroutine on the loop; it must not raise. Returns what cancels it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._running()).cancel

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._run, args=(self._loop,), name="phalanx-loop", daemon=True)
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """Stop the loop, and wait until it has stopped."""
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._closed.set()
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join(timeout=2)
                self._loop = self._thread = None

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while not self._closed.is_set() and not loop.is_closed():
                # A node may stop the loop, or end it by a SystemExit in a task of its own; others still run on it.
                with suppress(BaseException):
                    loop.run_forever()
        finally:
            loop.close()
