"""What cannot be stored is refused when it is written, with its type, the way to it, and what to do."""

import collections
import dataclasses
import datetime as dt
import enum
import functools
import re
import socket
import threading
from collections.abc import Iterator
from typing import NamedTuple, cast

import msgpack  # type: ignore[import-untyped]
import pytest
from pydantic import BaseModel

from phalanx.checkpoint.serde import Serializer, TypeRegistry
from phalanx.errors import UnserializableError
from phalanx.types import Command, Send


@dataclasses.dataclass
class Unregistered:
    owner: object


@dataclasses.dataclass
class Box:
    owner: object


class Model(BaseModel):
    owner: object


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int


class Name(str):
    __slots__ = ()


class Plain:
    pass


class Zone(dt.tzinfo):
    def utcoffset(self, when: dt.datetime | None, /) -> dt.timedelta:
        return dt.timedelta(0)

    def dst(self, when: dt.datetime | None, /) -> None:
        return None

    def tzname(self, when: dt.datetime | None, /) -> None:
        return None


class Vector:
    def tolist(self) -> list[int]:
        return [1]


def numbers() -> Iterator[int]:
    yield 1


@pytest.fixture
def serializer() -> Serializer:
    registry = TypeRegistry()
    registry.register(Box)
    return Serializer(registry)


def refused(serializer: Serializer, value: object) -> UnserializableError:
    with pytest.raises(UnserializableError) as caught:
        serializer.dumps(value)
    return caught.value


REGISTRY: list[object] = []
FUNCTION: object = print

REFUSED: list[tuple[object, str, str]] = [
    (lambda: 0, "function", "functions cannot travel"),
    (print, "builtin_function_or_method", "functions cannot travel"),
    (REGISTRY.append, "builtin_function_or_method", "functions cannot travel"),
    (functools.partial(print), "functools.partial", "functions cannot travel"),
    (numbers(), "generator", "bound to the running process"),
    (int, "type", "classes and modules cannot travel"),
    (re, "module", "classes and modules cannot travel"),
    (threading.Lock(), "lock", "locks, threads and connections"),
    (threading.RLock(), "_thread.RLock", "locks, threads and connections"),
    (threading.Event(), "threading.Event", "locks, threads and connections"),
    (memoryview(b"x"), "memoryview", r"bytes\(view\)"),
    (msgpack.ExtType(20, b"\x90"), "msgpack.ext.ExtType", "register the NamedTuple"),
    (Unregistered(1), "Unregistered", "register the dataclass"),
    (Model(owner=1), "Model", "register the pydantic model"),
    (Color.RED, "Color", "register the Enum"),
    (Level.LOW, "Level", "register the Enum"),
    (Point(1), "Point", "register the NamedTuple"),
    (Name("x"), "Name", "register the subclass of a builtin"),
    (Plain(), "Plain", "make the class a dataclass"),
    (Vector(), "Vector", r"value.tolist\(\)"),
    (object(), "object", "plain values"),
    (dt.datetime(2024, 1, 1, tzinfo=Zone()), "Zone", "zoneinfo.ZoneInfo"),
    (collections.defaultdict(lambda: 1), "collections.defaultdict", "its factory must be one of"),
    (re.compile("a", re.DEBUG), "re.Pattern", "without re.DEBUG"),
    (KeyboardInterrupt(), "KeyboardInterrupt", "register its class"),
]


@pytest.mark.parametrize(("value", "type_name", "hint"), REFUSED, ids=[case[1] for case in REFUSED])
def test_a_value_is_refused_with_its_type_its_place_and_a_hint(
    serializer: Serializer, value: object, type_name: str, hint: str
) -> None:
    error = refused(serializer, {"items": [0, 1, 2, Box(value)]})

    assert error.type_name.endswith(type_name)
    assert error.path.startswith("['items'][3].owner")
    assert re.search(hint, error.hint)


def test_an_open_file_and_a_socket_are_refused(serializer: Serializer) -> None:
    with open(__file__, encoding="utf-8") as file:
        assert "open files cannot travel" in refused(serializer, [file]).hint
    with socket.socket() as connection:
        assert "locks, threads and connections" in refused(serializer, [connection]).hint


class Cursor(BaseModel):
    _position: object = None


