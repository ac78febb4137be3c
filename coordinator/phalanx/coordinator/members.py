"""The runs that one cluster loop drives: that of the graph itself, and those of graphs inside of its tasks.

A node that is a compiled graph is not handed to a worker, where it would hold a slot while its own tasks wait for
others. It becomes a run of its own beside the one it belongs to, whose tasks go to workers like any others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.coordinator.batches import BatchMaker
from phalanx.coordinator.handout import Lane
from phalanx.coordinator.keeping import Keeping
from phalanx.coordinator.messages import Launch
from phalanx.coordinator.opening import Place
from phalanx.coordinator.plan import Task
from phalanx.coordinator.run import Run
from phalanx.coordinator.terms import RunSettings
from phalanx.coordinator.timers import Timers
from phalanx.worker.attempt import Attempt
from phalanx.worker.blueprint import Blueprint, Node
from phalanx.worker.run_task import StateView
from phalanx.worker.task_context import RunContext, TaskContext


class InsideCall(Protocol):
    """The call of a graph inside of a task, ready to be driven."""

    @property
    def settings(self) -> RunSettings: ...
    @property
    def context(self) -> RunContext: ...
    @property
    def place(self) -> Place | None: ...
    @property
    def saver(self) -> BaseCheckpointSaver | None: ...


class InsideGraph(Protocol):
    """A compiled graph, as far as it is called inside of a task."""

    @property
    def blueprint(self) -> Blueprint: ...

    def called_in(self, task: TaskContext) -> InsideCall:
        """The call of this graph by a task's node."""
        ...


def graph_of(node: Node) -> InsideGraph | None:
    """The graph that a node is, if its tasks become runs of their own.

    Not one whose writes are remembered, or whose time is limited: there the node counts as a whole, and runs in one
    worker. Nor one that runs on a cluster of its own.
    """
    if len(node.actions) != 1 or node.policies.cache is not None or node.policies.timeout is not None:
        return None
    source = node.actions[0].source
    if not hasattr(source, "called_in") or getattr(source, "cluster", None) is not None:
        return None
    return cast("InsideGraph", source)


@dataclass(slots=True, eq=False)
class Member:
    """One of those runs.

    Attributes:
        graphs: the nodes that are graphs, by name.
        above: the task that it belongs to; ``None`` for the outermost run.
        inside: the runs that belong to tasks of this one, in the order in which they were begun.
        dispatching: whether its tasks are being given out just now.
        ended: whether it has come to its end.
    """

    run: Run
    blueprint: Blueprint
    context: RunContext
    keeping: Keeping
    batches: BatchMaker
    lane: Lane
    above: "Above | None" = None
    inside: "dict[Member, None]" = field(default_factory=lambda: dict[Member, None]())
    timers: Timers = field(default_factory=Timers)
    dispatching: bool = False
    ended: bool = False
    graphs: Mapping[str, InsideGraph] = field(init=False)
    opened_at: str = field(init=False)

    def __post_init__(self) -> None:
        found = {name: graph_of(node) for name, node in self.blueprint.nodes.items()}
        self.graphs = {name: graph for name, graph in found.items() if graph is not None}
        self.opened_at = self.run.position.checkpoint_id

    @property
    def fresh(self) -> bool:
        """Whether its superstep began in this run, so that no task of it can have been begun before."""
        return self.run.position.checkpoint_id != self.opened_at

    def attempt(self, launch: Launch) -> Attempt:
        """An attempt of one of its tasks, to be made here."""
        run, task = self.run, launch.task
        context = TaskContext(
            self.context,
            task.name,
            task.id,
            task.path,
            task.triggers,
            run.position.step,
            run.position.checkpoint_id,
            launch.attempt,
            launch.first_try_at,
            task.error,
            run.answers_to(task.id),
            nth=task.nth,
        )
        view = StateView(run.state.channels, run.limits)
        return Attempt(self.blueprint, self.blueprint.nodes[task.name], view, context, timeout=task.timeout)

    def family(self) -> "Iterator[Member]":
        """It, and all runs inside of it."""
        yield self
        for member in self.inside:
            yield from member.family()


@dataclass(frozen=True, slots=True)
class Above:
    """The task that a run inside belongs to."""

    member: Member
    launch: Launch

    @property
    def task(self) -> Task:
        return self.launch.task
