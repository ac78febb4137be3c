"""Pictures of a graph: Mermaid, text, SVG and JSON. Made from its blueprint; nothing of it is run."""

from phalanx.pregel.drawing.graph import Edge, Graph, Node
from phalanx.pregel.drawing.mermaid import CurveStyle, NodeStyles

__all__ = ["CurveStyle", "Edge", "Graph", "Node", "NodeStyles"]
