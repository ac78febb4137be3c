"""The classes that the states of random graphs have, for either library, and how to look into them."""

# pyright: reportMissingTypeStubs=false

import dataclasses
import functools
import importlib
import operator
from typing import Annotated, Any, Final, Literal, NamedTuple, cast

import pydantic
import typing_extensions
from tests.differential.plans import StateKind

LibraryName = Literal["langgraph", "phalanx"]

_LONGEST_LOG: Final = 60

LIBRARIES: Final[tuple[LibraryName, LibraryName]] = ("phalanx", "langgraph")


class Library:
    """What of a library the graphs use."""

    def __init__(self, name: LibraryName) -> None:
        self.name = name
        self.graph: Any = importlib.import_module(f"{name}.graph")
        self.types: Any = importlib.import_module(f"{name}.types")
        self.errors: Any = importlib.import_module(f"{name}.errors")
        self.channels: Any = importlib.import_module(f"{name}.channels")
        self.pregel: Any = importlib.import_module(f"{name}.pregel")
        self.managed: Any = importlib.import_module(f"{name}.managed")
        self.saver: Any = importlib.import_module(f"{name}.checkpoint.memory").InMemorySaver
        self.cache: Any = importlib.import_module(f"{name}.cache.memory").InMemoryCache


@functools.cache
def library(name: LibraryName) -> Library:
    """A library, imported once."""
    return Library(name)


class Schemas(NamedTuple):
    """The classes of one graph.

    Fields:
        state: the whole state.
        given, returned: fewer keys, for the input and the output.
        narrow: what some nodes read; one key is in no other class.
    """

    state: Any
    given: Any
    returned: Any
    narrow: Any


def joined(log: list[str], more: list[str]) -> list[str]:
    """A log with more at its end, and without what is far back.

    A graph within a graph gives back all it was given, so that a loop multiplies a log at every step.
    """
    return (log + more)[-_LONGEST_LOG:]


_FIELDS: Final[dict[str, tuple[Any, Any]]] = {
    "value": (int, 0),
    "other": (str, ""),
    "log": (Annotated[list[str], joined], list),
    "count": (Annotated[int, operator.add], 0),
}


@functools.cache
def schemas(name: LibraryName, kind: StateKind, managed: bool) -> Schemas:
    """The classes of a graph's state."""
    return Schemas(
        _state(name, kind, managed),
        _dict_class("Given", value=int, log=_FIELDS["log"][0]),
        _dict_class("Returned", value=int, count=_FIELDS["count"][0]),
        _dict_class("Narrow", value=int, secret=str),
    )


def _state(name: LibraryName, kind: StateKind, managed: bool) -> Any:
    more: dict[str, Any] = {"left": library(name).managed.RemainingSteps} if managed else {}
    match kind:
        case "dict":
            return _dict_class("State", **{key: hint for key, (hint, _) in _FIELDS.items()}, **more)
        case "dataclass":
            kept = [(key, hint, _dataclass_default(start)) for key, (hint, start) in _FIELDS.items()]
            made = [(key, hint, dataclasses.field(default=None)) for key, hint in more.items()]
            return dataclasses.make_dataclass("State", [*kept, *made])
        case "pydantic":
            models: Any = pydantic.create_model
            return models("State", **{key: (hint, _model_default(start)) for key, (hint, start) in _FIELDS.items()})
        case "root":
            return Annotated[list[str], joined]


def _dict_class(name: str, **hints: Any) -> Any:
    make: Any = typing_extensions.TypedDict
    return make(name, hints, total=False)


def _dataclass_default(start: Any) -> Any:
    return dataclasses.field(default_factory=start) if callable(start) else dataclasses.field(default=start)


def _model_default(start: Any) -> Any:
    return pydantic.Field(default_factory=start) if callable(start) else start


def seen(state: object) -> dict[str, Any]:
    """A state as a dict, whatever its class; a list counts as a log."""
    if isinstance(state, dict):
        return cast("dict[str, Any]", state)
    if isinstance(state, list):
        log = cast("list[str]", state)
        return {"log": log, "count": len(log), "value": len(log)}
    return vars(state)


def canonical(value: object) -> str:
    """A text that is the same for equal values, whichever library's classes they hold."""
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return "{" + ", ".join(sorted(f"{canonical(key)}: {canonical(item)}" for key, item in items)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(canonical(item) for item in cast("list[object]", value)) + "]"
    return repr(value)
