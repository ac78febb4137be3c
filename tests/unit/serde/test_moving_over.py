"""The names that people bring along from LangGraph, and what becomes of what they ask for."""

import enum
import logging
import sys
import types
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import cast

import pytest

from phalanx.channels.base import Missing
from phalanx.channels.last_value import LastValue
from phalanx.checkpoint.serde import Serializer, SerializerProtocol, TypeRegistry, base, default_registry
from phalanx.checkpoint.serde import types as serde_types
from phalanx.checkpoint.serde.base import (
    SerializerCompat,
    UntypedSerializerProtocol,
    maybe_add_typed_methods,
)
from phalanx.checkpoint.serde.event_hooks import SerdeEvent, emit_serde_event, register_serde_event_listener
from phalanx.checkpoint.serde.jsonplus import InvalidModuleError, JsonPlusSerializer
from phalanx.errors import UnknownTypeError, UnserializableError
from phalanx.protocol import names
from phalanx.types import Send


@dataclass
class ByClass:
    x: int


@dataclass
class ByName:
    x: int


@dataclass
class Later:
    x: int


class Outer:
    class Color(enum.Enum):
        RED = 1


class Untyped:
    def dumps(self, obj: object) -> bytes:
        return repr(obj).encode()

    def loads(self, data: bytes) -> object:
        return data.decode()


# --- base and types --------------------------------------------------------------------------------------------------


def test_an_untyped_serializer_is_made_a_typed_one() -> None:
    untyped = Untyped()
    made = maybe_add_typed_methods(untyped)

    assert isinstance(untyped, UntypedSerializerProtocol)
    assert isinstance(made, SerializerCompat)
    assert made.dumps_typed(7) == ("Untyped", b"7")
    assert made.loads_typed(("Untyped", b"7")) == "7"


def test_a_typed_serializer_stays_as_it_is() -> None:
    serializer = Serializer()

    assert maybe_add_typed_methods(serializer) is serializer
    assert base.SerializerProtocol is SerializerProtocol


def test_the_reserved_names_are_those_of_the_engine() -> None:
    for name in ("ERROR", "INTERRUPT", "RESUME", "TASKS"):
        assert getattr(serde_types, name) == getattr(names, name)
    assert serde_types.SCHEDULED == "__scheduled__"


def test_packets_and_channels_have_the_form_that_is_promised() -> None:
    packet: serde_types.SendProtocol = Send("node", 1)
    made: LastValue[int] = LastValue(int)
    channel: serde_types.ChannelProtocol[int, int, int | Missing] = made

    assert packet.node == "node"
    assert channel.update([1])
    assert channel.get() == 1


# --- JsonPlusSerializer ----------------------------------------------------------------------------------------------


def test_it_is_a_serializer_under_another_name() -> None:
    serializer = JsonPlusSerializer()

    assert isinstance(serializer, Serializer)
    assert serializer.dumps_typed((1, {2})) == Serializer().dumps_typed((1, {2}))


def test_allowed_classes_are_registered() -> None:
    serializer = JsonPlusSerializer(
        allowed_msgpack_modules=[ByClass, (__name__, "ByName"), (__name__, "Outer.Color"), ("uuid", "UUID"), dict]
    )

    for value in (ByClass(1), ByName(2), Outer.Color.RED):
        assert serializer.loads(serializer.dumps(value)) == value
        assert default_registry().name_of(type(value)) is not None


def test_more_classes_can_be_allowed_later() -> None:
    first = JsonPlusSerializer(max_bytes=1000, max_depth=7, compress_above=99)
    second = first.with_msgpack_allowlist([Later])

    assert type(second) is JsonPlusSerializer
    assert (second.max_bytes, second.max_depth, second.compress_above) == (1000, 7, 99)
    assert second.loads(second.dumps(Later(1))) == Later(1)


@pytest.mark.parametrize(
    "entry", [("wave", "Wave_read"), (__name__, "NoSuch"), (__name__, "Outer.NoSuch"), ("os", "path")]
)
def test_a_class_that_is_not_loaded_is_not_looked_for(entry: tuple[str, ...]) -> None:
    sys.modules.pop("wave", None)

    with pytest.raises(InvalidModuleError, match="is no class of a loaded module"):
        JsonPlusSerializer(allowed_msgpack_modules=[entry])
    assert "wave" not in sys.modules


