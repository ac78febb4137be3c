"""A graph to look at: nodes and edges with labels, and the ways to draw them."""

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from phalanx.pregel.drawing.mermaid import CurveStyle, MermaidStyle, NodeStyles, mermaid_of
from phalanx.worker.functions import name_of

Json = dict[str, Any]

NESTING = ":"
"""What stands in an id between a subgraph's node and a node in it. Names of nodes hold none."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node.

    Attributes:
        id: unique in the picture; for a node of a subgraph, ``subgraph:node``.
        name: what is shown.
        data: what it runs; ``None`` where the graph starts and ends.
        metadata: the node's own, with ``defer`` and ``__interrupt`` where they apply; ``None`` if there is nothing.
    """

    id: str
    name: str
    data: object = None
    metadata: Mapping[str, Any] | None = None

    @property
    def marks(self) -> list[str]:
        """What a picture says about the node besides its name."""
        given = self.metadata or {}
        stops = [f"interrupt {given['__interrupt']}"] if given.get("__interrupt") else []
        return [*(["defer"] if given.get("defer") is True else []), *stops]


@dataclass(frozen=True, slots=True)
class Edge:
    """A way from one node to another.

    Attributes:
        source, target: ids of nodes.
        data: its label.
        conditional: whether it is only taken sometimes.
    """

    source: str
    target: str
    data: str | None = None
    conditional: bool = False


