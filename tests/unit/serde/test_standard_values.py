"""Values of the standard library come back as exactly what they were."""

import datetime as dt
import decimal
import fractions
import ipaddress
import math
import pathlib
import re
import struct
import sys
import uuid
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Hashable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.checkpoint.serde import Serializer, SerializerProtocol
from phalanx.errors import CorruptDataError, UnknownTypeError
from phalanx.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy

serializer = Serializer()


def exact(value: object) -> object:
    """A form of ``value`` that is equal for two values only if they are the same in type and content throughout."""
    cls = type(value)
    if isinstance(value, float):
        return cls, struct.pack(">d", value)
    if isinstance(value, complex):
        return cls, struct.pack(">dd", value.real, value.imag)
    if isinstance(value, decimal.Decimal):
        return cls, str(value)
    if isinstance(value, defaultdict):
        factory = cast("Callable[[], object] | None", value.default_factory)
        return cls, factory, exact(dict(cast("dict[object, object]", value)))
    if isinstance(value, deque):
        return cls, value.maxlen, [exact(item) for item in cast("deque[object]", value)]
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return cls, [(exact(key), exact(item)) for key, item in items]
    if isinstance(value, list | tuple):
        return cls, [exact(item) for item in cast("list[object]", value)]
    if isinstance(value, set | frozenset):
        return cls, sorted(repr(exact(item)) for item in cast("set[object]", value))
    if isinstance(value, Send | Command | Overwrite | Interrupt):
        names = ("node", "arg", "timeout", "graph", "update", "resume", "goto", "value", "id", "response_schema")
        return cls, [exact(getattr(cast("object", value), name, None)) for name in names]
    if isinstance(value, dt.datetime | dt.time):
        return cls, value.isoformat(), value.fold, repr(value.tzinfo)
    return cls, repr(value), value


def again(value: object) -> object:
    return serializer.loads(serializer.dumps(value))


text = st.text(st.characters(exclude_categories=()), max_size=8)
zones = st.one_of(
    st.none(),
    st.just(dt.UTC),
    st.builds(dt.timezone, st.timedeltas(dt.timedelta(hours=-23), dt.timedelta(hours=23))),
    st.sampled_from([zoneinfo.ZoneInfo("Europe/Berlin"), zoneinfo.ZoneInfo("America/Port-au-Prince")]),
)
factories: st.SearchStrategy[Callable[[], object] | None] = st.sampled_from([list, int, dict, set, float, str, None])
hashable_leaves: st.SearchStrategy[Hashable] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    text,
    st.binary(max_size=8),
    st.complex_numbers(),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.uuids(),
    st.dates(),
    st.timedeltas(),
    st.times(),
    st.times().map(lambda time: time.replace(fold=1)),
    st.datetimes(timezones=zones),
    st.datetimes(timezones=zones).map(lambda when: when.replace(fold=1)),
    st.ip_addresses(),
    st.builds(pathlib.PurePosixPath, text.filter(lambda part: "\0" not in part)),
    st.builds(range, st.integers(), st.integers(), st.integers(1)),
)
hashables: st.SearchStrategy[Hashable] = st.recursive(
    hashable_leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3).map(tuple), st.frozensets(inner, max_size=3)),
    max_leaves=5,
)


def command(update: object, goto: str) -> Command[str]:
    return Command(update=update, goto=goto)


def default_dict(factory: Callable[[], object] | None, items: dict[object, object]) -> defaultdict[object, object]:
    return defaultdict(factory, items)


def bounded(items: list[object], maxlen: int | None) -> deque[object]:
    return deque(items, maxlen)


seconds = st.one_of(st.none(), st.floats(min_value=0, exclude_min=True, allow_nan=False))
timeouts = st.one_of(
    st.none(), st.builds(TimeoutPolicy, seconds, seconds, refresh_on=st.sampled_from(["auto", "heartbeat"]))
)


def _containers(inner: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    items: st.SearchStrategy[list[object]] = st.lists(inner, max_size=3)
    dicts: st.SearchStrategy[dict[object, object]] = st.dictionaries(hashables, inner, max_size=3)
    return st.one_of(
        items,
        items.map(tuple),
        dicts,
        st.dictionaries(text, inner, max_size=3),
        dicts.map(OrderedDict),
        st.builds(default_dict, factories, dicts),
        st.builds(bounded, items, st.one_of(st.none(), st.integers(0, 5))),
        st.sets(hashables, max_size=3),
        st.dictionaries(hashables, st.integers(), max_size=3).map(Counter),
        st.builds(Send, text, inner, timeout=timeouts),
        st.builds(command, inner, text),
        st.builds(Overwrite, inner),
        st.builds(Interrupt, inner, text, inner),
    )


values: st.SearchStrategy[object] = st.recursive(
    st.one_of(hashables, st.binary(max_size=8).map(bytearray)), _containers, max_leaves=20
)
plain_values: st.SearchStrategy[object] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), st.text(), st.binary()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
)


@given(values)
def test_any_value_comes_back_as_exactly_what_it_was(value: object) -> None:
    assert exact(again(value)) == exact(value)


@given(plain_values)
def test_any_plain_value_comes_back_as_exactly_what_it_was(value: object) -> None:
    assert exact(again(value)) == exact(value)


@given(values)
def test_a_value_keeps_its_bytes_when_it_is_stored_again(value: object) -> None:
    once = serializer.dumps(value)
    back = serializer.loads(once)

    assert exact(serializer.loads(serializer.dumps(back))) == exact(value)


