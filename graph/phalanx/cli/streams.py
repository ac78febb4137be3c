"""Standard output is for results alone; whatever else writes there, such as a node, reaches standard error."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TextIO, cast

from phalanx.cli.exits import OutputClosedError


class Results:
    """Where results go.

    Attributes:
        stream: the real standard output.
        is_terminal: whether a person reads it.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.is_terminal = stream.isatty()

    def write(self, text: str) -> None:
        """Write and flush.

        Raises:
            OutputClosedError: nobody reads any more.
        """
        try:
            self.stream.write(text)
            self.stream.flush()
        except BrokenPipeError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())  # or closing it would fail again
            raise OutputClosedError from error


@contextmanager
def results_on_stdout() -> Generator[Results]:
    """Take standard output for results. From here on file descriptor 1 is standard error, for child processes too.

    It stays so: a thread of a node that prints later must not reach the results either.
    """
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace") as stream:
        os.dup2(2, 1)
        if isinstance(printed := cast("TextIO", sys.stdout), TextIOWrapper):
            printed.reconfigure(line_buffering=True)
        yield Results(stream)


def say(text: str) -> None:
    """Write a line to standard error."""
    with suppress(OSError):
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
