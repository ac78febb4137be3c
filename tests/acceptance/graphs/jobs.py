"""Graphs for the tests of the command line; each does one thing that matters there."""

import math
import multiprocessing
import operator
import os
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, TypedDict

from phalanx.graph import END, START, StateGraph
from phalanx.types import Send

VERSION = 1


class State(TypedDict, total=False):
    """`n` jobs; with a `folder`, each leaves a file named after itself and its process there, and waits for `go`."""

    n: int
    folder: str
    done: Annotated[list[int], operator.add]


class Job(TypedDict):
    number: int
    folder: str


def plan(state: State) -> None:
    print("planned")


def jobs(state: State) -> list[Send]:
    return [Send("work", Job(number=n, folder=state.get("folder", ""))) for n in range(state.get("n", 3))]


def work(job: Job) -> State:
    if job["folder"]:
        wait_for_go(job)
    return {"done": [job["number"]]}


async def work_async(job: Job) -> State:
    return {"done": [job["number"]]}


def fail(job: Job) -> State:
    return {"done": [10 // (job["number"] - 1)]}


def work_in_processes(state: State) -> State:
    """In a process of each kind: one that continues this one, and one that starts afresh."""
    done: list[int] = []
    for method, number in [("fork", -3), ("spawn", -4)]:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
            done.append(pool.submit(abs, number).result(timeout=30))
    return {"done": done}


def wait_for_go(job: Job) -> None:
    folder = Path(job["folder"])
    (folder / f"{job['number']}-{os.getpid()}").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)


def build(work: object) -> StateGraph[State]:
    builder = StateGraph(State)
    builder.add_node("plan", plan)
    builder.add_node("work", work)  # type: ignore[arg-type]
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", jobs, ["work"])
    builder.add_edge("work", END)
    return builder


uncompiled = build(work)
unnamed = uncompiled.compile()
graph = uncompiled.compile(name="jobs")
other = uncompiled.compile(name="other")
on_loop = build(work_async).compile(name="on_loop")
failing = build(fail).compile(name="failing")
with_processes = (
    StateGraph(State).add_node("work", work_in_processes).add_edge(START, "work").compile(name="with_processes")
)


class Odd(TypedDict, total=False):
    number: float
    when: set[str]
    text: str


def odd(state: Odd) -> Odd:
    return {"number": math.nan, "when": {"b", "a"}, "text": "one\ntwo"}


odd_builder = StateGraph(Odd)
odd_builder.add_node("odd", odd)
odd_builder.add_edge(START, "odd")
odd_values = odd_builder.compile(name="odd_values")
