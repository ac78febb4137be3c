"""Pictures of graphs, random and chosen, here and on the installed ``langgraph``: the same nodes, edges and Mermaid."""

# pyright: reportMissingTypeStubs=false

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from tests.differential.random_graphs import Built, GraphPlan, LibraryName, graph_plans
from tests.differential.test_graphs import EXAMPLES, LIBRARIES
from typing_extensions import TypedDict


class State(TypedDict):
    """The state of every chosen graph; no picture shows it."""

    n: int


@dataclass(frozen=True)
class Library:
    """What a graph is built with.

    Attributes:
        graphs: the module of ``StateGraph``.
        types: the module of ``Command``.
    """

    graphs: Any
    types: Any

    @classmethod
    def of(cls, name: LibraryName) -> "Library":
        return cls(importlib.import_module(f"{name}.graph"), importlib.import_module(f"{name}.types"))

    def builder(self, *nodes: str, first: str = "") -> Any:
        """A graph with these nodes, and an edge to the first one."""
        builder = self.graphs.StateGraph(State)
        for node in nodes:
            builder.add_node(node, work)
        if nodes:
            builder.add_edge("__start__", first or nodes[0])
        return builder


def work(state: State) -> Any:
    """What every node does."""
    return {"n": state["n"]}


def anywhere(state: State) -> Any:
    """A path that does not say where it leads."""
    return "b" if state["n"] else "__end__"


def shown(picture: Any) -> dict[str, object]:
    """What a picture holds."""
    return {
        "nodes": {name: node.metadata for name, node in picture.nodes.items()},
        "edges": {(edge.source, edge.target, edge.data, edge.conditional) for edge in picture.edges},
    }


def assert_same_picture(graphs: Sequence[Any], **options: Any) -> None:
    mine, theirs = (graph.get_graph(**options) for graph in graphs)
    assert shown(mine) == shown(theirs)
    for styles in (True, False):
        assert mine.draw_mermaid(with_styles=styles) == theirs.draw_mermaid(with_styles=styles)
    drawn, expected = mine.to_json(), theirs.to_json()
    assert drawn["edges"] == expected["edges"]
    assert [node["id"] for node in drawn["nodes"]] == [node["id"] for node in expected["nodes"]]
    assert [node.get("metadata") for node in drawn["nodes"]] == [node.get("metadata") for node in expected["nodes"]]


# --- chosen graphs ----------------------------------------------------------------------------------------------------


def chain(library: Library) -> Any:
    builder = library.builder("a", "b", "c")
    builder.add_edge("a", "b")
    builder.add_edge("b", "c")
    return builder


def fan_out_and_join(library: Library) -> Any:
    builder = library.builder("a", "b", "c", "d")
    builder.add_edge("a", "b")
    builder.add_edge("a", "c")
    builder.add_edge(["b", "c"], "d")
    return builder


def join_that_never_opens(library: Library) -> Any:
    builder = library.builder("a", "b", "c")
    builder.add_edge(["a", "b"], "c")
    return builder


def labels(library: Library) -> Any:
    builder = library.builder("a", "b", "c")
    builder.add_conditional_edges("a", anywhere, {"go on": "b", "b": "c", True: "__end__", 1.5: "a"})
    builder.add_edge("b", "c")
    return builder


def list_of_ends(library: Library) -> Any:
    builder = library.builder("a", "b")
    builder.add_conditional_edges("a", anywhere, ["b", "__end__"])
    return builder


def conditional_entry(library: Library) -> Any:
    builder = library.graphs.StateGraph(State)
    builder.add_node("a", work)
    builder.add_node("b", work)
    builder.add_conditional_edges("__start__", anywhere, {"x": "a", "y": "b"})
    builder.add_edge("b", "__end__")
    return builder


def long_label(library: Library) -> Any:
    builder = library.builder("a", "b")
    builder.add_conditional_edges("a", anywhere, {"one two three four five six seven eight nine ten eleven": "b"})
    return builder


def loops(library: Library) -> Any:
    builder = library.builder("a", "b", "c")
    builder.add_edge("a", "b")
    builder.add_conditional_edges("b", anywhere, {"again": "a", "stay": "b", "on": "c"})
    builder.add_conditional_edges("c", anywhere, ["c", "a"])
    return builder


def endless_loop(library: Library) -> Any:
    builder = library.builder("a", "b", "c")
    builder.add_edge("a", "b")
    builder.add_edge("b", "c")
    builder.add_edge("c", "a")
    return builder


def deferred(library: Library) -> Any:
    builder = library.builder("a", "b", "c")
    builder.add_node("d", work, defer=True)
    builder.add_edge("a", "b")
    builder.add_edge("b", "c")
    builder.add_edge("a", "d")
    return builder


