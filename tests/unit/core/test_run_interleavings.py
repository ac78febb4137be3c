"""Whatever order news of tasks arrives in, and however often, a run makes the same checkpoints and the same output.

Some tasks are tried again, some fail, and some of those are handed over to an error handler.
"""

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.blueprints import START, content, graph, node

from phalanx.channels import BinaryOperatorAggregate, LastValueAfterFinish, NamedBarrierValue
from phalanx.coordinator.messages import (
    Commit,
    Dispatch,
    Emit,
    Event,
    Fail,
    Launch,
    Order,
    Stamp,
    TaskFailed,
    TaskFinished,
)
from phalanx.coordinator.plan import Task
from phalanx.coordinator.run import Run
from phalanx.coordinator.state import GraphState
from phalanx.coordinator.terms import Position, RunSettings
from phalanx.protocol.names import NO_WRITES, PULL, TASKS
from phalanx.types import Send, Update
from phalanx.worker.blueprint import Blueprint, Policies

NODES: Final = ("a", "b", "c", "d")
HANDLED: Final = Policies(error_handler="rescue")
BLUEPRINT: Final[Blueprint] = graph(
    *(node(name) for name in NODES[:2]),
    *(replace(node(name), policies=HANDLED) for name in NODES[2:]),
    replace(node("rescue"), triggers=()),
    node("both", "join"),
    node("late", "late"),
    channels={
        "log": BinaryOperatorAggregate[list[str]](list[str], operator.add),
        "join": NamedBarrierValue[str](str, {"a", "b"}),
        "late": LastValueAfterFinish[object](object),
    },
    output=("value", "log"),
)
LAST_STEP: Final = 6


def writes_of(task: Task, step: int, seed: int) -> list[Update]:
    """What a task writes: a function of the task alone, with fan-outs, joins, deferred nodes and sometimes a clash."""
    if task.name == START:
        return [("to:a", None), ("to:b", None)]
    chosen = sum(map(ord, task.id)) + seed
    made: list[Update] = [("log", [f"{step}.{task.name}.{task.path[-1]}"])]
    if step >= LAST_STEP:
        return made
    if chosen % 3 == 0:
        made += [(TASKS, Send(NODES[(chosen + number) % 4], number)) for number in range(chosen % 5)]
    if chosen % 4 == 1:
        made.append((f"to:{NODES[chosen % 4]}", None))
    if task.name in ("a", "b"):
        made.append(("join", task.name))
    if chosen % 2:
        made.append(("late", task.name))
    if chosen % 7 == 0 and task.path[0] == PULL:
        made.append(("value", chosen))
    return made if chosen % 11 else [(NO_WRITES, None)]


def fresh_run() -> Run:
    settings = RunSettings(100, frozenset({"values"}), ("value", "log"))
    return Run(BLUEPRINT, GraphState.fresh(BLUEPRINT), Position("fresh", False, -1), settings)


