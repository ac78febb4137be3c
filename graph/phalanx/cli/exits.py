"""How a command ends: its exit code, and the errors that say which."""

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """What a command's exit code means."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141
    TERMINATED = 143


EXIT_CODES: Final = (
    "Exit codes: 0 it worked; 1 the graph or one of its nodes failed; 2 wrong usage, target or input; "
    "3 no server answers; 130 interrupted with Ctrl-C; 143 terminated."
)
"""For the help of every command."""


class CommandError(Exception):
    """A command cannot go on. Its text is for the user: what, the fact, and what to do next."""

    def __init__(self, code: ExitCode, text: str) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return self.text


def wrong_usage(text: str) -> CommandError:
    """An error about what the user gave."""
    return CommandError(ExitCode.USAGE, text)


class OutputClosedError(Exception):
    """Whoever read our standard output has left, as ``head`` does."""
