"""What nodes are called."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import enum
import functools
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled
from tests.behaviour.states import Update, Words, chain, says

from phalanx.constants import START
from phalanx.graph import StateGraph


class Name(str, enum.Enum):  # noqa: UP042  # a StrEnum is another thing
    """Names in an enumeration."""

    FIRST = "first"
    SECOND = "second"


class Text(str):
    """A text of a class of its own."""

    __slots__ = ()


class Speaker:
    """A callable object, and its method."""

    def __call__(self, _: Words) -> Update:
        return {"words": ["object"]}

    def speak(self, _: Words) -> Update:
        return {"words": ["method"]}


def function(_: Words) -> Update:
    return {"words": ["function"]}


async def coroutine(_: Words) -> Update:
    return {"words": ["coroutine"]}


@pytest.mark.rule("names-1")
@pytest.mark.parametrize(
    ("action", "name"),
    [
        (function, "function"),
        (coroutine, "coroutine"),
        (Speaker(), "Speaker"),
        (Speaker().speak, "speak"),
        (lambda _: None, "<lambda>"),
        (chain("a").compile(name="inner"), "inner"),
    ],
    ids=["function", "coroutine function", "object", "method", "lambda", "graph"],
)
def test_a_node_is_called_after_its_action(action: Any, name: str) -> None:
    assert list(StateGraph(Words).add_node(action).nodes) == [name]


@pytest.mark.rule("names-1")
@pytest.mark.ours_only("there, it is called `partial`")
def test_a_partial_is_called_after_its_function() -> None:
    assert list(StateGraph(Words).add_node(functools.partial(function)).nodes) == ["function"]


@pytest.mark.rule("names-1")
def test_a_node_called_after_its_action_runs(drive: Drive) -> None:
    builder = StateGraph(Words)
    builder.add_node(function)
    builder.add_node(Speaker())
    builder.add_edge(START, "function")
    builder.add_edge("function", "Speaker")

    assert drive.stream(compiled(builder), {}) == [
        {"function": {"words": ["function"]}},
        {"Speaker": {"words": ["object"]}},
    ]


@pytest.mark.rule("names-1")
def test_an_action_without_a_usable_name_can_be_given_one(drive: Drive) -> None:
    builder = StateGraph(Words)
    builder.add_node("named", functools.partial(function))
    builder.add_edge(START, "named")

    assert drive.stream(compiled(builder), {}) == [{"named": {"words": ["function"]}}]


@pytest.mark.rule("names-2")
@pytest.mark.parametrize(("first", "second"), [(Name.FIRST, Name.SECOND), (Text("first"), Text("second"))])
def test_names_may_be_of_any_class_of_text(drive: Drive, first: Any, second: Any) -> None:
    builder = StateGraph(Words)
    builder.add_node(first, says("1"))
    builder.add_node(second, says("2"))
    builder.add_edge(START, first)
    builder.add_edge(first, second)

    assert drive.stream(compiled(builder), {}) == [{"first": {"words": ["1"]}}, {"second": {"words": ["2"]}}]


@pytest.mark.rule("names-2")
def test_a_map_may_lead_from_anything_to_a_name(drive: Drive) -> None:
    def path(_: Words) -> Name:
        return Name.SECOND

    builder = chain("a", "b")
    builder.add_node("c", says("c"))
    builder.add_conditional_edges("b", path, {Name.FIRST: "a", Name.SECOND: "c"})

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "b", "c"]


@pytest.mark.rule("names-2")
@pytest.mark.parametrize("name", ["with space", "ünï-cödé", "x/y.z", "1", "__start", ""])
def test_a_name_may_be_any_other_text(drive: Drive, name: str) -> None:
    assert drive.stream(compiled(chain("a", name)), {})[-1] == {name: {"words": [name]}}


@pytest.mark.rule("names-3")
def test_a_sequence_of_actions_runs_in_order(drive: Drive) -> None:
    builder = StateGraph(Words)
    builder.add_sequence([function, ("two", function), Speaker()])
    builder.add_edge(START, "function")

    assert [list(update) for update in drive.stream(compiled(builder), {})] == [["function"], ["two"], ["Speaker"]]


@pytest.mark.rule("names-3")
def test_a_sequence_must_have_actions_of_different_names() -> None:
    with pytest.raises(ValueError, match="Sequence requires at least one node"):
        StateGraph(Words).add_sequence([])
    with pytest.raises(ValueError, match="function"):
        StateGraph(Words).add_sequence([function, function])
