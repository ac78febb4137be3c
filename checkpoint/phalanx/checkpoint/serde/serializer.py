"""The front door: values to bytes and back, under limits."""

from typing import Final

from phalanx.checkpoint.serde.decode import Decoder
from phalanx.checkpoint.serde.encode import CarefulEncoder, FastEncoder
from phalanx.checkpoint.serde.event_hooks import tell
from phalanx.checkpoint.serde.kind import full_name
from phalanx.checkpoint.serde.registry import TypeRegistry, default_registry
from phalanx.checkpoint.serde.wrapping import COMPRESSED, COMPRESSED_TAG, ENCRYPTED, compress, decompress
from phalanx.errors import CorruptDataError, UnknownTypeError, UnserializableError

DEFAULT_MAX_BYTES: Final = 512 * 1024 * 1024
"""The largest value that Redis holds under one key."""

DEFAULT_MAX_DEPTH: Final = 256
"""How deep values may nest. The careful encoder needs two Python frames a level, and Python allows 1000 by default."""


class Serializer:
    """Turns values into bytes and back, exactly: a tuple stays a tuple, a dataclass keeps its class.

    Decoding is safe for bytes from anywhere: it builds values of a fixed set of standard types and of registered
    classes, never imports, and calls no constructor or validator of those classes.

    Args:
        registry: the classes that may be stored; this process's :func:`default_registry` if left out.
        max_bytes: the most bytes a value may take.
        max_depth: how deep lists, dicts and objects may nest, 1 to 512.
        compress_above: compress what takes more bytes than this, with zstd (``pip install 'phalanx[zstd]'``). Off by
            default. What is compressed can be read whatever this says.

    Example:
        >>> serializer = Serializer()
        >>> serializer.loads(serializer.dumps({"when": (2024, 5)}))
        {'when': (2024, 5)}
    """

    def __init__(
        self,
        registry: TypeRegistry | None = None,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_depth: int = DEFAULT_MAX_DEPTH,
        compress_above: int | None = None,
    ) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
        if not 1 <= max_depth <= 512:
            raise ValueError(f"max_depth must be from 1 to 512, not {max_depth}")
        if compress_above is not None:
            if compress_above < 0:
                raise ValueError(f"compress_above must be at least 0, not {compress_above}")
            # A library that is missing shows when the program starts, not with the first large value.
            compress(b"")
        self.compress_above: Final = compress_above
        self.registry: Final = default_registry() if registry is None else registry
        self.max_bytes: Final = max_bytes
        self.max_depth: Final = max_depth

    def dumps(self, value: object) -> bytes:
        """``value`` as bytes.

        Raises:
            UnserializableError: it holds something that cannot travel, contains itself, or is too deep or too large.
        """
        data = self._encode(value)
        frame = self._compressed(data)
        return data if frame is None else COMPRESSED + frame

    def _encode(self, value: object) -> bytes:
        data = self._dumps_fast(value)
        if data is None:
            try:
                data = CarefulEncoder(self.registry, self.max_depth).encode(value)
            except UnserializableError as error:
                tell("msgpack_refused", error.type_name)
                raise
        if len(data) > self.max_bytes:
            hint = (
                f"it takes {len(data)} bytes, and the limit is {self.max_bytes}; store large data outside of the state"
            )
            raise UnserializableError(full_name(type(value)), hint=hint)
        return data

    def _compressed(self, data: bytes) -> bytes | None:
        """``data`` compressed, or ``None`` if it shall not be, or would be no smaller."""
        if self.compress_above is None or len(data) <= self.compress_above:
            return None
        frame = compress(data)
        return frame if len(frame) + len(COMPRESSED) < len(data) else None

    def _dumps_fast(self, value: object) -> bytes | None:
        try:
            return FastEncoder(self.registry, self.max_depth).encode(value)
        except Exception:
            # Whatever it was, the careful encoder meets it again and can tell where.
            return None

    def loads(self, data: bytes) -> object:
        """The value of what :meth:`dumps` gave.

        Raises:
            UnknownTypeError: the data names a class that is not registered, a code of a later version, or something
                that needs a library which is not installed.
            CorruptDataError: the data is truncated, malformed, too large or too deep.
        """
        self._check_size(data)
        if data[:2] == COMPRESSED:
            data = decompress(data[2:], self.max_bytes)
        elif data[:2] == ENCRYPTED:
            raise CorruptDataError("stored data is encrypted; an EncryptedSerializer with its key reads it")
        return self._decode(data)

    def _decode(self, data: bytes) -> object:
        try:
            return Decoder(self.registry, self.max_depth).decode(data)
        except UnknownTypeError as error:
            tell("msgpack_blocked", error.type_name)
            raise

    def _check_size(self, data: bytes) -> None:
        if len(data) > self.max_bytes:
            raise CorruptDataError(f"stored data takes {len(data)} bytes, and the limit is {self.max_bytes}")

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        """``obj`` as the tag ``"null"``, ``"bytes"``, ``"msgpack"`` or ``"msgpack+zstd"``, and bytes; see
        :meth:`dumps`."""
        if obj is None:
            return "null", b""
        largest = self.max_bytes if self.compress_above is None else min(self.max_bytes, self.compress_above)
        if type(obj) is bytes and len(obj) <= largest:
            return "bytes", obj
        data = self._encode(obj)
        frame = self._compressed(data)
        return ("msgpack", data) if frame is None else (COMPRESSED_TAG, frame)

    def loads_typed(self, data: tuple[str, bytes]) -> object:
        """The value of what :meth:`dumps_typed` gave; see :meth:`loads`.

        Raises:
            UnknownTypeError: the tag is another one.
        """
        tag, packed = data
        if tag not in ("null", "bytes", "msgpack", COMPRESSED_TAG):
            raise UnknownTypeError(f"encoding {tag}")
        self._check_size(packed)
        if tag == "null" and packed:
            raise CorruptDataError(f"stored data takes {len(packed)} bytes, which the tag {tag!r} does not allow here")
        if tag == "null":
            return None
        if tag == "bytes":
            return packed
        return self._decode(packed if tag == "msgpack" else decompress(packed, self.max_bytes))
