"""The end of a worker process whose task takes too long.

A thread cannot be stopped from outside, but a process can be ended, and a pool starts another in its place. The process
does so itself, on time: its clock starts when the node is called, not while the graph is imported or values fetched.
Where it cannot, since native code holds the interpreter, the pool ends it a while later.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

logger = logging.getLogger("phalanx.worker")


@contextmanager
def ends_process_after(limit_s: float, record: Callable[[], None]) -> Generator[None, None, None]:
    """Within this context, the process has ``limit_s`` seconds to live.

    Args:
        record: called before the end, to tell why.
    """
    lock = threading.Lock()
    left = False

    def end() -> None:
        with lock:  # whoever leaves the context in this moment waits here for the end
            if left:
                return
            try:
                record()
            except Exception as error:  # nobody is told; the coordinator will find that the process is gone
                logger.warning("could not say that a task took longer than %s s: %s", limit_s, error)
            os.kill(os.getpid(), signal.SIGKILL)

    timer = threading.Timer(min(limit_s, threading.TIMEOUT_MAX), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            left = True
