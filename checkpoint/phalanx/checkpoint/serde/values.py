"""Enums, named tuples and subclasses of builtins: values of a builtin type that have a class of their own."""

import enum
from collections.abc import Callable, Iterator
from typing import Final, cast

from phalanx.checkpoint.serde.codecs import ENUM, NAMEDTUPLE, SUBCLASS, items_of, malformed, named
from phalanx.checkpoint.serde.kind import Kind, full_name, laid_out_as
from phalanx.errors import CorruptDataError


def _is_enum(cls: type) -> bool:
    return enum.Enum in cls.__mro__


def _reduce_enum(value: object) -> list[object]:
    member = cast("enum.Enum", value)
    if type(member).__members__.get(member.name) is member:
        return [member.name]
    return [None, cast("object", member.value)]


def _rebuild_enum(cls: type, payload: list[object]) -> object:
    members = cast("type[enum.Enum]", cls).__members__
    match payload:
        case [str() as name] if name in members:
            return members[name]
        case [str() as name]:
            raise CorruptDataError(f"stored data names a member {name!r} that {full_name(cls)} does not have")
        case [None, int() as value] if issubclass(cls, enum.Flag):
            return cls(value)
        case _:
            raise malformed(full_name(cls))


def is_namedtuple(cls: type) -> bool:
    """Whether ``cls`` was made by ``NamedTuple`` or ``namedtuple``, or extends such a class."""
    return tuple in cls.__mro__ and isinstance(getattr(cls, "_fields", None), tuple)


def _reduce_namedtuple(value: object) -> list[object]:
    return [list(cast("tuple[object, ...]", _PLAIN[tuple](value)))]


def _rebuild_namedtuple(cls: type, payload: list[object]) -> object:
    match payload:
        case [items]:
            held = items_of(items, full_name(cls))
        case _:
            raise malformed(full_name(cls))
    if len(held) != len(cast("tuple[str, ...]", getattr(cls, "_fields"))):  # noqa: B009
        raise CorruptDataError(f"stored data holds {len(held)} fields for {full_name(cls)}")
    return _method(tuple, "__new__")(cls, held)


def _collect(base: type) -> Callable[[object], object]:
    make = cast("Callable[[Iterator[object]], object]", base)
    iterate = cast("Callable[[object], Iterator[object]]", getattr(base, "__iter__"))  # noqa: B009
    return lambda value: make(iterate(value))


def _method(base: type, name: str) -> Callable[..., object]:
    return cast("Callable[..., object]", getattr(base, name))


# The builtins' own methods: a class may have overridden what iterating or converting its objects means.
_PLAIN: Final[dict[type, Callable[[object], object]]] = {
    int: _method(int, "__index__"),
    float: _method(float, "__float__"),
    str: _method(str, "__str__"),
    bytes: _method(bytes, "__bytes__"),
    dict: _method(dict, "copy"),
    **{base: _collect(base) for base in (list, set, frozenset, tuple)},
}

# How the mutable ones are filled; the others get their value when they are made.
_FILL: Final[dict[type, Callable[..., object]]] = {
    list: _method(list, "extend"),
    dict: _method(dict, "update"),
    set: _method(set, "update"),
}


def is_typed_dict(cls: type) -> bool:
    """Whether ``cls`` is a ``TypedDict`` of ``typing`` or ``typing_extensions``: its values are plain dicts."""
    return dict in cls.__mro__ and hasattr(cls, "__required_keys__") and hasattr(cls, "__total__")


def _is_subclass(cls: type) -> bool:
    base = laid_out_as(cls)
    slots = any(entry.__dict__.get("__slots__") for entry in cls.__mro__)
    return base in _PLAIN and cls is not base and not slots and not is_typed_dict(cls)


def _reduce_subclass(value: object) -> list[object]:
    plain = _PLAIN[laid_out_as(type(value))](value)
    return [plain, dict(cast("dict[str, object]", getattr(value, "__dict__", {})))]


def _rebuild_subclass(cls: type, payload: list[object]) -> object:
    base = laid_out_as(cls)
    match payload:
        case [plain, state] if type(plain) is base:
            attributes = named(state, full_name(cls))
        case _:
            raise malformed(full_name(cls))
    fill = _FILL.get(base)
    new = _method(base, "__new__")
    value = new(cls) if fill else new(cls, plain)
    if fill:
        fill(value, plain)
    if attributes:
        cast("dict[str, object]", object.__getattribute__(value, "__dict__")).update(attributes)
    return value


ENUMS: Final = Kind(ENUM, "Enum", _is_enum, _reduce_enum, _rebuild_enum)
NAMEDTUPLES: Final = Kind(NAMEDTUPLE, "NamedTuple", is_namedtuple, _reduce_namedtuple, _rebuild_namedtuple, False)
SUBCLASSES: Final = Kind(SUBCLASS, "subclass of a builtin", _is_subclass, _reduce_subclass, _rebuild_subclass, False)
