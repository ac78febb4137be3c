"""States that are one value: the whole return value of a node is the update."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import operator
from typing import Annotated, Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread

from phalanx.constants import END, START
from phalanx.errors import InvalidUpdateError
from phalanx.graph import StateGraph
from phalanx.types import Command, Send

ROOT_LIST: Any = Annotated[list[str], operator.add]


def says(word: str) -> Any:
    def say(_: object) -> list[str]:
        return [word]

    return say


def chain_of(schema: Any, *nodes: tuple[str, Any]) -> StateGraph[Any]:
    """Nodes one after the other."""
    builder: StateGraph[Any] = StateGraph(schema)
    before = START
    for name, action in nodes:
        builder.add_node(name, action)
        builder.add_edge(before, name)
        before = name
    return builder


@pytest.mark.rule("root-1")
def test_a_state_with_a_reducer_adds_up_what_nodes_return(drive: Drive) -> None:
    graph = compiled(chain_of(ROOT_LIST, ("a", says("a")), ("b", says("b"))))

    assert drive.invoke(graph, ["x"]) == ["x", "a", "b"]


@pytest.mark.rule("root-1")
def test_a_state_without_a_reducer_is_replaced(drive: Drive) -> None:
    def doubles(state: int) -> int:
        return state * 2

    assert drive.invoke(compiled(chain_of(int, ("a", doubles), ("b", doubles))), 5) == 20


@pytest.mark.rule("root-1")
def test_nodes_side_by_side_add_up_in_the_order_of_their_names(drive: Drive) -> None:
    builder = chain_of(ROOT_LIST, ("b", says("b")))
    builder.add_node("a", says("a"))
    builder.add_edge(START, "a")

    assert drive.invoke(compiled(builder), ["x"]) == ["x", "a", "b"]


@pytest.mark.rule("root-1")
def test_two_writes_to_a_state_without_a_reducer_are_an_error(drive: Drive) -> None:
    builder = chain_of(int, ("b", lambda _: 1))
    builder.add_node("a", lambda _: 2)
    builder.add_edge(START, "a")

    with pytest.raises(InvalidUpdateError, match=r"^At key '__root__': Can receive only one value per step"):
        drive.invoke(compiled(builder), 5)


@pytest.mark.rule("root-1")
def test_streams_show_the_value_itself(drive: Drive) -> None:
    graph = compiled(chain_of(ROOT_LIST, ("a", says("a")), ("b", says("b"))))

    assert drive.stream(graph, ["x"]) == [{"a": ["a"]}, {"b": ["b"]}]
    assert drive.stream(graph, ["x"], stream_mode="values") == [["x"], ["x", "a"], ["x", "a", "b"]]


@pytest.mark.rule("root-1")
def test_a_thread_keeps_the_value(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain_of(ROOT_LIST, ("a", says("a")))), thread("root")
    drive_kept.invoke(graph, ["x"], config)

    assert drive_kept.get_state(graph, config).values == ["x", "a"]
    assert drive_kept.invoke(graph, ["y"], config) == ["x", "a", "y", "a"]


@pytest.mark.rule("root-2")
def test_commands_and_paths_work_on_a_value_too(drive: Drive) -> None:
    def commands(_: list[str]) -> Command[str]:
        return Command(update=["a"], goto=["b", Send("c", "packet")])

    def path(state: list[str]) -> str:
        return "d" if state == ["x", "a", "b", "packet"] or "b" in state else END

    builder = chain_of(ROOT_LIST, ("a", commands))
    builder.add_node("b", says("b"))
    builder.add_node("c", lambda arg: [arg])
    builder.add_node("d", says("d"))
    builder.add_conditional_edges("b", path)

    assert drive.invoke(compiled(builder), ["x"]) == ["x", "a", "b", "packet", "d"]


@pytest.mark.rule("root-2")
def test_a_node_that_returns_nothing_leaves_the_value_as_it_is(drive: Drive) -> None:
    assert drive.invoke(compiled(chain_of(int, ("a", lambda _: None))), 5) == 5
