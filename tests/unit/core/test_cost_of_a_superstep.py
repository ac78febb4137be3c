"""A superstep costs what it touches, however many nodes and channels the graph has besides. Calls are counted."""

import operator
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Final

import pytest
from tests.unit.blueprints import graph, node

from phalanx.channels import (
    AnyValue,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
)
from phalanx.coordinator.messages import Dispatch, Stamp, TaskFinished
from phalanx.coordinator.run import Run
from phalanx.coordinator.state import GraphState
from phalanx.coordinator.terms import Position, RunSettings
from phalanx.protocol.names import TASKS
from phalanx.types import Send, Update
from phalanx.worker.blueprint import Blueprint

FEW: Final = 10
MANY: Final = 2_000


def last_write(value: list[int], writes: object) -> list[int]:
    return value


KINDS: Final[dict[str, Callable[[], object]]] = {
    "LastValue": lambda: LastValue[object](object),
    "LastValueAfterFinish": lambda: LastValueAfterFinish[object](object),
    "AnyValue": lambda: AnyValue[object](object),
    "EphemeralValue": lambda: EphemeralValue[object](object),
    "Topic": lambda: Topic[object](object),
    "accumulating Topic": lambda: Topic[object](object, accumulate=True),
    "BinaryOperatorAggregate": lambda: BinaryOperatorAggregate[int](int, operator.add),
    "NamedBarrierValue": lambda: NamedBarrierValue[str](str, {"x"}),
    "NamedBarrierValueAfterFinish": lambda: NamedBarrierValueAfterFinish[str](str, {"x"}),
    "DeltaChannel": lambda: DeltaChannel[list[int]](last_write),
}


def with_others(kind: str, others: int) -> Blueprint:
    """A loop, a deferred loop and a fan-out, beside nodes and channels that they have nothing to do with."""
    made = {f"other{number}": KINDS[kind]() for number in range(others)}
    return graph(
        node("loop"),
        node("late", "late"),
        *(node(f"node{number}", f"other{number}") for number in range(others)),
        channels={**made, "late": LastValueAfterFinish[object](object)},
    )


def calls_of(work: Callable[[], object]) -> int:
    """How many functions ``work`` calls, of Python and of C."""
    calls = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


def warm(blueprint: Blueprint, first: str) -> Run:
    """A run after some supersteps of the node ``first``, with another one to go."""
    settings = RunSettings(recursion_limit=1000, modes=frozenset({"values"}), output=("value",))
    run = Run(blueprint, GraphState.fresh(blueprint), Position("fresh", False, -1), settings)
    run.start({}, Stamp("c0", ""))
    one_step(run, (first, None))
    for _ in range(3):
        one_step(run, ("value", 1), (first, None))
    return run


def one_step(run: Run, *writes: Update, of: str | None = None) -> None:
    """A superstep in which every task, or each of one node, writes this."""
    for task in list(run.tasks.values()):
        run.handle(TaskFinished(task.id, writes if of in (None, task.name) else ()))
    orders = run.close_step(Stamp(f"c{run.position.step}", ""))
    assert isinstance(orders[-1], Dispatch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loop", ["to:loop", "late"])
def test_a_step_of_a_loop_costs_the_same_in_a_graph_of_any_size(kind: str, loop: str) -> None:
    counted: list[int] = []
    for others in (FEW, MANY):
        run = warm(with_others(kind, others), loop)
        counted.append(calls_of(partial(one_step, run, ("value", 1), (loop, None))))

    assert counted[0] == counted[1]


@pytest.mark.parametrize("kind", KINDS)
def test_channels_that_were_written_once_cost_nothing_afterwards(kind: str) -> None:
    writes: object = "x" if "Barrier" in kind else 1
    counted: list[int] = []
    for others in (FEW, MANY):
        run = warm(with_others(kind, others), "to:loop")
        first = [(f"other{number}", writes) for number in range(others)]
        one_step(run, *first, ("to:loop", None))
        for _ in range(2):
            one_step(run, ("value", 1), ("to:loop", None), of="loop")
        counted.append(calls_of(partial(one_step, run, ("value", 1), ("to:loop", None))))

    assert counted[0] == counted[1]


def test_a_fan_out_costs_as_much_more_as_it_has_more_tasks_and_no_more() -> None:
    def fan_out(tasks: int) -> int:
        run = warm(with_others("LastValue", FEW), "to:loop")
        one_step(run, *((TASKS, Send("loop", number)) for number in range(tasks)))
        return calls_of(partial(one_step, run, ("to:loop", None)))

    one, two, three = fan_out(100), fan_out(200), fan_out(300)

    assert three - two <= (two - one) * 1.1


def test_history_costs_nothing() -> None:
    run = warm(with_others("LastValue", FEW), "to:loop")

    step = partial(one_step, run, ("value", 1), ("to:loop", None))
    early = calls_of(step)
    for _ in range(500):
        step()

    assert calls_of(step) == early
