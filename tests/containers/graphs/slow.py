"""A graph whose run takes long enough to kill a worker in the middle of it."""

import operator
import socket
import time
from typing import Annotated, TypedDict

from phalanx.graph import END, START, StateGraph
from phalanx.types import Send

TASKS = 40
TASK_S = 0.25


class Outcome(TypedDict):
    """Which task ran, and where."""

    index: int
    host: str


class State(TypedDict):
    """One outcome per task, in the order of the tasks."""

    outcomes: Annotated[list[Outcome], operator.add]


class Job(TypedDict):
    """The input of one task."""

    index: int


def hand_out(state: State) -> list[Send]:
    """One `Send` per task."""
    return [Send("work", Job(index=index)) for index in range(TASKS)]


def work(job: Job) -> dict[str, object]:
    """Take a while, then tell where."""
    time.sleep(TASK_S)
    return {"outcomes": [Outcome(index=job["index"], host=socket.gethostname())]}


def report(state: State) -> dict[str, object]:
    """Run once after the barrier. It writes nothing."""
    return {}


builder = StateGraph(State)
builder.add_node("work", work)
builder.add_node("report", report)
builder.add_conditional_edges(START, hand_out, ["work"])
builder.add_edge("work", "report")
builder.add_edge("report", END)
graph = builder.compile(name="slow")
