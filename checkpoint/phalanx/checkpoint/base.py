"""What a saver keeps and how it is asked for it. The interface is the public one of checkpoint savers; a saver from
elsewhere that has these methods works as it is."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, ParamSpec, TypeAlias, TypedDict, TypeVar

from phalanx.checkpoint.serde import Serializer, SerializerProtocol
from phalanx.config import RunnableConfig
from phalanx.protocol.names import ERROR, INTERRUPT, RESUME
from phalanx.types import Update

P = ParamSpec("P")
T = TypeVar("T")

Version: TypeAlias = int | str | float
"""A channel's version; versions of one saver sort."""

ChannelVersions: TypeAlias = dict[str, Version]
PendingWrite: TypeAlias = tuple[str, str, Any]
"""Task id, channel, value."""

CHECKPOINT_FORMAT: Final = 4
"""What ``v`` is in checkpoints that are written here."""

SPECIAL_WRITES: Final[Mapping[str, int]] = {ERROR: -1, "__scheduled__": -2, INTERRUPT: -3, RESUME: -4}
"""Writes about a task have fixed places, so that a later one replaces the one before."""


class CheckpointMetadata(TypedDict, total=False):
    """What is known about a checkpoint.

    Keys:
        source: what made it: a run's input, a superstep, an update from outside, or a fork.
        step: -1 for the first input, 0 for the first superstep, and so on.
        parents: for subgraphs: checkpoint ids by namespace.
        run_id: the run that made it.
    """

    source: Literal["input", "loop", "update", "fork"]
    step: int
    parents: dict[str, str]
    run_id: str


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


async def _in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    import asyncio  # not needed, and not quick to import, where nothing is asynchronous

    return await asyncio.to_thread(function, *args, **kwargs)


class BaseCheckpointSaver(ABC):
    """Keeps checkpoints. Subclasses write the blocking methods; the async forms run them in a thread unless overridden.

    Args:
        serde: turns values into bytes and back.
    """

    serde: SerializerProtocol

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        self.serde = serde or Serializer()

    def get(self, config: RunnableConfig) -> Checkpoint | None:
        """The checkpoint alone."""
        found = self.get_tuple(config)
        return found.checkpoint if found else None

    @abstractmethod
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint ``config`` names, or the thread's latest; ``None`` when there is none."""

    @abstractmethod
    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the public name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints of a thread, newest first.

        Args:
            config: the thread, and optionally the namespace; ``None`` means all threads.
            filter: metadata entries that must be equal.
            before: only checkpoints older than this one.
            limit: the most to return.
        """

    @abstractmethod
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint whose parent is the one ``config`` names.

        Args:
            new_versions: the channels that changed since the parent; only their values need storing.

        Returns:
            A config that addresses the stored checkpoint.
        """

    @abstractmethod
    def put_writes(self, config: RunnableConfig, writes: Sequence[Update], task_id: str, task_path: str = "") -> None:
        """Store what a finished task of the named checkpoint wrote. Storing the same again changes nothing."""

    @abstractmethod
    def delete_thread(self, thread_id: str) -> None:
        """Forget everything about a thread."""

    def get_next_version(self, current: Version | None, channel: None = None) -> Version:
        """The version after ``current``: 1, 2, 3, … unless a saver counts otherwise."""
        if current is None:
            return 1
        if isinstance(current, str):
            raise TypeError(f"this saver counts versions as numbers; it cannot follow {current!r}")
        return current + 1

    async def aget(self, config: RunnableConfig) -> Checkpoint | None:
        """:meth:`get` without blocking the event loop."""
        found = await self.aget_tuple(config)
        return found.checkpoint if found else None

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """:meth:`get_tuple` without blocking the event loop."""
        return await _in_thread(self.get_tuple, config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the public name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """:meth:`list` without blocking the event loop."""
        found = await _in_thread(lambda: [*self.list(config, filter=filter, before=before, limit=limit)])
        for item in found:
            yield item

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """:meth:`put` without blocking the event loop."""
        return await _in_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[Update], task_id: str, task_path: str = ""
    ) -> None:
        """:meth:`put_writes` without blocking the event loop."""
        await _in_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """:meth:`delete_thread` without blocking the event loop."""
        await _in_thread(self.delete_thread, thread_id)
