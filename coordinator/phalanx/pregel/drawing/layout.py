"""Where nodes and edges go. The one module that knows the layout library, graphlay: layers, with edges at right angles.

The picture's top left corner is (0, 0); y grows downwards. Units are the caller's.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.errors import PhalanxError
from phalanx.pregel.drawing.graph import NESTING, Edge, Graph, Node

Point = tuple[float, float]


class DrawingExtraMissingError(PhalanxError, ImportError):
    """A picture was asked for that needs the extra ``draw``, which is not installed."""

    def __str__(self) -> str:
        return "drawing as text or SVG needs a layout library: pip install 'phalanx[draw]'"


@dataclass(frozen=True, slots=True)
class Box:
    """A node's or a subgraph's place."""

    left: float
    top: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def center(self) -> Point:
        return self.left + self.width / 2, self.top + self.height / 2

    def shrunk(self, room: float) -> "Box":
        """The same without some room above and below, where lines may pass."""
        return Box(self.left, self.top + room, self.width, self.height - 2 * room)

    def nearest(self, point: Point) -> Point:
        """The point of the box that is nearest to ``point``."""
        x, y = point
        return min(max(x, self.left), self.right), min(max(y, self.top), self.bottom)


@dataclass(frozen=True, slots=True)
class Route:
    """An edge's way, from border to border.

    Attributes:
        points: its ends and its corners.
        label: the middle of its label, if it has one.
    """

    points: tuple[Point, ...]
    label: Point | None


@dataclass(frozen=True, slots=True)
class Picture:
    """A graph that was laid out.

    Attributes:
        size: width and height of all of it.
        nodes: by id.
        frames: around subgraphs, outermost first, by the ids of the nodes they replace.
        routes: one an edge, in their order.
    """

    size: tuple[float, float]
    nodes: Mapping[str, Box]
    frames: Mapping[str, Box]
    routes: tuple[Route, ...]


@dataclass(frozen=True, slots=True)
class Measures:
    """How much room things take.

    Attributes:
        unit: the least room between two lines.
        node: the size of a node.
        label: the size of a label.
        frame_title: the height of a subgraph's title.
    """

    unit: float
    node: Callable[[Node, int], tuple[float, float]]
    label: Callable[[str], tuple[float, float]]
    frame_title: float


def lay_out(graph: Graph, measures: Measures) -> Picture:
    """Place the nodes and route the edges of a graph. The same graph is always laid out the same.

    Raises:
        DrawingExtraMissingError: the layout library is not installed.
    """
    try:
        import graphlay
    except ImportError as error:
        raise DrawingExtraMissingError from error
    frames = [*_frames(graph)]
    index = {name: place for place, name in enumerate([*graph.nodes, *(f"{frame}{NESTING}" for frame in frames)])}
    request = {
        "nodes": [
            *(_node_request(node, measures, _lines_at(graph, node), index) for node in graph.nodes.values()),
            *({"size": {"width": 1, "height": 1}, **_parent(frame, index)} for frame in frames),
        ],
        "edges": [_edge_request(edge, measures, index) for edge in graph.edges],
    }
    found: dict[str, Any] = graphlay.layout(request, preset="layered", options=_options(measures)).raw
    boxes = [*map(_box, found["nodes"])]
    nodes = {id_: box.shrunk(measures.unit) for id_, box in zip(graph.nodes, boxes, strict=False)}
    routes = [_route(route, edge, nodes) for route, edge in zip(found["edges"], graph.edges, strict=True)]
    return _moved_to_origin(
        nodes,
        {name: box.shrunk(measures.unit) for name, box in zip(frames, boxes[len(graph.nodes) :], strict=True)},
        routes,
        [measures.label(edge.data) if edge.data is not None else (0.0, 0.0) for edge in graph.edges],
    )


def _frames(graph: Graph) -> Iterable[str]:
    """The subgraphs, outermost first."""
    found: dict[str, None] = {}
    for id_ in graph.nodes:
        parts = id_.split(NESTING)
        for depth in range(1, len(parts)):
            found[NESTING.join(parts[:depth])] = None
    return sorted(found, key=lambda frame: frame.count(NESTING))


def _lines_at(graph: Graph, node: Node) -> int:
    """How many edges meet at the busier side of a node."""
    leaving = sum(edge.source == node.id for edge in graph.edges)
    arriving = sum(edge.target == node.id for edge in graph.edges)
    return max(leaving, arriving)


def _node_request(node: Node, measures: Measures, lines: int, index: Mapping[str, int]) -> dict[str, Any]:
    width, height = measures.node(node, lines)
    height += 2 * measures.unit  # for arrowheads, which no corner may touch
    return {"size": {"width": width, "height": height}, **_parent(node.id, index)}


def _parent(id_: str, index: Mapping[str, int]) -> dict[str, int]:
    around, nested, _ = id_.rpartition(NESTING)
    return {"parent": index[f"{around}{NESTING}"]} if nested else {}


def _edge_request(edge: Edge, measures: Measures, index: Mapping[str, int]) -> dict[str, Any]:
    ends = {"source": index[edge.source], "target": index[edge.target], "weight": 1.0}
    if edge.data is None:
        return ends
    width, height = measures.label(edge.data)
    return {**ends, "label_size": {"width": width, "height": height}}


def _options(measures: Measures) -> dict[str, Any]:
    unit = measures.unit
    return {
        "direction": "topbottom",
        "spacing": {
            "layer_gap": unit,
            "node_gap": 3 * unit,
            "dummy_gap": 2 * unit,
            "port_gap": 2 * unit,
            "port_stroke_clear": unit,
            "stub": unit,
            "bundle_lane_gap": unit,
            "self_loop_gap": unit,
            "edge_label_margin": unit,
            "edge_label_stack_gap": unit,
            "reroute_node_gap": 3 * unit,
            "isolated_gap": 3 * unit,
            "compound_padding": 2 * unit,
            "compound_header": measures.frame_title,
        },
        "routing": {"lane_gap": unit, "port_sides": "facing_only", "bundle_parallel": False},
        "self_loops": {"size": 2 * unit, "gap": unit, "label_gap": unit, "side": "cross_positive"},
        "labels": {"reservation": "always", "clearance": 0.0},
    }


def _box(found: Mapping[str, Any]) -> Box:
    (x, y), (width, height) = _pair(found["center"], "xy"), _pair(found["size"], ("width", "height"))
    return Box(x - width / 2, y - height / 2, width, height)


def _route(found: Mapping[str, Any], edge: Edge, nodes: Mapping[str, Box]) -> Route:
    points = [_pair(point, "xy") for point in found["points"]]
    source, target = nodes[edge.source], nodes[edge.target]
    if edge.source == edge.target:  # beside the node
        sides = source.shrunk(source.height / 5)
        points = [(x, sides.nearest((x, y))[1]) for x, y in points]
    else:
        points[0], points[-1] = source.nearest(points[0]), target.nearest(points[-1])
    anchor = found["label_anchor"]
    return Route(tuple(points), _pair(anchor, "xy") if anchor and edge.data is not None else None)


def _pair(found: Mapping[str, float], names: Iterable[str]) -> Point:
    first, second = (found[name] for name in names)
    return first, second


def _moved_to_origin(
    nodes: Mapping[str, Box], frames: Mapping[str, Box], routes: list[Route], labels: list[Point]
) -> Picture:
    boxes = [*nodes.values(), *frames.values(), *_label_boxes(routes, labels)]
    points = [point for route in routes for point in route.points]
    left = min([box.left for box in boxes] + [x for x, _ in points], default=0.0)
    top = min([box.top for box in boxes] + [y for _, y in points], default=0.0)
    right = max([box.right for box in boxes] + [x for x, _ in points], default=0.0)
    bottom = max([box.bottom for box in boxes] + [y for _, y in points], default=0.0)

    def moved(point: Point) -> Point:
        return point[0] - left, point[1] - top

    def moved_box(box: Box) -> Box:
        return Box(box.left - left, box.top - top, box.width, box.height)

    return Picture(
        (right - left, bottom - top),
        {name: moved_box(box) for name, box in nodes.items()},
        {name: moved_box(box) for name, box in frames.items()},
        tuple(Route(tuple(map(moved, route.points)), moved(route.label) if route.label else None) for route in routes),
    )


def _label_boxes(routes: Iterable[Route], labels: Iterable[Point]) -> Iterator[Box]:
    for route, (width, height) in zip(routes, labels, strict=True):
        if route.label:
            yield Box(route.label[0] - width / 2, route.label[1] - height / 2, width, height)