UNUSUAL: list[object] = [
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    2**64,
    -(2**63) - 1,
    2**4000,
    -0.0,
    math.inf,
    "a\ud800b",
    "\ud83d\ude00",
    bytearray(b"\x00\xff"),
    deque([1, 2], maxlen=2),
    defaultdict(None, {1: 2}),
    Counter({"a": -1, "b": 0}),
    slice(None, (1, 2), -1),
    range(10, 0, -3),
    range(True, 5),
    defaultdict(bool, {"a": True}),
    defaultdict(deque, {"a": deque([1])}),
    defaultdict(Counter, {"a": Counter("x")}),
    decimal.Decimal("1.500"),
    decimal.Decimal("-sNaN123"),
    decimal.Decimal("1E+400"),
    fractions.Fraction(2**80, 3),
    uuid.UUID(int=2**128 - 1),
    dt.datetime.max.replace(tzinfo=dt.UTC),
    dt.timezone(dt.timedelta(hours=1), "CET"),
    dt.timezone(dt.timedelta(seconds=-1)),
    zoneinfo.ZoneInfo("UTC"),
    dt.time(1, 2, tzinfo=zoneinfo.ZoneInfo("Asia/Tokyo")),
    pathlib.Path("/tmp/x y"),
    pathlib.PureWindowsPath("C:\\a\\b"),
    ipaddress.ip_network("10.0.0.0/8"),
    ipaddress.ip_interface("fe80::1%eth0/64"),
    re.compile("(?i)a(.)", re.DOTALL),
    re.compile(b"a", re.LOCALE),
    {None: 1, 1.5: 2, (1, (2,)): 3, b"x": 4, frozenset([1]): 5},
    [[], {}, (), set(), ""],
]


@pytest.mark.parametrize("value", UNUSUAL, ids=repr)
def test_unusual_values_come_back_too(value: object) -> None:
    assert exact(again(value)) == exact(value)


def test_not_a_number_keeps_its_bits() -> None:
    payload = struct.unpack(">d", b"\x7f\xf8\x00\x00\x00\x00\x12\x34")[0]

    assert struct.pack(">d", again(payload)) == b"\x7f\xf8\x00\x00\x00\x00\x12\x34"


def test_the_order_of_a_dict_is_kept() -> None:
    assert list(cast("dict[str, int]", again({"b": 1, "a": 2, "c": 3}))) == ["b", "a", "c"]


def test_utc_comes_back_as_the_one_utc() -> None:
    assert again(dt.UTC) is dt.UTC


def test_text_that_looks_like_an_envelope_stays_text() -> None:
    envelope = {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}}

    assert again(envelope) == envelope


def test_a_stored_value_does_not_follow_later_changes() -> None:
    items = [1, 2]
    data = serializer.dumps(items)
    items.append(3)

    assert serializer.loads(data) == [1, 2]


def test_a_value_that_is_held_twice_comes_back_as_two_equal_values() -> None:
    shared = [1]

    assert again([shared, shared, (shared, shared)]) == [[1], [1], ([1], [1])]


def in_list(value: object) -> object:
    return [value]


def in_tuple(value: object) -> object:
    return (value,)


def in_dict(value: object) -> object:
    return {"key": value}


def in_deque(value: object) -> object:
    return deque([value])


@pytest.mark.parametrize("depth", [1, 9, 100, 256])
@pytest.mark.parametrize("wrap", [in_list, in_tuple, in_dict, in_deque])
def test_values_may_nest_up_to_the_limit(depth: int, wrap: Callable[[object], object]) -> None:
    value: object = "core"
    for _ in range(depth):
        value = wrap(value)

    assert again(value) == value


def test_nested_tuples_next_to_nested_lists_are_not_mistaken_for_one_deep_value() -> None:
    lists: object = []
    tuples: object = ()
    for _ in range(200):
        lists = [lists]
        tuples = (tuples,)

    assert again([lists, tuples]) == [lists, tuples]


@pytest.mark.parametrize(
    ("value", "tag"), [(None, "null"), (b"raw", "bytes"), ([1], "msgpack"), (bytearray(b"x"), "msgpack")]
)
def test_the_typed_form_names_its_encoding(value: object, tag: str) -> None:
    typed = serializer.dumps_typed(value)

    assert typed[0] == tag
    assert exact(serializer.loads_typed(typed)) == exact(value)


@pytest.mark.parametrize("tag", ["pickle", "json", ""])
def test_an_encoding_of_another_kind_is_refused(tag: str) -> None:
    with pytest.raises(UnknownTypeError, match=f"encoding {tag}"):
        serializer.loads_typed((tag, b"\x80\x04N."))


def test_a_typed_null_holds_nothing() -> None:
    with pytest.raises(CorruptDataError):
        serializer.loads_typed(("null", b"x"))


def test_the_serializer_fits_what_savers_ask_for() -> None:
    assert isinstance(serializer, SerializerProtocol)


@pytest.mark.parametrize(("max_bytes", "max_depth"), [(0, 1), (1, 0), (1, 513)])
def test_limits_without_sense_are_refused(max_bytes: int, max_depth: int) -> None:
    with pytest.raises(ValueError, match=r"max_(bytes|depth) must be"):
        Serializer(max_bytes=max_bytes, max_depth=max_depth)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX paths")
def test_a_path_with_undecodable_bytes_comes_back() -> None:
    path = pathlib.Path("/tmp/\udcff")

    assert again(path) == path
