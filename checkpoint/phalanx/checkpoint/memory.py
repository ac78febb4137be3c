"""A saver that keeps everything in this process: for tests, examples, and graphs whose threads need not outlive it."""

import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, cast

from phalanx.checkpoint.base import (
    SPECIAL_WRITES,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
)
from phalanx.checkpoint.configs import CheckpointAddress, matches
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.config import RunnableConfig
from phalanx.types import Update

Typed = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class _Record:
    checkpoint: Checkpoint  # without channel values; nothing in it is changed once stored
    values: Mapping[str, Typed]
    metadata: Typed
    parent_id: str | None


class InMemorySaver(BaseCheckpointSaver, AbstractContextManager["InMemorySaver"]):
    """Keeps checkpoints in memory, serialized, so that what is stored cannot change under its reader.

    A value is stored once for each version of its channel: a channel that does not change costs nothing. Safe to use
    from several threads. The versions seen by a node are kept as they were given; whoever stores a checkpoint must
    replace those dicts, as the engine does, and not change them.
    """

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self._lock = threading.RLock()
        self._records: dict[str, dict[str, dict[str, _Record]]] = defaultdict(lambda: defaultdict(dict))
        self._writes: dict[CheckpointAddress, dict[tuple[str, int], tuple[str, Typed]]] = defaultdict(dict)

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

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        address = CheckpointAddress.of(config)
        with self._lock:
            records = self._records.get(address.thread_id, {}).get(address.namespace, {})
            found = address.checkpoint_id or max(records, default=None)
            if found is None or found not in records:
                return None
            return self._load(CheckpointAddress(address.thread_id, address.namespace, found), records[found])

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
        for address, record in self._matching(config):
            if left == 0:
                return
            if bound and cast("str", address.checkpoint_id) >= bound:
                continue
            if filter and not matches(cast("dict[str, object]", self.serde.loads_typed(record.metadata)), filter):
                continue
            left = None if left is None else left - 1
            with self._lock:
                yield self._load(address, record)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        address = CheckpointAddress.of(config)
        values = checkpoint["channel_values"]
        new = {name: self.serde.dumps_typed(values[name]) for name in new_versions if name in values}
        packed_metadata = self.serde.dumps_typed(metadata)
        with self._lock:
            records = self._records[address.thread_id][address.namespace]
            parent = records.get(address.checkpoint_id or "")
            stored = {**parent.values, **new} if parent else new
            for name in new_versions.keys() - values.keys():
                stored.pop(name, None)
            if stored.keys() != values.keys():  # the parent is not here, or has not what the caller thinks
                stored = {name: stored.get(name) or self.serde.dumps_typed(value) for name, value in values.items()}
            records[checkpoint["id"]] = _Record(_own(checkpoint, {}), stored, packed_metadata, address.checkpoint_id)
        return CheckpointAddress(address.thread_id, address.namespace, checkpoint["id"]).config()

    def put_writes(self, config: RunnableConfig, writes: Sequence[Update], task_id: str, task_path: str = "") -> None:
        address = CheckpointAddress.of(config)
        packed = [(channel, self.serde.dumps_typed(value)) for channel, value in writes]
        with self._lock:
            stored = self._writes[address]
            for place, (channel, value) in enumerate(packed):
                index = SPECIAL_WRITES.get(channel, place)
                if index < 0 or (task_id, index) not in stored:
                    stored[task_id, index] = (channel, value)

    def delete_thread(self, thread_id: str) -> None:
        with self._lock:
            self._records.pop(thread_id, None)
            for writes in [key for key in self._writes if key.thread_id == thread_id]:
                del self._writes[writes]

    def _matching(self, config: RunnableConfig | None) -> Sequence[tuple[CheckpointAddress, _Record]]:
        wanted = CheckpointAddress.of(config) if config else None
        any_namespace = config is None or "checkpoint_ns" not in config.get("configurable", {})
        with self._lock:
            found = [
                (CheckpointAddress(thread, namespace, identity), record)
                for thread, namespaces in self._records.items()
                if wanted is None or thread == wanted.thread_id
                for namespace, records in namespaces.items()
                if any_namespace or (wanted is not None and namespace == wanted.namespace)
                for identity, record in records.items()
                if wanted is None or wanted.checkpoint_id in (None, identity)
            ]
        return sorted(found, key=lambda item: cast("str", item[0].checkpoint_id), reverse=True)

    def _load(self, address: CheckpointAddress, record: _Record) -> CheckpointTuple:
        values = {name: self.serde.loads_typed(value) for name, value in record.values.items()}
        checkpoint = _own(record.checkpoint, values)
        checkpoint["versions_seen"] = {node: {**seen} for node, seen in checkpoint["versions_seen"].items()}
        parent = CheckpointAddress(address.thread_id, address.namespace, record.parent_id)
        pending: list[PendingWrite] = [
            (task_id, channel, self.serde.loads_typed(value))
            for (task_id, _), (channel, value) in self._writes.get(address, {}).items()
        ]
        return CheckpointTuple(
            address.config(),
            checkpoint,
            cast("CheckpointMetadata", self.serde.loads_typed(record.metadata)),
            parent.config() if record.parent_id else None,
            pending,
        )


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
