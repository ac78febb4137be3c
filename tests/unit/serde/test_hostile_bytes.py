"""Bytes from anywhere are data: they are decoded or refused, and never imported, called or crashed on."""

import enum
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import cast

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from phalanx.checkpoint.serde import Serializer, TypeRegistry, codecs
from phalanx.errors import CorruptDataError, SerializationError, UnknownTypeError

pack = cast("Callable[[object], bytes]", vars(msgpack)["packb"])
ext = cast("Callable[[int, bytes], object]", vars(msgpack)["ExtType"])

EMPTY: dict[str, object] = {}
NO_ITEMS: list[object] = []

CODES = sorted(value for name, value in vars(codecs).items() if name.isupper() and type(value) is int)


def packed(code: int, payload: object) -> bytes:
    return pack(ext(code, pack(payload)))


class Color(enum.Enum):
    RED = 1


@dataclass
class Invoice:
    number: int

    def __post_init__(self) -> None:
        raise AssertionError("rebuilding ran code of the class")


class Model(BaseModel):
    number: int


def make() -> Serializer:
    registry = TypeRegistry()
    for cls in (Color, Invoice, Model):
        registry.register(cls)
    return Serializer(registry)


serializer = make()


@contextmanager
def nothing_imported() -> Generator[None, None, None]:
    before = set(sys.modules)
    yield
    assert set(sys.modules) == before


def name_of(cls: type) -> str:
    name = serializer.registry.name_of(cls)
    assert name is not None
    return name


@given(st.binary(max_size=200))
@example(b"")
@example(b"\xc1")
def test_random_bytes_are_a_value_or_a_typed_error(data: bytes) -> None:
    with suppress(SerializationError):
        serializer.loads(data)


