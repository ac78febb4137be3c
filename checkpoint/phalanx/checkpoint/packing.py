"""From values to references and back. A value is serialized once, where it is made; from then on its bytes travel.

A large value becomes a *blob*: stored once under the digest of its bytes, in its thread, however often it is sent or
kept. Blobs never change, so whoever has fetched one may keep it.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeGuard, cast

from phalanx.checkpoint.serde import Serializer
from phalanx.errors import CorruptDataError, UnserializableError
from phalanx.protocol.batch import Ref, expect_ref
from phalanx.protocol.limits import timeout_from_plain, timeout_to_plain
from phalanx.protocol.names import TASKS
from phalanx.protocol.outcome import PackedWrite
from phalanx.protocol.plain import expect, expect_list, pack, unpack
from phalanx.types import Send, Update

BLOB_MIN_BYTES: Final = 2048
"""Values at least this large become blobs; smaller ones travel inside what refers to them."""


_NOT_PLAIN: Final = b"\xc1"
"""What serialized values begin with that are compressed or encrypted. No value of msgpack's own does."""

_PARTS: Final = b"\xc1P"
"""What stands before a dict in parts: serialized keys, and references to its values."""

_SMALL: Final = frozenset({int, float, bool, type(None)})


def digest_of(data: bytes) -> str:
    """A blob's name. Cryptographic, since what users store may have been made to collide."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


@dataclass(frozen=True, slots=True)
class Packed:
    """A value that is still serialized: a packet's argument on its way through a coordinator, which never needs it."""

    ref: Ref


@dataclass(slots=True)
class Packer:
    """Makes references, and collects the blobs they need until someone stores them.

    Attributes:
        new_blobs: by digest, what has been referred to and not been stored yet.
    """

    serializer: Serializer
    new_blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    _same: dict[int, tuple[object, Ref]] = field(default_factory=dict[int, tuple[object, Ref]])

    def ref(self, value: object) -> Ref:
        """A reference to ``value``."""
        if isinstance(value, Packed):
            return value.ref
        return self.ref_to_bytes(self.serializer.dumps(value))

    def ref_to_bytes(self, data: bytes) -> Ref:
        """A reference to a serialized value."""
        if len(data) < BLOB_MIN_BYTES:
            return data
        digest = digest_of(data)
        self.new_blobs[digest] = data
        return digest

    def ref_once(self, value: object) -> Ref:
        """The same as :meth:`ref`, but one object given many times is serialized once; see :meth:`forget`."""
        known = self._same.get(id(value))
        if known is None:
            known = self._same[id(value)] = (value, self.ref(value))
        return known[1]

    def ref_to_parts(self, value: object) -> Ref:
        """The same as :meth:`ref_once`, but large parts of a dict become blobs of their own.

        So packets that differ in little and share a large document store it once.
        """
        if not _has_parts(value):
            return self.ref_once(value)
        known = self._same.get(id(value))
        if known is not None:
            return known[1]
        parts = [(self.serializer.dumps(key), self.ref_once(part)) for key, part in value.items()]
        inline = [data for pair in parts for data in pair if isinstance(data, bytes)]
        if any(data[:1] == _NOT_PLAIN for data in inline):  # compressed or encrypted: they cannot be put together
            return self.ref_once(value)
        manifest = _PARTS + pack([[*pair] for pair in parts])
        if len(inline) == 2 * len(parts):
            made = self.ref_to_bytes(bytes_of(manifest, {}))
        elif len(manifest) < BLOB_MIN_BYTES:
            made = manifest
        else:
            return self.ref_once(value)
        self._same[id(value)] = (value, made)
        return made

    def forget(self) -> None:
        """The objects seen by :meth:`ref_once` may change from here on."""
        self._same.clear()

    def take_blobs(self) -> dict[str, bytes]:
        """The blobs that must be stored now."""
        taken, self.new_blobs = self.new_blobs, {}
        return taken

    def pack_writes(self, writes: Iterable[Update], name: Callable[[Update], str]) -> list[PackedWrite]:
        """A task's writes. Values stay inside the outcome, whose reader applies them; packets' arguments do not.

        Args:
            name: says what a write is, for the message when it cannot be serialized.

        Raises:
            UnserializableError: naming the write, the type and the place inside the value.
        """
        packed: list[PackedWrite] = []
        try:
            for write in writes:
                channel, value = write
                try:
                    if channel == TASKS:
                        packet = cast("Send", value)
                        packed.append(PackedWrite(channel, self.ref_to_parts(packet.arg), packet.node, packet.timeout))
                    else:
                        packed.append(PackedWrite(channel, self.serializer.dumps(value)))
                except UnserializableError as error:
                    raise UnserializableError(error.type_name, error.path, error.hint, name(write)) from error
        finally:
            self.forget()
        return packed

    def pack_channel(self, name: str, stored: object) -> Ref:
        """A channel's stored form. Packets are a list of nodes and references, so that they stay serialized."""
        if name != TASKS:
            return self.ref(stored)
        try:
            packets = [self._plain(packet) for packet in cast("Sequence[Send]", stored)]
        finally:
            self.forget()
        return self.ref_to_bytes(pack(packets))

    def _plain(self, packet: Send) -> list[object]:
        plain: list[object] = [packet.node, self.ref_to_parts(packet.arg)]
        return plain if packet.timeout is None else [*plain, timeout_to_plain(packet.timeout)]


