"""Operations that store checkpoints and writes. Values are packed before the transaction begins where that is possible.

Everything here bears repeating, so that a caller may try again after an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from phalanx.checkpoint.base import SPECIAL_WRITES, ChannelVersions, Checkpoint, CheckpointMetadata
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.checkpoint.sql.forgetting import expiry
from phalanx.checkpoint.sql.statements import (
    Operation,
    Parameter,
    Statement,
    Steps,
    encoded,
    full_name,
    insert,
    key_of,
)
from phalanx.checkpoint.sql.values import Record, ValuePacker, digests_in, same_value, stored_value
from phalanx.types import Update

_CHECKPOINTS, _WRITES, _BLOBS, _REFS = "phalanx_checkpoints", "phalanx_writes", "phalanx_blobs", "phalanx_refs"
_CHECKPOINT: Final = (
    "thread",
    "namespace",
    "id",
    "namespace_name",
    "parent",
    "run",
    "held",
    "metadata",
    "record",
)
_WRITE: Final = ("thread", "namespace", "checkpoint", "task", "idx", "task_name", "path", "channel", "value")
_BLOB: Final = ("thread", "digest", "data")
_REF: Final = ("thread", "namespace", "checkpoint", "digest")

_COARSE_S: Final = 60.0
"""How exact the time of the last write must be where nothing depends on it."""

_LARGE_BYTES: Final = 64 << 10
"""Blobs of this size have statements of their own, since a statement travels as a whole."""

_REPLACE_CHECKPOINT: Final = "(thread, namespace, id) DO UPDATE SET " + ", ".join(
    f"{column} = excluded.{column}" for column in _CHECKPOINT[3:]
)
_REPLACE_WRITE: Final = (
    "(thread, namespace, checkpoint, task, idx) DO UPDATE SET "
    "path = excluded.path, channel = excluded.channel, value = excluded.value"
)
# The row is locked even if its time is good enough, so that whoever else changes the thread waits.
_LOCK: Final = """
INSERT INTO phalanx_threads (thread, full_name, written_at) VALUES (?, ?, ?) ON CONFLICT (thread) DO UPDATE
SET written_at = excluded.written_at WHERE phalanx_threads.written_at <= excluded.written_at - ?
"""
_ANY: Final = "SELECT 1 FROM phalanx_threads WHERE thread = ?"
_PARENT: Final = "SELECT record FROM phalanx_checkpoints WHERE thread = ? AND namespace = ? AND id = ?"


@dataclass(frozen=True, slots=True)
class Writer:
    """Makes the operations that store.

    Args:
        now: the time in seconds.
        cutoff: a thread that nobody wrote since is over, and begins anew.
    """

    serde: SerializerProtocol
    now: float
    cutoff: float | None

    def put(
        self,
        address: CheckpointAddress,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Operation[None]:
        """Store a checkpoint whose parent is the one at the address."""
        packer = ValuePacker(self.serde)
        given = checkpoint["channel_values"]
        unchanged = [name for name in given if name not in new_versions] if address.checkpoint_id else []
        packed = {name: packer.channel(name, given[name]) for name in given.keys() - set(unchanged)}
        about = packer.alone(metadata)
        run = metadata.get("run_id")
        place = (key_of(address.thread_id), key_of(address.namespace))
        parent = encoded(address.checkpoint_id) if address.checkpoint_id else None
        identity = encoded(checkpoint["id"])

        def steps() -> Steps[None]:
            yield from expiry(place[0], self.cutoff)
            locking = self._lock(address.thread_id)
            if unchanged:
                # The parent is read under the lock: what it refers to cannot be forgotten before this refers to it.
                _, found = yield [locking, Statement(_PARENT, [*place, parent])]
                before = Record.unpack(found[0][0]) if found else None
                for name in unchanged:
                    stored = before and same_value(name, checkpoint, before)
                    packed[name] = stored or packer.channel(name, given[name])
            record = Record.of(checkpoint, {name: packed[name] for name in given})
            row: list[Parameter] = [
                *place,
                identity,
                full_name(address.namespace),
                parent,
                None if run is None else encoded(str(run)),
                record.held(),
                about,
                record.pack(),
            ]
            yield [
                *([] if unchanged else [locking]),
                *_blobs(place[0], packer),
                *_refs((*place, identity), record.digests()),
                *insert(_CHECKPOINTS, _CHECKPOINT, [row], _REPLACE_CHECKPOINT),
            ]

        return Operation(steps(), writes=True)

    def put_writes(
        self, address: CheckpointAddress, writes: Sequence[Update], task_id: str, task_path: str
    ) -> Operation[None]:
        """Store what a task wrote; what stands at an index stays, but writes about the task replace those before."""
        packer = ValuePacker(self.serde)
        where = (key_of(address.thread_id), key_of(address.namespace), encoded(address.checkpoint_id or ""))
        task, path = (key_of(task_id), full_name(task_id)), encoded(task_path)
        rows: dict[int, list[Parameter]] = {}
        digests: set[str] = set()
        for place, ((channel, _), data) in enumerate(zip(writes, packer.writes(writes), strict=True)):
            index = SPECIAL_WRITES.get(channel, place)
            rows[index] = [*where, task[0], index, task[1], path, encoded(channel), data]
            digests.update(digests_in(stored_value(data)))

        def steps() -> Steps[None]:
            if rows:
                yield from expiry(where[0], self.cutoff)
                yield [
                    self._lock(address.thread_id),
                    *_blobs(where[0], packer),
                    *_refs(where, digests),
                    *insert(_WRITES, _WRITE, [row for index, row in rows.items() if index >= 0]),
                    *insert(_WRITES, _WRITE, [row for index, row in rows.items() if index < 0], _REPLACE_WRITE),
                ]

        return Operation(steps(), writes=True)

    def copy_thread(self, source_id: str, target_id: str) -> Operation[None]:
        """Store what a thread holds in another too."""
        source, target = key_of(source_id), key_of(target_id)
        copies = ((_CHECKPOINTS, _CHECKPOINT), (_WRITES, _WRITE), (_BLOBS, _BLOB), (_REFS, _REF))
        locks = sorted((source_id, target_id), key=key_of)  # in order, or two of us could wait for each other

        def steps() -> Steps[None]:
            if source != target:
                for thread_id in locks:
                    yield from expiry(key_of(thread_id), self.cutoff)
                found = yield [Statement(_ANY, [source])]
                if found[0]:
                    yield [self._lock(thread_id) for thread_id in locks]
                    yield [Statement(_copy(table, columns), [target, source]) for table, columns in copies]

        return Operation(steps(), writes=True)

    def _lock(self, thread_id: str) -> Statement:
        """Make a thread if it is not there. Whoever else changes it waits until the transaction ends."""
        grain = _COARSE_S if self.cutoff is None else 0.0
        return Statement(_LOCK, [key_of(thread_id), full_name(thread_id), self.now, grain])


def _copy(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(columns[1:])
    return (
        f"INSERT INTO {table} (thread, {names}) SELECT ?, {names} FROM {table} WHERE thread = ? ON CONFLICT DO NOTHING"
    )


def _blobs(thread: bytes, packer: ValuePacker) -> list[Statement]:
    rows = [(thread, bytes.fromhex(digest), data) for digest, data in packer.blobs.items()]
    small = [row for row in rows if len(row[2]) < _LARGE_BYTES]
    large = [insert(_BLOBS, _BLOB, [row])[0] for row in rows if len(row[2]) >= _LARGE_BYTES]
    return [*insert(_BLOBS, _BLOB, small), *large]


def _refs(place: tuple[bytes, bytes, bytes], digests: set[str]) -> list[Statement]:
    return insert(_REFS, _REF, [(*place, bytes.fromhex(digest)) for digest in sorted(digests)])
