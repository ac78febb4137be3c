"""Reading one thread: records, values and pending writes, and what they refer to."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from redis import Redis

from phalanx.checkpoint.base import Checkpoint, CheckpointTuple, DeltaChannelHistory, HistoryWalk, PendingWrite
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.packing import BlobCache, Packed, bytes_of, packets_of, resolve
from phalanx.checkpoint.redis.client import pipelined, read_fields
from phalanx.checkpoint.redis.record import CheckpointRecord
from phalanx.checkpoint.redis.stored import StoredWrite, stored_writes
from phalanx.checkpoint.serde import Serializer, decode_exception
from phalanx.errors import CorruptDataError
from phalanx.protocol.batch import Ref
from phalanx.protocol.keys import LONE_WRITES, THREAD_FIELD, ThreadKeys, place, place_parts
from phalanx.protocol.names import TASKS
from phalanx.types import Send

_SCAN_PAGE: Final = 100
_ANCESTORS_AT_ONCE: Final = 32
_TRIES: Final = 3

Raw = tuple[bytes | None, dict[bytes, bytes]]
"""A checkpoint's record, and the fields of what is pending on it."""


class ThreadReader:
    """A thread in the state server.

    Args:
        client: the server.
        keys: the thread's keys.
        serializer: the codec.
        cache: blobs that were read before.
    """

    def __init__(self, client: Redis, keys: ThreadKeys, serializer: Serializer, cache: BlobCache) -> None:
        self.client = client
        self.keys = keys
        self.serializer = serializer
        self._cache = cache

    # --- what there is ------------------------------------------------------------------------------------------------

    def places(self) -> list[tuple[str, str]]:
        """Namespace and id of every checkpoint."""
        found = cast("Sequence[bytes]", self.client.zrangebylex(self.keys.index, "-", "+"))
        return [place_parts(name.decode()) for name in found]

    def lone_places(self) -> list[tuple[str, str]]:
        """Where writes are whose checkpoint was not put when they were."""
        prefix = LONE_WRITES.encode()
        found = cast("Sequence[bytes]", self.client.hkeys(self.keys.about))
        return [place_parts(field[len(prefix) :].decode()) for field in found if field.startswith(prefix)]

    def thread_id(self) -> str | None:
        """The thread's id; ``None`` when it had to be hashed for the keys, and was not noted."""
        if not self.keys.hashed:
            return self.keys.thread_id
        found = read_fields(self.client, self.keys.about, [THREAD_FIELD])
        return found[THREAD_FIELD].decode("utf-8", "surrogatepass") if found else None

    def ids(self, namespace: str, before: str | None = None) -> Iterator[str]:
        """The ids of a namespace's checkpoints, newest first, read a page at a time."""
        upper = b"(" + (place(namespace, before).encode() if before else namespace.encode() + b"\x01")
        while True:
            page = self._page(namespace, upper, _SCAN_PAGE)
            yield from page
            if len(page) < _SCAN_PAGE:
                return
            upper = b"(" + place(namespace, page[-1]).encode()

    def _page(self, namespace: str, upper: bytes, count: int) -> list[str]:
        lower = b"[" + place(namespace, "").encode()
        found = cast("list[bytes]", self.client.zrevrangebylex(self.keys.index, upper, lower, 0, count))
        return [place_parts(name.decode())[1] for name in found]

    def raw(self, namespace: str, checkpoint_ids: Sequence[str]) -> list[Raw]:
        """What is stored of checkpoints."""
        pipe = pipelined(self.client)
        for checkpoint_id in checkpoint_ids:
            pipe.hget(self.keys.checkpoints, place(namespace, checkpoint_id))
            pipe.hgetall(self.keys.writes(namespace, checkpoint_id))
        found = cast("list[Any]", pipe.execute())
        return list(zip(found[::2], found[1::2], strict=True))

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def load(self, namespace: str, checkpoint_id: str) -> tuple[CheckpointTuple, CheckpointRecord] | None:
        """A checkpoint as a saver returns it, and its record; ``None`` when there is none.

        Raises:
            CorruptDataError: it cannot be read.
        """
        ((data, fields),) = self.raw(namespace, [checkpoint_id])
        for left in reversed(range(_TRIES)):
            if data is None:
                return None
            try:
                return self._build(namespace, checkpoint_id, data, fields)
            except CorruptDataError:
                # Between the two reads it may have been pruned, blobs and all; then it reads differently now.
                before = (data, fields)
                ((data, fields),) = self.raw(namespace, [checkpoint_id])
                if left == 0 or (data, fields) == before:
                    raise
        return None

    def _build(
        self, namespace: str, checkpoint_id: str, data: bytes, fields: Mapping[bytes, bytes]
    ) -> tuple[CheckpointTuple, CheckpointRecord]:
        record = CheckpointRecord.unpack(data, self.serializer)
        checkpoint: Checkpoint = {
            "v": record.v,
            "id": checkpoint_id,
            "ts": record.ts,
            "channel_values": self.values(record.values),
            "channel_versions": dict(record.versions),
            "versions_seen": {node: dict(seen) for node, seen in record.seen.items()},
            "updated_channels": record.updated,
        }
        address = CheckpointAddress(self.keys.thread_id, namespace, checkpoint_id)
        parent = CheckpointAddress(self.keys.thread_id, namespace, record.parent_id)
        pending = self.pending(stored_writes(fields))
        parent_config = parent.config() if record.parent_id else None
        return CheckpointTuple(address.config(), checkpoint, record.metadata, parent_config, pending), record

    def values(self, refs: Mapping[str, Ref]) -> dict[str, Any]:
        """Channel values."""
        blobs = self.resolve(refs.values())
        values: dict[str, Any] = {}
        for name, ref in refs.items():
            data = bytes_of(ref, blobs)
            values[name] = self._packets(packets_of(data)) if name == TASKS else self.serializer.loads(data)
        return values

    def _packets(self, packets: Sequence[Send]) -> Sequence[Send]:
        refs = [cast("Packed", packet.arg).ref for packet in packets]
        blobs = self.resolve(refs)
        return [
            Send(packet.node, self.serializer.loads(bytes_of(ref, blobs)), timeout=packet.timeout)
            for packet, ref in zip(packets, refs, strict=True)
        ]

    def pending(self, writes: Sequence[StoredWrite]) -> list[PendingWrite]:
        """Writes with their values."""
        blobs = self.resolve(write.value for write in writes)
        return [(write.task_id, write.channel, self._value_of(write, blobs)) for write in writes]

    def _value_of(self, write: StoredWrite, blobs: Mapping[str, bytes]) -> object:
        value = self.serializer.loads(bytes_of(write.value, blobs))
        if write.is_error:
            return repr(decode_exception(value))
        return value if write.node is None else Send(write.node, value, timeout=write.timeout)

    def resolve(self, refs: Iterable[Ref]) -> dict[str, bytes]:
        """The blobs behind references."""

        def fetch(digests: Sequence[str]) -> dict[str, bytes]:
            return read_fields(self.client, self.keys.blobs, digests)

        return resolve(refs, self._cache, fetch)

    def blobs_of(self, record: CheckpointRecord, writes: Sequence[StoredWrite]) -> dict[str, bytes]:
        """All blobs that a checkpoint and its writes refer to, those of packets' arguments included."""
        direct = [*record.values.values(), *(write.value for write in writes)]
        blobs = self.resolve(direct)
        if TASKS in record.values:
            packets = packets_of(bytes_of(record.values[TASKS], blobs))
            blobs |= self.resolve(cast("Packed", packet.arg).ref for packet in packets)
        return blobs

    # --- delta channels -----------------------------------------------------------------------------------------------

    def history(
        self, namespace: str, checkpoint_id: str, channels: Collection[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What channels' values at a checkpoint are made of. Ancestors are read many at a time."""
        walk = HistoryWalk(channels)
        ((data, _),) = self.raw(namespace, [checkpoint_id])
        at = None if data is None else CheckpointRecord.unpack(data, self.serializer).parent_id
        known: dict[str, Raw] = {}
        while at and walk.missing:
            if at not in known:
                older = self._page(namespace, b"(" + place(namespace, at).encode(), _ANCESTORS_AT_ONCE - 1)
                wanted = [at, *older]
                known = dict(zip(wanted, self.raw(namespace, wanted), strict=True))
            data, fields = known[at]
            if data is None:
                break
            record = CheckpointRecord.unpack(data, self.serializer)
            writes = [write for write in stored_writes(fields) if write.channel in walk.missing]
            values = self.values({name: ref for name, ref in record.values.items() if name in walk.missing})
            walk.visit(values.items(), self.pending(writes))
            at = record.parent_id
        return walk.result()
