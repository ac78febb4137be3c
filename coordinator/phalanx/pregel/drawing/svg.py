"""A graph as an SVG document: boxes, rounded lines with arrowheads, labels, frames around subgraphs.

It has no script, no style sheet and no reference to anything outside; whatever a user wrote stands in it as text, which
the XML library escapes. Widths of texts are estimates, for fonts differ; they err on the side of room.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import hypot
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from phalanx.constants import END, START
from phalanx.pregel.drawing.graph import NESTING, Edge, Graph, Node
from phalanx.pregel.drawing.layout import Box, Measures, Point, Route, lay_out
from phalanx.pregel.drawing.text import shortened, visible, width_of

_UNIT: Final = 16.0
_MARGIN: Final = 16.0
_FONT_PX: Final = 14
_SMALL_PX: Final = 11
_COLUMN: Final = 0.62
"""The width of a column, as a part of the font's size."""

_LONGEST_NAME: Final = 60
_LINE_HEIGHT: Final = 18.0
_CORNER: Final = 6.0
_FONT: Final = "ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif"
_INK: Final = "#1f2937"
_LINE: Final = "#4b5563"
_FAINT: Final = "#6b7280"


def svg_of(graph: Graph) -> str:
    """The document's text.

    Raises:
        DrawingExtraMissingError: the layout library is not installed.
    """
    picture = lay_out(graph, Measures(_UNIT, _node_size, _label_size, 1.25 * _UNIT))
    width, height = (length + 2 * _MARGIN for length in picture.size)
    page = Box(-_MARGIN, -_MARGIN, width, height)
    root = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img"})
    root.attrib |= {"width": _number(width), "height": _number(height)}
    root.attrib |= {"viewBox": f"{_place((page.left, page.top))} {_place((width, height))}"}
    root.attrib |= {"font-family": _FONT, "font-size": str(_FONT_PX)}
    _title(root, f"{len(graph.nodes)} nodes, {len(graph.edges)} edges")
    _rect(root, page, 0, fill="#ffffff")
    for frame, box in picture.frames.items():
        _draw_frame(root, frame.split(NESTING)[-1], box)
    for edge, route in zip(graph.edges, picture.routes, strict=True):
        _draw_line(root, edge, route)
    for node in graph.nodes.values():
        _draw_node(root, node, picture.nodes[node.id])
    for edge, route in zip(graph.edges, picture.routes, strict=True):
        _draw_label(root, edge, route)
    ElementTree.indent(root, space=" ")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


# --- sizes ------------------------------------------------------------------------------------------------------------


def _node_size(node: Node, edges: int) -> tuple[float, float]:
    name = width_of(_shown(node.name)) * _COLUMN * _FONT_PX
    marks = [width_of(mark) * _COLUMN * _SMALL_PX for mark in node.marks]
    return max(name, *marks, 2 * _UNIT * (edges - 1), 24) + 28, 36 + _LINE_HEIGHT * len(marks)


def _label_size(label: str) -> tuple[float, float]:
    return width_of(_shown(label)) * _COLUMN * _SMALL_PX + 8, _LINE_HEIGHT


def _shown(text: str) -> str:
    return shortened(visible(" ".join(text.split()) or text), _LONGEST_NAME)


# --- parts ------------------------------------------------------------------------------------------------------------


def _draw_frame(root: Element, name: str, box: Box) -> None:
    group = _group(root)
    _rect(group, box, 8, fill="#f9fafb", stroke="#9ca3af")
    _text(group, (box.left + 10, box.top + 16), _shown(name), size=_SMALL_PX, fill=_FAINT)


def _draw_node(root: Element, node: Node, box: Box) -> None:
    group = _group(root, **{"text-anchor": "middle"})
    is_end = node.name in (START, END)
    _title(group, node.id)
    look = {"fill": "#ffffff" if is_end else "#f2f0ff", "stroke": "#6d5bd0", "stroke-width": "1.2"}
    _rect(group, box, box.height / 2 if is_end else 6, **look)
    x, y = box.center
    y += 5 - _LINE_HEIGHT / 2 * len(node.marks)
    _text(group, (x, y), _shown(node.name), fill=_INK)
    for number, mark in enumerate(node.marks, 1):
        place = (x, y + number * _LINE_HEIGHT - 1)
        _text(group, place, mark, size=_SMALL_PX, fill=_FAINT, **{"font-style": "italic"})


def _draw_line(root: Element, edge: Edge, route: Route) -> None:
    group = _group(root)
    _title(group, f"{edge.source} to {edge.target}")
    dashes = {"stroke-dasharray": "5 4"} if edge.conditional else {}
    look = {"fill": "none", "stroke": _LINE, "stroke-width": "1.4", **dashes}
    ElementTree.SubElement(group, "path", {"d": _path(route.points), **look})
    ElementTree.SubElement(group, "path", {"d": _arrowhead(route), "fill": _LINE})


def _draw_label(root: Element, edge: Edge, route: Route) -> None:
    if edge.data is None or route.label is None:
        return
    group = _group(root, **{"text-anchor": "middle"})
    width, height = _label_size(edge.data)
    x, y = route.label
    _rect(group, Box(x - width / 2, y - height / 2, width, height), 3, fill="#ffffff", **{"fill-opacity": "0.85"})
    _text(group, (x, y + 4), _shown(edge.data), size=_SMALL_PX, fill=_INK)


# --- elements ---------------------------------------------------------------------------------------------------------


def _group(parent: Element, **attributes: str) -> Element:
    return ElementTree.SubElement(parent, "g", attributes)


def _title(parent: Element, text: str) -> None:
    ElementTree.SubElement(parent, "title").text = visible(text)


def _rect(parent: Element, box: Box, radius: float, **attributes: str) -> None:
    numbers = {"x": box.left, "y": box.top, "width": box.width, "height": box.height, "rx": radius}
    ElementTree.SubElement(parent, "rect", {name: _number(value) for name, value in numbers.items()} | attributes)


def _text(parent: Element, place: Point, text: str, *, size: int = _FONT_PX, **attributes: str) -> None:
    where = {"x": _number(place[0]), "y": _number(place[1]), "font-size": str(size)}
    ElementTree.SubElement(parent, "text", where | attributes).text = text


def _path(points: Sequence[Point]) -> str:
    """A line through points, its corners rounded."""
    parts = [f"M{_place(points[0])}"]
    for (before, corner), (_, after) in pairwise(pairwise(points)):
        parts.append(f"L{_place(_towards(corner, before))}Q{_place(corner)} {_place(_towards(corner, after))}")
    return "".join([*parts, f"L{_place(points[-1])}"])


def _towards(corner: Point, other: Point) -> Point:
    """A point beside a corner, on the way to the next one."""
    dx, dy = other[0] - corner[0], other[1] - corner[1]
    length = hypot(dx, dy)
    part = min(_CORNER, length / 2) / length if length else 0.0
    return corner[0] + dx * part, corner[1] + dy * part


def _arrowhead(route: Route) -> str:
    (x0, y0), (x1, y1) = route.points[-2:]
    length = hypot(x1 - x0, y1 - y0) or 1.0
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    x, y = x1 - 8 * dx, y1 - 8 * dy
    return f"M{_place((x1, y1))}L{_place((x - 4 * dy, y + 4 * dx))}L{_place((x + 4 * dy, y - 4 * dx))}Z"


def _place(point: Point) -> str:
    return f"{_number(point[0])} {_number(point[1])}"


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
