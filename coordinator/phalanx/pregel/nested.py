"""The compiled graph inside a node: its action itself, a step of it, or what its function refers to.

A function refers to what it closes over, to globals that its code names, and to attributes of modules, and of the
object a method is bound to. Attributes are looked up without running anybody's code.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Final, cast

from phalanx.worker.blueprint import Node

if TYPE_CHECKING:
    from phalanx.pregel.pregel import Pregel

_MOST_CANDIDATES: Final = 10_000
_DEEPEST_ATTRIBUTE: Final = 3


def nested_graph(node: Node) -> "Pregel | None":
    """The compiled graph that a node runs; the first one, if there are several; ``None`` if there is none."""
    from phalanx.pregel.pregel import Pregel  # which finds us at work

    for candidate in islice(_candidates([action.source for action in node.actions]), _MOST_CANDIDATES):
        if isinstance(candidate, Pregel) and cast("object", candidate.checkpointer) is not False:
            return candidate
    return None


def _candidates(actions: Iterable[object]) -> Iterator[object]:
    """What may be the graph, nearest first."""
    queue = [*actions]
    seen: set[int] = set()
    for value in queue:  # grows
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, functools.partial):
            partial = cast("functools.partial[object]", value)
            queue += [partial.func, *partial.args, *partial.keywords.values()]
        elif isinstance(value, (FunctionType, MethodType)):
            yield from _referred(value)
        else:
            queue += _steps(value)


def _steps(value: object) -> Iterator[object]:
    """The parts of a sequence of runnables, or what a callable object runs."""
    attributes = _attributes(value)
    steps = attributes.get("steps")
    if isinstance(steps, (list, tuple)):
        yield from cast("Iterable[object]", steps)
    if isinstance(steps, Mapping):
        yield from cast("Mapping[str, object]", steps).values()
    yield from (attributes[name] for name in ("first", "last", "bound", "func", "afunc") if attributes.get(name))
    middle = attributes.get("middle")
    if isinstance(middle, (list, tuple)):
        yield from cast("Iterable[object]", middle)
    call = _in_class(value, "__call__")
    if isinstance(call, FunctionType):
        yield MethodType(call, value)


def _referred(function: FunctionType | MethodType) -> Iterator[object]:
    bound = function.__self__ if isinstance(function, MethodType) else None
    plain: object = function.__func__ if isinstance(function, MethodType) else function
    if bound is not None:
        yield bound
    while isinstance(plain, FunctionType):
        names = [*_names(plain.__code__)]
        roots = [*_cells(plain), *(plain.__globals__[name] for name in names if name in plain.__globals__)]
        yield from (getattr(value, "__self__", value) if isinstance(value, MethodType) else value for value in roots)
        owners = [*roots, *([] if bound is None else [bound])]
        for _ in range(_DEEPEST_ATTRIBUTE):
            owners = [
                attributes[name]
                for attributes in map(_attributes, owners)
                if attributes
                for name in names
                if name in attributes
            ]
            yield from owners
        plain = plain.__dict__.get("__wrapped__")


def _names(code: CodeType) -> Iterator[str]:
    """The globals and attributes that a function's code names, with that of the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _cells(function: FunctionType) -> Iterator[object]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not filled yet
            continue


def _attributes(value: object) -> Mapping[str, object]:
    """The attributes an instance or a module holds itself: no properties, no ``__getattr__``."""
    if isinstance(value, (type, FunctionType, MethodType)):
        return {}
    if isinstance(value, ModuleType):
        return vars(value)
    try:
        found: object = object.__getattribute__(value, "__dict__")
    except AttributeError:  # it has slots, or nothing
        return {}
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def _in_class(value: object, name: str) -> object:
    return next((vars(base)[name] for base in type(value).__mro__ if name in vars(base)), None)
