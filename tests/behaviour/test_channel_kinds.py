"""Kinds of channels that checkpoints hold in part or not at all are the same to nodes on every driver."""

from collections.abc import Sequence
from typing import Annotated

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Update, chain
from typing_extensions import TypedDict

from phalanx.channels import DeltaChannel, UntrackedValue
from phalanx.constants import START
from phalanx.errors import GraphRecursionError
from phalanx.graph import StateGraph
from phalanx.types import Command, interrupt


def extend(value: list[str], writes: Sequence[list[str]]) -> list[str]:
    """A batch reducer."""
    return [*value, *(word for write in writes for word in write)]


class Kinds(TypedDict, total=False):
    """A value that is not stored, one that is stored by its writes, and what a node saw of both."""

    secret: Annotated[str, UntrackedValue]
    log: Annotated[list[str], DeltaChannel(extend)]
    seen: str


def write(_: Kinds) -> Update:
    return {"secret": "s", "log": ["a", "b"]}


def look(state: Kinds) -> Update:
    return {"seen": f"{state.get('secret')} {state.get('log')}", "log": ["c"]}


def kinds() -> StateGraph[Kinds]:
    builder = StateGraph(Kinds)
    builder.add_node("write", write)
    builder.add_node("look", look)
    builder.add_edge(START, "write")
    builder.add_edge("write", "look")
    return builder


def test_a_node_sees_what_was_written_to_untracked_and_delta_channels(drive: Drive) -> None:
    result = drive.invoke(compiled(kinds()), {})
    assert result["seen"] == "s ['a', 'b']"
    assert result["log"] == ["a", "b", "c"]


@pytest.mark.rule("channel-5")
def test_a_thread_keeps_delta_channels_and_forgets_untracked_ones(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(kinds()), thread("kinds of channels")
    drive_kept.invoke(graph, {}, config)
    values = drive_kept.get_state(graph, config).values
    assert values["log"] == ["a", "b", "c"]
    assert "secret" not in values
    assert drive_kept.invoke(graph, {}, config)["log"] == ["a", "b", "c", "a", "b", "c"]


@pytest.mark.rule("limit-1")
@pytest.mark.ours_only("there, the error does not say it")
def test_the_recursion_limit_says_what_was_still_due(drive: Drive) -> None:
    with pytest.raises(GraphRecursionError) as caught:
        drive.invoke(compiled(chain("a", "b", "c")), {}, {"recursion_limit": 2})
    assert any("Nodes still due" in note and "c" in note for note in caught.value.__notes__)


@pytest.mark.rule("channel-6")
def test_writes_of_a_superstep_that_was_given_up_are_no_part_of_a_delta_channel(drive_kept: Drive) -> None:
    failing = [True]

    def good(state: Kinds) -> Update:
        return {"log": [f"after {state.get('seen')}"]}

    def fails_once(_: Kinds) -> None:
        if failing:
            failing.clear()
            raise OSError("gone")

    builder = StateGraph(Kinds)
    builder.add_node("good", good)
    builder.add_node("fails", fails_once)
    builder.add_edge(START, "good")
    builder.add_edge(START, "fails")
    graph, config = drive_kept.keeping(builder), thread("given up")
    with pytest.raises(OSError, match="gone"):
        drive_kept.invoke(graph, {"seen": "one"}, config)

    assert drive_kept.invoke(graph, {"seen": "two"}, config)["log"] == ["after two"]
    assert drive_kept.get_state(graph, config).values["log"] == ["after two"]


@pytest.mark.rule("channel-6")
def test_writes_after_a_checkpoint_are_no_part_of_a_delta_channel_in_its_copy(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(kinds()), thread("copied")
    drive_kept.invoke(graph, {"seen": "nothing"}, config)
    first = drive_kept.history(graph, config)[-1]

    assert drive_kept.invoke(graph, None, first.config)["log"] == ["a", "b", "c"]
    assert drive_kept.get_state(graph, config).values["log"] == ["a", "b", "c"]
    assert drive_kept.invoke(graph, {}, config)["log"] == ["a", "b", "c", "a", "b", "c"]


@pytest.mark.rule("channel-6")
@pytest.mark.ours_only("there the first answer counts")
def test_a_question_answered_anew_leaves_the_delta_channels_of_other_branches(drive_kept: Drive) -> None:
    def ask(_: Kinds) -> Update:
        return {"log": ["approved"]} if interrupt("may I?") == "yes" else {"seen": "no"}

    builder = StateGraph(Kinds)
    builder.add_node("ask", ask)
    builder.add_node("look", look)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "look")
    graph, config = drive_kept.keeping(builder), thread("answered anew")
    drive_kept.invoke(graph, {"log": ["asked"]}, config)
    asked = drive_kept.get_state(graph, config)
    drive_kept.invoke(graph, Command[str](resume="no"), config)
    no = drive_kept.get_state(graph, config)
    drive_kept.invoke(graph, {"log": ["more"], "seen": "more"}, asked.config)
    more = drive_kept.get_state(graph, config)

    assert drive_kept.invoke(graph, Command[str](resume="yes"), asked.config)["log"] == ["asked", "approved", "c"]
    assert drive_kept.get_state(graph, no.config).values["log"] == ["asked", "c"]
    assert drive_kept.get_state(graph, more.config).values["log"] == ["asked", "more"]
