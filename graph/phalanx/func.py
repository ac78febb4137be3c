"""Graphs written as functions, ``@task`` and ``@entrypoint``: not there yet."""

from typing import TYPE_CHECKING, Final

from phalanx.graph.later import hints

_INSTEAD: Final = "write a StateGraph: a node for each task, a Send for each call that may run beside others"

if not TYPE_CHECKING:  # type checkers are to know names by themselves
    __getattr__ = hints(__name__, dict.fromkeys(("entrypoint", "task"), _INSTEAD))
