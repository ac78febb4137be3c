"""Whatever order news of tasks arrives in, and however often, a run makes the same checkpoints and the same output."""

import operator
from collections.abc import Sequence
from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.blueprints import START, content, graph, node

from phalanx.channels import BinaryOperatorAggregate, LastValueAfterFinish, NamedBarrierValue
from phalanx.coordinator.messages import Commit, Dispatch, Emit, Event, Fail, Order, Stamp, TaskFailed, TaskFinished
from phalanx.coordinator.plan import Task
from phalanx.coordinator.run import Position, Run, RunSettings
from phalanx.coordinator.state import GraphState
from phalanx.protocol.names import NO_WRITES, PULL, TASKS
from phalanx.types import Send, Update
from phalanx.worker.blueprint import Blueprint

NODES: Final = ("a", "b", "c", "d")
BLUEPRINT: Final[Blueprint] = graph(
    *(node(name) for name in NODES),
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

    def event(self, task: Task) -> Event:
        step = self.disorderly.position.step
        if (sum(map(ord, task.id)) + self.seed) % 29 == 0 and step > 2:
            return TaskFailed(task.id, ValueError(task.name))
        return TaskFinished(task.id, writes_of(task, step, self.seed))

    def open_tasks(self) -> list[Task]:
        run = self.disorderly
        return [task for key, task in run.tasks.items() if key not in run.writes and key not in run.failures]

    def tell(self, event: Event) -> list[Order]:
        self.told.append(event)
        return self.disorderly.handle(event)

    @precondition(lambda self: not self.over and self.open_tasks())
    @rule(data=st.data())
    def news_of_any_open_task(self, data: st.DataObject) -> None:
        assert self.tell(self.event(data.draw(st.sampled_from(self.open_tasks()))))

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def old_news(self, data: st.DataObject) -> None:
        event = data.draw(st.sampled_from(self.told))
        known = event.task_id in {task.id for task in self.open_tasks()}
        assert known or self.disorderly.handle(event) == []

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def a_later_attempt_says_something_else(self, data: st.DataObject) -> None:
        done = data.draw(st.sampled_from(self.told)).task_id
        others: list[Event] = [TaskFinished(done, [("log", ["other"])]), TaskFailed(done, ValueError("other"))]
        other = data.draw(st.sampled_from(others))
        assert self.disorderly.handle(other) == []

    @rule()
    def news_of_a_stranger(self) -> None:
        assert self.disorderly.handle(TaskFinished("stranger", [("log", ["stranger"])])) == []

    @precondition(lambda self: not self.over)
    @rule(data=st.data())
    def all_that_is_open_ends_and_the_step_is_closed(self, data: st.DataObject) -> None:
        for task in data.draw(st.permutations(self.open_tasks())):
            self.tell(self.event(task))
        self.close()

    @precondition(lambda self: not self.over and self.disorderly.barrier_full)
    @rule()
    def close(self) -> None:
        for task in list(self.orderly.tasks.values()):
            self.orderly.handle(self.event(task))
        stamp = Stamp(f"after {self.orderly.position.step}", "")
        expected, found = self.orderly.close_step(stamp), self.disorderly.close_step(stamp)

        assert shown(found) == shown(expected)
        self.over = not isinstance(found[-1], Dispatch)

    @invariant()
    def both_have_the_same_state_and_output(self) -> None:
        assert content(self.disorderly.state) == content(self.orderly.state)
        assert self.disorderly.position == self.orderly.position
        assert self.disorderly.output() == self.orderly.output()
        assert list(self.disorderly.tasks) == list(self.orderly.tasks)


def shown(orders: Sequence[Order]) -> list[object]:
    """The orders, comparable: errors are equal when their type and text are."""
    return [
        (type(order.error), str(order.error)) if isinstance(order, Fail) else order
        for order in orders
        if isinstance(order, (Commit, Dispatch, Emit, Fail)) or order is orders[-1]
    ]


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