@dataclass
class Graph:
    """Nodes by id, and edges. What ``get_graph`` returns.

    Example:
        >>> print(graph.get_graph().draw_mermaid(with_styles=False))
        graph TD;
            __start__ --> plan;
            plan -.-> work;
            work --> __end__;
    """

    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    edges: list[Edge] = field(default_factory=list[Edge])

    def __bool__(self) -> bool:
        return bool(self.nodes)

    # --- looking ------------------------------------------------------------------------------------------------------

    def first_node(self, *, without: Collection[str] = ()) -> Node | None:
        """The only node that no edge leads to; ``None`` if there is none or are several.

        Args:
            without: ids of nodes that are left out of account, with their edges.
        """
        reached = {edge.target for edge in self.edges if edge.source not in without}
        return self._only(lambda node: node.id not in reached and node.id not in without)

    def last_node(self, *, without: Collection[str] = ()) -> Node | None:
        """The only node that no edge leaves; ``None`` if there is none or are several."""
        left = {edge.source for edge in self.edges if edge.target not in without}
        return self._only(lambda node: node.id not in left and node.id not in without)

    def _only(self, wanted: Callable[[Node], bool]) -> Node | None:
        found = [node for node in self.nodes.values() if wanted(node)]
        return found[0] if len(found) == 1 else None

    # --- building -----------------------------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Add a node.

        Raises:
            ValueError: its id is taken.
        """
        if node.id in self.nodes:
            raise ValueError(f"the picture already has a node with the id {node.id!r}")
        self.nodes[node.id] = node

    def add_edge(self, edge: Edge) -> None:
        """Add an edge, unless the two nodes are joined already: one line says it all."""
        if not any((known.source, known.target) == (edge.source, edge.target) for known in self.edges):
            self.edges.append(edge)

    def remove_node(self, node: Node) -> None:
        """Take a node out, with its edges."""
        del self.nodes[node.id]
        self.edges = [edge for edge in self.edges if node.id not in (edge.source, edge.target)]

    def trim_first_node(self) -> None:
        """Take the first node out if exactly one edge leaves it, to another node that is then the first."""
        first = self.first_node()
        if first and self.first_node(without=[first.id]) and sum(edge.source == first.id for edge in self.edges) == 1:
            self.remove_node(first)

    def trim_last_node(self) -> None:
        """Take the last node out if exactly one edge leads to it, from another node that is then the last."""
        last = self.last_node()
        if last and self.last_node(without=[last.id]) and sum(edge.target == last.id for edge in self.edges) == 1:
            self.remove_node(last)

    def expand(self, name: str, inner: "Graph") -> None:
        """Put a subgraph in the place of the node that runs it.

        Nothing happens if the subgraph has no one way in or no one way out: the edges would not know where to lead.
        """
        if len(inner.nodes) < 2 or name not in self.nodes or not inner.first_node() or not inner.last_node():
            return
        inner.trim_first_node()
        inner.trim_last_node()
        first, last = inner.first_node(), inner.last_node()
        if first is None or last is None:
            return

        def within(id_: str) -> str:
            return f"{name}{NESTING}{id_}"

        del self.nodes[name]
        for node in inner.nodes.values():
            self.nodes[within(node.id)] = replace(node, id=within(node.id))
        moved = [
            replace(
                edge,
                source=within(last.id) if edge.source == name else edge.source,
                target=within(first.id) if edge.target == name else edge.target,
            )
            for edge in self.edges
        ]
        self.edges = [
            *moved,
            *(replace(edge, source=within(edge.source), target=within(edge.target)) for edge in inner.edges),
        ]

    # --- drawing ------------------------------------------------------------------------------------------------------

    def draw_mermaid(
        self,
        *,
        with_styles: bool = True,
        curve_style: CurveStyle | str = CurveStyle.LINEAR,
        node_colors: NodeStyles | None = None,
        wrap_label_n_words: int = 9,
        frontmatter_config: Mapping[str, Any] | None = None,
    ) -> str:
        """The graph as the text of a Mermaid flowchart.

        Args:
            with_styles: with the shapes and colours of nodes, their metadata, and a header; otherwise edges alone.
            curve_style: how edges bend.
            node_colors: the styles of ordinary nodes, and of the first and the last one.
            wrap_label_n_words: how many words of an edge's label stand on one line.
            frontmatter_config: settings for Mermaid's header, such as ``{"config": {"theme": "neutral"}}``.
        """
        style = MermaidStyle(
            with_styles, curve_style, node_colors or NodeStyles(), wrap_label_n_words, frontmatter_config or {}
        )
        return mermaid_of(self, style)

    def draw_ascii(self) -> str:
        """The graph as text for a terminal: ``|`` and ``-`` for edges, ``:`` and ``.`` for conditional ones.

        Raises:
            DrawingExtraMissingError: the extra ``draw`` is not installed.
        """
        from phalanx.pregel.drawing.ascii import ascii_of  # with it comes the layout library, an extra

        return ascii_of(self)

    def print_ascii(self) -> None:
        """Write what :meth:`draw_ascii` returns to standard output."""
        sys.stdout.write(f"{self.draw_ascii()}\n")

    def draw_svg(self) -> str:
        """The graph as an SVG document that refers to nothing outside; conditional edges are dashed.

        Raises:
            DrawingExtraMissingError: the extra ``draw`` is not installed.
        """
        from phalanx.pregel.drawing.svg import svg_of

        return svg_of(self)

    def to_json(self) -> dict[str, list[Json]]:
        """The graph as values that ``json.dumps`` takes: ``nodes`` and ``edges``. Metadata is given as it is."""
        return {
            "nodes": [_node_json(node) for node in self.nodes.values()],
            "edges": [_edge_json(edge) for edge in self.edges],
        }


def _node_json(node: Node) -> Json:
    found: Json = {"id": node.id}
    if node.data is not None:
        code = node.data if hasattr(node.data, "__qualname__") else type(node.data)
        where = [*str(getattr(code, "__module__", "")).split("."), getattr(code, "__qualname__", name_of(code))]
        found |= {"type": "runnable", "data": {"id": where, "name": node.id}}
    return found | ({"metadata": dict(node.metadata)} if node.metadata is not None else {})


def _edge_json(edge: Edge) -> Json:
    label: Json = {} if edge.data is None else {"data": edge.data}
    return {
        "source": edge.source,
        "target": edge.target,
        **label,
        **({"conditional": True} if edge.conditional else {}),
    }
