"""What a function asks to be given: names, annotations in all their forms, and where they count."""

# ruff: noqa: UP007, UP045 - the old forms of annotations are among what is tested

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Optional, TypeVar, Union

import pytest

from phalanx.config import RunnableConfig
from phalanx.errors import NodeError
from phalanx.runtime import Runtime
from phalanx.types import StreamWriter
from phalanx.worker.functions import UserFunction
from phalanx.worker.injection import ALL_WANTED, Wanted, wanted_by

if TYPE_CHECKING:

    class Missing:
        """A name that only type checkers know."""


T = TypeVar("T")
Function = Callable[..., object]


class BaseStore:
    """A store's base, as any library may define it."""


class OwnStore(BaseStore):
    """A user's store."""


class Context:
    """What a caller passes as context."""


class Own(Generic[T]):
    """A generic class of a user's."""


def wanted(function: Function) -> frozenset[Wanted]:
    """What it asks for; a warning is a failure."""
    return wanted_by(function, "function")


@pytest.fixture(autouse=True)
def strict() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def typed(name: str, annotation: object) -> Function:
    """A function whose parameter of that name is annotated so."""
    source: dict[str, Any] = {"annotation": annotation}
    exec(f"def made(state, {name}: annotation): return {name}", source)
    made: Function = source["made"]
    return made


def bare(name: str) -> Function:
    """A function whose parameter of that name has no annotation."""
    source: dict[str, Any] = {}
    exec(f"def made(state, {name}): return {name}", source)
    made: Function = source["made"]
    return made


# --- names and annotations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ALL_WANTED if name != "error"])
def test_a_bare_parameter_of_a_known_name_is_given(name: Wanted) -> None:
    assert wanted(bare(name)) == {name}


def test_the_error_is_given_only_where_it_is_annotated_as_one() -> None:
    assert wanted(bare("error")) == set()
    assert wanted(typed("error", NodeError)) == {"error"}


@pytest.mark.parametrize("name", ["configuration", "settings", "state2", "Config", "stream", "ctx", "context"])
def test_a_parameter_of_another_name_is_not_given_whatever_its_type(name: str) -> None:
    assert wanted(bare(name)) == set()
    assert wanted(typed(name, RunnableConfig)) == set()
    assert wanted(typed(name, Runtime[Context])) == set()


FITTING: Final[list[tuple[Wanted, object]]] = [
    *(
        ("config", each)
        for each in (
            RunnableConfig,
            Optional[RunnableConfig],
            Union[RunnableConfig, None],
            Union[None, RunnableConfig],
            RunnableConfig | None,
            "RunnableConfig",
            "Optional[RunnableConfig]",
            "RunnableConfig | None",
            "config.RunnableConfig",
            "Optional[config.RunnableConfig]",
        )
    ),
    *(
        ("store", each)
        for each in (
            BaseStore,
            OwnStore,
            Optional[BaseStore],
            OwnStore | None,
            "BaseStore",
            "Optional[BaseStore]",
            "BaseStore | None",
            "base.BaseStore",
        )
    ),
    *(("writer", each) for each in (StreamWriter, Callable[[Any], None], Callable[..., object], "StreamWriter")),
    *(("error", each) for each in (NodeError, Optional[NodeError], NodeError | None, "NodeError", "NodeError | None")),
    *(
        ("runtime", each)
        for each in (Runtime, Runtime[Context], Optional[Runtime[Context]], "Runtime[Missing]", int, object, "Missing")
    ),
    *(("previous", each) for each in (object, int, dict[str, Any], Own[int], "Missing", Optional[str])),
]


@pytest.mark.parametrize(("name", "annotation"), FITTING, ids=repr)
def test_a_parameter_is_given_when_its_annotation_says_what_it_is(name: Wanted, annotation: object) -> None:
    assert wanted(typed(name, annotation)) == {name}


OTHER: Final[list[tuple[Wanted, object]]] = [
    *(("store", each) for each in (int, dict[str, Any], str | None, "Missing", "Store", "MyBaseStore", Own[int])),
    *(("writer", each) for each in (int, str, Optional[int], "Missing", "Writer", Own[int])),
    *(("error", each) for each in (Exception, str, BaseException | None, "Missing", "Error", object)),
]


@pytest.mark.parametrize(("name", "annotation"), OTHER, ids=repr)
def test_a_parameter_is_not_given_when_its_annotation_says_something_else(name: Wanted, annotation: object) -> None:
    assert wanted(typed(name, annotation)) == set()


@pytest.mark.parametrize("annotation", [int, dict, dict[str, Any], "Missing", "Config", Optional[int]], ids=repr)
def test_a_config_that_says_something_else_is_not_given_and_warned_about_by_the_node_s_name(annotation: object) -> None:
    with pytest.warns(UserWarning, match="The 'config' parameter should be typed as 'RunnableConfig' .* to 'review'"):
        assert wanted_by(typed("config", annotation), "review") == set()


def test_a_config_that_says_something_else_takes_nothing_from_the_others() -> None:
    def function(state: object, config: int, runtime: Runtime[Context]) -> object:
        return state

    with pytest.warns(UserWarning, match="'config' parameter"):
        assert wanted(function) == {"runtime"}


def test_an_annotated_config_is_one() -> None:
    assert wanted(typed("config", Annotated[RunnableConfig, "with more to say"])) == {"config"}


