"""Values as they are stored: a small one inside the row that needs it, a large one once in its thread.

A *stored* value is plain: ``[tag, ref]``, the serializer's tag and the bytes or their digest, or for a list of packets
``[None, [[node, tag, ref, timeout], ...]]``. Packets are taken apart so that an argument they share is stored once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from phalanx.checkpoint.base import Checkpoint, Version
from phalanx.checkpoint.packing import BLOB_MIN_BYTES, bytes_of, digest_of
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.checkpoint.sql.statements import encoded
from phalanx.errors import CorruptDataError
from phalanx.protocol.batch import expect_ref
from phalanx.protocol.limits import timeout_from_plain, timeout_to_plain
from phalanx.protocol.names import TASKS
from phalanx.protocol.plain import expect, expect_dict, expect_list, pack, unpack
from phalanx.types import Send, Update

Stored: TypeAlias = list[Any]

_FORMAT: Final = 1


# --- to bytes ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ValuePacker:
    """Makes stored values, and collects the blobs they need.

    Attributes:
        blobs: by digest.
    """

    serde: SerializerProtocol
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def channel(self, name: str, value: object) -> Stored:
        """A channel's value."""
        packets = _packets(value) if name == TASKS else None
        return self._value(value) if packets is None else self._apart(packets)

    def writes(self, writes: Sequence[Update]) -> list[bytes]:
        """A task's writes. Packets of one task often share an argument."""
        same: dict[int, list[Any]] = {}
        return [
            pack(
                [None, [self._packet(cast("Send", value), same)]] if _is_packet(channel, value) else self._value(value)
            )
            for channel, value in writes
        ]

    def alone(self, value: object) -> bytes:
        """A value that is stored in its row whatever its size."""
        return pack([*self.serde.dumps_typed(value)])

    def _value(self, value: object) -> Stored:
        tag, data = self.serde.dumps_typed(value)
        if len(data) < BLOB_MIN_BYTES:
            return [tag, data]
        digest = digest_of(data)
        self.blobs[digest] = data
        return [tag, digest]

    def _apart(self, packets: Sequence[Send]) -> Stored:
        same: dict[int, list[Any]] = {}
        return [None, [self._packet(packet, same) for packet in packets]]

    def _packet(self, packet: Send, same: dict[int, list[Any]]) -> list[Any]:
        """A packet. Those in one call are alive until it ends, so that an argument is known by its identity."""
        stored = same.get(id(packet.arg))
        if stored is None:
            stored = same[id(packet.arg)] = self._value(packet.arg)
        return [packet.node, *stored, timeout_to_plain(packet.timeout)]


def _is_packet(channel: str, value: object) -> bool:
    return channel == TASKS and type(value) is Send


def _packets(value: object) -> Sequence[Send] | None:
    """The value, if it is nothing but packets of ours."""
    if type(value) is not list:
        return None
    items = cast("list[object]", value)
    return cast("Sequence[Send]", items) if all(type(item) is Send for item in items) else None


def digests_in(stored: Stored) -> Iterator[str]:
    """The blobs a stored value needs."""
    tag, content = stored
    refs = [content] if tag is not None else [packet[2] for packet in content]
    return (ref for ref in refs if isinstance(ref, str))


# --- and back ---------------------------------------------------------------------------------------------------------


def stored_value(data: bytes) -> Stored:
    """The stored value that was packed.

    Raises:
        CorruptDataError: the bytes are not one.
    """
    return unpack(data, "a stored value", _checked)


def value_alone(data: bytes, serde: SerializerProtocol) -> Any:
    """The value of what :meth:`ValuePacker.alone` gave."""
    stored = stored_value(data)
    return value_of(stored, {}, serde)


def value_of(stored: Stored, blobs: Mapping[str, bytes], serde: SerializerProtocol) -> Any:
    """The value.

    Args:
        blobs: by digest; at least those it needs.
    """
    tag, content = stored
    if tag is not None:
        return serde.loads_typed((tag, bytes_of(content, blobs)))
    return [
        Send(node, serde.loads_typed((inner, bytes_of(ref, blobs))), timeout=timeout_from_plain(timeout))
        for node, inner, ref, timeout in content
    ]


def written(stored: Stored, blobs: Mapping[str, bytes], serde: SerializerProtocol) -> Any:
    """The value of a task's write."""
    value = value_of(stored, blobs, serde)
    return value[0] if stored[0] is None else value


