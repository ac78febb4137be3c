"""Commands for the graph above: they end the graph they come from, and count as its node's answer."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import logging
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled
from tests.behaviour.states import Flaky, Update, Words, alone, chain, gives, says

from phalanx.constants import END, START
from phalanx.errors import ParentCommand
from phalanx.graph import StateGraph
from phalanx.types import Command, Send

UP = Command[str](graph=Command.PARENT, update={"words": ["up"]})


def inner(answer: object) -> StateGraph[Words]:
    """``x`` writes something; ``y`` gives the answer; ``z`` would follow."""
    builder = chain("x")
    builder.add_node("y", gives(answer))
    builder.add_node("z", says("z"))
    builder.add_edge("x", "y")
    builder.add_edge("y", "z")
    return builder


def outer(action: Any) -> StateGraph[Words]:
    """``a``, then the action as ``inner``, then ``after``; ``c`` and ``w`` wait to be told."""
    builder = chain("a")
    builder.add_node("inner", action)
    builder.add_node("after", says("after"))
    builder.add_node("c", says("c"))
    builder.add_node("w", lambda arg: {"words": [repr(arg)]})
    builder.add_edge("a", "inner")
    builder.add_edge("inner", "after")
    return builder


@pytest.mark.rule("parent-1")
@pytest.mark.parametrize(
    ("command", "words"),
    [
        (UP, ["a", "up", "after"]),
        (Command[str](graph=Command.PARENT, goto="c"), ["a", "after", "c"]),
        (Command[str](graph=Command.PARENT, goto=[Send("w", 1), "c"]), ["a", "after", "c", "1"]),
        (Command[str](graph=Command.PARENT, goto=END), ["a", "after"]),
        (Command[str](graph=Command.PARENT, update=[("words", ["1"]), ("words", ["2"])]), ["a", "1", "2", "after"]),
        (Command[str](graph=Command.PARENT), ["a", "after"]),
        ([UP, {"words": ["lost"]}], ["a", "up", "after"]),
    ],
    ids=["update", "goto", "packets", "the end", "pairs", "empty", "in a list"],
)
def test_a_command_for_the_graph_above_counts_as_the_answer_of_the_node_the_graph_is(
    drive: Drive, command: object, words: list[str]
) -> None:
    """What the inner graph wrote before is lost, what would follow there does not run."""
    assert drive.invoke(compiled(outer(inner(command).compile())), {})["words"] == words


@pytest.mark.rule("parent-1")
def test_its_update_is_streamed_as_the_node_s(drive: Drive) -> None:
    updates = drive.stream(compiled(outer(inner(UP).compile())), {})

    assert updates == [{"a": {"words": ["a"]}}, {"inner": {"words": ["up"]}}, {"after": {"words": ["after"]}}]


@pytest.mark.rule("parent-1")
def test_a_graph_that_a_node_calls_speaks_for_the_node(drive: Drive) -> None:
    graph: Any = inner(Command[str](graph=Command.PARENT, update={"words": ["up"]}, goto="c")).compile()
    after = Flaky()

    def calls(state: Words) -> Update:
        graph.invoke(state)
        after(state)
        return {"words": ["lost"]}

    assert drive.invoke(compiled(outer(calls)), {})["words"] == ["a", "up", "after", "c"]
    assert after.calls == []


@pytest.mark.rule("parent-1")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_graph_that_a_coroutine_node_calls_speaks_for_the_node(drive: Drive) -> None:
    graph: Any = inner(UP).compile()

    async def calls(state: Words) -> Update:
        await graph.ainvoke(state)
        return {"words": ["lost"]}

    assert drive.invoke(compiled(outer(calls)), {})["words"] == ["a", "up", "after"]


@pytest.mark.rule("parent-1")
def test_the_graph_above_may_be_above_one_packet(drive: Drive) -> None:
    def answers(arg: Any) -> Any:
        return Command(graph=Command.PARENT, update={"words": [f"up {arg['last']}"]})

    builder = StateGraph(Words)
    builder.add_node("inner", alone(answers).compile())
    builder.add_conditional_edges(START, gives([Send("inner", {"last": "1"}), Send("inner", {"last": "2"})]))

    assert drive.invoke(compiled(builder), {})["words"] == ["up 1", "up 2"]


@pytest.mark.rule("parent-2")
def test_the_graph_above_is_the_one_above_and_no_higher(drive: Drive) -> None:
    command = Command[str](graph=Command.PARENT, update={"words": ["up"]}, goto="c")
    middle = StateGraph(Words)
    middle.add_node("inner", inner(command).compile())
    middle.add_node("c", says("middle c"))
    middle.add_edge(START, "inner")

    assert drive.invoke(compiled(outer(middle.compile())), {})["words"] == ["a", "a", "up", "middle c", "after"]


@pytest.mark.rule("parent-2")
def test_a_destination_that_the_graph_above_does_not_have_warns_and_ends_there(
    drive: Drive, caplog: pytest.LogCaptureFixture
) -> None:
    command = Command[str](graph=Command.PARENT, goto="z")

    with caplog.at_level(logging.WARNING):
        assert drive.invoke(compiled(outer(inner(command).compile())), {})["words"] == ["a", "after"]
    assert any("z" in record.getMessage() for record in caplog.records)


@pytest.mark.rule("parent-3")
def test_where_there_is_no_graph_above_the_command_reaches_the_caller(drive: Drive) -> None:
    with pytest.raises(ParentCommand) as caught:
        drive.invoke(compiled(alone(gives(UP))), {})

    command = caught.value.args[0]
    assert isinstance(command, Command)
    assert (command.update, command.goto) == (UP.update, UP.goto)