class BlobCache:
    """Blobs by digest, the least recently used dropped first. Safe to use from several threads.

    Args:
        max_bytes: what the cache may hold; a larger blob is not kept.
    """

    def __init__(self, max_bytes: int = 256 << 20) -> None:
        self._max_bytes = max_bytes
        self._held = 0
        self._blobs: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, digest: str) -> bytes | None:
        """The blob, if it is held."""
        with self._lock:
            found = self._blobs.get(digest)
            if found is not None:
                self._blobs.move_to_end(digest)
            return found

    def put(self, digest: str, data: bytes) -> None:
        """Hold a blob."""
        with self._lock:
            if digest in self._blobs or len(data) > self._max_bytes:
                return
            self._blobs[digest] = data
            self._held += len(data)
            while self._held > self._max_bytes:
                _, dropped = self._blobs.popitem(last=False)
                self._held -= len(dropped)


FetchBlobs = Callable[[Sequence[str]], Mapping[str, bytes]]


def resolve(refs: Iterable[Ref], cache: BlobCache, fetch: FetchBlobs) -> dict[str, bytes]:
    """The blobs behind ``refs``, by digest: from the cache, and one fetch for all that are missing.

    Raises:
        CorruptDataError: a blob is gone, or its bytes are not the ones its name promises.
    """
    wanted = dict.fromkeys(digest for ref in refs for digest in digests_in(ref))
    found = {digest: data for digest in wanted if (data := cache.get(digest)) is not None}
    missing = [digest for digest in wanted if digest not in found]
    if missing:
        for digest, data in fetch(missing).items():
            if digest_of(data) != digest:
                raise CorruptDataError(f"blob {digest} does not hold the bytes its name promises")
            cache.put(digest, data)
            found[digest] = data
    gone = [digest for digest in missing if digest not in found]
    if gone:
        raise CorruptDataError(f"blob {gone[0]} is gone from the state server; were keys of this thread deleted?")
    return found


def bytes_of(ref: Ref, blobs: Mapping[str, bytes]) -> bytes:
    """The serialized value behind a reference."""
    if isinstance(ref, str):
        return blobs[ref]
    if ref[:2] != _PARTS:
        return ref
    parts = _parts_of(ref)
    return _map_header(len(parts)) + b"".join(data for key, part in parts for data in (key, bytes_of(part, blobs)))


def _map_header(items: int) -> bytes:
    """How msgpack begins a dict."""
    if items < 16:
        return bytes((0x80 | items,))
    return b"\xde" + items.to_bytes(2, "big") if items < 1 << 16 else b"\xdf" + items.to_bytes(4, "big")


def digests_in(ref: Ref) -> Iterable[str]:
    """The blobs that a reference needs."""
    if isinstance(ref, str):
        return (ref,)
    return [part for _, part in _parts_of(ref) if isinstance(part, str)] if ref[:2] == _PARTS else ()


def _parts_of(ref: bytes) -> list[tuple[bytes, Ref]]:
    def read(record: object) -> list[tuple[bytes, Ref]]:
        return [_part(*expect_list(pair)) for pair in expect_list(record)]

    return unpack(ref[2:], "a value in parts", read)


def _part(key: object, part: object) -> tuple[bytes, Ref]:
    return expect(bytes, key), expect_ref(part)


def _has_parts(value: object) -> TypeGuard[dict[str, object]]:
    """Whether a value is a plain dict with parts that may be large."""
    if type(value) is not dict:
        return False
    items = cast("dict[object, object]", value)
    return all(type(key) is str for key in items) and any(_may_be_large(part) for part in items.values())


def _may_be_large(part: object) -> bool:
    kind = type(part)
    if kind is str or kind is bytes:
        return len(cast("str", part)) >= BLOB_MIN_BYTES // 2
    return kind not in _SMALL


def packets_of(data: bytes) -> list[Send]:
    """The packets in the stored topic, with their arguments still serialized.

    Raises:
        CorruptDataError: the bytes are not such a list.
    """

    def read(record: object) -> list[Send]:
        return [_packet(*expect_list(item)) for item in expect_list(record)]

    return unpack(data, "a topic of packets", read)


def _packet(node: object, ref: object, timeout: object = None) -> Send:
    return Send(expect(str, node), Packed(expect_ref(ref)), timeout=timeout_from_plain(timeout))
