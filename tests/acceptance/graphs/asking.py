"""Graphs that ask, over real worker processes. They note what ran as those beside them do."""

# pyright: reportTypedDictNotRequiredAccess=false

from pathlib import Path
from typing import Any

from tests.acceptance.graphs.nested import State, inside, note, row, says, wait_for

from phalanx.graph import StateGraph
from phalanx.types import interrupt


def asks(state: State) -> State:
    note(state, "asks")
    return {"log": [f"answer: {interrupt('name?')}"]}


def asks_twice(state: State) -> State:
    first = interrupt("first?")
    return {"log": [f"answers: {first}, {interrupt('second?')}"]}


_asking = inside(before=None, asks=asks, after=None)


def calls(state: State) -> State:
    """Calls a graph that asks."""
    note(state, "calls")
    return {"log": [*_asking.invoke({"folder": state["folder"]})["log"]]}


def waits(state: State) -> State:
    """Waits until it may go on."""
    note(state, "waits")
    wait_for((Path(state["folder"]) / "go").exists)
    return {"log": ["waited"]}


def _several() -> StateGraph[Any]:
    builder = row(plan=None)
    builder.add_node("deep", inside(one=inside(two=_asking)))
    builder.add_node("calls", calls)
    builder.add_node("twice", inside(asks_twice=asks_twice))
    builder.add_node("quiet", says("quiet"))
    builder.add_node("end", says("end"))
    for name in ("deep", "calls", "twice", "quiet"):
        builder.add_edge("plan", name)
    builder.add_edge(["deep", "calls", "twice", "quiet"], "end")
    return builder


three_deep = row(first=None, deep=inside(one=inside(two=_asking)), last=None).compile(name="three_deep")
in_function = row(first=None, calls=calls, last=None).compile(name="in_function")
several = _several().compile(name="several")
stopping = row(
    a=None, graph=row(x=None, y=None, z=None).compile(interrupt_before=["y"], interrupt_after=["y"]), b=None
).compile(name="stopping", interrupt_before=["b"])
busy = row(a=None, waits=inside(waits=waits), b=None).compile(name="busy")
plain = row(a=None, b=inside(x=None, y=None), c=None).compile(name="plain")
