"""What a user's function asks to be given, by the names and annotations of its parameters.

The first positional parameter is the state, whatever its name. Of the others these names have a meaning: ``config``,
``writer``, ``store``, ``runtime``, ``previous`` and ``error``; an annotation that says something else takes it away.
"""

import functools
import inspect
import warnings
from collections.abc import Callable
from types import UnionType
from typing import Final, Literal, Union, cast, get_args, get_origin, get_type_hints

Wanted = Literal["config", "writer", "store", "runtime", "previous", "error"]

ALL_WANTED: Final[tuple[Wanted, ...]] = ("config", "writer", "store", "runtime", "previous", "error")
_CALLABLE: Final = get_origin(Callable[..., None])
_NOT_ANNOTATED: Final = inspect.Parameter.empty


def wanted_by(action: Callable[..., object], name: str) -> frozenset[Wanted]:
    """What to pass to ``action`` by name.

    Args:
        action: a function, a callable object, or a partial of one.
        name: what to call it in a warning.
    """
    try:
        parameters = inspect.signature(action).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return frozenset()
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    positional = [
        parameter.name
        for parameter in parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    given = {*positional[:1], *_preset(action)}
    candidates: list[Wanted] = [
        wanted
        for wanted in ALL_WANTED
        if wanted in parameters and wanted not in given and parameters[wanted].kind in by_name
    ]
    if not candidates:
        return frozenset()
    hints = _hints(action)
    annotations: dict[Wanted, object] = {
        wanted: hints.get(wanted, parameters[wanted].annotation) for wanted in candidates
    }
    if "config" in annotations and not _fits("config", annotations["config"]):
        warnings.warn(
            f"The 'config' parameter should be typed as 'RunnableConfig' or 'RunnableConfig | None', "
            f"not {annotations['config']!r}; as it is, nothing is passed for it to {name!r}",
            stacklevel=4,
        )
    return frozenset(wanted for wanted in candidates if _fits(wanted, annotations[wanted]))


def _preset(action: object) -> set[str]:
    """What partials give already."""
    names = set[str]()
    while isinstance(action, functools.partial):
        partial = cast("functools.partial[object]", action)
        names.update(partial.keywords)
        action = partial.func
    return names


def _hints(action: object) -> dict[str, object]:
    while isinstance(action, functools.partial):
        action = cast("functools.partial[object]", action).func
    target = action if inspect.isroutine(action) else getattr(action, "__call__", action)  # noqa: B004
    try:
        return get_type_hints(target)
    except (NameError, TypeError, AttributeError):  # annotations that do not resolve stay texts
        return {}


def _fits(wanted: Wanted, annotation: object) -> bool:
    match wanted:
        case "runtime" | "previous":
            return True
        case "error":
            return _is_called("NodeError", annotation)
        case "config":
            return annotation is _NOT_ANNOTATED or _is_called("RunnableConfig", annotation)
        case "store":
            return annotation is _NOT_ANNOTATED or _is_called("BaseStore", annotation)
        case "writer":
            return (
                annotation is _NOT_ANNOTATED
                or _CALLABLE in (annotation, get_origin(annotation))
                or _is_called("StreamWriter", annotation)
            )


def _is_called(name: str, annotation: object) -> bool:
    """Whether an annotation is the class of that name, whoever defines it, a subclass, or one of these or ``None``."""
    if isinstance(annotation, str):
        text = annotation.replace(" ", "").removesuffix("|None").removesuffix("]").rpartition("[")[2]
        return text.rpartition(".")[2] == name
    if get_origin(annotation) in (Union, UnionType):
        return any(_is_called(name, part) for part in get_args(annotation))
    base = get_origin(annotation) or annotation
    return (isinstance(base, type) and any(cls.__name__ == name for cls in base.__mro__)) or _own_name(base) == name


def _own_name(value: object) -> object:
    return getattr(value, "__name__", None)
