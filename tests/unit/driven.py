"""A run in the hands of a test that plays its driver."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.unit.blueprints import START, graph, node

from phalanx.channels import BinaryOperatorAggregate
from phalanx.coordinator.messages import (
    Abandon,
    Commit,
    Dispatch,
    Emit,
    Fail,
    Finish,
    Launch,
    Order,
    SaveWrites,
    Stamp,
    TaskFailed,
    TaskFinished,
    WarnOfJoin,
)
from phalanx.coordinator.plan import Task
from phalanx.coordinator.run import Run
from phalanx.coordinator.state import GraphState
from phalanx.coordinator.terms import Pending, Position, RunSettings
from phalanx.protocol.names import NO_WRITES
from phalanx.types import StreamMode, Update
from phalanx.worker.blueprint import Blueprint, Node

FIRST = Position("fresh", False, -1)
Kind = type[Dispatch | Launch | SaveWrites | Commit | Emit | WarnOfJoin | Abandon | Finish | Fail]


@dataclass
class Driven:
    """A run and all it has ordered, in the hands of a test that plays its driver.

    Attributes:
        writes: what tasks of a node write, unless a test says otherwise.
    """

    run: Run
    writes: Mapping[str, Sequence[Update]]
    orders: list[Order] = field(default_factory=list[Order])

    def start(self, given: object = None) -> list[Order]:
        return self._ordered(self.run.start(given, self.stamp()))

    def stamp(self) -> Stamp:
        return Stamp(f"c{self.run.position.step}", "now")

    def finish(self, task: Task, *writes: Update) -> list[Order]:
        made = writes or self.writes.get(task.name) or [(NO_WRITES, None)]
        return self._ordered(self.run.handle(TaskFinished(task.id, made)))

    def fail(
        self, task: Task, error: BaseException, *, again_s: float | None = None, first: float = 0.0
    ) -> list[Order]:
        attempt = self.run.attempts.get(task.id, 1)
        return self._ordered(self.run.handle(TaskFailed(task.id, error, attempt, again_s, first)))

    def close(self) -> list[Order]:
        return self._ordered(self.run.close_step(self.stamp()))

    def step(self) -> list[Order]:
        """Finish all tasks of the superstep, and close it."""
        for task in self.tasks:
            self.finish(task)
        return self.close()

    def to_its_end(self) -> Order:
        while not isinstance(self.orders[-1], (Finish, Fail)):
            self.step()
        return self.orders[-1]

    def again(
        self,
        given: object,
        *,
        limit: int = 100,
        pending: Mapping[str, Sequence[Update]] | None = None,
        handed_over: Mapping[str, BaseException] | None = None,
    ) -> "Driven":
        """The next run on the thread."""
        before = self.run
        settings = RunSettings(limit, before.settings.modes, before.settings.output)
        run = Run(
            before.blueprint,
            before.state,
            before.position,
            settings,
            Pending(finished=pending or {}, handed_over=handed_over or {}),
        )
        driven = Driven(run, self.writes)
        driven.start(given)
        return driven

    @property
    def tasks(self) -> list[Task]:
        """The tasks of the superstep that have no outcome."""
        return [task for key, task in self.run.tasks.items() if key not in {**self.run.writes, **self.run.failures}]

    def task(self, name: str) -> Task:
        (found,) = [task for task in self.run.tasks.values() if task.name == name]
        return found

    def of(self, kind: Kind) -> list[Order]:
        return [order for order in self.orders if isinstance(order, kind)]

    def _ordered(self, orders: list[Order]) -> list[Order]:
        self.orders += orders
        return orders


def driven(
    blueprint: Blueprint,
    writes: Mapping[str, Sequence[Update]],
    *,
    limit: int = 100,
    modes: Sequence[StreamMode] = (),
    eager: bool = False,
    drain: Callable[[], str | None] = lambda: None,
) -> Driven:
    settings = RunSettings(limit, frozenset(modes), blueprint.output_channels, eager_failure=eager, drain_reason=drain)
    return Driven(Run(blueprint, GraphState.fresh(blueprint), FIRST, settings), writes)


def chain(length: int, *, limit: int = 100, modes: Sequence[StreamMode] = ()) -> Driven:
    """A run of a graph of ``length`` nodes one after the other, each of which writes its number."""
    writes: dict[str, list[Update]] = {START: [("to:n0", None)]}
    for number in range(length):
        writes[f"n{number}"] = [("value", number), (f"to:n{number + 1}", None)]
    writes[f"n{length - 1}"] = [("value", length - 1)]
    return driven(graph(*(node(f"n{number}") for number in range(length))), writes, limit=limit, modes=modes)


def fan_out(
    *names: str | Node, modes: Sequence[StreamMode] = (), eager: bool = False, also: Sequence[Node] = ()
) -> Driven:
    """A run that has come to a superstep with one task of each node, each of which logs its name.

    Args:
        names: the nodes; those with policies as they are.
        also: nodes of the graph that nothing triggers.
    """
    nodes = [node(each) if isinstance(each, str) else each for each in names]
    blueprint = graph(
        *nodes,
        *also,
        channels={"log": BinaryOperatorAggregate[list[str]](list[str], operator.add)},
        output=("value", "log"),
    )
    writes: dict[str, list[Update]] = {each.name: [("log", [each.name])] for each in (*nodes, *also)}
    writes[START] = [(f"to:{each.name}", None) for each in nodes]
    made = driven(blueprint, writes, modes=modes, eager=eager)
    made.start({})
    made.step()
    return made
