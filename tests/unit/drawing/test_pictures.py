"""From a graph to its picture: nodes, edges, and the graphs inside nodes."""

import functools
import sys
from itertools import pairwise
from typing import Any

import pytest
from tests.unit.drawing import graphs

from phalanx.graph import END, START, StateGraph
from phalanx.pregel.drawing import Edge, Graph, Node
from phalanx.pregel.drawing.layout import DrawingExtraMissingError

INNER = graphs.chain()


def opened(action: Any) -> bool:
    """Whether a node with this action is opened up."""
    builder = StateGraph(graphs.State)
    builder.add_node("node", action)
    builder.add_edge(START, "node")
    return "node:load" in builder.compile().get_graph(xray=True).nodes


def edges(graph: Any, **options: Any) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in graph.get_graph(**options).edges}


# --- nodes and edges --------------------------------------------------------------------------------------------------


def test_a_picture_holds_labels_marks_and_what_nodes_run() -> None:
    picture = graphs.diamond().get_graph()
    assert Edge("plan", "left", "yes", conditional=True) in picture.edges
    assert picture.nodes["plan"].data is graphs.work
    assert picture.nodes[START].data is None
    assert graphs.map_reduce().get_graph().nodes["reduce"] == Node("reduce", "reduce", graphs.work, {"defer": True})


def test_a_node_where_runs_stop_is_marked() -> None:
    graph = graphs.chain()
    graph.interrupt_before_nodes = "*"
    graph.interrupt_after_nodes = ["load"]
    picture = graph.get_graph()
    assert picture.nodes["load"].marks == ["interrupt before,after"]
    assert picture.nodes["clean"].metadata == {"__interrupt": "before"}
    assert picture.nodes[START].metadata is None


def test_a_chain_longer_than_a_loop_is_followed_is_drawn_whole() -> None:
    names = [f"n{number}" for number in range(400)]
    builder = graphs.new(*names)
    for before, after in pairwise(names):
        builder.add_edge(before, after)
    assert len(edges(builder.compile())) == 401


def test_the_picture_does_not_change_the_graph() -> None:
    graph = graphs.with_subgraph()
    assert graph.get_graph(xray=True) == graph.get_graph(xray=True)
    assert edges(graph) == {
        (START, "first"),
        ("first", "inner graph"),
        ("first", "last"),
        ("inner graph", "last"),
        ("last", END),
    }


def test_json_says_where_a_nodes_code_is() -> None:
    drawn = graphs.loop().get_graph().to_json()
    assert drawn["nodes"][1] == {
        "id": "write",
        "type": "runnable",
        "data": {"id": ["tests", "unit", "drawing", "graphs", "work"], "name": "write"},
    }
    assert drawn["nodes"][0] == {"id": START}
    assert {"source": "review", "target": "write", "data": "again", "conditional": True} in drawn["edges"]


def test_an_id_can_be_taken_only_once() -> None:
    picture = Graph({"a": Node("a", "a")})
    with pytest.raises(ValueError, match="already has a node with the id 'a'"):
        picture.add_node(Node("a", "a"))


# --- graphs inside nodes ----------------------------------------------------------------------------------------------


def calls_a_global(state: graphs.State) -> Any:
    return INNER.invoke(state)


async def calls_in_a_nested_function(state: graphs.State) -> Any:
    async def call() -> Any:
        return await INNER.ainvoke(state)

    return await call()


def calls_an_attribute_of_a_module(state: graphs.State) -> Any:
    return sys.modules and HOLDER.graph.invoke(state)


class Holder:
    """Something that holds a graph."""

    def __init__(self, graph: Any = None) -> None:
        self.graph = graph

    def run(self, state: graphs.State) -> Any:
        return self.graph.invoke(state)

    def __call__(self, state: graphs.State) -> Any:
        return self.graph.invoke(state)


HOLDER = Holder(INNER)
PARTIALS: list[Any] = [functools.partial(calls_a_global), functools.partial(HOLDER.run)]


def with_closure() -> Any:
    inner = INNER

    @functools.wraps(graphs.work)
    def call(state: graphs.State) -> Any:
        return inner.invoke(state)

    return call


@pytest.mark.parametrize(
    "action",
    [
        INNER,
        calls_a_global,
        calls_in_a_nested_function,
        calls_an_attribute_of_a_module,
        HOLDER.run,
        HOLDER,
        with_closure(),
        *PARTIALS,
        INNER.invoke,
    ],
)
def test_a_graph_is_found_in(action: Any) -> None:
    assert opened(action)


class Awkward:
    """A callable without a code object, and with attributes that must not be touched."""

    def __getattr__(self, name: str) -> Any:
        if name in ("steps", "first", "middle", "last", "bound", "afunc", "graph"):
            raise RuntimeError("nobody may ask")
        raise AttributeError(name)

    @property
    def func(self) -> Any:
        raise RuntimeError("nobody may ask")

    def __call__(self, state: graphs.State) -> Any:
        return state


@pytest.mark.parametrize("action", [len, "".join, Awkward(), functools.partial(len), graphs.work, str.upper, Holder])
def test_no_graph_is_found_in_and_nothing_breaks(action: Any) -> None:
    assert not opened(action)


def test_a_graph_that_refers_to_itself_is_not_opened_up_without_end() -> None:
    def recursive(state: graphs.State) -> Any:
        return made.invoke(state)

    builder = StateGraph(graphs.State)
    builder.add_node("node", recursive)
    builder.add_edge(START, "node")
    made = builder.compile()
    assert [*made.get_graph(xray=True).nodes] == [START, "node", END]


def test_levels_are_opened_one_by_one() -> None:
    def around(inner: Any) -> Any:
        builder = graphs.new("before")
        builder.add_node("sub", inner)
        builder.add_edge("before", "sub")
        return builder.compile()

    graph = around(around(INNER))
    assert "sub:sub" in graph.get_graph(xray=1).nodes
    assert "sub:sub:load" in graph.get_graph(xray=2).nodes
    assert graph.get_graph(xray=2) == graph.get_graph(xray=True)


# --- the extra --------------------------------------------------------------------------------------------------------


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphlay", None)
    picture = graphs.chain().get_graph()
    assert picture.draw_mermaid()
    for draw in (picture.draw_ascii, picture.draw_svg):
        with pytest.raises(DrawingExtraMissingError, match=r"pip install 'phalanx\[draw\]'"):
            draw()
