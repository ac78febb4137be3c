"""Graphs whose nodes hang, fail and are handled, over real worker processes. What ran is noted in files."""

# Short paths are lambdas, and all who run these graphs give a folder.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportTypedDictNotRequiredAccess=false

import operator
import os
import re
import time
from pathlib import Path
from typing import Annotated

from typing_extensions import TypedDict

from phalanx.errors import NodeError
from phalanx.graph import START, StateGraph
from phalanx.types import RetryPolicy, Send, TimeoutPolicy


class State(TypedDict, total=False):
    """``folder`` is where nodes note that they ran."""

    folder: str
    done: Annotated[list[str], operator.add]


def note(state: State, what: str) -> int:
    """Note in a file of its own that something ran; returns how often it has."""
    folder = Path(state["folder"])
    (folder / f"{what}-{os.getpid()}-{time.monotonic_ns()}").touch()
    return len([*folder.glob(f"{what}-*")])


def hangs_once(state: State) -> State:
    """Hangs the first time it is tried, in a way that nothing in its process can interrupt."""
    if note(state, "hangs_once") == 1:
        time.sleep(600)
    return {"done": ["hangs_once"]}


def hangs(state: State) -> State:
    """Hangs for ever."""
    note(state, "hangs")
    time.sleep(600)
    return {}


def works(state: State) -> State:
    """Takes a moment."""
    time.sleep(0.02)
    note(state, "works")
    return {"done": ["works"]}


def fails(state: State) -> State:
    """Always fails."""
    note(state, "fails")
    raise ValueError("no luck")


def handles(state: State, error: NodeError) -> State:
    """Waits until it may go on, so that a run can be killed while it runs."""
    note(state, "handles")
    while not (Path(state["folder"]) / "go").exists():
        time.sleep(0.02)
    return {"done": [f"{error.node}: {error.error!r}"]}


def _limited() -> StateGraph[State]:
    builder = StateGraph(State)
    again = RetryPolicy(initial_interval=0.05, jitter=False)
    builder.add_node("hangs_once", hangs_once, timeout=0.5, retry_policy=again)
    builder.add_node("hangs", hangs, timeout=TimeoutPolicy(run_timeout=0.5), error_handler=_says)
    builder.add_node("works", works)
    builder.add_edge(START, "hangs_once")
    builder.add_edge(START, "hangs")
    builder.add_conditional_edges(START, lambda state: [Send("works", state) for _ in range(20)], ["works"])
    return builder


def _says(_: State, error: NodeError) -> State:
    return {"done": [type(error.error).__name__]}


def _handled() -> StateGraph[State]:
    builder = StateGraph(State)
    builder.add_node("fails", fails, error_handler=handles)
    builder.add_edge(START, "fails")
    return builder


def holds_the_interpreter(state: State) -> State:
    """Does not let go of the interpreter the first time, so that no other thread of its process runs."""
    if note(state, "holds") == 1:
        re.match(r"(a+)+$", "a" * 40 + "b")
    return {"done": ["holds"]}


def _held() -> StateGraph[State]:
    builder = StateGraph(State)
    again = RetryPolicy(initial_interval=0.05, jitter=False)
    builder.add_node("holds", holds_the_interpreter, timeout=0.3, retry_policy=again)
    builder.add_edge(START, "holds")
    return builder


limited = _limited().compile(name="limited")
held = _held().compile(name="held")
handled = _handled().compile(name="handled")