class Interleavings(RuleBasedStateMachine):
    """Two runs of one graph: one hears from each task once and in order, the other as rules will have it."""

    def __init__(self) -> None:
        super().__init__()
        self.orderly, self.disorderly = fresh_run(), fresh_run()
        self.seed = 0
        self.told: list[Event] = []
        self.over = False

    @initialize(seed=st.integers(0, 1_000))
    def start(self, seed: int) -> None:
        self.seed = seed
        assert self.orderly.start({}, Stamp("first", "")) == self.disorderly.start({}, Stamp("first", ""))

    def event(self, run: Run, task: Task) -> Event:
        """What happens to a task next: a function of the task and of how often it was tried."""
        step, attempt, chosen = run.position.step, run.attempts.get(task.id, 1), sum(map(ord, task.id)) + self.seed
        if attempt <= chosen % 5 - 1:
            return TaskFailed(task.id, KeyError(attempt), attempt, retry_after_s=float(attempt))
        if chosen % 29 == 0 and step > 2:
            return TaskFailed(task.id, ValueError(task.name))
        if task.name in NODES[2:] and chosen % 3 == 0:
            return TaskFailed(task.id, ValueError("handled"))
        return TaskFinished(task.id, writes_of(task, step, self.seed))

    def open_tasks(self, run: Run | None = None) -> list[Task]:
        run = run or self.disorderly
        return [task for key, task in run.tasks.items() if key not in run.writes and key not in run.failures]

    def is_open(self, task_id: str) -> bool:
        return task_id in {task.id for task in self.open_tasks()}

    def tell(self, event: Event) -> list[Order]:
        self.told.append(event)
        return self.disorderly.handle(event)

    @precondition(lambda self: not self.over and self.open_tasks())
    @rule(data=st.data())
    def news_of_any_open_task(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(self.open_tasks()))
        attempt, event = self.disorderly.attempts.get(task.id, 1), self.event(self.disorderly, task)
        orders = self.tell(event)

        launches = [order for order in orders if isinstance(order, Launch)]
        if isinstance(event, TaskFailed) and event.retry_after_s is not None:
            assert orders == [Launch(task, attempt + 1, event.retry_after_s)]
        elif isinstance(event, TaskFailed) and task.name in NODES[2:]:
            assert [(each.task.name, each.task.stands_for) for each in launches] == [("rescue", task.id)]
            assert self.is_open(launches[0].task.id)
        else:
            assert orders
            assert not launches

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def old_news(self, data: st.DataObject) -> None:
        """An attempt that failed and is followed by another is old news even while its task is open."""
        event = data.draw(st.sampled_from(self.told))
        followed = isinstance(event, TaskFailed) and event.retry_after_s is not None
        if followed or not self.is_open(event.task_id):
            assert self.disorderly.handle(event) == []

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def a_later_attempt_says_something_else(self, data: st.DataObject) -> None:
        done = data.draw(st.sampled_from(self.told)).task_id
        others: list[Event] = [
            TaskFinished(done, [("log", ["other"])]),
            TaskFailed(done, ValueError("other")),
            TaskFailed(done, ValueError("other"), retry_after_s=0.0),
        ]
        other = data.draw(st.sampled_from(others))
        assert self.is_open(done) or self.disorderly.handle(other) == []

    @rule()
    def news_of_a_stranger(self) -> None:
        assert self.disorderly.handle(TaskFinished("stranger", [("log", ["stranger"])])) == []

    @precondition(lambda self: not self.over)
    @rule(data=st.data())
    def all_that_is_open_ends_and_the_step_is_closed(self, data: st.DataObject) -> None:
        while self.open_tasks():
            for task in data.draw(st.permutations(self.open_tasks())):
                self.tell(self.event(self.disorderly, task))
        self.close()

    @precondition(lambda self: not self.over and self.disorderly.barrier_full)
    @rule()
    def close(self) -> None:
        while self.open_tasks(self.orderly):
            first, *_ = self.open_tasks(self.orderly)
            self.orderly.handle(self.event(self.orderly, first))
        assert self.disorderly.tasks.keys() == self.orderly.tasks.keys()
        assert self.disorderly.attempts == self.orderly.attempts
        stamp = Stamp(f"after {self.orderly.position.step}", "")
        expected, found = self.orderly.close_step(stamp), self.disorderly.close_step(stamp)

        assert shown(found) == shown(expected)
        self.over = not isinstance(found[-1], Dispatch)

    @invariant()
    def both_have_the_same_state_and_output(self) -> None:
        assert content(self.disorderly.state) == content(self.orderly.state)
        assert self.disorderly.position == self.orderly.position
        assert self.disorderly.output() == self.orderly.output()
        paths = {task.path for task in self.disorderly.tasks.values()}
        assert paths == {task.path for task in self.orderly.tasks.values()}, "a handler takes the place of its task"


def notes_of(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


def shown(orders: Sequence[Order]) -> list[object]:
    """The orders, comparable: errors are equal when their type, text and notes are."""
    return [
        (type(order.error), str(order.error), notes_of(order.error)) if isinstance(order, Fail) else order
        for order in orders
        if isinstance(order, (Commit, Dispatch, Emit, Fail)) or order is orders[-1]
    ]


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
