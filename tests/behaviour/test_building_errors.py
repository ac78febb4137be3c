"""Graphs and schemas that are not whole: what is refused, when, and with which words."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Words, chain, gives, says
from typing_extensions import TypedDict

from phalanx.channels import LastValue, Topic
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.constants import END, START
from phalanx.graph import StateGraph


@pytest.mark.rule("build-1")
@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda builder: builder.add_edge("a", "nobody"), "Found edge ending at unknown node `nobody`"),
        (lambda builder: builder.add_edge("nobody", "a"), "Found edge starting at unknown node 'nobody'"),
        (lambda builder: builder.add_edge(["a", "nobody"], "a"), "Need to add_node `nobody` first"),
        (lambda builder: builder.add_edge(["a"], "nobody"), "Need to add_node `nobody` first"),
        (lambda builder: builder.add_edge(END, "a"), "END cannot be a start node"),
        (lambda builder: builder.add_edge("a", START), "START cannot be an end node"),
        (lambda builder: builder.add_conditional_edges("nobody", gives("a")), "unknown node 'nobody'"),
        (lambda builder: builder.add_conditional_edges("a", says, {1: "nobody"}), "found unknown target 'nobody'"),
        (
            lambda builder: builder.add_conditional_edges("a", says).add_conditional_edges("a", says),
            "Branch with name `says` already exists for node `a`",
        ),
    ],
    ids=[
        *("to nobody", "from nobody", "a join of nobody", "a join to nobody", "from the end", "to the start"),
        *("a path of nobody", "a path to nobody", "two paths of one name"),
    ],
)
def test_a_graph_that_is_not_whole_is_refused(edit: Callable[[Any], Any], message: str) -> None:
    builder = chain("a")

    with pytest.raises(ValueError, match=message):
        edit(builder).compile()


@pytest.mark.rule("build-1")
def test_a_graph_without_a_way_in_is_refused() -> None:
    with pytest.raises(ValueError, match="Graph must have an entrypoint: add at least one edge from START"):
        StateGraph(Words).compile()


@pytest.mark.rule("build-1")
@pytest.mark.parametrize("which", ["interrupt_before", "interrupt_after"])
def test_an_interrupt_at_nobody_is_refused(which: str) -> None:
    options: dict[str, Any] = {which: ["nobody"]}

    with pytest.raises(ValueError, match="Interrupt node `nobody` not found"):
        chain("a").compile(**options)


@pytest.mark.rule("build-1")
def test_a_node_that_nothing_leads_to_is_no_mistake(drive: Drive) -> None:
    builder = chain("a")
    builder.add_node("lonely", says("lonely"))

    assert drive.invoke(compiled(builder), {})["words"] == ["a"]


@pytest.mark.rule("build-1")
def test_a_graph_may_have_no_nodes_at_all(drive: Drive) -> None:
    builder = StateGraph(Words)
    builder.add_edge(START, END)

    assert drive.invoke(compiled(builder), {"words": ["x"]}) == {"words": ["x"], "count": 0}


@pytest.mark.rule("build-2")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a", "Node `a` already present"),
        (START, "Node `__start__` is reserved"),
        (END, "Node `__end__` is reserved"),
        ("x|y", r"'\|' is a reserved character and is not allowed in the node names"),
        ("x:y", "':' is a reserved character and is not allowed in the node names"),
    ],
)
def test_a_node_s_name_must_be_free_and_plain(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chain("a").add_node(name, gives(None))


@pytest.mark.rule("build-2")
@pytest.mark.parametrize("action", [5, "text", object()], ids=repr)
def test_a_node_needs_something_to_call(action: Any) -> None:
    with pytest.raises(TypeError):
        StateGraph(Words).add_node("a", action)


# --- reducers ---------------------------------------------------------------------------------------------------------


def takes_one(a: Any) -> Any:
    return a


def takes_three(a: Any, b: Any, c: Any) -> Any:
    return a + b + c


def takes_two_or_three(a: Any, b: Any, c: Any = 1) -> Any:
    return a + b


def takes_any(*values: Any) -> Any:
    return values[0]


def takes_two(a: Any, b: Any) -> Any:
    return a + b


def takes_two_and_a_keyword(a: Any, b: Any, *, c: Any = 1) -> Any:
    return a + b


def state_with(*notes: Any) -> Any:
    """A state with one key that is annotated so."""

    class State(TypedDict):
        key: list[str]

    State.__annotations__["key"] = Annotated[(list[str], *notes)]
    return State


@pytest.mark.rule("build-3")
@pytest.mark.parametrize("reducer", [takes_one, takes_three, takes_two_or_three, takes_any])
def test_a_reducer_takes_two_values(reducer: Any) -> None:
    with pytest.raises(ValueError, match=r"^Invalid reducer signature\. Expected \(a, b\) -> c"):
        StateGraph(state_with(reducer))


@pytest.mark.rule("build-3")
@pytest.mark.parametrize("reducer", [takes_two, takes_two_and_a_keyword, operator.add, lambda a, b: a + b])
def test_a_reducer_may_be_anything_that_takes_two_values(drive: Drive, reducer: Any) -> None:
    builder: StateGraph[Any] = StateGraph(state_with(reducer))
    builder.add_node("a", gives({"key": ["a"]}))
    builder.add_edge(START, "a")

    assert drive.invoke(compiled(builder), {"key": ["x"]}) == {"key": ["x", "a"]}


@pytest.mark.rule("build-3")
def test_a_reducer_may_be_one_of_several_notes_if_it_is_the_last(drive: Drive) -> None:
    builder: StateGraph[Any] = StateGraph(state_with("a note", takes_two))
    builder.add_node("a", gives({"key": ["a"]}))
    builder.add_edge(START, "a")

    assert drive.invoke(compiled(builder), {"key": ["x"]}) == {"key": ["x", "a"]}


# --- checkpointers ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("build-4")
@pytest.mark.parametrize("saver", ["text", 5, object(), InMemorySaver], ids=["text", "number", "object", "class"])
def test_what_is_no_saver_is_refused(saver: Any) -> None:
    with pytest.raises(TypeError, match=r"^Invalid checkpointer provided"):
        chain("a").compile(saver)


@pytest.mark.rule("build-4")
def test_a_saver_or_none_is_taken(drive: Drive) -> None:
    assert drive.invoke(compiled(chain("a")), {})["words"] == ["a"]
    assert drive.invoke(compiled(chain("a"), InMemorySaver()), {}, thread("a saver"))["words"] == ["a"]


@pytest.mark.rule("build-4")
@pytest.mark.parametrize("saver", [True, False])
def test_a_graph_may_be_compiled_to_keep_threads_as_the_graph_above_does_or_never(drive: Drive, saver: Any) -> None:
    builder = chain("a")
    builder.add_node("inner", compiled(chain("x"), saver))
    builder.add_edge("a", "inner")

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "a", "x"]


# --- keys declared twice ----------------------------------------------------------------------------------------------


class Reduced(TypedDict):
    key: Annotated[list[str], operator.add]


class PlainKey(TypedDict):
    key: list[str]


class OtherwiseReduced(TypedDict):
    key: Annotated[list[str], takes_two]


class Collected(TypedDict):
    key: Annotated[list[str], Topic(str)]


class Named(TypedDict):
    key: Annotated[list[str], LastValue(list)]


@pytest.mark.rule("build-5")
@pytest.mark.parametrize("again", [PlainKey, Reduced])
def test_a_plain_declaration_and_the_same_again_change_nothing(drive: Drive, again: Any) -> None:
    builder: StateGraph[Any] = StateGraph(Reduced, input_schema=again)
    builder.add_node("a", gives({"key": ["a"]}))
    builder.add_edge(START, "a")

    assert drive.invoke(compiled(builder), {"key": ["x"]}) == {"key": ["x", "a"]}


@pytest.mark.rule("build-5")
@pytest.mark.parametrize(
    ("first", "second"),
    [(PlainKey, Reduced), (Reduced, OtherwiseReduced), (Reduced, Collected), (Collected, Reduced)],
)
def test_two_declarations_that_contradict_each_other_are_refused(first: Any, second: Any) -> None:
    with pytest.raises(ValueError, match="Channel 'key' already exists with a different type"):
        StateGraph(first, output_schema=second)


class Doubled(TypedDict):
    key: Annotated[list[str], lambda a, b: a + b + b]


class Swapped(TypedDict):
    key: Annotated[list[str], lambda a, b: b + a]


@pytest.mark.rule("build-5")
def test_two_lambdas_count_as_the_same_and_the_first_is_used(drive: Drive) -> None:
    builder: StateGraph[Any] = StateGraph(Doubled, input_schema=Swapped)
    builder.add_node("a", gives({"key": ["a"]}))
    builder.add_edge(START, "a")

    assert drive.invoke(compiled(builder), {})["key"] == ["a", "a"]


@pytest.mark.rule("build-5")
@pytest.mark.ours_only("there, a lambda and another function count as the same too")
def test_a_lambda_and_another_function_are_not_the_same() -> None:
    with pytest.raises(ValueError, match="Channel 'key' already exists with a different type"):
        StateGraph(Reduced, output_schema=Doubled)


@pytest.mark.rule("build-5")
def test_a_node_s_schema_must_not_contradict_the_state_either() -> None:
    def reads(_: OtherwiseReduced) -> None:
        """It has a reducer of its own in mind."""

    with pytest.raises(ValueError, match="Channel 'key' already exists with a different type"):
        StateGraph(Reduced).add_node("reads", reads)


@pytest.mark.rule("build-6")
def test_a_builder_cannot_run_before_it_is_compiled() -> None:
    with pytest.raises(AttributeError, match=r"^'StateGraph' object has no attribute 'invoke'"):
        chain("a").invoke({})  # type: ignore[attr-defined]  # pyright: ignore


@pytest.mark.rule("build-6")
def test_a_graph_does_not_change_when_its_builder_does_later(drive: Drive) -> None:
    builder = chain("a")
    graph = compiled(builder)
    builder.add_node("b", says("b"))
    builder.add_edge("a", "b")

    assert drive.invoke(graph, {})["words"] == ["a"]
    assert drive.invoke(compiled(builder), {})["words"] == ["a", "b"]
