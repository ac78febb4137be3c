"""Operations that read checkpoints. What they return is still packed, so that no database waits for the unpacking."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from phalanx.checkpoint.base import CheckpointMetadata, CheckpointTuple, DeltaChannelHistory, PendingWrite
from phalanx.checkpoint.configs import CheckpointAddress, matches
from phalanx.checkpoint.packing import BlobCache
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.checkpoint.sql.statements import (
    Dialect,
    Operation,
    Parameter,
    Row,
    Rows,
    Statement,
    Steps,
    decoded,
    encoded,
    key_of,
    name_of,
    with_list,
)
from phalanx.checkpoint.sql.values import (
    MARK,
    Record,
    Stored,
    checked_blobs,
    digests_in,
    require,
    stored_value,
    value_alone,
    value_of,
    written,
)
from phalanx.config import RunnableConfig

_PAGE: Final = 16
"""How many checkpoints are read at once: few, since each may hold a lot."""

_SEARCHED: Final = 256
"""How many are looked at at once where most will not match; no more of them are read at once than otherwise."""

# A list with a filter looks at the metadata alone first, since most checkpoints will not match.
_FOUND: Final = """
SELECT c.thread, (SELECT t.full_name FROM phalanx_threads t WHERE t.thread = c.thread),
       c.namespace, c.namespace_name, c.id, c.parent, c.metadata, {record}
FROM phalanx_checkpoints c WHERE {conditions} ORDER BY c.id DESC, c.thread DESC, c.namespace DESC LIMIT ?
"""
_LIVING: Final = "EXISTS (SELECT 1 FROM phalanx_threads t WHERE t.thread = c.thread AND t.written_at > ?)"
_RECORD: Final = "SELECT record FROM phalanx_checkpoints WHERE thread = ? AND namespace = ? AND id = ?"
_WRITES: Final = """
SELECT task, task_name, channel, value FROM phalanx_writes
WHERE thread = ? AND namespace = ? AND checkpoint = ? ORDER BY path, task, idx
"""
_WRITES_OF_LATEST: Final = """
SELECT task, task_name, channel, value FROM phalanx_writes
WHERE thread = ? AND namespace = ? AND checkpoint = (
    SELECT id FROM phalanx_checkpoints WHERE thread = ? AND namespace = ? ORDER BY id DESC LIMIT 1
) ORDER BY path, task, idx
"""
_BLOBS: Final = "SELECT digest, data FROM phalanx_blobs WHERE thread = ? AND digest IN ({list})"

# The ancestors of a checkpoint, for each channel up to the first that has a value of it, with what their tasks wrote.
_HISTORY: Final = """
WITH RECURSIVE asked (channel, mark) AS (VALUES {asked}),
chain (channel, mark, id, parent, depth, found) AS (
    SELECT a.channel, a.mark, c.id, c.parent, 1, {found}
    FROM phalanx_checkpoints s
    JOIN phalanx_checkpoints c ON c.thread = s.thread AND c.namespace = s.namespace AND c.id = s.parent, asked a
    WHERE s.thread = ? AND s.namespace = ? AND s.id = ?
    UNION ALL
    SELECT a.channel, a.mark, c.id, c.parent, a.depth + 1, {found}
    FROM chain a JOIN phalanx_checkpoints c ON c.thread = ? AND c.namespace = ? AND c.id = a.parent
    WHERE a.found = 0 AND a.parent <> a.id
)
SELECT a.channel, a.found, w.task, w.task_name, w.value,
       CASE WHEN a.found > 0 THEN (
           SELECT c.record FROM phalanx_checkpoints c WHERE c.thread = ? AND c.namespace = ? AND c.id = a.id
       ) END
FROM chain a LEFT JOIN phalanx_writes w
    ON w.thread = ? AND w.namespace = ? AND w.checkpoint = a.id AND w.channel = a.channel
