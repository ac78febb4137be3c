"""The graphs that are measured. `build` makes one from either package, so that both run the very same functions."""

import importlib
import operator
from typing import Annotated, Any, TypedDict

from phalanx.graph import START, StateGraph
from phalanx.types import Send


class Count(TypedDict, total=False):
    """How often, and how often so far."""

    n: int
    total: Annotated[int, operator.add]


def fan_out(state: Count) -> list[Send]:
    """One packet for each of `n`."""
    return [Send("noop", number) for number in range(state.get("n", 0))]


def noop(number: int) -> dict[str, int]:
    """Nothing but one more."""
    return {"total": 1}


builder = StateGraph(Count)
builder.add_node("noop", noop)
builder.add_conditional_edges(START, fan_out, ["noop"])
sends = builder.compile(name="sends")


def step(state: Count) -> dict[str, int]:
    """One more."""
    return {"total": 1}


def again(state: Count) -> str:
    """Back, until it was often enough."""
    return "step" if state.get("total", 0) < state.get("n", 0) else "__end__"


def loop_graph(package: str) -> Any:
    """A node that runs until a count is reached, built with `phalanx` or `langgraph`."""
    graph = importlib.import_module(f"{package}.graph")
    loop = graph.StateGraph(Count)
    loop.add_node("step", step)
    loop.add_edge("__start__", "step")
    loop.add_conditional_edges("step", again, ["step", "__end__"])
    return loop.compile(name="loop")


loop = loop_graph("phalanx")


def sends_graph(package: str) -> Any:
    """The fan-out, built with `phalanx` or `langgraph`."""
    graph = importlib.import_module(f"{package}.graph")
    send = importlib.import_module(f"{package}.types").Send
    fan = graph.StateGraph(Count)
    fan.add_node("noop", noop)

    def packets(state: Count) -> list[Any]:
        return [send("noop", number) for number in range(state.get("n", 0))]

    fan.add_conditional_edges("__start__", packets, ["noop"])
    return fan.compile(name="sends")
