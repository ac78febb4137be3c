"""The msgpack library with types, and what can be told about a value or its bytes without walking them in Python.

msgpack packs three things natively that we must not let pass: ``bytearray`` and ``memoryview`` would come back as
``bytes``, and a user's ``ExtType`` could claim any of our codes. Asking every element for its type costs as much as
packing it, so :func:`marks` first looks at the packed bytes: if no byte could start a binary or an ext, and no more
bytes than the depth limit could start a container, nothing needs a look. Only otherwise is :func:`survey` run on the
value.
"""

import gc
from collections.abc import Callable
from typing import Final, Protocol, cast

import msgpack  # type: ignore[import-untyped]


class PackerLike(Protocol):
    """The part of ``msgpack.Packer`` that is used."""

    def pack(self, value: object, /) -> bytes: ...


class PackerFactory(Protocol):
    def __call__(
        self,
        *,
        default: Callable[[object], object] | None = None,
        strict_types: bool = False,
        unicode_errors: str | None = None,
        buf_size: int = 0,
    ) -> PackerLike: ...


class UnpackerLike(Protocol):
    """The part of ``msgpack.Unpacker`` that is used."""

    def feed(self, data: bytes, /) -> None: ...
    def unpack(self) -> object: ...
    def tell(self) -> int: ...


class UnpackerFactory(Protocol):
    def __call__(
        self,
        *,
        ext_hook: Callable[[int, bytes], object],
        strict_map_key: bool,
        raw: bool,
        unicode_errors: str,
        max_buffer_size: int,
    ) -> UnpackerLike: ...


class Unpackb(Protocol):
    def __call__(
        self,
        data: bytes,
        /,
        *,
        ext_hook: Callable[[int, bytes], object],
        strict_map_key: bool,
        raw: bool,
        unicode_errors: str,
        max_str_len: int,
        max_bin_len: int,
        max_array_len: int,
        max_map_len: int,
        max_ext_len: int,
    ) -> object: ...


_library: Final = cast("dict[str, object]", vars(msgpack))

Packer: Final = cast("PackerFactory", _library["Packer"])
Unpacker: Final = cast("UnpackerFactory", _library["Unpacker"])
unpackb: Final = cast("Unpackb", _library["unpackb"])
ExtType: Final = cast("Callable[[int, bytes], object]", _library["ExtType"])
EXT_TYPE: Final = cast("type", _library["ExtType"])
TIMESTAMP_TYPE: Final = cast("type", _library["Timestamp"])

PACK_BUFFER_BYTES: Final = 1024
"""The library's own default of 256 KiB is fetched from and given back to the system for every value."""

_CONTAINER_MARKS: Final = frozenset((*range(0x80, 0xA0), *range(0xDC, 0xE0)))
_OPAQUE_MARKS: Final = frozenset((*range(0xC4, 0xCA), *range(0xD4, 0xD9)))
_UNMARKED: Final = bytes(byte for byte in range(256) if byte not in _CONTAINER_MARKS | _OPAQUE_MARKS)
_CLASSES: Final = bytes(0x80 if byte in _OPAQUE_MARKS else 0 for byte in range(256))


def marks(packed: bytes) -> bytes:
    """One byte for each byte of ``packed`` that could start a container (``0x00``), or a binary or ext (``0x80``).

    Bytes inside of strings and numbers are counted too, so the result never misses one and sometimes sees too many:
    its length is an upper bound of the nesting, and if it is ASCII there is no binary and no ext.
    """
    return packed.translate(_CLASSES, _UNMARKED)


DEGRADED: Final = frozenset((bytearray, memoryview, EXT_TYPE))
"""The types that msgpack packs as something else."""

_PLAIN_CONTAINERS: Final = (dict, list)


def survey(value: object, limit: int, refused: frozenset[type] = frozenset()) -> int | None:
    """How deep ``value``'s plain lists and dicts nest, or ``None`` if one of them holds an object of a refused type.

    Stops at the first level beyond ``limit``, so it comes to an end in a value that contains itself. Goes level by
    level with the garbage collector's own view of references, so the work for each element is done in C. Other objects
    are not looked into.
    """
    kind = type(value)
    if kind in refused:
        return None
    level: list[object] = [value] if kind in _PLAIN_CONTAINERS else []
    depth = 0
    while level and depth <= limit:
        depth += 1
        children = gc.get_referents(*level)
        kinds = set(map(type, children))
        if not refused.isdisjoint(kinds):
            return None
        if kinds.isdisjoint(_PLAIN_CONTAINERS):
            break
        level = [child for child in children if type(child) in _PLAIN_CONTAINERS]
    return depth
