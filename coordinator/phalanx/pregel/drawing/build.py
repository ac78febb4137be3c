"""From a compiled graph to its picture."""

from collections.abc import Collection
from typing import Any

from phalanx.constants import END, START
from phalanx.pregel.drawing.dry_run import DryRun, dry_run
from phalanx.pregel.drawing.graph import Edge, Graph, Node
from phalanx.pregel.nested import nested_graph
from phalanx.pregel.pregel import Pregel
from phalanx.worker import blueprint as blueprints


def picture_of(graph: Pregel, xray: int | bool = False, *, inside: tuple[blueprints.Blueprint, ...] = ()) -> Graph:
    """What a graph looks like.

    Args:
        graph: the graph.
        xray: how many levels of subgraphs are opened up; ``True`` for all.
        inside: the graphs that this one is drawn in; a graph that refers to itself is not opened up again.
    """
    picture = Graph()
    for node in graph.blueprint.nodes.values():
        picture.add_node(_node_of(node, _stops(graph, node.name)))
    _add_edges(picture, dry_run(graph.blueprint))
    if xray:
        around = (*inside, graph.blueprint)
        deeper = xray if isinstance(xray, bool) or xray < 0 else xray - 1
        for node in graph.blueprint.nodes.values():
            inner = nested_graph(node)
            if inner is not None and not any(inner.blueprint is known for known in around):
                picture.expand(node.name, picture_of(inner, deeper, inside=around))
    return picture


def _node_of(node: blueprints.Node, stops: str) -> Node:
    metadata: dict[str, Any] = dict(node.metadata)
    if node.deferred:
        metadata["defer"] = True
    if stops:
        metadata["__interrupt"] = stops
    return Node(node.name, node.name, node.actions[0].source if node.actions else None, metadata or None)


def _stops(graph: Pregel, name: str) -> str:
    """Whether the graph's runs stop before or after a node; a graph may have no such setting."""

    def among(stops: Collection[str]) -> bool:
        return name != START if stops == "*" else name in stops

    settings = {word: getattr(graph, f"interrupt_{word}_nodes", ()) for word in ("before", "after")}
    return ",".join(word for word, stops in settings.items() if among(stops))


def _add_edges(picture: Graph, found: DryRun) -> None:
    if START not in picture.nodes:
        picture.add_node(Node(START, START))
        for name in found.first:
            picture.add_edge(Edge(START, name))
    ways = found.ordered
    for source, target, conditional, label in ways:
        _add_edge(picture, Edge(source, target, label, conditional))
    dead_ends = {way.target for way in ways} - {way.source for way in ways} - {END}
    for name in sorted(dead_ends):
        _add_edge(picture, Edge(name, END))
    if not dead_ends and len(found.last) == 1 and all(way.target != END for way in ways):
        _add_edge(picture, Edge(found.last[0], END, conditional=True))  # an endless loop, or a graph of one node


def _add_edge(picture: Graph, edge: Edge) -> None:
    if edge.target == END and END not in picture.nodes:
        picture.add_node(Node(END, END))
    picture.add_edge(edge)
