"""Graphs for tests of the engine, put together by hand, without a builder and without code in their nodes."""

from collections.abc import Mapping, Sequence
from typing import cast

from phalanx.channels import EphemeralValue, LastValue, Topic
from phalanx.coordinator.apply import TaskWrites, apply_writes
from phalanx.coordinator.plan import Task, plan
from phalanx.coordinator.state import GraphState, NextVersion, count_up
from phalanx.protocol.names import INPUT, TASKS
from phalanx.types import Send, Update
from phalanx.worker.blueprint import Blueprint, Channel, Node, Reader

START = "__start__"


def no_writes(output: object) -> list[Update]:
    """What a node's output means in tests that say themselves what a task wrote."""
    return []


def node(name: str, *triggers: str, hidden: bool = False) -> Node:
    """A node, triggered by ``to:<name>`` if nothing else is said."""
    names = tuple(sorted(triggers)) or (f"to:{name}",)
    return Node(name, names, Reader(()), actions=(), writes=no_writes, hidden=hidden)


def channel(made: object) -> Channel:
    """A channel of any kind as the engine sees it."""
    return cast("Channel", made)


def graph(
    *nodes: Node, channels: Mapping[str, object] | None = None, output: Sequence[str] | str = ("value",)
) -> Blueprint:
    """A graph of these nodes, with a hidden first node; triggers are ephemeral unless ``channels`` says otherwise."""
    first = node(START, START, hidden=True)
    everything = (first, *nodes)
    found: dict[str, Channel] = {
        "value": channel(LastValue[object](object)),
        TASKS: channel(Topic(Send)),
        **{
            trigger: channel(EphemeralValue[object](object, guard=False))
            for spec in everything
            for trigger in spec.triggers
        },
        **{name: channel(made) for name, made in (channels or {}).items()},
    }
    for name, made in found.items():
        made.key = name
    return Blueprint("test", {spec.name: spec for spec in everything}, found, START, output, output)


def task(name: str, *triggers: str, writes: Sequence[Update] = (), index: int | None = None) -> TaskWrites:
    """What a task wrote; with an index, one that a packet made."""
    if index is not None:
        return TaskWrites(("__pregel_push", index), name, ("__pregel_push",), writes)
    return TaskWrites(("__pregel_pull", name), name, triggers or (f"to:{name}",), writes)


def given(*writes: Update) -> TaskWrites:
    """What a run's input writes."""
    return TaskWrites((), INPUT, (), writes)


def state_after(blueprint: Blueprint, *steps: Sequence[TaskWrites], next_version: NextVersion = count_up) -> GraphState:
    """The state after some supersteps of a fresh thread."""
    state = GraphState.fresh(blueprint)
    for step in steps:
        apply_writes(blueprint, state, step, next_version)
    return state


def planned(blueprint: Blueprint, state: GraphState) -> list[Task]:
    """The next superstep's tasks, from a checkpoint of some name."""
    return plan(blueprint, state, checkpoint_id="c", namespace="", step=1)


def content(state: GraphState) -> object:
    """All that can be seen of a state, to compare."""
    values = {name: one.checkpoint() for name, one in state.channels.items()}
    available = sorted(name for name, one in state.channels.items() if one.is_available())
    seen = {name: dict(known) for name, known in state.seen.items()}
    sets = (state.updated, frozenset(state.expiring), frozenset(state.unfinished))
    return values, available, dict(state.versions), seen, state.newest, sets
