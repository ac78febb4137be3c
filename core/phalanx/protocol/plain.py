"""Records of plain values as bytes: msgpack without extensions, for what is ours to the last field."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgpack  # type: ignore[import-untyped]

from phalanx.errors import CorruptDataError

T = TypeVar("T")
_library: Any = msgpack  # it comes without types
_LIST: type[list[Any]] = list
_DICT: type[dict[Any, Any]] = dict
_packb: Callable[[object], bytes] = _library.packb
_unpackb: Callable[..., Any] = _library.unpackb
_UnpackError: type[Exception] = _library.exceptions.UnpackException


def pack(record: object) -> bytes:
    """A record of lists, dicts, texts, bytes and numbers as bytes."""
    return _packb(record)


def expect(kind: type[T], value: object) -> T:
    """``value``, which came from outside and must be a ``kind``.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} where a {kind.__name__} belongs")
    return value


def expect_list(value: object) -> list[Any]:
    """``value``, which came from outside and must be a list.

    Raises:
        TypeError: it is not.
    """
    return expect(_LIST, value)


def expect_dict(value: object) -> dict[Any, Any]:
    """``value``, which came from outside and must be a dict.

    Raises:
        TypeError: it is not.
    """
    return expect(_DICT, value)


def unpack(data: bytes, what: str, read: Callable[[Any], T]) -> T:
    """Bytes as a record.

    Args:
        what: what it should be, for the message.
        read: takes the record apart; a ``TypeError`` or ``ValueError`` in it means that the record is not one.

    Raises:
        CorruptDataError: the bytes are not such a record.
    """
    try:
        return read(_unpackb(data, strict_map_key=False))
    except (TypeError, ValueError, _UnpackError) as cause:
        raise CorruptDataError(f"{what} of {len(data)} bytes cannot be read: {cause}") from cause
