"""Conditional edges: what a path sees, and what its answer means."""

import logging
from collections.abc import Callable
from typing import Any, Literal

import pytest
from tests.behaviour.drivers import Drive, compiled
from tests.behaviour.states import Update, Words, chain, fan_out, says
from typing_extensions import TypedDict

from phalanx.constants import END, START
from phalanx.graph import StateGraph
from phalanx.types import Send


def leading(path: Callable[..., Any], path_map: Any = None) -> StateGraph[Words]:
    """``a``, then wherever the path leads: to ``b``, ``c``, or the end."""
    builder = chain("a")
    builder.add_node("b", says("b"))
    builder.add_node("c", says("c"))
    builder.add_conditional_edges("a", path, path_map)
    return builder


def to_b_and_c(_: Words) -> list[str]:
    return ["c", "b"]


def to_end(_: Words) -> str:
    return END


def literal(_: Words) -> Literal["b"]:
    return "b"


def truth(state: Words) -> bool:
    return bool(state["words"])


def packets(state: Words) -> list[Any]:
    return [Send("b", {}), Send("b", {}), "c"]


@pytest.mark.rule("path-3")
@pytest.mark.parametrize(
    ("path", "path_map", "words"),
    [
        (to_b_and_c, None, ["a", "b", "c"]),
        (to_end, None, ["a"]),
        (literal, None, ["a", "b"]),
        (truth, {True: "c", False: END}, ["a", "c"]),
        (to_b_and_c, ["b", "c"], ["a", "b", "c"]),
        (packets, None, ["a", "c", "b", "b"]),
    ],
    ids=["a list", "the end", "a literal", "a map", "a list of names", "packets and a name"],
)
def test_a_path_leads_where_it_says(drive: Drive, path: Callable[..., Any], path_map: Any, words: list[str]) -> None:
    assert drive.invoke(compiled(leading(path, path_map)), {})["words"] == words


@pytest.mark.rule("path-2")
def test_a_path_sees_the_writes_of_its_node_and_not_those_of_its_siblings(drive: Drive) -> None:
    def path(state: Words) -> list[Send]:
        return [Send("shows", {"seen": list(state["words"])})]

    def shows(arg: dict[str, list[str]]) -> Update:
        return {"other": arg["seen"]}

    builder = fan_out("a", "b")
    builder.add_node("shows", shows)
    builder.add_conditional_edges("b", path)

    assert drive.invoke(compiled(builder), {"words": ["x"]})["other"] == ["x", "b"]


@pytest.mark.rule("path-1")
def test_a_path_sees_what_its_node_returned_beside_the_state(drive: Drive) -> None:
    def returns(_: Words) -> Update:
        return {"words": ["r"], "hint": "c"}

    def path(state: dict[str, Any]) -> str:
        return str(state["hint"])

    builder = StateGraph(Words)
    builder.add_node("returns", returns)
    builder.add_node("c", says("c"))
    builder.add_edge(START, "returns")
    builder.add_conditional_edges("returns", path)

    assert drive.invoke(compiled(builder), {})["words"] == ["r", "c"]


class OnlyCount(TypedDict):
    count: int


@pytest.mark.rule("path-1")
def test_a_path_reads_the_schema_its_parameter_is_annotated_with(drive: Drive) -> None:
    def path(state: OnlyCount) -> str:
        return "b" if sorted(state) == ["count"] else "c"

    def quiet(_: Words) -> Update:
        return {"words": ["q"]}

    builder = StateGraph(Words)
    builder.add_node("quiet", quiet)
    builder.add_node("b", says("b"))
    builder.add_node("c", says("c"))
    builder.add_edge(START, "quiet")
    builder.add_conditional_edges("quiet", path)

    assert drive.invoke(compiled(builder), {"last": "not seen"})["words"] == ["q", "b"]


@pytest.mark.rule("path-3")
def test_several_paths_of_one_node_all_lead_on(drive: Drive) -> None:
    def also_c(_: Words) -> str:
        return "c"

    builder = leading(literal)
    builder.add_conditional_edges("a", also_c)

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "b", "c"]


@pytest.mark.rule("path-3")
def test_the_start_can_have_a_path(drive: Drive) -> None:
    def entry(state: Words) -> str:
        return state["last"]

    builder = StateGraph(Words)
    builder.add_node("a", says("a"))
    builder.add_node("b", says("b"))
    builder.set_conditional_entry_point(entry)

    assert drive.invoke(compiled(builder), {"last": "b"})["words"] == ["b"]


@pytest.mark.rule("step-7")
def test_a_path_that_names_nobody_warns_and_ends_there(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    def nowhere(_: Words) -> str:
        return "nobody"

    with caplog.at_level(logging.WARNING, "phalanx.apply"):
        assert drive.invoke(compiled(leading(nowhere)), {})["words"] == ["a"]
    assert any("nobody" in record.getMessage() for record in caplog.records)


@pytest.mark.rule("path-4")
@pytest.mark.parametrize(
    "answer",
    [None, START, pytest.param(7, marks=pytest.mark.ours_only("there, a number leads nowhere with a warning"))],
    ids=["nothing", "the start", "a number"],
)
def test_a_path_must_answer_with_a_destination(drive: Drive, answer: object) -> None:
    def path(_: Words) -> object:
        return answer

    with pytest.raises(ValueError, match="Branch did not return a valid destination"):
        drive.invoke(compiled(leading(path)), {})


@pytest.mark.rule("path-3")
def test_an_answer_that_is_not_in_the_map_is_an_error_that_names_it(drive: Drive) -> None:
    def path(_: Words) -> str:
        return "elsewhere"

    with pytest.raises(KeyError, match="elsewhere"):
        drive.invoke(compiled(leading(path, {"here": "b"})), {})


@pytest.mark.rule("build-1")
def test_a_map_to_nobody_does_not_compile() -> None:
    with pytest.raises(ValueError, match="'a' node, 'truth' branch found unknown target 'nobody'"):
        leading(truth, {True: "nobody"}).compile()
