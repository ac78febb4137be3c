"""Writing graphs: state, nodes, edges."""

from phalanx.constants import END, START
from phalanx.graph.state import CompiledStateGraph, StateGraph

__all__ = ["END", "START", "CompiledStateGraph", "StateGraph"]
