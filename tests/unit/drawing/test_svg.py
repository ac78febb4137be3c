"""Pictures as SVG documents."""

from typing import Any
from xml.etree import ElementTree

import pytest
from tests.unit.drawing import graphs

SVG = "{http://www.w3.org/2000/svg}"


def parsed(graph: Any, xray: bool = False) -> ElementTree.Element:
    return ElementTree.fromstring(graph.get_graph(xray=xray).draw_svg())


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def lines(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [path for path in root.iter(f"{SVG}path") if path.get("fill") == "none"]


@pytest.mark.parametrize("make", [graphs.chain, graphs.diamond, graphs.loop, graphs.twenty_nodes, graphs.odd_names])
def test_every_edge_is_a_line_dashed_where_it_is_conditional(make: Any) -> None:
    graph = make()
    edges = graph.get_graph().edges
    drawn = lines(parsed(graph))
    assert len(drawn) == len(edges)
    assert ["stroke-dasharray" in line.attrib for line in drawn] == [edge.conditional for edge in edges]


def test_names_labels_and_marks_are_written() -> None:
    assert {"yes", "no", "plan", "merge", "__start__", "__end__"} <= {*texts(parsed(graphs.diamond()))}
    assert "defer" in texts(parsed(graphs.map_reduce()))
    assert "inner graph" in texts(parsed(graphs.with_subgraph(), xray=True))


def test_it_holds_nothing_but_shapes_and_text() -> None:
    root = parsed(graphs.odd_names())
    assert {element.tag for element in root.iter()} == {
        f"{SVG}{tag}" for tag in ("svg", "title", "rect", "g", "text", "path")
    }
    names = {name for element in root.iter() for name in element.attrib}
    assert not [name for name in names if name.startswith("on") or "href" in name or name == "style"]
    assert graphs.ODD_NAMES[0] in texts(root)


def test_everything_lies_on_the_page() -> None:
    root = parsed(graphs.twenty_nodes())
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    for rect in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert left <= x <= x + w <= left + width
        assert top <= y <= y + h <= top + height


def test_nodes_do_not_overlap() -> None:
    root = parsed(graphs.with_subgraph(), xray=True)
    boxes = [
        tuple(float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        for rect in root.iter(f"{SVG}rect")
        if rect.get("stroke-width")
    ]
    assert len(boxes) == 8
    for number, (x, y, w, h) in enumerate(boxes):
        for other_x, other_y, other_w, other_h in boxes[number + 1 :]:
            assert x + w < other_x or other_x + other_w < x or y + h < other_y or other_y + other_h < y
