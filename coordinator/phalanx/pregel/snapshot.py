"""From a stored checkpoint to the snapshot its users read. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from phalanx.checkpoint.base import CheckpointTuple, Version
from phalanx.config import RunnableConfig
from phalanx.coordinator.answers import Asked, open_questions
from phalanx.coordinator.apply import TaskWrites, apply_writes
from phalanx.coordinator.commands import apply_command
from phalanx.coordinator.output import Keys, as_names, read_values
from phalanx.coordinator.plan import Task, plan
from phalanx.coordinator.recorder import NO_HISTORIES, Histories, load_state, pending_of
from phalanx.coordinator.state import GraphState
from phalanx.protocol.names import ERROR
from phalanx.types import PregelTask, StateSnapshot, Update
from phalanx.worker.blueprint import Blueprint


def no_snapshot(config: RunnableConfig) -> StateSnapshot:
    """The state of a thread on which nothing has run."""
    return StateSnapshot({}, (), config, None, None, None, (), ())


TaskStates = Mapping[str, RunnableConfig | StateSnapshot]
"""By task id, the state of the graph inside of it, or where to ask for that."""


def snapshot_of(
    blueprint: Blueprint,
    found: CheckpointTuple,
    *,
    chosen: bool,
    states: TaskStates | None = None,
    histories: Histories = NO_HISTORIES,
) -> StateSnapshot:
    """What a thread's state looks like at a checkpoint.

    Args:
        blueprint: the graph.
        found: the checkpoint.
        chosen: whether exactly this checkpoint was asked for: then it is shown as it is stored, with what commands
            given on it say. Else it is the thread's latest, and what its finished tasks wrote is already shown.
        states: the states of graphs inside of its tasks.
        histories: what the values of delta channels are made of that the checkpoint does not hold.
    """
    checkpoint = found.checkpoint
    state = load_state(blueprint, found, histories)
    pending = pending_of(found)
    for writes in pending.commands:
        apply_command(blueprint, state, writes, _unchanged)
    tasks = _tasks_from(blueprint, state, found)
    done = pending.finished
    errors = {task_id: str(value) for task_id, channel, value in found.pending_writes or () if channel == ERROR}
    known = Asked(_namespace_of(found), pending.questions, pending.answers, frozenset(done))
    asked = {task.id: tuple(open_questions(task, known, again=chosen)) for task in tasks}
    keys = blueprint.stream_channels
    shown = tuple(
        PregelTask(
            task.id,
            task.name,
            task.path,
            errors.get(task.id),
            asked[task.id],
            (states or {}).get(task.id),
            _result(done[task.id], keys) if task.id in done else None,
        )
        for task in tasks
    )
    left = [task for task in tasks if chosen or task.id not in done]
    if not chosen and not _overlay(blueprint, state, tasks, done):
        left = tasks
    elif tasks and not left:  # all have finished, and whoever ran them has left before what follows
        left = plan(blueprint, state, checkpoint_id="", namespace="", step=0)
    return StateSnapshot(
        values=read_values(state, blueprint.stream_channels),
        next=tuple(task.name for task in left),
        config=with_map(found.config, found),
        metadata=cast("dict[str, Any]", found.metadata),
        created_at=checkpoint["ts"],
        parent_config=found.parent_config and with_map(found.parent_config, found),
        tasks=shown,
        interrupts=tuple(question for task in tasks for question in asked[task.id]),
    )


def planned_tasks(blueprint: Blueprint, found: CheckpointTuple) -> list[Task]:
    """The tasks of the superstep that starts from a checkpoint."""
    state = load_state(blueprint, found, NO_HISTORIES)  # of a delta channel, that it was written to is enough
    for writes in pending_of(found).commands:
        apply_command(blueprint, state, writes, _unchanged)
    return _tasks_from(blueprint, state, found)


def _tasks_from(blueprint: Blueprint, state: GraphState, found: CheckpointTuple) -> list[Task]:
    step = found.metadata.get("step", -1) + 1
    return plan(blueprint, state, checkpoint_id=found.checkpoint["id"], namespace=_namespace_of(found), step=step)


def _namespace_of(found: CheckpointTuple) -> str:
    return str(found.config.get("configurable", {}).get("checkpoint_ns", ""))


def with_map(config: RunnableConfig, found: CheckpointTuple) -> RunnableConfig:
    """The address of a checkpoint of a graph inside, with where the graphs around it stood."""
    namespace = _namespace_of(found)
    if not namespace:
        return config
    configurable = config.get("configurable", {})
    where = {**found.metadata.get("parents", {}), namespace: configurable.get("checkpoint_id")}
    return {"configurable": {**configurable, "checkpoint_map": where}}


def _overlay(
    blueprint: Blueprint, state: GraphState, tasks: Sequence[Task], done: Mapping[str, Sequence[Update]]
) -> bool:
    """Show what those tasks of an unfinished step wrote that have finished. If all have, the step is taken as done.

    Returns whether that was possible: it is not when a step failed because its writes contradict each other.
    """
    whole = all(task.id in done for task in tasks)
    writes = [
        TaskWrites(task.path, task.name, task.triggers if whole else (), done[task.id])
        for task in tasks
        if task.id in done
    ]
    try:
        apply_writes(blueprint, state, writes, _newer if whole else _unchanged)
    except Exception:  # a channel refuses, or the user's reducer raises; either way the state is as it was
        return False
    return True


def _unchanged(newest: Version | None) -> Version:
    """The version of a step that is only shown, not taken."""
    return newest if newest is not None else 0


def _newer(newest: Version | None) -> Version:
    """The version of a step that would come next, where versions are numbers."""
    return newest + 1 if isinstance(newest, (int, float)) else _unchanged(newest)


def _result(writes: Sequence[Update], keys: Keys) -> dict[str, object]:
    names = frozenset(as_names(keys))
    counts = Counter(channel for channel, _ in writes)
    result: dict[str, Any] = {}
    for channel, value in writes:
        if channel not in names:
            continue
        if counts[channel] > 1:
            result.setdefault(channel, {"$writes": []})["$writes"].append(value)
        else:
            result[channel] = value
    return result
