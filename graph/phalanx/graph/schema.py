"""From the annotations of a state class to channels and managed values.

A state class is a TypedDict, a dataclass, a pydantic model or any class with annotations. Each key becomes a channel:
a plain annotation a ``LastValue``, an annotated reducer a ``BinaryOperatorAggregate``, an annotated channel that
channel. A key annotated as a managed value has no channel. Anything that is no class with annotations is a state of one
value, held by the one channel ``__root__``.
"""

import dataclasses
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    NotRequired,
    Required,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from typing_extensions import ReadOnly

from phalanx.channels import BaseChannel, BinaryOperatorAggregate, DeltaChannel, LastValue
from phalanx.managed import ManagedValue, ManagedValueSpec
from phalanx.protocol.names import ROOT
from phalanx.worker.blueprint import Channel

_QUALIFIERS: Final = (Required, NotRequired, ReadOnly)


@dataclass(frozen=True, slots=True)
class Declared:
    """What a schema declares: the channels of its keys, and the keys that no channel holds."""

    channels: Mapping[str, Channel]
    managed: Mapping[str, ManagedValueSpec]


def declared_by(schema: object) -> Declared:
    """What a schema declares, key by key.

    Raises:
        ValueError: a reducer does not take two positional arguments, or a managed value is the whole state.
        NameError: an annotation names what cannot be found.
    """
    if not has_keys(schema):
        return _whole(schema)
    hints = hints_of(schema)
    managed = {key: spec for key, hint in hints.items() if (spec := _managed_in(hint)) is not None}
    return Declared({key: _channel_for(key, hint) for key, hint in hints.items() if key not in managed}, managed)


def _whole(schema: object) -> Declared:
    if _managed_in(schema) is not None:
        raise ValueError(
            f"This {schema} not allowed in this position: a managed value can be a key of a state class only"
        )
    if not isinstance(schema, type) and not get_args(schema):
        warnings.warn(
            f"Invalid state_schema: {schema}. Expected a type or Annotated[type, reducer]; the state is one value of "
            f"unknown type now",
            stacklevel=2,
        )
    return Declared({ROOT: _channel_for(ROOT, schema)}, {})


def has_keys(schema: object) -> bool:
    """Whether values of ``schema`` are states with keys; otherwise the state is one value."""
    if schema is Any or not isinstance(schema, type) or get_origin(schema) is not None:
        return bool(hints_of(schema))  # a generic class with its arguments, or no class
    return _class_of(schema) is not None


def hints_of(schema: object) -> dict[str, object]:
    """The annotated keys of a state class, parameters of generic classes filled in; empty for what is not one.

    Raises:
        NameError: an annotation names what cannot be found.
    """
    cls = _class_of(schema)
    if cls is None:
        return {}
    try:
        hints = get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise NameError(
            f"cannot resolve the annotations of state class {cls.__qualname__}: {error}; "
            f"define the class, and what it names, at module level"
        ) from error
    private = getattr(cls, "__private_attributes__", {})
    bound = _parameters_bound_by(schema)
    return {
        key: _with_parameters(hint, bound)
        for key, hint in hints.items()
        if key not in private and not key.startswith("__") and not _is_class_variable(hint)
    }


def _class_of(schema: object) -> type | None:
    cls = get_origin(schema) or schema
    return cls if isinstance(cls, type) and isinstance(getattr(cls, "__annotations__", None), dict) else None


def _is_class_variable(hint: object) -> bool:
    return hint is ClassVar or get_origin(hint) is ClassVar


# --- generic classes --------------------------------------------------------------------------------------------------


def _parameters_bound_by(schema: object) -> dict[object, object]:
    """The types that the parameters of a generic class and of its bases stand for."""
    cls: Any = get_origin(schema) or schema
    arguments: tuple[object, ...] = get_args(schema)
    generic: Mapping[str, Any] = getattr(schema, "__pydantic_generic_metadata__", {})
    if generic.get("origin") is not None:  # pydantic makes a class of its own for each set of arguments
        cls, arguments = generic["origin"], generic["args"]
        generic = cls.__pydantic_generic_metadata__
    parameters: tuple[object, ...] = generic.get("parameters", getattr(cls, "__parameters__", ()))
    own: dict[object, object] = dict(zip(parameters, arguments, strict=False))
    bound: dict[object, object] = {}
    for base in getattr(cls, "__orig_bases__", ()):
        bound |= {key: _with_parameters(value, own) for key, value in _parameters_bound_by(base).items()}
    return bound | own


