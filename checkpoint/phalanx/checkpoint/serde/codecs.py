"""The storage format: which ext code stands for which type, and the shape its payload has.

A value of msgpack's own types (None, bool, int of 64 bits, float, str, bytes, list, dict) is stored as msgpack stores
it. Everything else is an ext: a code from this table and a payload. The codes are what checkpoints on disk are made of:
a code is never reused or given another meaning, and ``test_stored_bytes_never_change.py`` holds samples of them.

====  ===================  =================================================================================
code  type                 payload (``raw``: the bytes as they are; otherwise msgpack, by the same rules)
====  ===================  =================================================================================
  -1  msgpack.Timestamp    msgpack's own
   1  int over 64 bits     raw: two's complement, big-endian
   2  bytearray            raw
   3  complex              raw: two big-endian doubles
   4  Decimal              raw: ASCII text
   5  Fraction             [numerator, denominator]
   6  UUID                 raw: 16 bytes
  10  date                 raw: year u16, month u8, day u8
  11  time                 [hour, minute, second, microsecond, fold, tzinfo]
  12  datetime             [year, month, day, hour, minute, second, microsecond, fold, tzinfo]
  13  timedelta            raw: days i32, seconds u32, microseconds u32
  14  timezone             [] for UTC, [offset], or [offset, name]
  15  ZoneInfo             raw: its key
  20  tuple                [item, …]
  21  set                  [item, …]
  22  frozenset            [item, …]
  23  deque                [maxlen, [item, …]]
  24  defaultdict          [name of the factory or None, {…}]
  25  Counter              {…}
  26  OrderedDict          {…}
  27  range                [start, stop, step]
  28  slice                [start, stop, step]
  29  re.Pattern           [pattern, flags]
  30  pathlib              [class name, text]
  31  ipaddress            [class name, text]
  40  Enum                 [type, member's name], or [type, None, value] for a combination of flags
  41  namedtuple           [type, [item, …]]
  42  dataclass            [type, {field: value}]
  43  attrs class          [type, {field: value}]
  44  pydantic model       [type, {field: value}, [set field, …], {extra} or None, {private} or None]
  45  exception            [type, [arg, …], {attribute: value}, {builtin attribute: value}]
  46  subclass of builtin  [type, plain value, {attribute: value}]
  50  Send                 [node, arg] or [node, arg, timeout]
  51  Command              [graph, update, resume, goto]
  52  Overwrite            [value]
  53  Interrupt            [value, id] or [value, id, response schema]
  54  DeltaSnapshot        [value]
  60  numpy.ndarray        [dtype, [length, …], "C" or "F", its items' bytes or, of a StringDType, [text, …]]
  61  numpy.generic        [dtype, bytes], ["str", text] or ["bytes", bytes]
  62  pandas.Index         [class name, name, freq or None, values], ["RangeIndex", name, start, stop, step] or
                           ["MultiIndex", [name, …], [level, …], [codes, …]]
  63  pandas.Series        [values, index, name, {attrs}, whether labels may repeat]
  64  pandas.DataFrame     [columns, index, [values, …], {attrs}, whether labels may repeat]
  65  pandas' scalars      [class name, part, …]
====  ===================  =================================================================================

A numpy dtype is described in :mod:`phalanx.checkpoint.serde.dtypes`, the values of a column or index in
:mod:`phalanx.checkpoint.serde.columns`.

What starts with the byte ``0xC1``, which msgpack never uses, is a value in a wrapping: see
:mod:`phalanx.checkpoint.serde.wrapping`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn, TypeVar, cast

from phalanx.errors import CorruptDataError

T = TypeVar("T")

BIG_INT: Final = 1
BYTEARRAY: Final = 2
COMPLEX: Final = 3
DECIMAL: Final = 4
FRACTION: Final = 5
UUID: Final = 6
DATE: Final = 10
TIME: Final = 11
DATETIME: Final = 12
TIMEDELTA: Final = 13
TIMEZONE: Final = 14
ZONEINFO: Final = 15
TUPLE: Final = 20
SET: Final = 21
FROZENSET: Final = 22
DEQUE: Final = 23
DEFAULTDICT: Final = 24
COUNTER: Final = 25
ORDERED_DICT: Final = 26
RANGE: Final = 27
SLICE: Final = 28
PATTERN: Final = 29
PATH: Final = 30
IP_ADDRESS: Final = 31
ENUM: Final = 40
NAMEDTUPLE: Final = 41
DATACLASS: Final = 42
ATTRS: Final = 43
PYDANTIC: Final = 44
EXCEPTION: Final = 45
SUBCLASS: Final = 46
SEND: Final = 50
COMMAND: Final = 51
OVERWRITE: Final = 52
INTERRUPT: Final = 53
DELTA_SNAPSHOT: Final = 54
NDARRAY: Final = 60
NUMPY_SCALAR: Final = 61
PANDAS_INDEX: Final = 62
SERIES: Final = 63
DATAFRAME: Final = 64
PANDAS_SCALAR: Final = 65


class Shape(Enum):
    """How a payload is stored, and so how a place inside of it is called in an error's path."""

    RAW = "bytes, stored as they are"
    ITEMS = "one list or dict whose items are the value's items"
    PARTS = "a list; lists and dicts in it hold the value's items"
    ATTRIBUTES = "a list; the keys of dicts in it are the value's attributes"
    FIELDS = "a list with one element for each of the value's attributes, which the codec names"


@dataclass(frozen=True, slots=True)
class Codec:
    """One row of the table for one type: ``reduce`` makes the payload, ``rebuild`` checks it and makes the value."""

    code: int
    shape: Shape
    reduce: Callable[[object], object]
    rebuild: Callable[[object], object]
    fields: tuple[str, ...] = ()


def codec(
    code: int,
    shape: Shape,
    reduce: Callable[[T], object],
    rebuild: Callable[[object], T],
    fields: tuple[str, ...] = (),
) -> Codec:
    """A :class:`Codec` whose two halves are checked to be about the same type."""
    return Codec(code, shape, cast("Callable[[object], object]", reduce), rebuild, fields)


def not_alone(payload: object) -> NoReturn:
    """The ``rebuild`` of a codec for objects: which class to rebuild is in the payload, not in the code."""
    raise AssertionError(f"an object is rebuilt by its class, not from {payload!r} alone")


def malformed(what: str) -> CorruptDataError:
    """The error for a payload that this library would not have written."""
    return CorruptDataError(f"stored data holds a malformed {what}")


def items_of(payload: object, what: str) -> list[object]:
    """The payload as a list."""
    if type(payload) is not list:
        raise malformed(what)
    return cast("list[object]", payload)


def mapping_of(payload: object, what: str) -> dict[object, object]:
    """The payload as a dict."""
    if type(payload) is not dict:
        raise malformed(what)
    return cast("dict[object, object]", payload)


def named(payload: object, what: str) -> dict[str, object]:
    """The payload as a dict from names to values."""
    mapping = mapping_of(payload, what)
    if not all(type(name) is str for name in mapping):
        raise malformed(what)
    return cast("dict[str, object]", mapping)