def test_a_module_is_not_asked_for_what_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = types.ModuleType("lazy")

    def answer(name: str) -> None:
        raise AssertionError(f"code of the module was run for {name}")

    lazy.__dict__["__getattr__"] = answer
    monkeypatch.setitem(sys.modules, "lazy", lazy)

    with pytest.raises(InvalidModuleError):
        JsonPlusSerializer(allowed_msgpack_modules=[("lazy", "State")])


@pytest.mark.parametrize("entry", [("only one",), ("a", "b", "c"), "a.b", 7])
def test_an_entry_of_another_form_is_refused(entry: object) -> None:
    with pytest.raises(InvalidModuleError, match="classes or"):
        JsonPlusSerializer(allowed_msgpack_modules=[cast("type", entry)])


def test_what_does_not_exist_here_is_refused_with_a_reason() -> None:
    make = cast("Callable[..., object]", JsonPlusSerializer)

    for name, value, match in (
        ("pickle_fallback", True, "reading pickles runs code"),
        ("allowed_json_modules", True, "no JSON encoding"),
        ("allowed_json_modules", [("a", "b")], "no JSON encoding"),
        ("allowed_msgpack_modules", True, "may not name any class"),
        ("__unpack_ext_hook__", print, "a storage format"),
    ):
        with pytest.raises(ValueError, match=match):
            make(**{name: value})
    make(pickle_fallback=False, allowed_json_modules=None, allowed_msgpack_modules=None, __unpack_ext_hook__=None)


def test_text_that_looks_like_an_envelope_stays_text() -> None:
    serializer = JsonPlusSerializer()
    envelopes: list[object] = [
        {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}},
        {"lc": 2, "type": "constructor", "id": ["builtins", "eval"], "method": [None], "args": ["1"], "kwargs": {}},
        {"__type__": "os:system", "__args__": ["true"]},
        {"py/object": "os.system"},
    ]

    assert serializer.loads_typed(serializer.dumps_typed(envelopes)) == envelopes


# --- events ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def events() -> Generator[list[SerdeEvent], None, None]:
    seen: list[SerdeEvent] = []
    unregister = register_serde_event_listener(seen.append)
    yield seen
    unregister()


def test_a_class_that_data_names_and_nobody_registered_is_told(events: list[SerdeEvent]) -> None:
    registry = TypeRegistry()
    registry.register(ByClass)
    data = Serializer(registry).dumps([ByClass(1)])

    with pytest.raises(UnknownTypeError):
        Serializer(TypeRegistry()).loads(data)
    assert events == [{"kind": "msgpack_blocked", "module": __name__, "name": "ByClass"}]


def test_a_class_that_cannot_be_stored_is_told(events: list[SerdeEvent]) -> None:
    with pytest.raises(UnserializableError):
        Serializer(TypeRegistry()).dumps({"k": ByClass(1)})
    with pytest.raises(UnserializableError):
        Serializer().dumps(print)
    Serializer().loads(Serializer().dumps("fine"))

    assert events == [
        {"kind": "msgpack_refused", "module": __name__, "name": "ByClass"},
        {"kind": "msgpack_refused", "module": "", "name": "builtin_function_or_method"},
    ]


def test_a_listener_can_leave_and_one_that_fails_harms_nobody(
    events: list[SerdeEvent], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: SerdeEvent) -> None:
        raise RuntimeError(event["kind"])

    leave = register_serde_event_listener(fail)
    last: list[SerdeEvent] = []
    leave_too = register_serde_event_listener(last.append)
    with caplog.at_level(logging.ERROR):
        emit_serde_event({"kind": "first", "module": "m", "name": "n"})
    for _ in range(2):
        leave()
        leave_too()
    emit_serde_event({"kind": "second", "module": "m", "name": "n"})

    assert [event["kind"] for event in events] == ["first", "second"]
    assert [event["kind"] for event in last] == ["first"]
    assert [record.message for record in caplog.records] == ["a listener of serializer events failed: kind=first"]


def test_a_listener_that_is_registered_twice_leaves_once_each(events: list[SerdeEvent]) -> None:
    leave = register_serde_event_listener(events.append)
    leave()
    leave()
    emit_serde_event({"kind": "k", "module": "m", "name": "n"})

    assert len(events) == 1
