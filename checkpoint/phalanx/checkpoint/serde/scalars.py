"""Values without values inside: numbers, times, ids, paths, addresses, patterns.

Types of modules that a program may never need (``decimal``, ``ipaddress``, ``zoneinfo``, …) are described by name here.
A value of such a type can only exist when its module is loaded, so encoding finds it in ``sys.modules``; decoding
imports the module, which is safe because the name comes from this file and not from the data.
"""

import re
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Final, cast

from phalanx.checkpoint.serde.codecs import (
    BIG_INT,
    BYTEARRAY,
    COMPLEX,
    DATE,
    DATETIME,
    DECIMAL,
    FRACTION,
    IP_ADDRESS,
    PATH,
    PATTERN,
    RANGE,
    SLICE,
    TIME,
    TIMEDELTA,
    TIMEZONE,
    UUID,
    ZONEINFO,
    Codec,
    Shape,
    codec,
    items_of,
    malformed,
)
from phalanx.errors import UnserializableError

if TYPE_CHECKING:
    import decimal
    import fractions
    import pathlib
    import uuid
    import zoneinfo

_TIMEDELTA: Final = struct.Struct(">iII")
_DATE: Final = struct.Struct(">HBB")
_COMPLEX: Final = struct.Struct(">dd")


def raw(payload: object) -> bytes:
    """The payload of a ``RAW`` ext; the decoder passes nothing but bytes."""
    if type(payload) is not bytes:
        raise malformed("raw payload")
    return payload


def is_int(value: object) -> bool:
    return type(value) is int


# --- numbers ---------------------------------------------------------------------------------------------------------


def _reduce_int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _rebuild_int(payload: object) -> int:
    return int.from_bytes(raw(payload), "big", signed=True)


def _reduce_complex(value: complex) -> bytes:
    return _COMPLEX.pack(value.real, value.imag)


def _rebuild_complex(payload: object) -> complex:
    real, imag = cast("tuple[float, float]", _COMPLEX.unpack(raw(payload)))
    return complex(real, imag)


def _reduce_decimal(value: "decimal.Decimal") -> bytes:
    return str(value).encode("ascii")


def _rebuild_decimal(payload: object) -> "decimal.Decimal":
    from decimal import Decimal

    text = raw(payload).decode("ascii")
    value = Decimal(text)
    if str(value) != text:
        raise malformed("Decimal")
    return value


def _reduce_fraction(value: "fractions.Fraction") -> list[int]:
    return [value.numerator, value.denominator]


def _rebuild_fraction(payload: object) -> "fractions.Fraction":
    from fractions import Fraction

    match items_of(payload, "Fraction"):
        case [int() as numerator, int() as denominator] if is_int(numerator) and is_int(denominator):
            return Fraction(numerator, denominator)
        case _:
            raise malformed("Fraction")


# --- times -----------------------------------------------------------------------------------------------------------


def _reduce_timedelta(value: timedelta) -> bytes:
    return _TIMEDELTA.pack(value.days, value.seconds, value.microseconds)


def _rebuild_timedelta(payload: object) -> timedelta:
    days, seconds, microseconds = cast("tuple[int, int, int]", _TIMEDELTA.unpack(raw(payload)))
    return timedelta(days, seconds, microseconds)


def _reduce_date(value: date) -> bytes:
    return _DATE.pack(value.year, value.month, value.day)


def _rebuild_date(payload: object) -> date:
    year, month, day = cast("tuple[int, int, int]", _DATE.unpack(raw(payload)))
    return date(year, month, day)


def _reduce_time(value: time) -> list[object]:
    return [value.hour, value.minute, value.second, value.microsecond, value.fold, value.tzinfo]


def _rebuild_time(payload: object) -> time:
    match items_of(payload, "time"):
        case [int() as hour, int() as minute, int() as second, int() as microsecond, int() as fold, zone]:
            if zone is not None and not isinstance(zone, tzinfo):
                raise malformed("time zone")
            return time(hour, minute, second, microsecond, zone, fold=fold)
        case _:
            raise malformed("time")


