"""The interface of checkpoint savers."""

import copy
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Generic, ParamSpec, Self, TypeVar, cast

import typing_extensions

from phalanx.checkpoint.base.history import HistoryWalk
from phalanx.checkpoint.base.records import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    Version,
)
from phalanx.checkpoint.serde import Serializer, SerializerProtocol
from phalanx.config import RunnableConfig
from phalanx.types import Update

P = ParamSpec("P")
T = TypeVar("T")
V = typing_extensions.TypeVar("V", bound=Version, default=Any)
"""The type of a saver's versions."""


async def _in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    import asyncio  # not needed, and not quick to import, where nothing is asynchronous

    return await asyncio.to_thread(function, *args, **kwargs)


class BaseCheckpointSaver(Generic[V]):
    """Keeps checkpoints. Subclasses write the blocking methods; the async forms run them in a thread unless overridden.

    :meth:`get_tuple`, :meth:`list`, :meth:`put`, :meth:`put_writes` and :meth:`delete_thread` are what every saver has,
    at least in one of the two forms. A saver that leaves out the others still works.

    Args:
        serde: turns values into bytes and back.
    """

    serde: SerializerProtocol

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        self.serde = serde or Serializer()

    @property
    def config_specs(self) -> Sequence[Any]:
        """What can be configured of a saver besides the thread: nothing."""
        return []

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, config: RunnableConfig) -> Checkpoint | None:
        """The checkpoint alone."""
        found = self.get_tuple(config)
        return found.checkpoint if found else None

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint ``config`` names, or the latest of its thread and namespace; ``None`` when there is none.

        Its pending writes are sorted by :func:`~phalanx.checkpoint.base.writes_sort_key`.
        """
        raise self._lacks("get_tuple")

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
        raise self._lacks("list")

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What these channels' values at a checkpoint are made of: from its ancestors, the nearest that holds the value
        whole, and the writes since.

        Args:
            config: the checkpoint, whose own values and pending writes do not count.
            channels: the channels.
        """
        if not channels:
            return {}
        walk = HistoryWalk(channels)
        start = self.get_tuple(config)
        at = start.parent_config if start else None
        while at is not None and (found := self.get_tuple(at)) is not None:
            at = walk.visit_tuple(found)
        return walk.result()

    # --- writing ------------------------------------------------------------------------------------------------------

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
        raise self._lacks("put")

    def put_writes(self, config: RunnableConfig, writes: Sequence[Update], task_id: str, task_path: str = "") -> None:
        """Store what a finished task of the named checkpoint wrote. Storing the same again changes nothing, except that
        a write about the task (:data:`~phalanx.checkpoint.base.SPECIAL_WRITES`) replaces the one before.

        Args:
            task_path: where the task stands among those of its superstep; sorts as text.
        """
        raise self._lacks("put_writes")

    def delete_thread(self, thread_id: str) -> None:
        """Forget everything about a thread."""
        raise self._lacks("delete_thread")

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Forget the checkpoints that these runs made, with the writes pending on them.

        A checkpoint stays that one of another run needs for a delta channel's value.

        Raises:
            NotImplementedError: this saver cannot.
        """
        raise self._lacks("delete_for_runs")

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Store all checkpoints of a thread, and the writes pending on them, in another thread too.

        Raises:
            NotImplementedError: this saver cannot.
        """
        raise self._lacks("copy_thread")

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Forget what is old of these threads.

        Args:
            thread_ids: the threads.
            strategy: ``"keep_latest"`` keeps the latest checkpoint of each namespace and what it needs, ``"delete"``
                keeps nothing.

        Raises:
            NotImplementedError: this saver cannot.
            ValueError: there is no such strategy.
        """
        raise self._lacks("prune")

    # --- the rest -----------------------------------------------------------------------------------------------------

    def get_next_version(self, current: V | None, channel: None = None) -> V:
        """The version after ``current``: 1, 2, 3, … unless a saver counts otherwise."""
        if current is None:
            return cast("V", 1)
        if isinstance(current, str):
            raise TypeError(f"this saver counts versions as numbers; it cannot follow {current!r}")
        return cast("V", current + 1)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """This saver, over the same storage, with a serializer that also restores these classes.

        A serializer that needs no list, such as :class:`~phalanx.checkpoint.serde.Serializer`, which restores what is
        registered, is left as it is.

        Args:
            extra_allowlist: modules and names of classes.
        """
        widened = getattr(self.serde, "with_msgpack_allowlist", None)
        if widened is None or not extra_allowlist:
            return self
        clone = copy.copy(self)
        clone.serde = widened(extra_allowlist)
        return clone

    def _lacks(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {method}")

    # --- the same without blocking the event loop ---------------------------------------------------------------------

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

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """:meth:`get_delta_channel_history` without blocking the event loop."""
        if type(self).get_delta_channel_history is not BaseCheckpointSaver.get_delta_channel_history:
            return await _in_thread(self.get_delta_channel_history, config=config, channels=channels)
        if not channels:
            return {}
        walk = HistoryWalk(channels)
        start = await self.aget_tuple(config)
        at = start.parent_config if start else None
        while at is not None and (found := await self.aget_tuple(at)) is not None:
            at = walk.visit_tuple(found)
        return walk.result()

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

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """:meth:`delete_for_runs` without blocking the event loop."""
        await _in_thread(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """:meth:`copy_thread` without blocking the event loop."""
        await _in_thread(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """:meth:`prune` without blocking the event loop."""
        await _in_thread(self.prune, thread_ids, strategy=strategy)
