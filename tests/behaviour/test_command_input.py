"""A command as a run's input: an update of the thread's state, and where to go on."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Flaky, Words, chain, says

from phalanx.constants import END
from phalanx.errors import EmptyInputError, InvalidUpdateError
from phalanx.graph import StateGraph
from phalanx.types import Command, Overwrite, Send


def graph_of_words() -> StateGraph[Words]:
    """``a`` and ``b``; ``c`` and ``w`` wait to be told, ``d`` follows ``c``."""
    builder = chain("a", "b")
    builder.add_node("c", says("c"))
    builder.add_node("d", says("d"))
    builder.add_edge("c", "d")
    builder.add_node("w", lambda arg: {"words": [repr(arg)]})
    return builder


@pytest.mark.rule("input-1")
@pytest.mark.parametrize(
    ("command", "updates", "words"),
    [
        (Command[str](update={"words": ["u"]}), [], ["a", "b", "u"]),
        (Command[str](update={"words": Overwrite(["u"])}), [], ["u"]),
        (Command[str](update=[("words", ["1"]), ("words", ["2"])]), [], ["a", "b", "1", "2"]),
        (Command[str](update={"strange": 1}), [], ["a", "b"]),
        (Command[str](goto="c"), ["c", "d"], ["a", "b", "c", "d"]),
        (Command[str](goto=Send("w", 5)), ["w"], ["a", "b", "5"]),
        (Command[str](goto=["c", "a"]), ["a", "c", "b", "d"], ["a", "b", "a", "c", "b", "d"]),
        (Command[str](update={"words": ["u"]}, goto=["c", Send("w", 1)]), ["c", "w", "d"], ["u", "c", "1", "d"]),
        (Command[str](goto=END), [], ["a", "b"]),
    ],
    ids=[
        *("update", "overwrite", "pairs", "unknown key", "goto", "packet", "gotos", "update, goto and packet"),
        "the end",
    ],
)
def test_a_command_updates_a_thread_that_is_done_and_goes_on_where_it_says(
    drive_kept: Drive, command: Command[str], updates: list[str], words: list[str]
) -> None:
    graph, config = drive_kept.keeping(graph_of_words()), thread(f"command {words} {updates}")
    drive_kept.invoke(graph, {}, config)
    streamed = drive_kept.stream(graph, command, config)

    assert sorted(name for update in streamed for name in update) == sorted(updates)
    assert drive_kept.get_state(graph, config).values["words"][-len(words) :] == words
    assert drive_kept.get_state(graph, config).next == ()


@pytest.mark.rule("input-1")
def test_what_a_command_returns_is_the_state_after_its_run(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(graph_of_words()), thread("what a command returns")
    drive_kept.invoke(graph, {}, config)

    assert drive_kept.invoke(graph, Command(update={"last": "u"}, goto="c"), config) == {
        "words": ["a", "b", "c", "d"],
        "count": 0,
        "last": "u",
    }


@pytest.mark.rule("input-2")
def test_on_a_fresh_thread_a_command_starts_the_graph_beside_what_it_says(drive: Drive) -> None:
    command = Command[str](update={"last": "u"}, goto=["c", Send("w", 1)])

    assert drive.invoke(compiled(graph_of_words()), command) == {
        "words": ["a", "c", "1", "b", "d"],
        "count": 0,
        "last": "u",
    }


@pytest.mark.rule("input-2")
@pytest.mark.ours_only("there, the update is applied twice on a fresh thread")
def test_on_a_fresh_thread_a_command_s_update_is_applied_once(drive: Drive) -> None:
    command = Command[str](update={"words": ["u"]}, goto="c")

    assert drive.invoke(compiled(graph_of_words()), command)["words"] == ["u", "a", "c", "b", "d"]


@pytest.mark.rule("input-2")
def test_a_thread_that_failed_goes_on_with_what_failed_and_what_a_command_says(drive_kept: Drive) -> None:
    node = Flaky(ValueError)
    builder = graph_of_words()
    builder.add_node("fails", node)
    builder.add_edge("b", "fails")
    graph, config = drive_kept.keeping(builder), thread("failed, then a command")
    with pytest.raises(ValueError, match="not yet"):
        drive_kept.invoke(graph, {}, config)

    drive_kept.invoke(graph, Command(update={"last": "u"}, goto="w"), config)
    assert node.calls[-1]["last"] == "u"
    assert len(node.calls) == 2


@pytest.mark.rule("input-2")
def test_what_a_command_says_holds_when_its_run_failed_and_another_goes_on(drive_kept: Drive) -> None:
    node = Flaky(ValueError)
    builder = graph_of_words()
    builder.add_node("fails", node)
    graph, config = drive_kept.keeping(builder), thread("a command, then a failure")
    drive_kept.invoke(graph, {}, config)
    with pytest.raises(ValueError, match="not yet"):
        drive_kept.invoke(graph, Command(update={"last": "u"}, goto="fails"), config)

    drive_kept.invoke(graph, None, config)
    assert [given["last"] for given in node.calls] == ["u", "u"]


@pytest.mark.rule("input-3")
@pytest.mark.parametrize("goto", [(), "c"], ids=["alone", "with a goto"])
def test_a_run_s_input_cannot_be_for_a_graph_above(drive: Drive, goto: Any) -> None:
    with pytest.raises(InvalidUpdateError, match=r"^There is no parent graph"):
        drive.invoke(compiled(graph_of_words()), Command(graph=Command.PARENT, goto=goto))


@pytest.mark.rule("input-3")
@pytest.mark.parametrize("goto", [5, [5], {"a": 1}], ids=repr)
def test_a_command_s_goto_must_name_nodes(drive: Drive, goto: Any) -> None:
    with pytest.raises(TypeError):
        drive.invoke(compiled(graph_of_words()), Command(goto=goto))


@pytest.mark.rule("input-3")
@pytest.mark.ours_only("there, an empty command dies of a mistake in the engine")
@pytest.mark.parametrize("command", [Command[str](), Command[str](resume=None)], ids=["empty", "no answer"])
def test_an_empty_command_is_no_input(drive: Drive, command: Command[str]) -> None:
    with pytest.raises(EmptyInputError):
        drive.invoke(compiled(graph_of_words()), command)


@pytest.mark.rule("input-3")
def test_an_answer_needs_a_thread_that_asked(drive: Drive) -> None:
    with pytest.raises(RuntimeError, match=r"^Cannot use Command\(resume=...\) without checkpointer"):
        drive.invoke(compiled(graph_of_words()), Command(resume="yes"))
