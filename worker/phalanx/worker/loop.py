"""The event loop of a worker process: one, for as long as the process lives, in a thread of its own.

A client that a node made on its first call still belongs to the running loop on its second.
"""

import asyncio
import threading
from collections.abc import Coroutine


class LoopThread:
    """Starts its thread when first used."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def start(self, coroutine: Coroutine[object, object, None]) -> None:
        """Run a coroutine on the loop; it must not raise."""
        asyncio.run_coroutine_threadsafe(coroutine, self._running())

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="phalanx-loop", daemon=True).start()
            return self._loop

    def close(self) -> None:
        """Stop the loop."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None
