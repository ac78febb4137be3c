"""What a saver keeps, as plain data, and the order of the writes that are pending on a checkpoint."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple, NotRequired, Protocol, TypeAlias, TypedDict, cast

from phalanx.checkpoint.ids import checkpoint_id
from phalanx.config import RunnableConfig
from phalanx.protocol.names import ERROR, INTERRUPT, RESUME

Version: TypeAlias = int | str | float
"""A channel's version; versions of one saver sort."""

ChannelVersions: TypeAlias = dict[str, Version]
PendingWrite: TypeAlias = tuple[str, str, Any]
"""Task id, channel, value."""

CHECKPOINT_FORMAT: Final = 4
"""What ``v`` is in checkpoints that are written here."""

LATEST_VERSION: Final = CHECKPOINT_FORMAT
"""The same under the name that code for other libraries knows."""

SCHEDULED: Final = "__scheduled__"
"""A write that records that a task's work was handed to someone else. Nothing here makes one."""

SPECIAL_WRITES: Final[Mapping[str, int]] = {ERROR: -1, SCHEDULED: -2, INTERRUPT: -3, RESUME: -4}
"""Writes about a task have fixed places, so that a later one replaces the one before."""

WRITES_IDX_MAP: Final = SPECIAL_WRITES
"""The same under the name that savers written for other libraries know."""


class CheckpointMetadata(TypedDict, total=False):
    """What is known about a checkpoint.

    Keys:
        source: what made it: a run's input, a superstep, an update from outside, or a fork.
        step: -1 for the first input, 0 for the first superstep, and so on.
        parents: for subgraphs: checkpoint ids by namespace.
        run_id: the run that made it.
        counters_since_delta_snapshot: the delta channels whose value this checkpoint does not hold whole: how many
            updates and supersteps ago an ancestor did. Whoever prunes keeps what these channels need.
    """

    source: Literal["input", "loop", "update", "fork"]
    step: int
    parents: dict[str, str]
    run_id: str
    counters_since_delta_snapshot: dict[str, tuple[int, int]]


class Checkpoint(TypedDict):
    """The stored state of a graph in a thread between two supersteps.

    Keys:
        v: the format.
        id: time-ordered and unique.
        ts: ISO 8601, UTC.
        channel_values: what each non-empty channel's ``checkpoint`` returned.
        channel_versions, versions_seen: as in the engine's state.
        updated_channels: the channels the superstep updated, sorted; ``None`` when unknown.
    """

    v: int
    id: str
    ts: str
    channel_values: dict[str, Any]
    channel_versions: ChannelVersions
    versions_seen: dict[str, ChannelVersions]
    updated_channels: list[str] | None


class CheckpointTuple(NamedTuple):
    """A checkpoint with its address, its parent's address, and the writes that finished tasks already made on it."""

    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_config: RunnableConfig | None = None
    pending_writes: list[PendingWrite] | None = None


class DeltaChannelHistory(TypedDict):
    """What a delta channel's value is made of.

    Keys:
        writes: the writes of the supersteps since the seed, oldest first: task id, channel, value.
        seed: the last value that was stored whole; missing when none ever was.
    """

    writes: list[PendingWrite]
    seed: NotRequired[Any]


class StoredChannel(Protocol):
    """What :func:`create_checkpoint` asks of a channel."""

    def checkpoint(self) -> object:
        """What to store."""
        ...

    def is_available(self) -> bool:
        """Whether there is anything to store."""
        ...


def writes_sort_key(task_path: str, task_id: str = "", idx: int = 0) -> tuple[str, str, int]:
    """What the pending writes of a checkpoint are sorted by: the order in which the engine applies them.

    Args:
        task_path: what ``put_writes`` was given. Its numbers are padded, so that it sorts as text.
        idx: the place of the write among its task's.
    """
    return task_path, task_id, idx


def empty_checkpoint() -> Checkpoint:
    """A new checkpoint of a graph that holds nothing."""
    return {
        "v": CHECKPOINT_FORMAT,
        "id": checkpoint_id(-2),
        "ts": datetime.fromtimestamp(time.time(), UTC).isoformat(),
        "channel_values": {},
        "channel_versions": {},
        "versions_seen": {},
        "updated_channels": None,
    }


def copy_checkpoint(checkpoint: Checkpoint) -> Checkpoint:
    """A checkpoint with collections of its own, which may be changed. The channels' values are shared."""
    updated = checkpoint.get("updated_channels")
    copied = {
        **checkpoint,
        "channel_values": checkpoint["channel_values"].copy(),
        "channel_versions": checkpoint["channel_versions"].copy(),
        "versions_seen": {node: seen.copy() for node, seen in checkpoint["versions_seen"].items()},
        "updated_channels": None if updated is None else [*updated],
    }
    return cast("Checkpoint", copied)


def create_checkpoint(
    checkpoint: Checkpoint,
    channels: Mapping[str, StoredChannel] | None,
    step: int,
    *,
    id: str | None = None,  # noqa: A002 - the public name
) -> Checkpoint:
    """The checkpoint after ``checkpoint``, with what the channels hold now; for tests of savers.

    Args:
        channels: ``None`` takes over the values as they are.
        step: the superstep.
        id: the new checkpoint's id, if it must be a certain one.
    """
    made = copy_checkpoint(checkpoint)
    made["id"] = id or checkpoint_id(step, checkpoint["id"])
    made["ts"] = datetime.fromtimestamp(time.time(), UTC).isoformat()
    if channels is not None:
        held = {name: channel for name, channel in channels.items() if name in made["channel_versions"]}
        made["channel_values"] = {name: each.checkpoint() for name, each in held.items() if each.is_available()}
    return made
