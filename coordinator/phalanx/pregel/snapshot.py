"""From a stored checkpoint to the snapshot its users read. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

from phalanx.checkpoint.base import CheckpointTuple, Version
from phalanx.config import RunnableConfig
from phalanx.coordinator.apply import TaskWrites, apply_writes
from phalanx.coordinator.commands import apply_command
from phalanx.coordinator.output import Keys, as_names, read_values
from phalanx.coordinator.plan import Task, plan
from phalanx.coordinator.recorder import pending_of
from phalanx.coordinator.state import GraphState
from phalanx.protocol.names import ERROR
from phalanx.types import PregelTask, StateSnapshot, Update
from phalanx.worker.blueprint import Blueprint


def snapshot_of(
    blueprint: Blueprint, config: RunnableConfig, found: CheckpointTuple | None, *, chosen: bool | None = None
) -> StateSnapshot:
    """What a thread's state looks like at a checkpoint.

    Args:
        blueprint: the graph.
        config: what was asked for; it addresses the snapshot when there is no checkpoint.
        found: the checkpoint.
        chosen: whether exactly this checkpoint was asked for: then it is shown as it is stored, with what commands
            given on it say. Else it is the thread's latest, and what its finished tasks wrote is already shown.
    """
    if found is None:
        return StateSnapshot({}, (), config, None, None, None, (), ())
    if chosen is None:
        chosen = "checkpoint_id" in config.get("configurable", {})
    checkpoint = found.checkpoint
    state = GraphState.load(
        blueprint, checkpoint["channel_values"], checkpoint["channel_versions"], checkpoint["versions_seen"]
    )
    pending = pending_of(found)
    for writes in pending.commands:
        apply_command(blueprint, state, writes, _unchanged)
    tasks = plan(
        blueprint,
        state,
        checkpoint_id=checkpoint["id"],
        namespace=found.config.get("configurable", {}).get("checkpoint_ns", ""),
        step=found.metadata.get("step", -1) + 1,
    )
    done = pending.finished
    errors = {task_id: str(value) for task_id, channel, value in found.pending_writes or () if channel == ERROR}
    shown = tuple(_shown(task, done, errors, blueprint.stream_channels) for task in tasks)
    left = [task for task in tasks if chosen or task.id not in done]
    if not chosen and not _overlay(blueprint, state, tasks, done):
        left = tasks
    elif tasks and not left:  # all have finished, and whoever ran them has left before what follows
        left = plan(blueprint, state, checkpoint_id="", namespace="", step=0)
    return StateSnapshot(
        values=read_values(state, blueprint.stream_channels),
        next=tuple(task.name for task in left),
        config=found.config,
        metadata=cast("dict[str, Any]", found.metadata),
        created_at=checkpoint["ts"],
        parent_config=found.parent_config,
        tasks=shown,
        interrupts=(),
    )


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


def _shown(task: Task, done: Mapping[str, Sequence[Update]], errors: Mapping[str, str], keys: Keys) -> PregelTask:
    result = _result(done[task.id], keys) if task.id in done else None
    return PregelTask(task.id, task.name, task.path, errors.get(task.id), result=result)


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
