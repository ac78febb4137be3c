"""What all caches share: values to the bytes of an entry and back, and names without ambiguity."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from phalanx.cache.base import FullKey, Namespace
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.errors import UnserializableError
from phalanx.protocol.plain import expect, expect_list, pack, unpack

Value = TypeVar("Value")

logger = logging.getLogger("phalanx.cache")

_LONGEST_S: Final = 100 * 366 * 86_400
"""A longer time to live is cut: what people write for "for ever" would overflow the servers' clocks."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A value as it is stored.

    Attributes:
        data: tag and bytes of the serializer.
        ttl_s: seconds to live; ``None`` for ever.
    """

    data: bytes
    ttl_s: float | None

    @property
    def is_over(self) -> bool:
        """Whether it need not be stored."""
        return self.ttl_s is not None and self.ttl_s <= 0

    def deadline(self, now: float) -> float | None:
        """When it ends, if it is stored at ``now``."""
        return None if self.ttl_s is None else now + self.ttl_s


def packed(serde: SerializerProtocol, pairs: Mapping[FullKey, tuple[Value, float | None]]) -> dict[FullKey, Entry]:
    """The entries to store.

    Raises:
        UnserializableError: naming the entry, the type, and the place inside the value.
    """
    entries: dict[FullKey, Entry] = {}
    for full_key, (value, ttl) in pairs.items():
        try:
            data = pack(serde.dumps_typed(value))
        except UnserializableError as error:
            where = f"cache entry {full_key!r}"
            raise UnserializableError(error.type_name, error.path, error.hint, where) from error
        entries[full_key] = Entry(data, None if ttl is None else min(ttl, _LONGEST_S))
    return entries


def unpacked(serde: SerializerProtocol, found: Mapping[FullKey, object]) -> dict[FullKey, Any]:
    """The values of stored entries, without those that cannot be read: others may have written them, or another
    version of the code with other classes."""
    values: dict[FullKey, object] = {}
    for full_key, data in found.items():
        try:
            values[full_key] = serde.loads_typed(unpack(expect(bytes, data), "a cache entry", _typed))
        except Exception as error:  # of any class: the serializer may be the user's
            logger.warning("entry that cannot be read counts as missing: key=%r error=%r", full_key, error)
    return values


def _typed(record: object) -> tuple[str, bytes]:
    tag, data = expect_list(record)
    return expect(str, tag), expect(bytes, cast("object", data))


def namespace_bytes(namespace: Namespace) -> bytes:
    """A namespace as one name; no two give the same. Each part comes after its length, so that nothing parts them."""
    parts = map(text_bytes, namespace)
    return b"".join(b"%d:%b" % (len(part), part) for part in parts)


def text_bytes(text: str) -> bytes:
    """Any text as bytes, lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")
