"""What is inferred from a user's callables: names, the schema they read, where they lead."""

import functools
import inspect
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from phalanx.graph.schema import hints_of
from phalanx.types import Command


def plain(name: str) -> str:
    """The name as text and nothing more: of a member of an enum with text values, its value.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a node is named by a text; got {name!r} of type {type(name).__name__}")
    return str.__str__(name)


def node_name(action: object) -> str:
    """The name a node goes by: of a function or runnable its own, of a callable object that of its class.

    A partial goes by the name of what it wraps.
    """
    if isinstance(action, functools.partial):
        return node_name(cast("functools.partial[object]", action).func)
    if hasattr(action, "invoke"):
        own = cast("Any", action).get_name() if hasattr(action, "get_name") else getattr(action, "name", None)
        if isinstance(own, str) and own:
            return own
    own = getattr(action, "__name__", None)
    return own if isinstance(own, str) else type(action).__name__


def path_name(path: object) -> str:
    """The name a conditional edge goes by: that of its path, or ``condition`` where the path has none of its own."""
    if isinstance(path, functools.partial) or getattr(path, "__name__", None) == "<lambda>":
        return "condition"
    return node_name(path) if hasattr(path, "__name__") or hasattr(path, "invoke") else "condition"


def schema_read_by(action: object) -> type[Any] | None:
    """The state class that the first parameter is annotated with, if it is one."""
    target = _with_hints(action)
    if target is None:
        return None
    try:
        parameters = [name for name in inspect.signature(target).parameters if name != "self"]
        hint = get_type_hints(target).get(parameters[0]) if parameters else None
        is_state = isinstance(hint, type) and get_origin(hint) is None and bool(hints_of(hint))
    except (NameError, TypeError, ValueError):  # annotations that do not resolve say nothing
        return None
    return cast("type[Any]", hint) if is_state else None


def ends_of(path: object, path_map: Mapping[Any, str] | Sequence[str] | None) -> Mapping[object, str] | None:
    """Where the answers of a path lead: as the map says, or else a ``Literal`` that it is annotated to return."""
    if isinstance(path_map, Mapping):
        return {answer: plain(end) for answer, end in cast("Mapping[object, str]", path_map).items()}
    if path_map is not None:
        return {name: plain(name) for name in path_map}
    hint = _return_hint(path)
    return {name: name for name in get_args(hint)} if get_origin(hint) is Literal else None


def destinations_of(action: object) -> dict[str, str | None]:
    """The nodes in ``Command[Literal["a", "b"]]``, if the action is annotated to return such, alone or among others."""
    hint = _return_hint(action)
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    commands = [get_args(option)[0] for option in options if get_origin(option) is Command]
    return {plain(name): None for names in commands if get_origin(names) is Literal for name in get_args(names)}


def _return_hint(action: object) -> object:
    target = _with_hints(action)
    try:
        return get_type_hints(target).get("return") if target is not None else None
    except (NameError, TypeError):
        return None


def _with_hints(action: object) -> Any:
    """What carries the annotations: a function, or the ``__call__`` of an object; of runnables and partials nothing."""
    if isinstance(action, (type, functools.partial)) or hasattr(action, "invoke"):
        return None
    return action if inspect.isroutine(action) else getattr(action, "__call__", None)  # noqa: B004