def test_annotations_that_cannot_be_resolved_are_read_as_they_stand() -> None:
    def function(state: "Missing", config: "RunnableConfig", store: "Missing", *, writer: "StreamWriter") -> object:
        return state

    assert wanted(function) == {"config", "writer"}


def test_a_function_may_ask_for_everything_in_any_order() -> None:
    def function(
        state: object,
        error: NodeError,
        previous: object,
        store: BaseStore,
        runtime: Runtime[Context],
        *,
        writer: StreamWriter,
        config: RunnableConfig,
    ) -> object:
        return state

    assert wanted(function) == set(ALL_WANTED)


# --- where they count -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL_WANTED)
def test_the_first_positional_parameter_is_the_state_whatever_its_name(name: Wanted) -> None:
    source: dict[str, Any] = {}
    exec(
        f"def only({name}): pass\ndef first({name}, another, *, {'runtime' if name != 'runtime' else 'config'}): pass",
        source,
    )

    assert wanted(source["only"]) == set()
    assert wanted(source["first"]) == ({"runtime"} if name != "runtime" else {"config"})


def test_a_function_whose_state_is_called_config_is_not_warned_about() -> None:
    def function(config: dict[str, Any]) -> object:
        return config

    assert wanted(function) == set()


def test_a_parameter_counts_where_it_can_be_given_by_name() -> None:
    def keyword(state: object, *, config: RunnableConfig) -> object:
        return state

    def after_others(state: object, *rest: object, config: RunnableConfig) -> object:
        return state

    def with_default(state: object, config: RunnableConfig | None = None) -> object:
        return state

    def positional(state: object, config: RunnableConfig, /) -> object:
        return state

    def collects(state: object, **config: object) -> object:
        return state

    def variadic(state: object, *config: object) -> object:
        return state

    assert [wanted(each) for each in (keyword, after_others, with_default)] == [{"config"}] * 3
    assert [wanted(each) for each in (positional, collects, variadic)] == [set()] * 3


def test_a_function_without_positional_parameters_is_given_what_it_names() -> None:
    def function(*states: object, config: RunnableConfig) -> object:
        return states

    assert wanted(function) == {"config"}


# --- kinds of callables -----------------------------------------------------------------------------------------------


class Callables:
    """A callable object and methods of each kind."""

    def __call__(self, state: object, runtime: Runtime[Context]) -> object:
        return state

    def method(self, state: object, config: "RunnableConfig") -> object:
        return state

    @classmethod
    def of_class(cls, state: object, store: "BaseStore | None") -> object:
        return state

    @staticmethod
    def static(state: object, *, writer: StreamWriter) -> object:
        return state

    async def coroutine(self, state: object, error: NodeError) -> object:
        return state


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (Callables(), {"runtime"}),
        (Callables().method, {"config"}),
        (Callables.of_class, {"store"}),
        (Callables.static, {"writer"}),
        (Callables().coroutine, {"error"}),
        (functools.partial(Callables()), {"runtime"}),
        (functools.partial(Callables().method), {"config"}),
    ],
)
def test_methods_and_callable_objects_ask_as_functions_do(action: Function, expected: set[str]) -> None:
    assert wanted(action) == expected


def with_more(more: str, state: object, config: RunnableConfig, store: BaseStore | None = None) -> object:
    return more, state, config, store


def test_a_partial_asks_for_what_it_does_not_give_itself() -> None:
    store = BaseStore()
    config: RunnableConfig = {"tags": ["mine"]}

    assert wanted(functools.partial(with_more, "more")) == {"config", "store"}
    assert wanted(functools.partial(with_more, "more", store=store)) == {"config"}
    assert wanted(functools.partial(functools.partial(with_more, "more"), config=config)) == {"store"}
    assert wanted(functools.partial(functools.partial(with_more, store=store), "more", config=config)) == set()


def test_a_partial_that_gives_the_state_s_place_away_has_the_next_parameter_for_state() -> None:
    def function(more: str, config: RunnableConfig, runtime: Runtime[Context]) -> object:
        return config

    assert wanted(function) == {"config", "runtime"}
    assert wanted(functools.partial(function, "more")) == {"runtime"}


def test_a_decorated_function_asks_for_what_the_function_inside_asks_for() -> None:
    def decorated(function: Function) -> Function:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> object:
            return function(*args, **kwargs)

        return wrapper

    assert wanted(decorated(functools.partial(with_more, "more").func)) == {"config", "store"}
    assert wanted(decorated(Callables().method)) == {"config"}


BUILTINS: Final[list[Any]] = [print, len, min, str.upper, type]


@pytest.mark.parametrize("builtin", BUILTINS, ids=repr)
def test_a_builtin_asks_for_nothing(builtin: Function) -> None:
    assert wanted(builtin) == set()


def test_a_function_is_looked_at_once_when_it_becomes_a_node() -> None:
    def function(state: object, config: RunnableConfig, *, writer: StreamWriter) -> object:
        return state

    assert UserFunction.of(function).wants == {"config", "writer"}


def test_an_object_with_invoke_is_given_the_config_alone() -> None:
    class Runnable:
        def invoke(self, given: object, config: object = None, runtime: object = None) -> object:
            return given

        async def ainvoke(self, given: object, config: object = None, store: object = None) -> object:
            return given

    assert UserFunction.of(Runnable()).wants == {"config"}
