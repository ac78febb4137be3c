"""From the annotations of a state class to channels, and between instances of it and updates.

A state class is a TypedDict, a dataclass, a pydantic model or any class with annotations. Each key becomes a channel:
a plain annotation a ``LastValue``, an annotated reducer a ``BinaryOperatorAggregate``, an annotated channel that
channel.
"""

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, NotRequired, Required, cast, get_args, get_origin, get_type_hints

from typing_extensions import ReadOnly, is_typeddict

from phalanx.channels import BaseChannel, BinaryOperatorAggregate, LastValue
from phalanx.protocol.names import ROOT
from phalanx.types import Update
from phalanx.worker.blueprint import Channel

_QUALIFIERS: Final = (Required, NotRequired, ReadOnly)


def channels_of(schema: object) -> dict[str, Channel]:
    """The channels that a state class declares; one channel ``__root__`` for anything else.

    Raises:
        ValueError: a reducer does not take two positional arguments.
        NameError: an annotation names what cannot be found.
    """
    hints = hints_of(schema)
    if not hints:
        return {ROOT: _channel_for(ROOT, schema)}
    return {key: _channel_for(key, annotation) for key, annotation in hints.items()}


def hints_of(schema: object) -> dict[str, object]:
    """The annotated keys of a state class; empty for what is not one.

    Raises:
        NameError: an annotation names what cannot be found.
    """
    if not isinstance(schema, type) or schema.__module__ == "builtins":
        return {}
    try:
        hints = get_type_hints(schema, include_extras=True)
    except NameError as error:
        raise NameError(
            f"cannot resolve the annotations of state class {schema.__qualname__}: {error}; "
            f"define the class, and what it names, at module level"
        ) from error
    private = getattr(schema, "__private_attributes__", {})
    return {key: hint for key, hint in hints.items() if key not in private and not key.startswith("__")}


def _channel_for(key: str, annotation: object) -> Channel:
    while get_origin(annotation) in _QUALIFIERS:
        annotation = get_args(annotation)[0]
    channel: Channel = cast("Channel", LastValue(annotation))
    if get_origin(annotation) is Annotated:
        typ, *extras = get_args(annotation)
        while get_origin(typ) in _QUALIFIERS:
            typ = get_args(typ)[0]
        channel = _annotated(typ, extras[-1])
    channel.key = key
    return channel


def _annotated(typ: object, extra: object) -> Channel:
    if isinstance(extra, BaseChannel):
        return cast("Channel", extra.copy())
    if isinstance(extra, type) and issubclass(extra, BaseChannel):
        return cast("Channel", extra(typ))
    if not isinstance(extra, type) and callable(extra):
        _check_reducer(extra)
        return cast("Channel", BinaryOperatorAggregate(cast("type[object]", typ), extra))
    return cast("Channel", LastValue(typ))


def _check_reducer(reducer: Callable[..., object]) -> None:
    try:
        signature = inspect.signature(reducer)
    except (TypeError, ValueError):  # a builtin without a signature: calling it will tell
        return
    positional = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(positional) != 2:
        raise ValueError(
            f"Invalid reducer signature. Expected (a, b) -> c. Got {signature} for {reducer!r}: a reducer takes the "
            f"current value and one update, and returns the new value"
        )


def builder_of(schema: object) -> Callable[[object], object] | None:
    """What makes an instance of the state class from a dict of its values; nothing where a dict is what nodes take."""
    if not isinstance(schema, type) or is_typeddict(schema) or schema is dict:
        return None
    return partial(_build, schema)


def _build(schema: type[object], values: object) -> object:
    return schema(**cast("dict[str, Any]", values))


def update_of_instance(value: object) -> list[Update] | None:
    """The keys and values of an instance of a state class; ``None`` for anything else.

    Of a dataclass every field; of a pydantic model every field that is not ``None`` or was set on purpose.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    pydantic = sys.modules.get("pydantic")  # not imported: then this cannot be one of its models
    return _model_update(value) if pydantic is not None and isinstance(value, pydantic.BaseModel) else None


def _model_update(model: Any) -> list[Update]:
    fields: Mapping[str, Any] = model.__pydantic_fields__
    given: set[str] = model.model_fields_set
    values: list[Update] = [(name, getattr(model, name)) for name in fields]
    return [
        (name, value)
        for name, value in values
        if value is not None or name in given or fields[name].default is not None
    ]
