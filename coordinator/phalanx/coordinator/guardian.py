"""The guardian of a local cluster: starts its server and workers, and ends them when its owner is gone.

It runs as a process of its own, in a session of its own, so that an interrupt at the terminal reaches the owner
alone. Its standard input is a pipe from the owner. When that closes, for whatever reason the owner ended, everything
here ends. On Linux its children also end should the guardian itself be killed.

This file is run as a script and imports nothing but the standard library.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from types import FrameType
from typing import cast

_GRACE_S = 2.0
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Read a folder and commands from the first line of standard input, start them, and wait for the owner to go.

    The folder is removed at the end: an owner that was killed could not.
    """
    folder, commands = cast("tuple[str, list[list[str]]]", json.loads(sys.stdin.readline()))
    children: list[subprocess.Popen[bytes]] = []
    signal.signal(signal.SIGTERM, _stop)
    try:
        for command in commands:
            children.append(_start(command))
            print(children[-1].pid, flush=True)  # noqa: T201 - this is how the owner learns of it
        while sys.stdin.readline():
            pass
    except ValueError:  # standard input was closed by a signal
        pass
    finally:
        end(children)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _stop(_signal: int, _frame: FrameType | None) -> None:
    sys.stdin.close()


def _start(command: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=sys.stderr, preexec_fn=_end_with_parent(), process_group=0
    )


def _end_with_parent() -> Callable[[], None] | None:
    """What makes a child end with this process, on systems that can do so."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return ask


def end(children: "list[subprocess.Popen[bytes]]") -> None:
    """End workers before the server they talk to: ask first, and insist after a while, with their children too."""
    for child in reversed(children):
        child.terminate()
        try:
            child.wait(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)  # it leads a group of its own
            child.wait()


if __name__ == "__main__":
    sys.exit(main())
