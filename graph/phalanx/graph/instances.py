"""From objects that nodes return in place of a dict to updates of the state."""

import dataclasses
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, cast

from phalanx.graph.schema import hints_of, is_model_class
from phalanx.types import Update

_NOTHING: Final = object()


def update_of_instance(value: Any) -> list[Update] | None:
    """The keys and values of an object whose class has annotations; ``None`` for anything else.

    Of a dataclass every field; of a pydantic model every field that is not ``None`` or was set on purpose; of another
    object every annotated attribute that is there.
    """
    cls: type = value.__class__
    if isinstance(value, type):
        return None
    if is_model_class(cls):
        return _model_update(value)
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    keys = _annotated_keys(cls)
    if not keys:
        return None
    found = ((key, getattr(value, key, _NOTHING)) for key in keys)
    return [(key, given) for key, given in found if given is not _NOTHING]


@lru_cache(maxsize=512)
def _annotated_keys(cls: type) -> tuple[str, ...]:
    """The annotated attributes of a class and of those it derives from; that it resolves is not needed."""
    try:
        return tuple(hints_of(cls))
    except NameError:
        return tuple(
            dict.fromkeys(key for each in reversed(cls.__mro__) for key in vars(each).get("__annotations__", ()))
        )


def _model_update(model: Any) -> list[Update]:
    fields = cast("Mapping[str, Any]", model.__class__.__pydantic_fields__)
    given: set[str] = model.model_fields_set
    values: list[Update] = [(name, getattr(model, name)) for name in fields]
    return [
        (name, value)
        for name, value in values
        if value is not None or name in given or fields[name].default is not None
    ]