def deferred_join(library: Library) -> Any:
    builder = library.builder("a", "b", "c")
    builder.add_node("d", work, defer=True, metadata={"team": "blue", "sizes": [1, 2]})
    builder.add_edge("a", "b")
    builder.add_edge("a", "c")
    builder.add_edge(["b", "c"], "d")
    return builder


def unreachable(library: Library) -> Any:
    builder = library.builder("a", "b", "c", "d")
    builder.add_edge("b", "c")
    return builder


def plain_edge_to_the_end_and_elsewhere(library: Library) -> Any:
    builder = library.builder("a", "b")
    builder.add_edge("a", "__end__")
    builder.add_edge("a", "b")
    return builder


def metadata(library: Library) -> Any:
    builder = library.builder("a")
    builder.add_node("b", work, metadata={"team": "blue", "size": 3, "deep": {"x": 1}, "tags": ["p", "q"]})
    builder.add_edge("a", "b")
    return builder


def command_destinations(library: Library) -> Any:
    builder = library.builder("b", "c", first="a")
    builder.add_node("a", work, destinations={"b": "to b", "__end__": "stop"})
    builder.add_node("d", work, destinations=("c", "__end__"))
    builder.add_edge("b", "d")
    return builder


def error_handler(library: Library) -> Any:
    builder = library.builder("b")
    builder.add_node("a", work, error_handler=work)
    builder.add_edge("b", "a")
    return builder


CHOSEN = [
    chain,
    fan_out_and_join,
    join_that_never_opens,
    labels,
    list_of_ends,
    conditional_entry,
    long_label,
    loops,
    endless_loop,
    deferred,
    deferred_join,
    unreachable,
    plain_edge_to_the_end_and_elsewhere,
    metadata,
    command_destinations,
]


@pytest.mark.parametrize("build", CHOSEN, ids=lambda build: str(build.__name__))
def test_chosen_graphs_look_the_same(build: Callable[[Library], Any]) -> None:
    assert_same_picture([build(Library.of(name)).compile() for name in LIBRARIES])


def test_an_error_handler_is_a_node_that_no_edge_reaches() -> None:
    mine, theirs = (error_handler(Library.of(name)).compile().get_graph() for name in LIBRARIES)
    assert shown(mine) == shown(theirs)
    assert "__error_handler__a" in mine.nodes


# --- subgraphs --------------------------------------------------------------------------------------------------------


def nested(library: Library, how: str) -> Any:
    """A graph in a graph in a graph."""
    innermost = fan_out_and_join(library).compile()
    inner_builder = library.builder("x", first="x")
    inner_builder.add_node("deep", innermost)
    inner_builder.add_edge("x", "deep")
    inner = inner_builder.compile()

    def calls(state: State) -> Any:
        return inner.invoke(state)

    class Caller:
        def run(self, state: State) -> Any:
            return inner.invoke(state)

    action: Any = {"itself": inner, "closure": calls, "method": Caller().run}[how]
    builder = library.builder("before", "after")
    builder.add_node("sub", action)
    builder.add_edge("before", "sub")
    builder.add_conditional_edges("sub", anywhere, {"again": "before", "on": "after"})
    return builder.compile()


@pytest.mark.parametrize("how", ["itself", "closure", "method"])
@pytest.mark.parametrize("xray", [False, True, 1, 2])
def test_subgraphs_are_opened_up_the_same(how: str, xray: int | bool) -> None:
    mine, theirs = (nested(Library.of(name), how).get_graph(xray=xray) for name in LIBRARIES)
    assert shown(mine) == shown(theirs)
    assert mine.draw_mermaid() == theirs.draw_mermaid()


def test_the_async_way_gives_the_same_picture() -> None:
    import asyncio

    graph = nested(Library.of("phalanx"), "itself")
    assert asyncio.run(graph.aget_graph(xray=True)) == graph.get_graph(xray=True)


# --- random graphs ----------------------------------------------------------------------------------------------------


def all_mapped(plan: GraphPlan) -> GraphPlan:
    """The same graph, with a path map for every conditional edge."""
    return replace(plan, branches=tuple(replace(branch, mapped=True) for branch in plan.branches))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph_plans().map(all_mapped))
def test_random_graphs_look_the_same(plan: GraphPlan) -> None:
    assert_same_picture([Built(name, plan, keep=False).graph for name in LIBRARIES])


# --- where they differ ------------------------------------------------------------------------------------------------


def test_a_path_that_does_not_say_where_it_leads_is_drawn_to_everywhere_else() -> None:
    mine, theirs = (library.builder("a", "b", "c") for library in map(Library.of, LIBRARIES))
    for builder in (mine, theirs):
        builder.add_conditional_edges("a", anywhere)
    picture, other = mine.compile().get_graph(), theirs.compile().get_graph()
    dashed = {(edge.source, edge.target) for edge in picture.edges if edge.conditional}
    assert dashed == {("a", "b"), ("a", "c"), ("a", "__end__")}
    assert not [edge for edge in other.edges if edge.conditional]
