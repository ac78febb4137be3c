"""What goes into a graph and comes out of it, as pydantic models and as JSON schemas.

pydantic is imported when one of these is asked for; running a graph does not need it.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

from typing_extensions import is_typeddict

from phalanx.protocol.names import ROOT
from phalanx.worker.blueprint import Blueprint

if TYPE_CHECKING:
    from pydantic import BaseModel

REQUIRED: Final = ...
"""The default of a field that has none."""

Side = Literal["input", "output"]

_UNNAMED: Final = "LangGraph"
"""What an unnamed graph's schemas are titled after; readers of schemas know these titles."""


def title_of(graph: str, side: Side) -> str:
    """What the model of a graph's input or output is called: ``census_input``, ``CensusInput``."""
    name = graph or _UNNAMED
    return f"{name}{side.title()}" if name[0].isupper() else f"{name}_{side}"


# --- models -----------------------------------------------------------------------------------------------------------


def model_of_type(title: str, typ: Any, default: Any = REQUIRED) -> "type[BaseModel]":
    """A model whose one value is of type ``typ``; a pydantic model is its own."""
    from pydantic import ConfigDict, RootModel, create_model

    if _is_model(typ):
        return cast("type[BaseModel]", typ)

    class AnyRoot(RootModel[Any]):
        model_config = ConfigDict(arbitrary_types_allowed=True)

    return create_model(title, __base__=AnyRoot, root=(typ, default))


def model_of_fields(title: str, fields: Mapping[str, tuple[Any, Any]]) -> "type[BaseModel]":
    """A model with these fields, each a type and a default; they may have any names."""
    from pydantic import BaseModel, ConfigDict, Field, create_model

    class AnyFields(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True, protected_namespaces=())

    made: dict[str, Any] = {}
    for index, (name, (typ, default)) in enumerate(fields.items()):
        if name.startswith("_") or hasattr(BaseModel, name):  # no names of attributes, but of what they stand for
            made[f"field_{index}"] = (typ, Field(default, alias=name))
        else:
            made[name] = (typ, default)
    return create_model(title, __base__=AnyFields, **made)


def input_type(blueprint: Blueprint) -> Any:
    """What a run's input is, where one channel takes it."""
    names = blueprint.input_channels
    return blueprint.channels[names].UpdateType if isinstance(names, str) else None


def output_type(blueprint: Blueprint) -> Any:
    """What a run returns, where one channel holds it."""
    names = blueprint.output_channels
    return blueprint.channels[names].ValueType if isinstance(names, str) else None


def input_model(blueprint: Blueprint) -> "type[BaseModel]":
    """A model of a run's input."""
    title, names = title_of(blueprint.name, "input"), blueprint.input_channels
    if isinstance(names, str):
        return model_of_type(title, input_type(blueprint))
    return model_of_fields(title, {name: (blueprint.channels[name].UpdateType, None) for name in names})


def output_model(blueprint: Blueprint) -> "type[BaseModel]":
    """A model of what a run returns; any of its keys may be absent."""
    title, names = title_of(blueprint.name, "output"), blueprint.output_channels
    if isinstance(names, str):
        return model_of_type(title, output_type(blueprint))
    return model_of_fields(title, {name: (blueprint.channels[name].ValueType, None) for name in names})


# --- JSON schemas -----------------------------------------------------------------------------------------------------


def state_json_schema(blueprint: Blueprint, side: Side, schema: Any, keys: Sequence[str]) -> dict[str, Any]:
    """The JSON schema of a graph's input or output.

    Args:
        schema: a pydantic model, a TypedDict, another class with annotations, or the type of a state that is one value.
        keys: those of its keys that have a channel.
    """
    title = title_of(blueprint.name, side)
    if _is_model(schema):
        return cast("type[BaseModel]", schema).model_json_schema()
    if is_typeddict(get_origin(schema) or schema):
        return _adapted(schema)
    types = {key: blueprint.channels[key].UpdateType for key in keys}
    if [*types] == [ROOT]:
        return model_of_type(title, types[ROOT], None).model_json_schema()
    fields = {key: (typ, _default(schema, key, typ)) for key, typ in types.items()}
    return model_of_fields(title, fields).model_json_schema()


def context_json_schema(schema: Any) -> dict[str, Any] | None:
    """The JSON schema of a run's context, if the graph has a class for it.

    Raises:
        ValueError: the class says nothing about its keys.
    """
    if schema is None:
        return None
    if _is_model(schema):
        return cast("type[BaseModel]", schema).model_json_schema()
    cls = get_origin(schema) or schema
    if is_typeddict(cls) or (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        return _adapted(schema)
    raise ValueError(
        f"Invalid context schema type: {schema}. Must be a BaseModel, TypedDict or dataclass to have a JSON schema"
    )


def _is_model(schema: Any) -> bool:
    from pydantic import BaseModel

    return isinstance(schema, type) and get_origin(schema) is None and issubclass(schema, BaseModel)


def _adapted(schema: Any) -> dict[str, Any]:
    from pydantic import TypeAdapter

    return TypeAdapter[Any](schema).json_schema()


def _default(schema: Any, key: str, typ: object) -> Any:
    """What a key is unless given: its default in a dataclass, ``None`` if it may be that, else nothing."""
    cls = get_origin(schema) or schema
    fields = dataclasses.fields(cls) if isinstance(cls, type) and dataclasses.is_dataclass(cls) else ()
    for field in fields:
        if field.name == key and field.default is not dataclasses.MISSING:
            return field.default
        if field.name == key and field.default_factory is not dataclasses.MISSING:
            return field.default_factory()
    return None if _may_be_none(typ) else REQUIRED


def _may_be_none(typ: object) -> bool:
    while get_origin(typ) is Annotated:
        typ = get_args(typ)[0]
    return get_origin(typ) in (Union, UnionType) and NoneType in get_args(typ)