def _reduce_datetime(value: datetime) -> list[object]:
    return [
        value.year,
        value.month,
        value.day,
        value.hour,
        value.minute,
        value.second,
        value.microsecond,
        value.fold,
        value.tzinfo,
    ]


def _rebuild_datetime(payload: object) -> datetime:
    match items_of(payload, "datetime"):
        case [
            int() as year,
            int() as month,
            int() as day,
            int() as hour,
            int() as minute,
            int() as second,
            int() as microsecond,
            int() as fold,
            zone,
        ]:
            if zone is not None and not isinstance(zone, tzinfo):
                raise malformed("time zone")
            return datetime(year, month, day, hour, minute, second, microsecond, zone, fold=fold)
        case _:
            raise malformed("datetime")


def _reduce_timezone(value: timezone) -> list[object]:
    if value is UTC:
        return []
    # The name is no public attribute, and tzname() makes one up where none was given.
    arguments = cast("Callable[[], tuple[object, ...]]", getattr(value, "__getinitargs__"))  # noqa: B009
    return list(arguments())


def _rebuild_timezone(payload: object) -> timezone:
    match items_of(payload, "timezone"):
        case []:
            return UTC
        case [timedelta() as offset]:
            return timezone(offset)
        case [timedelta() as offset, str() as name]:
            return timezone(offset, name)
        case _:
            raise malformed("timezone")


# A part may not be or contain "..", and no part may look like a module with an attribute.
_ZONE_KEY: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,3}", re.ASCII)


def _reduce_zoneinfo(value: "zoneinfo.ZoneInfo") -> bytes:
    key = cast("str | None", value.key)
    if key is None or _ZONE_KEY.fullmatch(key) is None:
        raise UnserializableError("zoneinfo.ZoneInfo", hint="it was not made from a time zone's key")
    return key.encode("ascii")


def _rebuild_zoneinfo(payload: object) -> "zoneinfo.ZoneInfo":
    from zoneinfo import ZoneInfo

    key = raw(payload).decode("ascii")
    if _ZONE_KEY.fullmatch(key) is None:
        raise malformed("time zone key")
    return ZoneInfo(key)


# --- ids, ranges, patterns, paths ------------------------------------------------------------------------------------


def _reduce_uuid(value: "uuid.UUID") -> bytes:
    return value.bytes


def _rebuild_uuid(payload: object) -> "uuid.UUID":
    import uuid

    return uuid.UUID(bytes=raw(payload))


def _reduce_range(value: range) -> list[int]:
    # Its parts may be truth values or of other subclasses of int, which no range needs.
    return [int(value.start), int(value.stop), int(value.step)]


def _rebuild_range(payload: object) -> range:
    match items_of(payload, "range"):
        case [int() as start, int() as stop, int() as step] if is_int(start) and is_int(stop) and is_int(step):
            return range(start, stop, step)
        case _:
            raise malformed("range")


def _reduce_slice(value: slice) -> list[object]:
    return [value.start, value.stop, value.step]


def _rebuild_slice(payload: object) -> slice:
    match items_of(payload, "slice"):
        case [start, stop, step]:
            return slice(start, stop, step)
        case _:
            raise malformed("slice")


_PATTERN_FLAGS: Final = int(
    re.ASCII | re.IGNORECASE | re.LOCALE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.UNICODE,
)


def _reduce_pattern(value: re.Pattern[str] | re.Pattern[bytes]) -> list[object]:
    if value.flags & ~_PATTERN_FLAGS:
        raise UnserializableError("re.Pattern", hint="compile it without re.DEBUG")
    return [value.pattern, value.flags]


