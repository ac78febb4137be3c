"""Pydantic models. pydantic is never imported: a model can only exist when somebody else has."""

import sys
from collections.abc import Callable
from typing import Final, cast

from phalanx.checkpoint.serde.codecs import PYDANTIC, items_of, malformed, named
from phalanx.checkpoint.serde.kind import MISSING, Kind, empty, full_name, refuse_undeclared


def is_pydantic(cls: type) -> bool:
    """Whether ``cls`` is a pydantic model. pydantic is not imported to find out: without it, there are no models."""
    return getattr(sys.modules.get("pydantic.main"), "BaseModel", None) in cls.__mro__


def pydantic_fields(cls: type) -> dict[str, object]:
    """The model's fields by name, inherited ones included."""
    return cast("dict[str, object]", getattr(cls, "__pydantic_fields__", {}))


def private_names(cls: type) -> dict[str, object]:
    """The model's private attributes by name."""
    return cast("dict[str, object]", getattr(cls, "__private_attributes__", {}))


def _reduce_pydantic(value: object) -> list[object]:
    declared = pydantic_fields(type(value))
    held = cast("dict[str, object]", object.__getattribute__(value, "__dict__"))
    fields_set = cast("set[str]", object.__getattribute__(value, "__pydantic_fields_set__"))
    extra = cast("dict[str, object] | None", object.__getattribute__(value, "__pydantic_extra__"))
    private = cast("dict[str, object] | None", object.__getattribute__(value, "__pydantic_private__"))
    return [
        {name: held[name] for name in declared if name in held},
        sorted(fields_set),
        None if extra is None else dict(extra),
        None if private is None else dict(private),
    ]


def _rebuild_pydantic(cls: type, payload: list[object]) -> object:
    what = full_name(cls)
    if len(payload) != 4:
        raise malformed(what)
    fields, set_names, extra, private = payload
    state = named(fields, what)
    fields_set = items_of(set_names, what)
    more = None if extra is None else named(extra, what)
    hidden = None if private is None else named(private, what)
    declared = pydantic_fields(cls)
    refuse_undeclared(cls, state, declared)
    refuse_undeclared(cls, hidden or (), private_names(cls))
    if more is not None and _model_config(cls).get("extra") != "allow":
        raise malformed(f"{what}, which allows no extra fields")
    if not all(isinstance(name, str) and (name in declared or name in (more or ())) for name in fields_set):
        raise malformed(what)
    value = empty(cls)
    held = {name: state[name] if name in state else _pydantic_default(declared[name]) for name in declared}
    object.__setattr__(value, "__dict__", {name: item for name, item in held.items() if item is not MISSING})
    object.__setattr__(value, "__pydantic_fields_set__", set(fields_set))
    object.__setattr__(value, "__pydantic_extra__", more)
    object.__setattr__(value, "__pydantic_private__", hidden)
    return value


def _model_config(cls: type) -> dict[str, object]:
    return cast("dict[str, object]", getattr(cls, "model_config", {}))


def _pydantic_default(field: object) -> object:
    """What a field holds that stored data lacks. A required one may be absent: ``model_construct`` allows it."""
    if cast("Callable[[], bool]", getattr(field, "is_required"))():  # noqa: B009
        return MISSING
    return cast("Callable[..., object]", getattr(field, "get_default"))(call_default_factory=True)  # noqa: B009


MODELS: Final = Kind(PYDANTIC, "pydantic model", is_pydantic, _reduce_pydantic, _rebuild_pydantic)
