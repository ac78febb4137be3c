"""Writing graphs: state, nodes, edges."""

from typing import TYPE_CHECKING

from phalanx.constants import END, START
from phalanx.graph.later import MESSAGES, hints
from phalanx.graph.state import CompiledStateGraph, StateGraph

if not TYPE_CHECKING:  # type checkers are to know names by themselves
    __getattr__ = hints(__name__, MESSAGES)

__all__ = ["END", "START", "CompiledStateGraph", "StateGraph"]