def _rebuild_pattern(payload: object) -> re.Pattern[str] | re.Pattern[bytes]:
    match items_of(payload, "re.Pattern"):
        case [str() | bytes() as pattern, int() as flags] if not flags & ~_PATTERN_FLAGS:
            return re.compile(pattern, flags)
        case _:
            raise malformed("re.Pattern")


_PATH_CLASSES: Final = ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")


def _reduce_path(value: "pathlib.PurePath") -> list[str]:
    return [type(value).__name__, str(value)]


def _rebuild_path(payload: object) -> "pathlib.PurePath":
    import pathlib

    match items_of(payload, "path"):
        case [str() as name, str() as text] if name in _PATH_CLASSES:
            return cast("type[pathlib.PurePath]", getattr(pathlib, name))(text)
        case _:
            raise malformed("path")


_IP_CLASSES: Final = ("IPv4Address", "IPv4Interface", "IPv4Network", "IPv6Address", "IPv6Interface", "IPv6Network")


def _reduce_ip(value: object) -> list[str]:
    return [type(value).__name__, str(value)]


def _rebuild_ip(payload: object) -> object:
    import ipaddress

    match items_of(payload, "ipaddress"):
        case [str() as name, str() as text] if name in _IP_CLASSES:
            return cast("Callable[[str], object]", getattr(ipaddress, name))(text)
        case _:
            raise malformed("ipaddress")


_PATTERN_CODEC: Final = codec(PATTERN, Shape.PARTS, _reduce_pattern, _rebuild_pattern)
_PATH_CODEC: Final = codec(PATH, Shape.PARTS, _reduce_path, _rebuild_path)
_IP_CODEC: Final = codec(IP_ADDRESS, Shape.PARTS, _reduce_ip, _rebuild_ip)
_CLOCK: Final = ("hour", "minute", "second", "microsecond", "fold", "tzinfo")
_SLICE: Final = ("start", "stop", "step")

SCALARS: Final[dict[type, Codec]] = {
    int: codec(BIG_INT, Shape.RAW, _reduce_int, _rebuild_int),
    bytearray: codec(BYTEARRAY, Shape.RAW, bytes, lambda data: bytearray(raw(data))),
    complex: codec(COMPLEX, Shape.RAW, _reduce_complex, _rebuild_complex),
    date: codec(DATE, Shape.RAW, _reduce_date, _rebuild_date),
    time: codec(TIME, Shape.FIELDS, _reduce_time, _rebuild_time, _CLOCK),
    datetime: codec(DATETIME, Shape.FIELDS, _reduce_datetime, _rebuild_datetime, ("year", "month", "day", *_CLOCK)),
    timedelta: codec(TIMEDELTA, Shape.RAW, _reduce_timedelta, _rebuild_timedelta),
    timezone: codec(TIMEZONE, Shape.PARTS, _reduce_timezone, _rebuild_timezone),
    range: codec(RANGE, Shape.FIELDS, _reduce_range, _rebuild_range, _SLICE),
    slice: codec(SLICE, Shape.FIELDS, _reduce_slice, _rebuild_slice, _SLICE),
    re.Pattern: _PATTERN_CODEC,
}
"""By exact type."""

LATE_SCALARS: Final[dict[str, tuple[str, Codec]]] = {
    "Decimal": ("decimal", codec(DECIMAL, Shape.RAW, _reduce_decimal, _rebuild_decimal)),
    "Fraction": ("fractions", codec(FRACTION, Shape.PARTS, _reduce_fraction, _rebuild_fraction)),
    "UUID": ("uuid", codec(UUID, Shape.RAW, _reduce_uuid, _rebuild_uuid)),
    "ZoneInfo": ("zoneinfo", codec(ZONEINFO, Shape.RAW, _reduce_zoneinfo, _rebuild_zoneinfo)),
    **dict.fromkeys(_PATH_CLASSES, ("pathlib", _PATH_CODEC)),
    **dict.fromkeys(_IP_CLASSES, ("ipaddress", _IP_CODEC)),
}
"""By class name, with the module whose attribute of that name is the class."""
