"""What is known about a user's callable before it is called."""

import functools
import operator
from collections.abc import Callable
from typing import Any, TypedDict

import pytest

from phalanx.config import RunnableConfig
from phalanx.errors import AsyncOnlyError
from phalanx.graph import START, StateGraph
from phalanx.worker.functions import UserFunction, is_coroutine_function, name_of


def plain(state: object) -> object:
    return state


async def coroutine(state: object) -> object:
    return state


def with_config(state: object, config: RunnableConfig) -> object:
    return state, config


async def coroutine_with_config(state: object, *, config: RunnableConfig) -> object:
    return state, config


class Callables:
    """Callable objects and methods."""

    def __call__(self, state: object) -> object:
        return state

    def method(self, state: object, config: RunnableConfig) -> object:
        return state

    async def coroutine_method(self, state: object) -> object:
        return state

    @staticmethod
    def static(state: object) -> object:
        return state

    @classmethod
    async def of_class(cls, state: object) -> object:
        return state


class CoroutineCallable:
    """A callable object whose call is a coroutine."""

    async def __call__(self, state: object, config: RunnableConfig) -> object:
        return state


class Named:
    """Has a name of its own."""

    name = "my name"

    def __call__(self, state: object) -> object:
        return state


class Runnable:
    """Looks like a runnable of another library."""

    name = "runnable"

    def invoke(self, input: object, config: object = None) -> object:  # noqa: A002 - the public name
        return "invoked", input

    async def ainvoke(self, input: object, config: object = None) -> object:  # noqa: A002
        return "ainvoked", input


def one_argument(function: Callable[[object], object]) -> Callable[..., object]:
    """The function itself."""
    return function


def two_arguments(function: Callable[[object, object], object]) -> Callable[..., object]:
    """The function itself."""
    return function


def generator(state: object) -> Any:
    yield state


@pytest.mark.parametrize(
    ("action", "name", "is_async", "wants_config"),
    [
        (plain, "plain", False, False),
        (coroutine, "coroutine", True, False),
        (with_config, "with_config", False, True),
        (coroutine_with_config, "coroutine_with_config", True, True),
        (functools.partial(plain), "plain", False, False),
        (functools.partial(coroutine), "coroutine", True, False),
        (functools.partial(functools.partial(coroutine_with_config)), "coroutine_with_config", True, True),
        (one_argument(lambda state: state), "<lambda>", False, False),
        (two_arguments(lambda state, config: state), "<lambda>", False, True),
        (Callables(), "Callables", False, False),
        (CoroutineCallable(), "CoroutineCallable", True, True),
        (functools.partial(CoroutineCallable()), "CoroutineCallable", True, True),
        (Named(), "my name", False, False),
        (Callables().method, "method", False, True),
        (Callables().coroutine_method, "coroutine_method", True, False),
        (functools.partial(Callables().coroutine_method), "coroutine_method", True, False),
        (Callables.static, "static", False, False),
        (Callables.of_class, "of_class", True, False),
        (len, "len", False, False),
        (print, "print", False, False),
        (operator.itemgetter("a"), "itemgetter", False, False),
        (str, "str", False, False),
        (Callables, "Callables", False, False),
        (CoroutineCallable, "CoroutineCallable", False, False),
        (generator, "generator", False, False),
    ],
)
def test_kinds_of_callables_are_told_apart(
    action: Callable[..., object], name: str, is_async: bool, wants_config: bool
) -> None:
    found = UserFunction.of(action)

    assert found.name == name == name_of(action)
    assert found.is_async is is_async is is_coroutine_function(action)
    assert (found.sync is None, found.coroutine is None) == (is_async, not is_async)
    assert found.wants == ({"config"} if wants_config else set())
    assert found.source is action


def test_a_given_name_goes_before_its_own() -> None:
    assert UserFunction.of(plain, "other").name == "other"


def test_an_object_with_invoke_and_ainvoke_has_both_colours_and_takes_the_config() -> None:
    runnable = Runnable()

    found = UserFunction.of(runnable)

    assert found.name == "runnable"
    assert not found.is_async
    assert found.wants == {"config"}
    assert found.sync is not None
    assert found.sync(1) == ("invoked", 1)
    assert found.coroutine is not None


class State(TypedDict):
    a: int


def test_a_compiled_graph_is_a_callable_in_both_colours() -> None:
    builder = StateGraph(State)
    builder.add_node("one", plain)
    builder.add_edge(START, "one")
    graph = builder.compile(name="inner")

    found = UserFunction.of(graph, "node")

    assert found.sync == graph.invoke
    assert found.coroutine == graph.ainvoke
    assert found.wants == {"config"}


@pytest.mark.parametrize("action", [None, 5, "name", {"a": 1}, object()])
def test_what_cannot_be_called_is_refused_with_its_type(action: object) -> None:
    with pytest.raises(TypeError, match=f"have invoke.*of type {type(action).__name__}"):
        UserFunction.of(action)


def test_config_counts_only_where_it_can_be_given_by_name() -> None:
    def collects(state: object, **config: object) -> object:
        return config

    def variadic(*config: object) -> object:
        return config

    def positional(state: object, config: object, /) -> object:
        return config

    assert not any(UserFunction.of(action).wants for action in (collects, variadic, positional))


def test_decorators_that_say_what_they_wrap_keep_name_and_config() -> None:
    def decorate(function: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> object:
            return function(*args, **kwargs)

        return wrapper

    found = UserFunction.of(decorate(with_config))

    assert (found.name, found.wants, found.is_async) == ("with_config", frozenset({"config"}), False)


def test_the_error_for_a_coroutine_function_names_it_and_says_what_to_call_instead() -> None:
    assert 'No synchronous function provided to "fetch"' in str(AsyncOnlyError("fetch"))
    assert "ainvoke()" in str(AsyncOnlyError("fetch"))
