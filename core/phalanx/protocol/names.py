"""The reserved names that the engine, its checkpoints and their readers share. A storage format: never rename one."""

import sys
from typing import Final

TASKS: Final = sys.intern("__pregel_tasks")
"""The topic channel that holds the packets (``Send``) of the next superstep."""

PULL: Final = sys.intern("__pregel_pull")
"""The first part of the path of a task that a channel triggered."""

PUSH: Final = sys.intern("__pregel_push")
"""The first part of the path, and the only trigger, of a task that a packet made."""

INPUT: Final = sys.intern("__input__")
"""Who writes a run's input."""

NO_WRITES: Final = sys.intern("__no_writes__")
"""The write of a task that wrote nothing; it marks the task as done."""

ERROR: Final = sys.intern("__error__")
"""The write that records why a task failed."""

INTERRUPT: Final = sys.intern("__interrupt__")
"""The write, and the result key, of questions that tasks asked."""

RESUME: Final = sys.intern("__resume__")
"""The write that holds the answers to a task's questions."""

HANDED_OVER: Final = sys.intern("__handed_over__")
"""The write that holds the error of a failed task whose error handler runs in its place."""

RESERVED_WRITES: Final = frozenset({NO_WRITES, ERROR, INTERRUPT, RESUME, HANDED_OVER})
"""Writes about a task rather than to a channel."""

ROOT: Final = sys.intern("__root__")
"""The one state channel of a graph whose state is not a class with keys."""


BRANCH: Final = "branch:to:"
"""What the names of the channels that trigger nodes start with."""


def branch_channel(node: str) -> str:
    """The ephemeral channel whose update triggers ``node``."""
    return f"{BRANCH}{node}"


def join_channel(starts: tuple[str, ...], end: str) -> str:
    """The barrier channel that triggers ``end`` once all ``starts`` have run."""
    return f"join:{'+'.join(starts)}:{end}"
