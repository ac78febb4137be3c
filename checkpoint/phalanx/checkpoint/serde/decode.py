"""From bytes to a value. The bytes are not trusted: nothing they say is imported or called.

Every ext is decoded by the table in :mod:`phalanx.checkpoint.serde.codecs`; what the table or the registry does not
know is an :class:`~phalanx.errors.UnknownTypeError`. Everything else that can go wrong, in msgpack or in the
constructor of a standard type, means the bytes are not ours: :class:`~phalanx.errors.CorruptDataError`.

An ext's payload is packed bytes, decoded by another call from inside the first. ``unpackb`` keeps 40 KB of state on
the C stack for each call, and would run over the stack's end without noticing. So from the fifth call inwards
``Unpacker`` is used, which keeps it on the heap, and the depth limit counts the calls.
"""

from typing import Final

from phalanx.checkpoint.serde.codecs import Shape
from phalanx.checkpoint.serde.lookup import BY_CODE, OBJECT_CODES, rebuild_object
from phalanx.checkpoint.serde.registry import TypeRegistry
from phalanx.checkpoint.serde.wire import Unpacker, marks, survey, unpackb
from phalanx.errors import CorruptDataError, SerializationError, UnknownTypeError

MAX_STACK_NESTING: Final = 4

# A payload may wrap an object's values in a list and a dict of its own.
_WRAPPING: Final = 2


class Decoder:
    """Decodes one value."""

    __slots__ = ("_max_depth", "_nesting", "_registry")

    def __init__(self, registry: TypeRegistry, max_depth: int) -> None:
        self._registry = registry
        self._max_depth = max_depth
        self._nesting = 0

    def decode(self, data: bytes) -> object:
        try:
            return self._unpack(data)
        except SerializationError:
            raise
        except Exception as error:
            raise CorruptDataError(f"stored data cannot be decoded: {type(error).__name__}: {error}") from error

    def _unpack(self, data: bytes) -> object:
        size = len(data)
        if self._nesting < MAX_STACK_NESTING:
            value = unpackb(
                data,
                ext_hook=self._ext,
                strict_map_key=False,
                raw=False,
                unicode_errors="surrogatepass",
                max_str_len=size,
                max_bin_len=size,
                max_array_len=size,
                max_map_len=size,
                max_ext_len=size,
            )
        else:
            # Its limits follow from the size of its buffer.
            unpacker = Unpacker(
                ext_hook=self._ext,
                strict_map_key=False,
                raw=False,
                unicode_errors="surrogatepass",
                max_buffer_size=max(size, 1),
            )
            unpacker.feed(data)
            value = unpacker.unpack()
            if unpacker.tell() != size:
                raise CorruptDataError("stored data goes on after the end of a value")
        limit = self._max_depth + (_WRAPPING if self._nesting else 0)
        if size > limit and len(marks(data)) > limit and (survey(value, limit) or 0) > limit:
            raise CorruptDataError(f"stored data is nested deeper than {self._max_depth} levels")
        return value

    def _ext(self, code: int, data: bytes) -> object:
        codec = BY_CODE.get(code)
        if codec is None and code not in OBJECT_CODES:
            raise UnknownTypeError(f"ext code {code}")
        if codec is not None and codec.shape is Shape.RAW:
            return codec.rebuild(data)
        self._nesting += 1
        if self._nesting > self._max_depth:
            raise CorruptDataError(f"stored data is nested deeper than {self._max_depth} levels")
        payload = self._unpack(data)
        self._nesting -= 1
        return rebuild_object(code, payload, self._registry) if codec is None else codec.rebuild(payload)