ORDER BY a.depth DESC, w.path, w.task, w.idx
"""

PackedWrite = tuple[str, str, Stored]
"""Task id, channel, stored value."""


@dataclass(frozen=True, slots=True)
class PackedTuple:
    """A checkpoint as it was read."""

    thread_id: str
    namespace: str
    checkpoint_id: str
    parent_id: str | None
    metadata: bytes
    record: Record
    writes: Sequence[PackedWrite]
    blobs: Mapping[str, bytes]

    def unpack(self, serde: SerializerProtocol) -> CheckpointTuple:
        """The checkpoint.

        Raises:
            SerializationError: what is stored cannot be read.
        """
        address = CheckpointAddress(self.thread_id, self.namespace, self.checkpoint_id)
        pending: list[PendingWrite] = [
            (task, channel, written(stored, self.blobs, serde)) for task, channel, stored in self.writes
        ]
        parent = replace(address, checkpoint_id=self.parent_id).config() if self.parent_id else None
        return CheckpointTuple(
            address.config(),
            self.record.checkpoint(self.checkpoint_id, self.blobs, serde),
            cast("CheckpointMetadata", value_alone(self.metadata, serde)),
            parent,
            pending,
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which checkpoints are asked for.

    Attributes:
        written_since: only those of threads that somebody wrote after this time.
        after: only those behind this id, thread and namespace, all as they are stored.
        left: how many are still wanted.
    """

    thread: bytes | None
    namespace: bytes | None
    checkpoint: bytes | None
    before: bytes | None
    metadata: Mapping[str, object]
    left: int | None
    written_since: float | None
    after: tuple[bytes, bytes, bytes] | None = None

    @classmethod
    def of(
        cls,
        config: RunnableConfig | None,
        metadata: Mapping[str, object] | None,
        before: RunnableConfig | None,
        limit: int | None,
        written_since: float | None,
    ) -> "Wanted":
        """What the arguments of a saver's ``list`` ask for.

        Raises:
            ValueError: the config names no thread, or the limit is negative.
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit must not be negative, got {limit}")
        address = None if config is None else CheckpointAddress.of(config)
        any_namespace = config is None or "checkpoint_ns" not in config.get("configurable", {})
        bound = CheckpointAddress.of(before).checkpoint_id if before else None
        return cls(
            None if address is None else key_of(address.thread_id),
            None if address is None or any_namespace else key_of(address.namespace),
            None if address is None or address.checkpoint_id is None else encoded(address.checkpoint_id),
            None if bound is None else encoded(bound),
            metadata or {},
            limit,
            written_since,
        )

    @property
    def wanted_now(self) -> int:
        """How many checkpoints to read at once."""
        return _PAGE if self.left is None else min(_PAGE, self.left)

    @property
    def rows(self) -> int:
        """How many rows to look at at once."""
        return _SEARCHED if self.metadata else self.wanted_now

    def statement(self) -> Statement:
        """The query for the next rows."""
        given: list[tuple[str, Parameter]] = [
            ("c.thread = ?", self.thread),
            ("c.namespace = ?", self.namespace),
            ("c.id = ?", self.checkpoint),
            ("c.id < ?", self.before),
            (_LIVING, self.written_since),
        ]
        conditions = [condition for condition, value in given if value is not None]
        parameters: list[Parameter] = [value for _, value in given if value is not None]
        if self.after is not None:
            conditions.append("(c.id, c.thread, c.namespace) < (?, ?, ?)")
            parameters += self.after
        sql = _FOUND.replace("{conditions}", " AND ".join(conditions) or "1 = 1")
        return Statement(sql.replace("{record}", "NULL" if self.metadata else "c.record"), [*parameters, self.rows])


@dataclass(frozen=True, slots=True)
class Reader:
    """Makes the operations that read.

    Args:
        cache: blobs that were read before; a blob never changes.
        cutoff: threads that nobody wrote since are over.
    """

    dialect: Dialect
    serde: SerializerProtocol
    cache: BlobCache
    cutoff: float | None

    def get(self, address: CheckpointAddress) -> Operation[PackedTuple | None]:
        """The checkpoint at an address."""

        def steps() -> Steps[PackedTuple | None]:
            thread, namespace = key_of(address.thread_id), key_of(address.namespace)
            place = (thread, namespace)
            if address.checkpoint_id:
                identity = encoded(address.checkpoint_id)
                writes = Statement(_WRITES, [*place, identity])
            else:
                identity = None
                writes = Statement(_WRITES_OF_LATEST, [*place, *place])
            wanted = Wanted(thread, namespace, identity, None, {}, 1, self.cutoff)
            found, written_rows = yield [wanted.statement(), writes]
            if not found:
                return None
            (packed,) = yield from self._packed(found, [found[0][-1]], [written_rows])
            return packed

        return Operation(steps(), writes=False)

    def page(self, wanted: Wanted) -> Operation[tuple[list[PackedTuple], Wanted | None]]:
        """Some of the checkpoints asked for, newest first, and what to ask for the others; ``None`` after the last."""

        def steps() -> Steps[tuple[list[PackedTuple], Wanted | None]]:
            (rows,) = yield [wanted.statement()]
            found, seen = self._first_that_match(rows, wanted)
            places = [(row[0], row[2], row[4]) for row in found]
            writes = yield [Statement(_WRITES, place) for place in places]
            if wanted.metadata:
                records = [row[0][0] for row in (yield [Statement(_RECORD, place) for place in places])]
            else:
                records = [row[-1] for row in found]
            packed = yield from self._packed(found, records, writes)
            left = None if wanted.left is None else wanted.left - len(packed)
            if left == 0 or (seen == len(rows) < wanted.rows):
                return packed, None
            last = rows[seen - 1]
            return packed, replace(wanted, left=left, after=(last[4], last[0], last[2]))

        return Operation(steps(), writes=False)

    def delta_history(
        self, address: CheckpointAddress, channels: Sequence[str]
    ) -> Operation[Mapping[str, DeltaChannelHistory]]:
        """What these channels' values at a checkpoint are made of."""

        def steps() -> Steps[Mapping[str, DeltaChannelHistory]]:
            thread, namespace = key_of(address.thread_id), key_of(address.namespace)
            identity = address.checkpoint_id and encoded(address.checkpoint_id)
            if not identity or self.cutoff is not None:
                wanted = Wanted(thread, namespace, identity or None, None, {}, 1, self.cutoff)
                (rows,) = yield [wanted.statement()]
                identity = rows[0][4] if rows else b""
            names = list(dict.fromkeys(channels))
            if not names or not identity:
                return {name: {"writes": []} for name in names}
            (rows,) = yield [self._history(names, (thread, namespace), identity)]
            seeds = {decoded(row[0]): Record.unpack(row[5]).values[decoded(row[0])] for row in rows if row[1] > 0}
            writes = [
                (name_of(row[2], row[3]), decoded(row[0]), stored_value(row[4])) for row in rows if row[2] is not None
            ]
            needed = [*seeds.values(), *(stored for _, _, stored in writes)]
            blobs = yield from self._blobs(thread, needed)
            history: dict[str, DeltaChannelHistory] = {name: {"writes": []} for name in names}
            for task, channel, stored in writes:
                history[channel]["writes"].append((task, channel, written(stored, blobs, self.serde)))
            for channel, stored in seeds.items():
                history[channel]["seed"] = value_of(stored, blobs, self.serde)
            return history

        return Operation(steps(), writes=False)

    def _history(self, names: Sequence[str], place: tuple[bytes, bytes], identity: bytes) -> Statement:
        found = self.dialect.find_bytes.replace("{part}", "a.mark").replace("{whole}", "c.held")
        asked = ", ".join(["(?, ?)"] * len(names))
        sql = _HISTORY.replace("{asked}", asked).replace("{found}", found)
        marks: list[Parameter] = []
        for name in names:
            marks += [encoded(name), MARK + encoded(name) + MARK]
        return Statement(sql, [*marks, *place, identity, *place, *place, *place])

    def _first_that_match(self, rows: Rows, wanted: Wanted) -> tuple[list[Row], int]:
        """The rows to read now, and how many were looked at for them."""
        found: list[Row] = []
        for seen, row in enumerate(rows, 1):
            if not wanted.metadata or self._matches(row, wanted.metadata):
                found.append(row)
                if len(found) == wanted.wanted_now:
                    return found, seen
        return found, len(rows)

    def _matches(self, row: Row, wanted: Mapping[str, object]) -> bool:
        return matches(cast("Mapping[str, object]", value_alone(row[6], self.serde)), wanted)

    def _packed(self, found: Rows, records: Sequence[bytes], written_rows: Sequence[Rows]) -> Steps[list[PackedTuple]]:
        """Checkpoints of their rows, their records and the rows of their writes, in the same order."""
        parts = [
            (row, Record.unpack(record), [(name_of(w[0], w[1]), decoded(w[2]), stored_value(w[3])) for w in rows])
            for row, record, rows in zip(found, records, written_rows, strict=True)
        ]
        blobs: dict[bytes, dict[str, bytes]] = {}
        for thread in dict.fromkeys(bytes(row[0]) for row in found):
            blobs[thread] = yield from self._blobs(thread, _stored_in(parts, thread))
        return [
            PackedTuple(
                name_of(row[0], row[1]),
                name_of(row[2], row[3]),
                decoded(row[4]),
                None if row[5] is None else decoded(row[5]),
                row[6],
                record,
                writes,
                blobs[bytes(row[0])],
            )
            for row, record, writes in parts
        ]

    def _blobs(self, thread: bytes, needed: Sequence[Stored]) -> Steps[dict[str, bytes]]:
        """The blobs that stored values need: from the cache, and one batch for all that are missing."""
        wanted = dict.fromkeys(digest for stored in needed for digest in digests_in(stored))
        blobs = {digest: data for digest in wanted if (data := self.cache.get(digest)) is not None}
        missing = [bytes.fromhex(digest) for digest in wanted if digest not in blobs]
        if missing:
            for rows in (yield with_list(_BLOBS, [thread], missing)):
                blobs.update(checked_blobs(rows))
            require(wanted, blobs)
            for digest in missing:
                self.cache.put(digest.hex(), blobs[digest.hex()])
        return blobs


def _stored_in(parts: Sequence[tuple[Sequence[Any], Record, Sequence[PackedWrite]]], thread: bytes) -> list[Stored]:
    def each() -> Iterator[Stored]:
        for row, record, writes in parts:
            if bytes(row[0]) == thread:
                yield from record.values.values()
                yield from (stored for _, _, stored in writes)

    return list(each())
