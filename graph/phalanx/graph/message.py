"""States that are lists of messages: not there yet."""

from typing import TYPE_CHECKING

from phalanx.graph.later import MESSAGES, hints

if not TYPE_CHECKING:  # type checkers are to know names by themselves
    __getattr__ = hints(__name__, MESSAGES)