hostile = st.recursive(
    st.one_of(
        st.none(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.text(max_size=5),
        st.binary(max_size=5),
        st.sampled_from([name_of(Color), name_of(Invoice), name_of(Model), "number", "RED", "builtins:OSError"]),
        st.builds(ext, st.sampled_from(CODES), st.binary(max_size=16)),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.builds(ext, st.sampled_from(CODES), inner.map(pack)),
        st.builds(ext, st.sampled_from(CODES), st.lists(inner, max_size=9).map(pack)),
    ),
    max_leaves=12,
)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@settings(max_examples=500)
@given(hostile.map(pack))
def test_well_formed_bytes_of_wrong_shape_are_a_value_or_a_typed_error(data: bytes) -> None:
    with suppress(SerializationError):
        serializer.loads(data)


@given(hostile.map(pack), st.data())
def test_a_changed_byte_is_a_value_or_a_typed_error(valid: bytes, data: st.DataObject) -> None:
    changed = bytearray(valid)
    changed[data.draw(st.integers(0, len(valid) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(SerializationError):
        serializer.loads(bytes(changed))


@pytest.mark.parametrize("code", [codecs.DATACLASS, codecs.ENUM, codecs.PYDANTIC, codecs.NAMEDTUPLE, codecs.SUBCLASS])
@pytest.mark.parametrize("name", ["os:system", "os.system", "chunk:Chunk", "builtins:eval", "subprocess:Popen", ""])
def test_a_class_nobody_registered_is_unknown_and_nothing_is_imported(code: int, name: str) -> None:
    sys.modules.pop("chunk", None)
    with nothing_imported(), pytest.raises(UnknownTypeError) as caught:
        serializer.loads(packed(code, [name, EMPTY]))

    assert caught.value.type_name == name


def test_an_exception_of_a_module_that_is_not_loaded_is_unknown() -> None:
    assert "sndhdr" not in sys.modules
    with nothing_imported(), pytest.raises(UnknownTypeError, match="sndhdr:Error"):
        serializer.loads(pack(ext(codecs.EXCEPTION, pack(["sndhdr:Error", NO_ITEMS, EMPTY, EMPTY]))))


@pytest.mark.parametrize("name", ["os:system", "builtins:eval", "builtins:SystemExit", "builtins:object", "sys:exit"])
def test_what_is_no_exception_class_is_not_rebuilt_as_one(name: str) -> None:
    with nothing_imported(), pytest.raises(UnknownTypeError):
        serializer.loads(pack(ext(codecs.EXCEPTION, pack([name, ["true"], EMPTY, EMPTY]))))


@pytest.mark.parametrize("code", [*sorted(set(range(128)) - set(CODES)), -2, -128])
def test_a_code_outside_the_table_is_unknown(code: int) -> None:
    with pytest.raises(UnknownTypeError, match=f"ext code {code}"):
        serializer.loads(b"\x91\xd4" + code.to_bytes(1, "big", signed=True) + b"\xc0")


DEEP: dict[str, Callable[[int], bytes]] = {
    "lists": lambda depth: b"\x91" * depth + b"\xc0",
    "dicts": lambda depth: b"\x81\xa1k" * depth + b"\xc0",
    "lists beside a bytearray": lambda depth: b"\x92\xc7\x00\x02" + b"\x91" * depth + b"\xc0",
    "keys": lambda depth: b"\x81" * depth + b"\xc0" * (depth + 1),
}


@pytest.mark.parametrize("shape", DEEP)
@pytest.mark.parametrize("depth", [257, 1_000, 1_024, 1_025, 100_000])
def test_containers_that_are_too_deep_are_refused(shape: str, depth: int) -> None:
    with pytest.raises(CorruptDataError):
        serializer.loads(DEEP[shape](depth))


@pytest.mark.parametrize("code", [codecs.TUPLE, codecs.FROZENSET, codecs.OVERWRITE, codecs.DATACLASS])
@pytest.mark.parametrize("depth", [257, 3_000])
def test_exts_that_are_too_deep_are_refused(code: int, depth: int) -> None:
    data = b"\x90"
    for _ in range(depth):
        data = b"\x91" + pack(ext(code, data))

    with pytest.raises(CorruptDataError):
        serializer.loads(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x14",
        b"\xdd\x7f\xff\xff\xff" * 1000,
        b"\xa5abc",
        b"\xa1\xff",
        b"\x01\x01",
        pack([1, 2, 3])[:-1],
        b"\x81\x90\x01",
        b"\x81\x80\x01",
        b"\xc7\x03\xff123",
        packed(codecs.SET, [[1]]),
        pack(ext(codecs.TUPLE, pack([1]) + b"\x00")),
        packed(codecs.TUPLE, {}),
        pack(ext(codecs.TUPLE, b"")),
        pack(ext(codecs.DATE, b"\x00\x00\x00\x00")),
        pack(ext(codecs.DATE, b"\x00")),
        pack(ext(codecs.UUID, b"short")),
        pack(ext(codecs.DECIMAL, b"seven")),
        pack(ext(codecs.DECIMAL, b"1_0")),
        packed(codecs.FRACTION, [1, 0]),
        packed(codecs.PATTERN, ["(", 0]),
        packed(codecs.PATTERN, ["a", 128]),
        packed(codecs.PATTERN, ["(" * 5000, 0]),
        packed(codecs.DEFAULTDICT, ["eval", EMPTY]),
        packed(codecs.PATH, ["os", "/"]),
        packed(codecs.PATH, ["Path", "/"]),
        packed(codecs.IP_ADDRESS, ["ip_address", "::1"]),
        packed(codecs.IP_ADDRESS, ["IPv4Address", "300.0.0.1"]),
        packed(codecs.DATETIME, [2024, 1, 1, 0, 0, 0, 0, 0, "UTC"]),
        packed(codecs.DATETIME, [2024, 13, 1, 0, 0, 0, 0, 0, None]),
        packed(codecs.TIMEZONE, [1]),
        packed(codecs.RANGE, [0, 1, 0]),
        packed(codecs.DEQUE, [-1, NO_ITEMS]),
        packed(codecs.SEND, [1, 2]),
        packed(codecs.SEND, ["node"]),
        packed(codecs.SEND, ["node", 1, 5.0]),
        packed(codecs.SEND, ["node", 1, [5.0, None]]),
        packed(codecs.SEND, ["node", 1, [5, None, "auto"]]),
        packed(codecs.SEND, ["node", 1, [-5.0, None, "auto"]]),
        packed(codecs.SEND, ["node", 1, [5.0, None, "never"]]),
        packed(codecs.SEND, ["node", 1, None, None]),
        packed(codecs.COMMAND, [1]),
        packed(codecs.INTERRUPT, [1, 2]),
        packed(codecs.OVERWRITE, []),
        packed(codecs.DATACLASS, []),
        packed(codecs.DATACLASS, [1, EMPTY]),
        packed(codecs.EXCEPTION, ["builtins:ValueError", 1, EMPTY, EMPTY]),
        packed(codecs.EXCEPTION, ["builtins:ExceptionGroup", ["x", [1]], EMPTY, EMPTY]),
    ],
    ids=lambda data: data[:12].hex(),
)
def test_malformed_bytes_are_corrupt_data(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        serializer.loads(data)


@pytest.mark.parametrize("key", ["../../etc/passwd", "/etc/localtime", "os.path", "a/b/c/d/e", "No/Where", "", "é"])
def test_a_time_zone_key_reaches_no_file_outside_of_the_database(key: str) -> None:
    with pytest.raises(CorruptDataError):
        serializer.loads(pack(ext(codecs.ZONEINFO, key.encode())))


@pytest.mark.parametrize(
    ("code", "payload"),
    [
        (codecs.DATACLASS, [name_of(Invoice), {"number": 1, "__class__": 2}]),
        (codecs.DATACLASS, [name_of(Invoice), EMPTY]),
        (codecs.DATACLASS, [name_of(Invoice), EMPTY, EMPTY]),
        (codecs.DATACLASS, [name_of(Color), EMPTY]),
        (codecs.ENUM, [name_of(Color), "BLUE"]),
        (codecs.ENUM, [name_of(Color), None, 1]),
        (codecs.ENUM, [name_of(Invoice), "RED"]),
        (codecs.PYDANTIC, [name_of(Model), {"other": 1}, NO_ITEMS, None, None]),
        (codecs.PYDANTIC, [name_of(Model), {"number": 1}, ["other"], None, None]),
        (codecs.PYDANTIC, [name_of(Model), {"number": 1}, NO_ITEMS, {"more": 1}, None]),
        (codecs.PYDANTIC, [name_of(Model), {"number": 1}, NO_ITEMS, None, {"_secret": 1}]),
        (codecs.PYDANTIC, [name_of(Model), {"number": 1}]),
    ],
)
def test_an_object_gets_nothing_that_its_class_does_not_declare(code: int, payload: object) -> None:
    with pytest.raises(CorruptDataError):
        serializer.loads(packed(code, payload))


def test_bytes_beyond_the_size_limit_are_not_decoded() -> None:
    small = Serializer(max_bytes=10)

    with pytest.raises(CorruptDataError, match="the limit is 10"):
        small.loads(b"\xc0" * 11)
    with pytest.raises(CorruptDataError):
        small.loads_typed(("bytes", b"x" * 11))


def test_the_depth_limit_holds_for_reading_too() -> None:
    deep = Serializer().dumps([[[[1]]]])

    with pytest.raises(CorruptDataError, match="deeper than 3 levels"):
        Serializer(max_depth=3).loads(deep)


def test_what_is_not_bytes_is_corrupt_data() -> None:
    with pytest.raises(CorruptDataError):
        serializer.loads(cast("bytes", "text"))