def _checked(found: object) -> Stored:
    tag, content = expect_list(found)
    if tag is not None:
        return [expect(str, tag), expect_ref(content)]
    packets: list[list[Any]] = []
    for packet in expect_list(content):
        node, inner, ref, timeout = expect_list(packet)
        timeout_from_plain(timeout)
        packets.append([expect(str, node), expect(str, inner), expect_ref(ref), timeout])
    return [None, packets]


def checked_blobs(rows: Iterable[Sequence[Any]]) -> dict[str, bytes]:
    """Blobs by digest, of rows of digest and bytes.

    Raises:
        CorruptDataError: bytes are not those their digest promises.
    """
    found: dict[str, bytes] = {}
    for raw, content in rows:
        digest, data = bytes(raw).hex(), bytes(content)
        if digest_of(data) != digest:
            raise CorruptDataError(f"blob {digest} does not hold the bytes its name promises")
        found[digest] = data
    return found


def require(digests: Iterable[str], blobs: Mapping[str, bytes]) -> None:
    """Check that no blob is missing.

    Raises:
        CorruptDataError: one is.
    """
    for digest in digests:
        if digest not in blobs:
            raise CorruptDataError(f"blob {digest} is gone from the database; were rows of its thread deleted by hand?")


# --- checkpoints ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """The parts of a stored checkpoint, beside its address and metadata."""

    v: int
    ts: str
    versions: dict[str, Version]
    seen: dict[str, dict[str, Version]]
    updated: list[str] | None
    values: dict[str, Stored]

    @classmethod
    def of(cls, checkpoint: Checkpoint, values: dict[str, Stored]) -> "Record":
        """The record of a checkpoint whose values are stored so."""
        return cls(
            checkpoint["v"],
            checkpoint["ts"],
            checkpoint["channel_versions"],
            checkpoint["versions_seen"],
            checkpoint.get("updated_channels"),
            values,
        )

    def pack(self) -> bytes:
        """The stored form."""
        return pack([_FORMAT, self.v, self.ts, self.versions, self.seen, self.updated, self.values])

    def held(self) -> bytes:
        """The channels that have a value, each between marks."""
        return MARK + b"".join(encoded(name) + MARK for name in self.values)

    def digests(self) -> set[str]:
        """The blobs the values need."""
        return {digest for stored in self.values.values() for digest in digests_in(stored)}

    @classmethod
    def unpack(cls, data: bytes) -> "Record":
        """Read the stored form.

        Raises:
            CorruptDataError: it is not one, or of another format.
        """
        return unpack(data, "a checkpoint", cls._read)

    @classmethod
    def _read(cls, found: object) -> "Record":
        stored, v, ts, versions, seen, updated, values = expect_list(found)
        if stored != _FORMAT:
            raise ValueError(f"format {stored!r} instead of {_FORMAT}")
        return cls(
            expect(int, v),
            expect(str, ts),
            _versions(versions),
            {expect(str, node): _versions(known) for node, known in expect_dict(seen).items()},
            None if updated is None else [expect(str, name) for name in expect_list(updated)],
            {expect(str, name): _checked(value) for name, value in expect_dict(values).items()},
        )

    def checkpoint(self, identity: str, blobs: Mapping[str, bytes], serde: SerializerProtocol) -> Checkpoint:
        """The checkpoint."""
        return {
            "v": self.v,
            "id": identity,
            "ts": self.ts,
            "channel_values": {name: value_of(stored, blobs, serde) for name, stored in self.values.items()},
            "channel_versions": self.versions,
            "versions_seen": self.seen,
            "updated_channels": self.updated,
        }


MARK: Final = b"\xff"
"""What stands around the names in ``held``; it is in no name."""


def _versions(found: object) -> dict[str, Version]:
    versions: dict[object, object] = expect_dict(found)
    for name, version in versions.items():
        expect(str, name)
        if not isinstance(version, (int, str, float)):
            raise TypeError(f"a {type(version).__name__} where a version belongs")
    return cast("dict[str, Version]", versions)


def same_value(name: str, checkpoint: Checkpoint, before: Record) -> Stored | None:
    """The parent's stored value of a channel that has not changed since."""
    version = checkpoint["channel_versions"].get(name)
    return before.values.get(name) if version is not None and before.versions.get(name) == version else None
