"""Recording what a slow task would hold back: one thread a process, which looks after the batches that run in it.

A batch records its outcomes between two tasks. While a task runs nobody would record what finished before it, and the
run's coordinator would wait for news that is there.
"""

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

logger = logging.getLogger("phalanx.worker")


class Flusher:
    """Calls back for every batch it watches, again and again. Its thread starts when first needed, and idles without.

    Args:
        every_s: how often.
    """

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._lock = threading.Lock()
        self._watched: dict[object, Callable[[], None]] = {}
        self._busy = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, flush: Callable[[], None]) -> Generator[None, None, None]:
        """Within this context, call ``flush`` from another thread every so often. An error in it is logged."""
        key = object()
        with self._lock:
            self._watched[key] = flush
            self._busy.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="phalanx-flusher", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                del self._watched[key]
                if not self._watched and not self._closed.is_set():
                    self._busy.clear()

    def close(self) -> None:
        """End the thread."""
        with self._lock:
            self._closed.set()
            self._busy.set()

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            with self._lock:
                watched = [*self._watched.values()]
            for flush in watched:
                try:
                    flush()
                except Exception as error:  # the batch tries again itself, and tells who must know
                    logger.warning("could not record outcomes; trying again when the running task ends: %s", error)
            self._busy.wait()