def _with_parameters(hint: object, bound: Mapping[object, object]) -> object:
    """The hint with the type variables in it replaced by what they stand for."""
    if isinstance(hint, TypeVar):
        return bound.get(hint, hint)
    parameters: tuple[object, ...] = getattr(hint, "__parameters__", ())
    if not bound or not parameters or isinstance(hint, type):
        return hint
    return cast("Any", hint)[tuple(bound.get(each, each) for each in parameters)]


# --- one key ----------------------------------------------------------------------------------------------------------


def _unqualified(annotation: object) -> object:
    """The annotation without ``Required`` and its kin, around or inside ``Annotated``."""
    while get_origin(annotation) in _QUALIFIERS:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) is not Annotated:
        return annotation
    typ, *extras = get_args(annotation)
    inner = _unqualified(typ)
    return annotation if inner is typ else Annotated[(inner, *extras)]


def _managed_in(annotation: object) -> ManagedValueSpec | None:
    """The managed value that a key is annotated with, if it is."""
    annotation = _unqualified(annotation)
    if get_origin(annotation) in (Union, UnionType):
        options = [option for option in get_args(annotation) if option is not NoneType]
        return _managed_in(options[0]) if len(options) == 1 else None
    if get_origin(annotation) is not Annotated:
        return None
    for extra in get_args(annotation)[1:]:
        kind = get_origin(extra) or extra
        if isinstance(kind, type) and issubclass(kind, ManagedValue):
            return cast("ManagedValueSpec", kind)
    return None


def _channel_for(key: str, annotation: object) -> Channel:
    annotation = _unqualified(annotation)
    extras = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    channel = _annotated_channel(annotation, extras)
    if channel is None and extras and callable(extras[-1]):
        _check_reducer(key, extras[-1])
        channel = cast("Channel", BinaryOperatorAggregate(cast("type[object]", annotation), extras[-1]))
    if channel is None:
        channel = cast("Channel", LastValue(annotation))
    channel.key = key
    return channel


def _annotated_channel(annotation: object, extras: tuple[object, ...]) -> Channel | None:
    """The first channel among the extras, as an instance or as a class."""
    for extra in extras:
        typ = get_args(annotation)[0]
        if isinstance(extra, DeltaChannel):  # written without its type: the key's own type counts
            delta = cast("DeltaChannel[object]", extra)
            return DeltaChannel(delta.reducer, typ, snapshot_frequency=delta.snapshot_frequency)
        if isinstance(extra, BaseChannel):
            return cast("Channel", extra.copy())
        if isinstance(extra, type) and issubclass(extra, BaseChannel):
            return cast("Channel", extra(typ))
    return None


def _check_reducer(key: str, reducer: Callable[..., object]) -> None:
    try:
        signature = inspect.signature(reducer)
    except (TypeError, ValueError):
        if not isinstance(reducer, type):  # a builtin function without a signature: calling it will tell
            return
        signature = None
    parameters = () if signature is None else signature.parameters.values()
    if sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters) != 2:
        raise ValueError(
            f"Invalid reducer signature. Expected (a, b) -> c. Got {signature or repr(reducer)} for {reducer!r}, the "
            f"reducer of key {key!r}: it takes the current value and one update, and returns the new value"
        )


# --- instances --------------------------------------------------------------------------------------------------------


def builder_of(schema: object) -> Callable[[object], object] | None:
    """What makes an instance of a dataclass or pydantic model from a dict of its values; others stay dicts."""
    cls = _class_of(schema)
    if cls is None or not (dataclasses.is_dataclass(cls) or is_model_class(cls)):
        return None
    aliases = _aliases(cls) if is_model_class(cls) else {}
    return partial(_build, cast("Callable[..., object]", schema), aliases)


def _build(schema: Callable[..., object], aliases: Mapping[str, str], values: object) -> object:
    given = cast("dict[str, Any]", values)
    if aliases:  # the state goes by the names of fields, and a model may take a field by its alias only
        given = {aliases.get(key, key): value for key, value in given.items()}
    return schema(**given)


def _aliases(model: Any) -> dict[str, str]:
    """The names by which a model takes those of its fields that it does not take by their own."""
    fields: Mapping[str, Any] = model.__pydantic_fields__
    found = {name: field.validation_alias or field.alias for name, field in fields.items()}
    return {name: alias for name, alias in found.items() if isinstance(alias, str)}


def is_model_class(cls: Any) -> bool:
    """Whether it is a class of pydantic's; does not import pydantic."""
    pydantic = sys.modules.get("pydantic")  # not imported: then this cannot be one of its models
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)
