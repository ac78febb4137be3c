"""A saver that keeps everything in this process: for tests, examples, and graphs whose threads need not outlive it."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, NamedTuple, cast

from phalanx.checkpoint.base import (
    SPECIAL_WRITES,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    HistoryWalk,
    PendingWrite,
    writes_sort_key,
)
from phalanx.checkpoint.configs import CheckpointAddress, matches
from phalanx.checkpoint.memory_values import Blob, Stored, Values, dumped, loaded
from phalanx.checkpoint.retention import LATEST_ONLY, Link, Retention, check_strategy, link_of, with_needed
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.config import RunnableConfig
from phalanx.types import Update

KEEP_ALL: Final = Retention()
_Pending = list[PendingWrite]  # inside of the saver, `list` is its method


@dataclass(frozen=True, slots=True)
class _Record:
    checkpoint: Checkpoint  # without channel values; nothing in it is changed once stored
    values: Mapping[str, Stored]
    metadata: Blob
    link: Link
    run_id: str | None


class _Write(NamedTuple):
    channel: str
    value: Stored
    path: str


@dataclass(slots=True)
class _Namespace:
    records: dict[str, _Record] = field(default_factory=dict[str, _Record])
    writes: dict[str, dict[tuple[str, int], _Write]] = field(default_factory=dict[str, dict[tuple[str, int], _Write]])
    latest: str = ""
    sweep_at: int = 0

    def links(self) -> list[Link]:
        return [record.link for record in self.records.values()]

    def keep(self, kept: Collection[str]) -> None:
        """Forget all other checkpoints, the writes on them, and that they were parents."""
        gone = self.records.keys() - kept
        for checkpoint_id in gone:
            del self.records[checkpoint_id]
            self.writes.pop(checkpoint_id, None)
        for checkpoint_id, record in self.records.items():
            if record.link.parent_id in gone:
                self.records[checkpoint_id] = replace(record, link=record.link._replace(parent_id=None))
        if self.latest in gone:
            self.latest = max(self.records, default="")


@dataclass(slots=True)
class _Thread:
    namespaces: dict[str, _Namespace] = field(default_factory=dict[str, _Namespace])
    written_at: float = 0.0


class InMemorySaver(BaseCheckpointSaver, AbstractContextManager["InMemorySaver"]):
    """Keeps checkpoints in memory, serialized, so that what is stored cannot change under its reader.

    Equal values are held once, and a channel that does not change costs nothing. Safe to use from several threads. The
    versions seen by a node are kept as they were given; whoever stores a checkpoint must replace those dicts, as the
    engine does, and not change them.

    Args:
        serde: turns values into bytes and back.
        retention: what to keep; everything if left out.
        clock: the time in seconds, for ``retention.ttl_s``.
    """

    def __init__(
        self,
        *,
        serde: SerializerProtocol | None = None,
        retention: Retention = KEEP_ALL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(serde=serde)
        self.retention = retention
        self._clock = clock
        self._lock = threading.RLock()
        self._threads: OrderedDict[str, _Thread] = OrderedDict()  # the one written longest ago comes first
        self._values = Values()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    async def __aenter__(self) -> "InMemorySaver":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return None

    # --- reading ------------------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        address = CheckpointAddress.of(config)
        with self._lock:
            at = self._find(address)
            record = at.records.get(address.checkpoint_id or at.latest) if at else None
            if at is None or record is None:
                return None
            writes = [*at.writes.get(record.link.id, {}).items()]
        return self._load(address.thread_id, address.namespace, record, writes)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the public name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        bound = CheckpointAddress.of(before).checkpoint_id if before else None
        left = limit
        for thread_id, namespace, record in self._matching(config):
            if left == 0:
                return
            if bound and record.link.id >= bound:
                continue
            metadata = cast("dict[str, object]", self.serde.loads_typed(record.metadata.typed))
            if filter and not matches(metadata, filter):
                continue
            left = None if left is None else left - 1
            with self._lock:
                at = self._find(CheckpointAddress(thread_id, namespace, None))
                writes = [*at.writes.get(record.link.id, {}).items()] if at else []
            yield self._load(thread_id, namespace, record, writes)

    def _matching(self, config: RunnableConfig | None) -> Sequence[tuple[str, str, _Record]]:
        wanted = CheckpointAddress.of(config) if config else None
        any_namespace = config is None or "checkpoint_ns" not in config.get("configurable", {})
        with self._lock:
            self._drop_expired()
            found = [
                (thread_id, namespace, record)
                for thread_id, thread in self._threads.items()
                if wanted is None or thread_id == wanted.thread_id
                for namespace, at in thread.namespaces.items()
                if any_namespace or (wanted is not None and namespace == wanted.namespace)
                for record in at.records.values()
                if wanted is None or wanted.checkpoint_id in (None, record.link.id)
            ]
        return sorted(found, key=lambda item: item[2].link.id, reverse=True)

    def _load(
        self, thread_id: str, namespace: str, record: _Record, writes: Sequence[tuple[tuple[str, int], _Write]]
    ) -> CheckpointTuple:
        values = {name: loaded(value, self.serde) for name, value in record.values.items()}
        checkpoint = _own(record.checkpoint, values)
        checkpoint["versions_seen"] = {node: {**seen} for node, seen in checkpoint["versions_seen"].items()}
        return CheckpointTuple(
            CheckpointAddress(thread_id, namespace, record.link.id).config(),
            checkpoint,
            cast("CheckpointMetadata", self.serde.loads_typed(record.metadata.typed)),
            CheckpointAddress(thread_id, namespace, record.link.parent_id).config() if record.link.parent_id else None,
            self._pending(writes),
        )

    def _pending(self, writes: Sequence[tuple[tuple[str, int], _Write]]) -> _Pending:
        in_order = sorted(writes, key=lambda item: writes_sort_key(item[1].path, *item[0]))
        return [(task_id, write.channel, loaded(write.value, self.serde)) for (task_id, _), write in in_order]

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        address = CheckpointAddress.of(config)
        walk = HistoryWalk(channels)
        with self._lock:
            at = self._find(address) or _Namespace()
            record = at.records.get(address.checkpoint_id or at.latest)
            while record is not None and walk.missing:
                record = at.records.get(record.link.parent_id or "")
                if record is None:
                    break
                here = at.writes.get(record.link.id, {})
                writes = [item for item in here.items() if item[1].channel in walk.missing]
                values = [(name, record.values[name]) for name in walk.missing if name in record.values]
                walk.visit([(name, loaded(value, self.serde)) for name, value in values], self._pending(writes))
        return walk.result()

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        address = CheckpointAddress.of(config)
        values = checkpoint["channel_values"]
        seen: dict[int, Blob] = {}
        new = {name: dumped(name, values[name], self.serde, seen) for name in new_versions if name in values}
        packed_metadata = Blob(self.serde.dumps_typed(metadata))
        run_id = metadata.get("run_id")
        with self._lock:
            at = self._touch(address)
            parent = at.records.get(address.checkpoint_id or "")
            stored = {**parent.values} if parent else {}
            stored.update({name: self._values.share(value) for name, value in new.items()})
            for name in new_versions.keys() - values.keys():
                stored.pop(name, None)
            if stored.keys() != values.keys():  # the parent is not here, or has not what the caller thinks
                stored = {
                    name: stored.get(name) or self._values.share(dumped(name, value, self.serde, seen))
                    for name, value in values.items()
                }
            link = link_of(checkpoint["id"], address.checkpoint_id, stored, cast("dict[str, object]", metadata))
            at.records[link.id] = _Record(
                _own(checkpoint, {}), stored, packed_metadata, link, None if run_id is None else str(run_id)
            )
            at.latest = max(at.latest, link.id)
            if self.retention.keep_last is not None and len(at.records) >= (at.sweep_at or self.retention.sweep_at()):
                at.keep(self.retention.survivors(at.links()))
                at.sweep_at = self.retention.sweep_at(len(at.records))
        return CheckpointAddress(address.thread_id, address.namespace, checkpoint["id"]).config()

    def put_writes(self, config: RunnableConfig, writes: Sequence[Update], task_id: str, task_path: str = "") -> None:
        address = CheckpointAddress.of_checkpoint(config)
        seen: dict[int, Blob] = {}
        packed = [(channel, dumped(channel, value, self.serde, seen)) for channel, value in writes]
        if not packed:
            return
        with self._lock:
            stored = self._touch(address).writes.setdefault(cast("str", address.checkpoint_id), {})
            for place, (channel, value) in enumerate(packed):
                index = SPECIAL_WRITES.get(channel, place)
                if index < 0 or (task_id, index) not in stored:
                    stored[task_id, index] = _Write(channel, self._values.share(value), task_path)

    # --- forgetting, and copying --------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            self._threads.pop(str(thread_id), None)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        unwanted = {*map(str, run_ids)}
        with self._lock:
            for thread in self._threads.values():
                for at in thread.namespaces.values():
                    stay = [each for each, record in at.records.items() if record.run_id not in unwanted]
                    at.keep(with_needed(at.links(), stay))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        with self._lock:
            self._drop_expired()
            source = self._threads.get(str(source_thread_id))
            if source is None or source_thread_id == target_thread_id:
                return
            for namespace, copied in source.namespaces.items():
                at = self._touch(CheckpointAddress(str(target_thread_id), namespace, None))
                at.records = {**copied.records, **at.records}
                for checkpoint_id, writes in copied.writes.items():
                    at.writes[checkpoint_id] = {**writes, **at.writes.get(checkpoint_id, {})}
                at.latest = max(at.latest, copied.latest)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        check_strategy(strategy)
        with self._lock:
            for thread_id in thread_ids:
                if strategy == "delete":
                    self.delete_thread(thread_id)
                    continue
                thread = self._threads.get(str(thread_id)) or _Thread()
                for at in thread.namespaces.values():
                    at.keep(LATEST_ONLY.survivors(at.links()))

    # --- threads; the lock is held ------------------------------------------------------------------------------------

    def _find(self, address: CheckpointAddress) -> _Namespace | None:
        self._drop_expired()
        thread = self._threads.get(address.thread_id)
        return thread.namespaces.get(address.namespace) if thread else None

    def _touch(self, address: CheckpointAddress) -> _Namespace:
        """The namespace that is written now."""
        if self.retention.ttl_s is not None:
            self._drop_expired()
        thread = self._threads.get(address.thread_id)
        if thread is None:
            thread = self._threads[address.thread_id] = _Thread()
        if self.retention.ttl_s is not None:
            thread.written_at = self._clock()
            self._threads.move_to_end(address.thread_id)
        at = thread.namespaces.get(address.namespace)
        if at is None:
            at = thread.namespaces[address.namespace] = _Namespace()
        return at

    def _drop_expired(self) -> None:
        if self.retention.ttl_s is None:
            return
        past = self._clock() - self.retention.ttl_s
        while self._threads and next(iter(self._threads.values())).written_at <= past:
            self._threads.popitem(last=False)


def _own(checkpoint: Checkpoint, values: dict[str, Any]) -> Checkpoint:
    """The checkpoint with these values, and with collections of its own."""
    updated = checkpoint.get("updated_channels")
    own = {
        **checkpoint,
        "channel_values": values,
        "channel_versions": checkpoint["channel_versions"].copy(),
        "versions_seen": checkpoint["versions_seen"].copy(),
        "updated_channels": None if updated is None else [*updated],
    }
    return cast("Checkpoint", own)


MemorySaver = InMemorySaver
"""The same saver under its older name."""

__all__ = ["InMemorySaver", "MemorySaver"]
