"""A user's callable, with what must be known before it is called.

Nodes and paths come as functions, coroutine functions, callable objects, partials, or objects with ``invoke`` and
``ainvoke`` (a compiled graph, a runnable). They are looked at once, when the graph is built.
"""

import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, cast

from phalanx.config import RunnableConfig
from phalanx.worker.injection import Wanted, wanted_by

AnyCallable = Callable[..., object]


class Invokable(Protocol):
    """What is called by ``invoke``: a compiled graph, a runnable."""

    def invoke(self, input: object, config: RunnableConfig | None = None) -> object: ...  # noqa: A002


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A callable in its two colours; one of them may be missing.

    Attributes:
        name: for messages.
        sync: called in a thread that may block.
        coroutine: called on an event loop.
        wants: what else it is given, by name.
        source: the object to fingerprint and to infer types from.
    """

    name: str
    sync: AnyCallable | None
    coroutine: Callable[..., Awaitable[object]] | None
    wants: frozenset[Wanted]
    source: object

    @property
    def is_async(self) -> bool:
        """Whether it can only run on an event loop."""
        return self.sync is None

    @classmethod
    def of(cls, action: object, name: str | None = None) -> "UserFunction":
        """Look at ``action`` once.

        Raises:
            TypeError: it is not callable and has no ``invoke``.
        """
        name = name or name_of(action)
        if hasattr(action, "invoke") and hasattr(action, "ainvoke"):
            ainvoke = cast("Callable[..., Awaitable[object]]", getattr(action, "ainvoke"))  # noqa: B009
            invoke = None if _holds_coroutines(action) else cast("Invokable", action).invoke
            return cls(name, invoke, ainvoke, frozenset({"config"}), source=action)
        if not callable(action):
            raise TypeError(
                f"a node or path must be a function, a callable object or have invoke(); got {action!r} "
                f"of type {type(action).__name__}"
            )
        wants = wanted_by(action, name)
        if is_coroutine_function(action):
            return cls(name, None, cast("Callable[..., Awaitable[object]]", action), wants, action)
        return cls(name, action, None, wants, action)


def _holds_coroutines(action: object) -> bool:
    """Whether it is a graph that only runs on an event loop: some of its nodes do, and it has no cluster of its own."""
    nodes: object = getattr(getattr(action, "blueprint", None), "async_nodes", ())
    return bool(nodes) and getattr(action, "cluster", None) is None


def name_of(action: object) -> str:
    """The name a callable goes by: its own, its class's, or that of what a partial wraps."""
    if isinstance(action, functools.partial):
        return name_of(cast("functools.partial[object]", action).func)
    for attribute in ("name", "__name__"):
        name = getattr(action, attribute, None)
        if isinstance(name, str) and name:
            return name
    return type(action).__name__


def is_coroutine_function(action: object) -> bool:
    """Whether calling ``action`` gives a coroutine; sees through partials and callable objects."""
    while isinstance(action, functools.partial):
        action = cast("functools.partial[object]", action).func
    if inspect.iscoroutinefunction(action):
        return True
    if inspect.isroutine(action) or isinstance(action, type):
        return False
    return inspect.iscoroutinefunction(getattr(action, "__call__", None))  # noqa: B004
