"""Graphs to draw."""

from itertools import pairwise
from typing import Any, Final

from typing_extensions import TypedDict

from phalanx.graph import END, START, StateGraph

ODD_NAMES: Final = (
    "</text><script>alert(1)</script>",
    'a "quoted" & <b>bold</b> name',
    "end",
    "graph",
    "日本語",
    "two\nlines\x1b[2J",
    "[brackets] (and) {more}",
    "#35;",
    "\u202egnp.exe",
)


class State(TypedDict):
    """What no picture shows."""

    n: int


def work(state: State) -> dict[str, int]:
    """What every node does."""
    return {"n": state["n"]}


def path(state: State) -> str:
    """A path whose answers a map explains."""
    return str(state["n"])


def new(*nodes: str) -> Any:
    """A builder with these nodes, and an edge to the first."""
    builder = StateGraph(State)
    for node in nodes:
        builder.add_node(node, work)
    builder.add_edge(START, nodes[0])
    return builder


def chain() -> Any:
    builder = new("load", "clean", "train")
    builder.add_edge("load", "clean")
    builder.add_edge("clean", "train")
    return builder.compile()


def diamond() -> Any:
    builder = new("plan", "left", "right", "merge")
    builder.add_conditional_edges("plan", path, {"yes": "left", "no": "right"})
    builder.add_edge("left", "merge")
    builder.add_edge("right", "merge")
    return builder.compile()


def loop() -> Any:
    builder = new("write", "review")
    builder.add_edge("write", "review")
    builder.add_conditional_edges("review", path, {"again": "write", "wait": "review", "good": END})
    return builder.compile()


def map_reduce() -> Any:
    builder = new("plan", "work")
    builder.add_node("reduce", work, defer=True)
    builder.add_conditional_edges("plan", path, ["work"])
    builder.add_edge("work", "reduce")
    return builder.compile()


def twenty_nodes() -> Any:
    names = [f"node_{number}" for number in range(20)]
    builder = new(*names)
    for number, (before, after) in enumerate(pairwise(names)):
        if number not in (5, 11):
            builder.add_edge(before, after)
    builder.add_conditional_edges(names[5], path, {"short": names[6], "long": names[12], "retry": names[2]})
    builder.add_conditional_edges(names[15], path, [names[15], names[18]])
    builder.add_edge(names[6], names[10])
    builder.add_edge(names[11], names[19])
    return builder.compile()


def with_subgraph() -> Any:
    builder = new("first", "last")
    builder.add_node("inner graph", diamond())
    builder.add_edge("first", "inner graph")
    builder.add_edge("inner graph", "last")
    builder.add_edge("first", "last")
    return builder.compile()


def odd_names() -> Any:
    builder = new(*ODD_NAMES)
    for before, after in pairwise(ODD_NAMES):
        builder.add_conditional_edges(before, path, {'"]-->|<b>x</b>': after})
    return builder.compile()
