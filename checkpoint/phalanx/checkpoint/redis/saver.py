"""A saver over one Redis or Valkey server. A cluster keeps the threads of graphs without a saver in it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, cast

from redis import Redis

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
from phalanx.checkpoint.packing import BlobCache, Packed, Packer, bytes_of, packets_of, resolve
from phalanx.checkpoint.redis.client import connect, pipelined, read_fields
from phalanx.checkpoint.redis.record import CheckpointRecord
from phalanx.checkpoint.redis.scripts import Scripts
from phalanx.checkpoint.redis.thread_store import commit
from phalanx.checkpoint.serde import Serializer, decode_exception
from phalanx.config import RunnableConfig
from phalanx.protocol.batch import Ref
from phalanx.protocol.keys import DEFAULT_PREFIX, ThreadKeys, place, place_parts
from phalanx.protocol.names import ERROR, HANDED_OVER, TASKS
from phalanx.protocol.outcome import Outcome, OutcomeKind
from phalanx.protocol.plain import expect, expect_list, pack, unpack
from phalanx.types import Send, Update

_SCAN_PAGE: Final = 100


class RedisSaver(BaseCheckpointSaver):
    """Keeps checkpoints in Redis: values as blobs by content, so that what does not change is stored once.

    Args:
        server: a URL, or a client made with :func:`phalanx.checkpoint.redis.client.connect`.
        serde: the codec.
        prefix: what all keys start with.
    """

    serde: Serializer  # pyright: ignore[reportIncompatibleVariableOverride] - blobs need this codec

    def __init__(self, server: str | Redis, *, serde: Serializer | None = None, prefix: str = DEFAULT_PREFIX) -> None:
        super().__init__(serde=serde or Serializer())
        self.client = connect(server) if isinstance(server, str) else server
        self.prefix = prefix
        self._scripts = Scripts(self.client, "phalanx.checkpoint.redis")
        self._cache = BlobCache()

    def keys(self, thread_id: str) -> ThreadKeys:
        """The keys of a thread."""
        return ThreadKeys(thread_id, self.prefix)

    # --- reading ------------------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        address = CheckpointAddress.of(config)
        keys = self.keys(address.thread_id)
        checkpoint_id = address.checkpoint_id or next(self._ids(keys, address.namespace), None)
        if checkpoint_id is None:
            return None
        return self._load(CheckpointAddress(address.thread_id, address.namespace, checkpoint_id))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the public name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        if config is None:
            raise ValueError("RedisSaver lists one thread at a time: pass a config with configurable.thread_id")
        return islice(self._listed(config, filter or {}, before), limit)

    def _listed(
        self, config: RunnableConfig, wanted: Mapping[str, object], before: RunnableConfig | None
    ) -> Iterator[CheckpointTuple]:
        address = CheckpointAddress.of(config)
        bound = CheckpointAddress.of(before).checkpoint_id if before else None
        keys = self.keys(address.thread_id)
        namespaces = self._namespaces(config, address)
        newest_first = merge(*(self._addresses(keys, namespace, bound) for namespace in namespaces), reverse=True)
        for checkpoint_id, namespace in newest_first:
            if address.checkpoint_id not in (None, checkpoint_id):
                continue
            found = self._load(CheckpointAddress(address.thread_id, namespace, checkpoint_id))
            if found is not None and matches(cast("Mapping[str, object]", found.metadata), wanted):
                yield found

    def _addresses(self, keys: ThreadKeys, namespace: str, before: str | None) -> Iterator[tuple[str, str]]:
        return ((checkpoint_id, namespace) for checkpoint_id in self._ids(keys, namespace, before))

    def _namespaces(self, config: RunnableConfig, address: CheckpointAddress) -> Sequence[str]:
        if "checkpoint_ns" in config.get("configurable", {}):
            return [address.namespace]
        return sorted({namespace for namespace, _ in self._places(self.keys(address.thread_id))})

    def _places(self, keys: ThreadKeys) -> Iterator[tuple[str, str]]:
        """Namespace and id of every checkpoint of a thread."""
        found = cast("Sequence[bytes]", self.client.zrangebylex(keys.index, "-", "+"))
        return (place_parts(name.decode()) for name in found)

    def _ids(self, keys: ThreadKeys, namespace: str, before: str | None = None) -> Iterator[str]:
        """The ids of a namespace's checkpoints, newest first, read a page at a time."""
        upper = b"(" + (place(namespace, before).encode() if before else namespace.encode() + b"\x01")
        lower = b"[" + place(namespace, "").encode()
        while True:
            page = cast("list[bytes]", self.client.zrevrangebylex(keys.index, upper, lower, 0, _SCAN_PAGE))
            for name in page:
                yield place_parts(name.decode())[1]
            if len(page) < _SCAN_PAGE:
                return
            upper = b"(" + page[-1]

    def _load(self, address: CheckpointAddress) -> CheckpointTuple | None:
        keys, namespace = self.keys(address.thread_id), address.namespace
        checkpoint_id = cast("str", address.checkpoint_id)
        pipe = pipelined(self.client)
        pipe.hget(keys.checkpoints, place(namespace, checkpoint_id))
        pipe.hgetall(keys.writes(namespace, checkpoint_id))
        data, outcomes = cast("tuple[bytes | None, dict[bytes, bytes]]", tuple(pipe.execute()))
        if data is None:
            return None
        record = CheckpointRecord.unpack(data, self.serde)
        pending = list(self._pending(keys, outcomes))
        checkpoint: Checkpoint = {
            "v": record.v,
            "id": checkpoint_id,
            "ts": record.ts,
            "channel_values": self._values(keys, record.values),
            "channel_versions": dict(record.versions),
            "versions_seen": {node: dict(seen) for node, seen in record.seen.items()},
            "updated_channels": record.updated,
        }
        parent = CheckpointAddress(address.thread_id, namespace, record.parent_id)
        parent_config = parent.config() if record.parent_id else None
        return CheckpointTuple(address.config(), checkpoint, record.metadata, parent_config, pending)

    def _values(self, keys: ThreadKeys, refs: Mapping[str, Ref]) -> dict[str, Any]:
        blobs = self._resolve(keys, refs.values())
        values: dict[str, Any] = {}
        for name, ref in refs.items():
            data = bytes_of(ref, blobs)
            values[name] = self._packets(keys, packets_of(data)) if name == TASKS else self.serde.loads(data)
        return values

    def _packets(self, keys: ThreadKeys, packets: Sequence[Send]) -> Sequence[Send]:
        refs = [cast("Packed", packet.arg).ref for packet in packets]
        blobs = self._resolve(keys, refs)
        return [
            Send(packet.node, self.serde.loads(bytes_of(ref, blobs)), timeout=packet.timeout)
            for packet, ref in zip(packets, refs, strict=True)
        ]

    def _pending(self, keys: ThreadKeys, stored: Mapping[bytes, bytes]) -> Iterable[PendingWrite]:
        # Single writes first: among them are the errors of earlier runs, and a whole outcome is newer than those.
        for field, data in sorted(stored.items(), key=lambda item: (b"\x00" not in item[0], item[0])):
            task_id, single, _ = field.decode().partition("\x00")
            if single:
                channel, value = _unpack_write(data)
                yield task_id, channel, self.serde.loads(value)
                continue
            outcome = Outcome.unpack(data)
            if outcome.kind in (OutcomeKind.ERROR, OutcomeKind.HANDED_OVER):
                encoded = self.serde.loads(outcome.error)
                yield task_id, ERROR, repr(decode_exception(encoded))
                if outcome.kind is OutcomeKind.HANDED_OVER:
                    yield task_id, HANDED_OVER, encoded
            for write in outcome.writes:
                if write.node is not None:
                    packet = Send(write.node, Packed(write.value), timeout=write.timeout)
                    yield task_id, write.channel, self._packets(keys, [packet])[0]
                else:
                    yield task_id, write.channel, self.serde.loads(cast("bytes", write.value))

    def _resolve(self, keys: ThreadKeys, refs: Iterable[Ref]) -> dict[str, bytes]:
        def fetch(digests: Sequence[str]) -> dict[str, bytes]:
            return read_fields(self.client, keys.blobs, digests)

        return resolve(refs, self._cache, fetch)

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        address = CheckpointAddress.of(config)
        packer = Packer(self.serde)
        values = {name: packer.pack_channel(name, value) for name, value in checkpoint["channel_values"].items()}
        record = CheckpointRecord(
            checkpoint["v"],
            checkpoint["ts"],
            address.checkpoint_id,
            checkpoint["channel_versions"],
            checkpoint["versions_seen"],
            checkpoint["updated_channels"],
            metadata,
            values,
        )
        commit(
            self._scripts,
            self.keys(address.thread_id),
            token=None,
            ttl_s=0,
            blobs=packer.take_blobs(),
            namespace=address.namespace,
            checkpoint_id=checkpoint["id"],
            parent_id=address.checkpoint_id or "",
            record=record.pack(self.serde),
        )
        return CheckpointAddress(address.thread_id, address.namespace, checkpoint["id"]).config()

    def put_writes(self, config: RunnableConfig, writes: Sequence[Update], task_id: str, task_path: str = "") -> None:
        address = CheckpointAddress.of(config)
        key = self.keys(address.thread_id).writes(address.namespace, address.checkpoint_id or "")
        pipe = pipelined(self.client)
        for index, (channel, value) in enumerate(writes):
            fixed = SPECIAL_WRITES.get(channel)
            field = write_field(task_id, index if fixed is None else fixed)
            packed = pack_write(channel, self.serde.dumps(value))
            if fixed is None:
                pipe.hsetnx(key, field, packed)
            else:
                pipe.hset(key, field, packed)
        pipe.execute()

    def delete_thread(self, thread_id: str) -> None:
        keys = self.keys(thread_id)
        steps = [made(*each) for each in self._places(keys) for made in (keys.writes, keys.claims)]
        self.client.unlink(keys.lease, keys.blobs, keys.checkpoints, keys.index, *steps)


def write_field(task_id: str, index: int) -> str:
    """The field of a single write beside the outcomes of whole tasks."""
    return f"{task_id}\x00{index:08d}" if index >= 0 else f"{task_id}\x00{index}"


def pack_write(channel: str, value: bytes) -> bytes:
    """A single write as it is stored."""
    return pack([channel, value])


def _unpack_write(data: bytes) -> tuple[str, bytes]:
    def read(record: Any) -> tuple[str, bytes]:
        channel, value = expect_list(record)
        return expect(str, channel), expect(bytes, value)

    return unpack(data, "a pending write", read)
