"""Which classes the values of a type annotation may consist of."""

import types
from collections.abc import Iterator
from inspect import get_annotations
from typing import Annotated, ClassVar, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from phalanx.checkpoint.serde.kinds import kind_of
from phalanx.checkpoint.serde.late import is_standard
from phalanx.checkpoint.serde.models import is_pydantic, private_names, pydantic_fields
from phalanx.checkpoint.serde.values import is_typed_dict


def classes_in(annotation: object) -> list[type]:
    """The classes that must be registered to store values of ``annotation``, in the order they are found."""
    found: list[type] = []
    waiting = [annotation]
    # By identity, because a hint need not be hashable; the hints are kept alive, so that no identity is used twice.
    seen: dict[int, object] = {}
    while waiting:
        hint = waiting.pop()
        if id(hint) in seen:
            continue
        seen[id(hint)] = hint
        if isinstance(hint, type) and not isinstance(hint, types.GenericAlias):
            if _is_storable(hint):
                found.append(hint)
            waiting.extend(_fields(hint))
        else:
            waiting.extend(_parts(hint))
    return found


def _parts(hint: object) -> Iterator[object]:
    """What a hint that is no class is made of."""
    if isinstance(hint, list | tuple):
        yield from cast("list[object]", hint)
    elif isinstance(hint, TypeVar):
        yield cast("object", hint.__bound__)
        yield from hint.__constraints__
    elif hasattr(hint, "__supertype__"):
        yield getattr(hint, "__supertype__")  # noqa: B009
    elif type(hint).__name__ == "TypeAliasType":
        yield getattr(hint, "__value__", None)
    else:
        origin = get_origin(hint)
        arguments = cast("tuple[object, ...]", get_args(hint))
        if origin is Annotated:
            yield arguments[0]
        elif origin is Literal:
            yield from map(type, arguments)
        elif origin is not None and origin is not ClassVar:
            yield origin
            yield from arguments


def _is_storable(cls: type) -> bool:
    """Whether ``cls`` has to be registered and can be."""
    if is_standard(cls) or is_typed_dict(cls):
        return False
    return Exception in cls.__mro__ or kind_of(cls) is not None


def _fields(cls: type) -> Iterator[object]:
    """The hints of the fields of ``cls``, if it is a class with fields."""
    if is_pydantic(cls):
        declared = pydantic_fields(cls)
        # pydantic has resolved these already, parameters of generic models included.
        yield from (getattr(field, "annotation", None) for field in declared.values())
        names = {*declared, *private_names(cls)}
        yield from (hint for name, hint in _hints(cls).items() if name in names)
    elif is_typed_dict(cls) or (cls.__module__ != "builtins" and kind_of(cls) is not None):
        yield from _hints(cls).values()


def _hints(cls: type) -> dict[str, object]:
    try:
        return cast("dict[str, object]", get_type_hints(cls, include_extras=True))
    except Exception:
        # One hint that cannot be resolved must not hide the others, so each is tried alone.
        return {name: hint for base in reversed(cls.__mro__) for name, hint in _own_hints(base)}


def _own_hints(cls: type) -> Iterator[tuple[str, object]]:
    declared = cast("dict[str, object]", get_annotations(cls))
    for name, hint in declared.items():
        single = type(cls.__name__, (), {"__annotations__": {name: hint}, "__module__": cls.__module__})
        try:
            yield name, get_type_hints(single, localns=dict(vars(cls)), include_extras=True)[name]
        except Exception:
            continue
