"""Interrupts: the first one stops in an orderly way, the second one at once.

Python's own handler would do for the first. But an orderly stop may wait for a node that cannot be stopped, such as a
thread inside a library; after :data:`GRACE_S` seconds nothing is waited for any more. The processes of a local cluster
end with this one, however it ends.
"""

import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from phalanx.cli.exits import ExitCode
from phalanx.cli.streams import say

GRACE_S: Final = 6.0  # about what ending the processes of a local cluster may take


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
            _end_now(code)
        self._seen = True
        last_resort = threading.Timer(GRACE_S, _end_now, (code,))
        last_resort.daemon = True
        last_resort.start()
        raise KeyboardInterrupt if interrupted else TerminatedError


def _end_now(code: ExitCode) -> None:
    show_cursor = "\x1b[?25h" if os.isatty(2) else ""  # a live view may have hidden it
    os.write(2, f"{show_cursor}phalanx: {'interrupted' if code is ExitCode.INTERRUPTED else 'terminated'}\n".encode())
    os._exit(code)


def stop_on_signals() -> None:
    """Let Ctrl-C, SIGTERM and SIGHUP raise :class:`KeyboardInterrupt` in the main thread, once."""
    handler = _Stopping()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup and its like stay respected
            signal.signal(number, handler)


@contextmanager
def exit_on_interrupt() -> Generator[None]:
    """End the process with a line, and the exit code that fits, when it is interrupted within this context."""
    try:
        yield
    except TerminatedError:
        say("phalanx: terminated")
        sys.exit(ExitCode.TERMINATED)
    except KeyboardInterrupt:
        say("phalanx: interrupted")
        sys.exit(ExitCode.INTERRUPTED)
