"""Interrupts: the first one stops in an orderly way, the second one at once.

Python's own handler would do for the first. But an orderly stop may wait for a node that cannot be stopped, such as a
thread inside a library; after :data:`GRACE_S` seconds nothing is waited for any more. The processes of a local cluster
end with this one, however it ends.
"""

import os
import signal
import threading
from types import FrameType
from typing import Final

from phalanx.cli.exits import ExitCode

GRACE_S: Final = 12.0  # above what ending the processes of a local cluster may take


class TerminatedError(KeyboardInterrupt):
    """The process was asked to end (SIGTERM, SIGHUP)."""


class _Stopping:
    """Whether a signal has been seen."""

    def __init__(self) -> None:
        self._seen = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        interrupted = number == signal.SIGINT
        code = ExitCode.INTERRUPTED if interrupted else ExitCode.TERMINATED
        if self._seen:
            os._exit(code)
        self._seen = True
        last_resort = threading.Timer(GRACE_S, os._exit, (code,))
        last_resort.daemon = True
        last_resort.start()
        raise KeyboardInterrupt if interrupted else TerminatedError


def stop_on_signals() -> None:
    """Let Ctrl-C, SIGTERM and SIGHUP raise :class:`KeyboardInterrupt` in the main thread, once."""
    handler = _Stopping()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup and its like stay respected
            signal.signal(number, handler)