PATHS: list[tuple[object, str]] = [
    ((1, print), "[1]"),
    ({"a": {2: print}}, "['a'][2]"),
    ({(1, print): 1}, ".keys()[<tuple>][1]"),
    ({(1, 2): print}, "[<tuple>]"),
    ({print}, "[0]"),
    (collections.deque([1, print]), "[1]"),
    (collections.defaultdict(list, {"k": FUNCTION}), "['k']"),
    (collections.Counter({"k": cast("int", print)}), "['k']"),
    (Send("node", {"x": print}), ".arg['x']"),
    (Command(update={"x": print}), ".update['x']"),
    (Command(goto=[Send("node", print)]), ".goto[0].arg"),
    (slice(None, print), ".stop"),
    (ValueError(1, print), "[1]"),
    ({"x" * 200: print}, f"['{'x' * 39}…xxxxxxxxx']"),
]


@pytest.mark.parametrize(("value", "path"), PATHS, ids=[path for _, path in PATHS])
def test_the_path_leads_to_the_value(serializer: Serializer, value: object, path: str) -> None:
    error = refused(serializer, value)

    assert (error.type_name, error.path) == ("builtin_function_or_method", path)


def test_the_path_leads_into_private_attributes_and_attributes_of_exceptions(serializer: Serializer) -> None:
    serializer.registry.register(Cursor)
    cursor = Cursor()
    setattr(cursor, "_position", print)  # noqa: B010
    error = ValueError("x")
    error.__dict__["handler"] = print

    assert refused(serializer, cursor).path == "._position"
    assert refused(serializer, [error]).path == "[0].handler"


def test_a_long_path_shows_its_ends(serializer: Serializer) -> None:
    value: object = {"last": print}
    for index in range(50):
        value = {f"k{index}": value}

    assert (
        refused(serializer, value).path
        == "['k49']['k48']['k47']['k46']['k45']['k44']…['k4']['k3']['k2']['k1']['k0']['last']"
    )


def test_a_list_that_holds_itself_is_a_cycle(serializer: Serializer) -> None:
    items: list[object] = [1]
    items.append({"again": items})

    assert "a cycle" in str(refused(serializer, items))
    assert refused(serializer, items).path == "[1]['again']"


def test_a_cycle_through_tuples_and_objects_is_found(serializer: Serializer) -> None:
    items: list[object] = []
    items.append((Box(items),))
    plain: list[object] = []
    plain.append(plain)

    assert "a cycle" in refused(serializer, items).hint
    assert "a cycle" in refused(serializer, (plain,)).hint
    assert "a cycle" in refused(serializer, [(([(plain,)],),)]).hint


@pytest.mark.parametrize("depth", [257, 1_000, 5_000, 100_000])
def test_a_value_that_is_too_deep_is_refused(serializer: Serializer, depth: int) -> None:
    lists: list[object] = []
    for _ in range(depth):
        lists = [lists]

    assert "deeper than 256 levels" in refused(serializer, lists).hint


@pytest.mark.parametrize("depth", [257, 1_000, 5_000])
def test_objects_that_are_too_deep_are_refused(serializer: Serializer, depth: int) -> None:
    box: object = None
    for _ in range(depth):
        box = Box([(box,)])

    assert "deeper than 256 levels" in refused(serializer, box).hint


def test_the_depth_limit_can_be_set() -> None:
    serializer = Serializer(max_depth=3)

    assert serializer.loads(serializer.dumps([[[1]]])) == [[[1]]]
    for value in ([[[[1]]]], ([([1],)],), {"a": ({"b": [1]},)}):
        assert "deeper than 3 levels" in refused(serializer, value).hint


def test_a_value_that_is_too_large_is_refused() -> None:
    error = refused(Serializer(max_bytes=100), {"text": "x" * 100})

    assert error.type_name == "dict"
    assert "the limit is 100" in error.hint


@dataclasses.dataclass(slots=True)
class Slotted:
    x: int


def test_an_object_whose_field_was_never_set_is_refused(serializer: Serializer) -> None:
    serializer.registry.register(Slotted)

    assert "its field 'x' is not set" in refused(serializer, [object.__new__(Slotted)]).hint


@dataclasses.dataclass
class Lazy:
    x: int


def test_an_object_that_cannot_be_read_is_refused(serializer: Serializer) -> None:
    serializer.registry.register(Lazy)
    lazy = Lazy(1)
    type.__setattr__(Lazy, "x", property(lambda self: 1 // 0))
    error = refused(serializer, {"a": lazy})

    assert error.path == "['a']"
    assert "ZeroDivisionError" in error.hint


def test_a_tuple_is_refused_rather_than_made_a_list_when_its_class_is_unknown(serializer: Serializer) -> None:
    for value in (Point(1), Name("x"), Level.LOW, collections.UserDict(a=1)):
        refused(serializer, value)
        refused(serializer, {"k": [value]})
