"""A graph as text. Each line of the layout is one row or column of characters."""

import math
from itertools import pairwise
from typing import Final

from phalanx.pregel.drawing.graph import NESTING, Edge, Graph, Node
from phalanx.pregel.drawing.layout import Box, Measures, Picture, Route, lay_out
from phalanx.pregel.drawing.text import columns_of, shortened, visible, width_of

_CELL: Final = 10.0
"""One row or column, in the layout's units. Lines are at least one cell apart, so that no two share one."""

_LONGEST_NAME: Final = 40
_ARROWS: Final = {(0, 1): "v", (0, -1): "^", (1, 0): ">", (-1, 0): "<"}

Cell = tuple[int, int]


def ascii_of(graph: Graph) -> str:
    """The picture's lines, without spaces at their ends.

    Raises:
        DrawingExtraMissingError: the layout library is not installed.
    """
    measures = Measures(_CELL, _node_size, lambda label: (_CELL * (width_of(_label(label)) + 2), _CELL), _CELL)
    picture = lay_out(graph, measures)
    canvas = _Canvas()
    for box in picture.frames.values():
        _draw_box(canvas, box)
    for edge, route in zip(graph.edges, picture.routes, strict=True):
        _draw_line(canvas, edge, route)
    for node in graph.nodes.values():
        _draw_node(canvas, node, picture.nodes[node.id])
    for route in picture.routes:
        _draw_arrow(canvas, route)
    _draw_labels(canvas, graph, picture)
    for frame, box in picture.frames.items():
        _draw_title(canvas, _name(frame.split(NESTING)[-1]), box)
    return canvas.text()


class _Canvas:
    """Characters by place. A wide one leaves the place to its right empty."""

    def __init__(self) -> None:
        self._cells: dict[Cell, str] = {}

    def put(self, x: int, y: int, char: str) -> None:
        self._cells[x, y] = char

    def write(self, x: int, y: int, text: str) -> None:
        for char in text:
            columns = columns_of(char)
            if not columns:
                self._cells[x - 1, y] = self._cells.get((x - 1, y), " ") + char
            for offset in range(columns):
                self._cells[x + offset, y] = "" if offset else char
            x += columns

    def at(self, x: int, y: int) -> str:
        return self._cells.get((x, y), " ")

    def text(self) -> str:
        rows: dict[int, dict[int, str]] = {}
        for (x, y), char in self._cells.items():
            rows.setdefault(y, {})[x] = char
        if not rows:
            return ""
        left = min(x for x, _ in self._cells)
        lines = (rows.get(y, {}) for y in range(min(rows), max(rows) + 1))
        return "\n".join(
            "".join(row.get(x, " ") for x in range(left, max(row, default=left) + 1)).rstrip() for row in lines
        )


def _cell(point: tuple[float, float]) -> Cell:
    x, y = point
    return math.floor(x / _CELL + 1e-6), math.floor(y / _CELL + 1e-6)


def _name(name: str) -> str:
    return shortened(visible(name), _LONGEST_NAME)


def _label(label: str) -> str:
    return _name(" ".join(label.split()) or label)


def _lines_in(node: Node) -> list[str]:
    return [_name(node.name), *(f"({mark})" for mark in node.marks)]


def _node_size(node: Node, edges: int) -> tuple[float, float]:
    """The size of a node's box. It is an odd number of columns wide, so that it has a middle."""
    lines = _lines_in(node)
    columns = max(*map(width_of, lines), 2 * edges - 1, 1) + 4
    return _CELL * (columns | 1), _CELL * (len(lines) + 2)


def _draw_box(canvas: _Canvas, box: Box) -> tuple[Cell, Cell]:
    (left, top), width, height = _cell((box.left, box.top)), round(box.width / _CELL), round(box.height / _CELL)
    right, bottom = left + width - 1, top + height - 1
    for x in range(left, right + 1):
        canvas.put(x, top, "-")
        canvas.put(x, bottom, "-")
    for y in range(top, bottom + 1):
        canvas.put(left, y, "|")
        canvas.put(right, y, "|")
    for x in (left, right):
        for y in (top, bottom):
            canvas.put(x, y, "+")
    return (left, top), (right, bottom)


def _draw_node(canvas: _Canvas, node: Node, box: Box) -> None:
    (left, top), (right, bottom) = _draw_box(canvas, box)
    for y in range(top + 1, bottom):
        canvas.write(left + 1, y, " " * (right - left - 1))
    for y, line in enumerate(_lines_in(node), top + 1):
        canvas.write(left + 1 + (right - left - 1 - width_of(line)) // 2, y, line)


def _draw_title(canvas: _Canvas, name: str, frame: Box) -> None:
    left, top = _cell((frame.left, frame.top))
    canvas.write(left + 2, top, f" {shortened(name, max(1, round(frame.width / _CELL) - 6))} ")


def _draw_line(canvas: _Canvas, edge: Edge, route: Route) -> None:
    cells = [*map(_cell, route.points)]
    upright, level = (":", ".") if edge.conditional else ("|", "-")
    for (x0, y0), (x1, y1) in pairwise(cells):
        if x0 == x1:
            for y in range(min(y0, y1), max(y0, y1) + 1):
                canvas.put(x0, y, upright)
        else:
            for x in range(min(x0, x1), max(x0, x1) + 1):
                if canvas.at(x, y0) not in ("|", ":"):  # who crosses goes below
                    canvas.put(x, y0, level)
    for x, y in cells[1:-1]:
        canvas.put(x, y, "+")


def _draw_arrow(canvas: _Canvas, route: Route) -> None:
    (x0, y0), (x1, y1) = map(_cell, route.points[-2:])
    dx, dy = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
    inside = (dx, dy) in ((0, 1), (1, 0))  # the right and the bottom border belong to the outside
    if (dx, dy) in _ARROWS:
        x, y = (x1 - dx, y1 - dy) if inside else (x1, y1)
        canvas.put(x, y, _ARROWS[dx, dy])


def _draw_labels(canvas: _Canvas, graph: Graph, picture: Picture) -> None:
    for edge, route in zip(graph.edges, picture.routes, strict=True):
        if edge.data is not None and route.label is not None:
            text = _label(edge.data)
            x, y = _cell((route.label[0] - _CELL * width_of(text) / 2, route.label[1]))
            canvas.write(x, y, text)
