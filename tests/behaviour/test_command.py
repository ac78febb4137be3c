"""``Command``: an update and where to go next, in one value."""

import logging
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled
from tests.behaviour.states import Update, Words, says

from phalanx.constants import END, START
from phalanx.errors import InvalidUpdateError, ParentCommand
from phalanx.graph import StateGraph
from phalanx.types import Command, Overwrite, Send


def returning(output: Any) -> StateGraph[Words]:
    """``a`` returns ``output``; ``b`` and ``c`` wait to be told, ``static`` follows ``a``."""

    def returns(_: Words) -> Any:
        return output

    builder = StateGraph(Words)
    builder.add_node("a", returns)
    for name in ("b", "c", "static"):
        builder.add_node(name, says(name))
    builder.add_edge(START, "a")
    builder.add_edge("a", "static")
    return builder


@pytest.mark.rule("command-1")
@pytest.mark.parametrize(
    ("output", "words"),
    [
        (Command[str](update={"words": ["a"]}), ["a", "static"]),
        (Command[str](goto="b"), ["b", "static"]),
        (Command[str](update={"words": ["a"]}, goto=["c", "b"]), ["a", "b", "c", "static"]),
        (Command[str](goto=END), ["static"]),
        (Command[str](goto=[END, "b"]), ["b", "static"]),
        (Command[str](goto=Send("b", {})), ["static", "b"]),
        (Command[str](goto=[Send("c", {}), "b", Send("b", {})]), ["b", "static", "c", "b"]),
        (Command[str](update=[("words", ["1"]), ("words", ["2"])]), ["1", "2", "static"]),
        (Command[str](), ["static"]),
        ([Command[str](update={"words": ["1"]}, goto="b"), {"words": ["2"]}], ["1", "2", "b", "static"]),
        ((Command[str](goto="b"), Command[str](goto="c", update={"words": ["2"]})), ["2", "b", "c", "static"]),
        ([Command[str](update={"words": ["1"]}), None], ["1", "static"]),
        (Command[str](update={"words": Overwrite(["new"])}), ["new", "static"]),
    ],
    ids=[
        *("update", "goto", "update and gotos", "the end", "the end and a name", "a packet", "packets and a name"),
        *("pairs", "empty", "a list with a dict", "a tuple of commands", "a list with None", "an overwrite"),
    ],
)
def test_a_command_does_what_it_says_beside_the_node_s_own_edges(drive: Drive, output: Any, words: list[str]) -> None:
    assert drive.invoke(compiled(returning(output)), {})["words"] == words


@pytest.mark.rule("step-7")
def test_a_goto_to_nobody_warns_and_ends_there(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "phalanx.apply"):
        assert drive.invoke(compiled(returning(Command(goto="nobody"))), {})["words"] == ["static"]
    assert any("nobody" in record.getMessage() for record in caplog.records)


@pytest.mark.rule("command-1")
def test_a_goto_can_close_a_loop(drive: Drive) -> None:
    def again(state: Words) -> Command[str]:
        return Command(update={"count": 1}, goto="again" if state["count"] < 4 else END)

    builder = StateGraph(Words)
    builder.add_node("again", again)
    builder.add_edge(START, "again")

    assert drive.invoke(compiled(builder), {})["count"] == 5


@pytest.mark.rule("step-9")
def test_a_list_without_a_command_is_not_an_update(drive: Drive) -> None:
    with pytest.raises(InvalidUpdateError, match=r"^Expected dict, got"):
        drive.invoke(compiled(returning([{"words": ["1"]}])), {})


@pytest.mark.rule("parent-3")
def test_a_command_for_a_parent_that_is_not_there_reaches_the_caller(drive: Drive) -> None:
    command: Command[str] = Command(graph=Command.PARENT, update={"words": ["up"]}, goto="b")

    with pytest.raises(ParentCommand) as caught:
        drive.invoke(compiled(returning(command)), {})
    found = caught.value.args[0]
    assert (found.update, found.goto) == (command.update, command.goto)


@pytest.mark.rule("command-2")
def test_a_command_s_update_is_shown_as_the_node_s_update(drive: Drive) -> None:
    def both(_: Words) -> Any:
        return [Command(update={"words": ["1"]}), {"words": ["2"], "last": "x"}]

    builder = StateGraph(Words)
    builder.add_node("both", both)
    builder.add_edge(START, "both")

    assert drive.stream(compiled(builder), {}) == [{"both": [{"words": ["1"]}, {"words": ["2"]}, {"last": "x"}]}]


def test_packets_of_a_command_come_before_those_of_a_path(drive: Drive) -> None:
    def commands(_: Words) -> Command[str]:
        return Command(goto=Send("work", "command"))

    def path(_: Words) -> Send:
        return Send("work", "path")

    def work(arg: str) -> Update:
        return {"words": [arg]}

    builder = StateGraph(Words)
    builder.add_node("commands", commands)
    builder.add_node("work", work)
    builder.add_edge(START, "commands")
    builder.add_conditional_edges("commands", path)

    assert drive.invoke(compiled(builder), {})["words"] == ["command", "path"]
