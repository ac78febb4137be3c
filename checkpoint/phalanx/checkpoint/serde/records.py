"""Dataclasses and attrs classes: objects of declared fields."""

import dataclasses
import sys
from collections.abc import Callable, Container, Iterable
from types import FunctionType
from typing import Any, Final, Protocol, cast

from phalanx.checkpoint.serde.codecs import ATTRS, DATACLASS, malformed, named
from phalanx.checkpoint.serde.kind import MISSING, Kind, empty, full_name, laid_out_as, refuse_undeclared
from phalanx.errors import CorruptDataError, UnserializableError

_HASH: Final = "_attrs_cached_hash"


class _Field(Protocol):
    """What dataclasses and attrs agree on."""

    @property
    def name(self) -> str: ...
    @property
    def init(self) -> bool: ...


def _dataclass_fields(cls: type) -> Iterable[_Field]:
    return dataclasses.fields(cast("Any", cls))


def _dataclass_default(field: _Field) -> object:
    default: object = getattr(field, "default", dataclasses.MISSING)
    factory: object = getattr(field, "default_factory", dataclasses.MISSING)
    if default is not dataclasses.MISSING:
        return default
    return cast("Callable[[], object]", factory)() if factory is not dataclasses.MISSING else MISSING


def _attrs_fields(cls: type) -> Iterable[_Field]:
    return cast("Iterable[_Field]", getattr(cls, "__attrs_attrs__"))  # noqa: B009


def _attrs_default(field: _Field) -> object:
    nothing: object = getattr(sys.modules.get("attr"), "NOTHING", None)
    default: object = getattr(field, "default", nothing)
    if default is nothing or getattr(default, "takes_self", False):
        return MISSING
    factory: object = getattr(default, "factory", None)
    return default if factory is None else cast("Callable[[], object]", factory)()


def _reduce_fields(value: object, fields: Iterable[_Field]) -> list[object]:
    state: dict[str, object] = {}
    for field in fields:
        held: object = getattr(value, field.name, MISSING)
        if held is not MISSING:
            state[field.name] = held
        elif field.init:
            raise UnserializableError(full_name(type(value)), hint=f"its field {field.name!r} is not set")
    _refuse_to_lose(value, state)
    return [state]


def _refuse_to_lose(value: object, state: Container[str]) -> None:
    """Refuse an object that holds more than its fields; what a cached property remembers is nothing more."""
    for name in cast("dict[str, object]", getattr(value, "__dict__", {})):
        # Such as __orig_class__, which typing leaves in an object of a generic class.
        if name in state or name == _HASH or (name.startswith("__") and name.endswith("__")):
            continue
        declared = next((vars(cls)[name] for cls in type(value).__mro__ if name in vars(cls)), None)
        if not hasattr(declared, "__get__") or isinstance(declared, FunctionType):
            hint = f"its attribute {name!r} is no field and would be lost; declare it, with init=False if need be"
            raise UnserializableError(full_name(type(value)), hint=hint)


def _rebuild_fields(
    cls: type, payload: list[object], fields: Iterable[_Field], default_of: Callable[[_Field], object]
) -> object:
    if len(payload) != 1:
        raise malformed(full_name(cls))
    state = named(payload[0], full_name(cls))
    value = empty(cls)
    for field in fields:
        held = state.pop(field.name, MISSING)
        if held is MISSING:
            # A field that was added to the class since.
            held = default_of(field)
        if held is not MISSING:
            object.__setattr__(value, field.name, held)
        elif field.init:
            text = f"stored data lacks the field {field.name!r} of {full_name(cls)}, which has no default"
            raise CorruptDataError(text)
    refuse_undeclared(cls, state, ())
    return value


def _rebuild_attrs(cls: type, payload: list[object]) -> object:
    value = _rebuild_fields(cls, payload, _attrs_fields(cls), _attrs_default)
    # A class made with cache_hash=True looks for this before it hashes; it is not a field.
    if _HASH in getattr(getattr(cls.__hash__, "__code__", None), "co_names", ()):
        object.__setattr__(value, _HASH, None)
    return value


def _is_dataclass(cls: type) -> bool:
    return dataclasses.is_dataclass(cls) and laid_out_as(cls) is object


def _is_attrs(cls: type) -> bool:
    return hasattr(cls, "__attrs_attrs__") and laid_out_as(cls) is object


DATACLASSES: Final = Kind(
    DATACLASS,
    "dataclass",
    _is_dataclass,
    lambda value: _reduce_fields(value, _dataclass_fields(type(value))),
    lambda cls, payload: _rebuild_fields(cls, payload, _dataclass_fields(cls), _dataclass_default),
)
ATTRS_CLASSES: Final = Kind(
    ATTRS,
    "attrs class",
    _is_attrs,
    lambda value: _reduce_fields(value, _attrs_fields(type(value))),
    _rebuild_attrs,
)
