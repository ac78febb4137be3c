"""What is inferred from a user's callables."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import enum
import functools
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from typing_extensions import TypedDict

from phalanx.graph import START, StateGraph
from phalanx.graph.annotations import destinations_of, ends_of, node_name, path_name, plain, schema_read_by
from phalanx.types import Command


class Private(TypedDict):
    secret: int


def works(state: dict[str, Any]) -> None:
    """A node."""


class Worker:
    """A callable object."""

    def __call__(self, state: Private) -> Command[Literal["a"]]:
        raise NotImplementedError

    def method(self, state: Private) -> None:
        """A bound method."""


class Runnable:
    """Something with ``invoke``."""

    name = "runs"

    def invoke(self, given: Private) -> Command[Literal["a"]]:
        raise NotImplementedError

    __call__ = invoke


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "name"),
    [
        (works, "works"),
        (Worker(), "Worker"),
        (Worker().method, "method"),
        (Worker, "Worker"),
        (functools.partial(works), "works"),
        (functools.partial(functools.partial(Worker())), "Worker"),
        (Runnable(), "runs"),
        (lambda state: state, "<lambda>"),
    ],
    ids=["function", "object", "method", "class", "partial", "partials", "runnable", "lambda"],
)
def test_a_node_goes_by_the_name_of_its_function_class_or_runnable(action: object, name: str) -> None:
    assert node_name(action) == name


def test_an_object_s_attribute_called_name_is_not_its_name_as_a_node() -> None:
    worker: Any = Worker()
    worker.name = "other"

    assert node_name(worker) == "Worker"


def test_an_unnamed_graph_goes_by_its_class() -> None:
    builder: StateGraph[Any] = StateGraph(Private)
    builder.add_node(works).add_edge(START, "works")

    assert node_name(builder.compile()) == "CompiledStateGraph"
    assert node_name(builder.compile(name="inner")) == "inner"


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (works, "works"),
        (Runnable(), "runs"),
        (lambda state: state, "condition"),
        (Worker(), "condition"),
        (functools.partial(works), "condition"),
    ],
    ids=["function", "runnable", "lambda", "object", "partial"],
)
def test_a_path_without_a_name_of_its_own_is_a_condition(path: object, name: str) -> None:
    assert path_name(path) == name


class Names(str, enum.Enum):  # noqa: UP042 - what older code has
    FIRST = "first"


class Modern(enum.StrEnum):
    FIRST = "first"


class Text(str):
    pass


@pytest.mark.parametrize("name", [Names.FIRST, Modern.FIRST, Text("first"), "first"])
def test_a_name_becomes_plain_text(name: str) -> None:
    assert (plain(name), type(plain(name))) == ("first", str)


# --- the schema that is read ------------------------------------------------------------------------------------------


def by_class(state: Private) -> None: ...
def by_text(state: "Private") -> None: ...
def by_note(state: Annotated[Private, "a note"]) -> None: ...
async def by_coroutine(state: Private) -> None: ...
def by_nothing(state) -> None: ...  # type: ignore[no-untyped-def] # pyright: ignore
def by_dict(state: dict[str, Any]) -> None: ...
def by_int(state: int) -> None: ...
def by_option(state: Private | None) -> None: ...
def by_second(state: dict[str, Any], other: Private) -> None: ...
def by_nowhere(state: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore
def no_parameters() -> None: ...


def decorated(function: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(function)
    def inner(*args: Any) -> None:
        function(*args)

    return inner


@pytest.mark.parametrize(
    "action",
    [by_class, by_text, by_note, by_coroutine, decorated(by_class), Worker(), Worker().method],
    ids=["class", "text", "note", "coroutine", "decorated", "object", "method"],
)
def test_the_class_that_the_first_parameter_is_annotated_with_is_read(action: object) -> None:
    assert schema_read_by(action) is Private


@pytest.mark.parametrize(
    "action",
    [
        *(by_nothing, by_dict, by_int, by_option, by_second, by_nowhere, no_parameters, max),
        *(functools.partial(by_class), Runnable(), Worker, lambda state: state),
    ],
    ids=lambda action: getattr(action, "__name__", type(action).__name__),
)
def test_anything_else_says_nothing_about_what_is_read(action: object) -> None:
    assert schema_read_by(action) is None


# --- where it leads ---------------------------------------------------------------------------------------------------


def to_one(state: Any) -> Command[Literal["a"]]: ...  # type: ignore[empty-body]
async def to_two(state: Any) -> Command[Literal["a", "__end__"]]: ...  # type: ignore[empty-body]
def perhaps(state: Any) -> Command[Literal["a"]] | None: ...
def or_dict(state: Any) -> Union[dict[str, Any], Command[Literal["a"]]]: ...  # type: ignore[empty-body]  # noqa: UP007
def optional(state: Any) -> Optional["Command[Literal['a']]"]: ...
def anywhere(state: Any) -> Command[str]: ...  # type: ignore[empty-body]
def a_list(state: Any) -> list[Command[Literal["a"]]]: ...  # type: ignore[empty-body]
def unresolved(state: Any) -> "Nowhere": ...  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore


@pytest.mark.parametrize(
    ("action", "names"),
    [
        (to_one, ["a"]),
        (to_two, ["a", "__end__"]),
        (perhaps, ["a"]),
        (or_dict, ["a"]),
        (optional, ["a"]),
        (Worker(), ["a"]),
        (anywhere, []),
        (a_list, []),
        (unresolved, []),
        (works, []),
        (Runnable(), []),
        (functools.partial(to_one), []),
    ],
    ids=lambda value: getattr(value, "__name__", None) or type(value).__name__,
)
def test_a_node_s_commands_lead_where_its_return_annotation_says(action: object, names: list[str]) -> None:
    assert destinations_of(action) == dict.fromkeys(names)


def answers(state: Any) -> Literal["a", "b"]: ...  # type: ignore[empty-body]
def answers_in_a_list(state: Any) -> list[Literal["a", "b"]]: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("path", "path_map", "ends"),
    [
        (works, None, None),
        (answers, None, {"a": "a", "b": "b"}),
        (answers_in_a_list, None, None),
        (answers, {True: "x"}, {True: "x"}),
        (answers, ["x", "y"], {"x": "x", "y": "y"}),
        (works, {True: Names.FIRST}, {True: "first"}),
    ],
    ids=["nothing", "annotation", "a list", "map before annotation", "list before annotation", "enum"],
)
def test_a_path_leads_where_its_map_or_else_its_return_annotation_says(
    path: object, path_map: Any, ends: object
) -> None:
    assert ends_of(path, path_map) == ends
