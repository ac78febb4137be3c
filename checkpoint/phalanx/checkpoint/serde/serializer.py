"""The front door: values to bytes and back, under limits."""

from typing import Final, Protocol, runtime_checkable

from phalanx.checkpoint.serde.decode import Decoder
from phalanx.checkpoint.serde.encode import CarefulEncoder, FastEncoder
from phalanx.checkpoint.serde.kind import full_name
from phalanx.checkpoint.serde.registry import TypeRegistry, default_registry
from phalanx.errors import CorruptDataError, UnknownTypeError, UnserializableError

DEFAULT_MAX_BYTES: Final = 512 * 1024 * 1024
"""The largest value that Redis holds under one key."""

DEFAULT_MAX_DEPTH: Final = 256
"""How deep values may nest. The careful encoder needs two Python frames a level, and Python allows 1000 by default."""


@runtime_checkable
class SerializerProtocol(Protocol):
    """What a checkpoint saver asks of a serializer."""

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        """``obj`` as a tag that names the encoding, and bytes."""
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> object:
        """The value of what :meth:`dumps_typed` gave."""
        ...


class Serializer:
    """Turns values into bytes and back, exactly: a tuple stays a tuple, a dataclass keeps its class.

    Decoding is safe for bytes from anywhere: it builds values of a fixed set of standard types and of registered
    classes, never imports, and calls no constructor or validator of those classes.

    Args:
        registry: the classes that may be stored; this process's :func:`default_registry` if left out.
        max_bytes: the most bytes a value may take.
        max_depth: how deep lists, dicts and objects may nest, 1 to 512.

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
    ) -> None:
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
        if not 1 <= max_depth <= 512:
            raise ValueError(f"max_depth must be from 1 to 512, not {max_depth}")
        self.registry: Final = default_registry() if registry is None else registry
        self.max_bytes: Final = max_bytes
        self.max_depth: Final = max_depth

    def dumps(self, value: object) -> bytes:
        """``value`` as bytes.

        Raises:
            UnserializableError: it holds something that cannot travel, contains itself, or is too deep or too large.
        """
        data = self._dumps_fast(value)
        if data is None:
            data = CarefulEncoder(self.registry, self.max_depth).encode(value)
        if len(data) > self.max_bytes:
            hint = (
                f"it takes {len(data)} bytes, and the limit is {self.max_bytes}; store large data outside of the state"
            )
            raise UnserializableError(full_name(type(value)), hint=hint)
        return data

    def _dumps_fast(self, value: object) -> bytes | None:
        try:
            return FastEncoder(self.registry, self.max_depth).encode(value)
        except Exception:
            # Whatever it was, the careful encoder meets it again and can tell where.
            return None

    def loads(self, data: bytes) -> object:
        """The value of what :meth:`dumps` gave.

        Raises:
            UnknownTypeError: the data names a class that is not registered, or a code of a later version.
            CorruptDataError: the data is truncated, malformed, too large or too deep.
        """
        if len(data) > self.max_bytes:
            raise CorruptDataError(f"stored data takes {len(data)} bytes, and the limit is {self.max_bytes}")
        return Decoder(self.registry, self.max_depth).decode(data)

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        """``obj`` as the tag ``"null"``, ``"bytes"`` or ``"msgpack"``, and bytes; see :meth:`dumps`."""
        if obj is None:
            return "null", b""
        if type(obj) is bytes and len(obj) <= self.max_bytes:
            return "bytes", obj
        return "msgpack", self.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> object:
        """The value of what :meth:`dumps_typed` gave; see :meth:`loads`.

        Raises:
            UnknownTypeError: the tag is another one.
        """
        tag, packed = data
        if tag == "msgpack":
            return self.loads(packed)
        if tag == "bytes" and len(packed) <= self.max_bytes:
            return packed
        if tag == "null" and not packed:
            return None
        if tag in ("bytes", "null"):
            raise CorruptDataError(f"stored data takes {len(packed)} bytes, which the tag {tag!r} does not allow here")
        raise UnknownTypeError(f"encoding {tag}")
