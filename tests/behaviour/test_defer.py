"""Deferred nodes, joins, and both together."""

import logging
from collections.abc import Sequence

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Flaky, Update, Words, chain, fan_out, gives, says

from phalanx.constants import END, START
from phalanx.coordinator.observe import RunObserver
from phalanx.errors import GraphRecursionError
from phalanx.graph import StateGraph
from phalanx.types import Command, Send


def deferred_after(*sources: str, join: bool = False) -> StateGraph[Words]:
    """A long branch of ``a1`` to ``a3``, a short one of ``b``; ``d`` is deferred and follows the sources."""
    builder = chain("a1", "a2", "a3")
    builder.add_node("b", says("b"))
    builder.add_node("never", says("never"))
    builder.add_node("d", says("d"), defer=True)
    builder.add_edge(START, "b")
    if join:
        builder.add_edge(list(sources), "d")
    else:
        for source in sources:
            builder.add_edge(source, "d")
    return builder


@pytest.mark.rule("defer-1")
@pytest.mark.parametrize("sources", [("b",), ("a1",), ("b", "a1", "a3"), ("b", "never")])
def test_a_deferred_node_runs_once_when_nothing_else_is_left(drive: Drive, sources: tuple[str, ...]) -> None:
    assert drive.invoke(compiled(deferred_after(*sources)), {})["words"] == ["a1", "b", "a2", "a3", "d"]


@pytest.mark.rule("defer-1")
def test_a_deferred_node_that_nothing_led_to_does_not_run(drive: Drive) -> None:
    assert drive.invoke(compiled(deferred_after("never")), {})["words"] == ["a1", "b", "a2", "a3"]


@pytest.mark.rule("defer-1")
def test_a_deferred_node_sees_what_all_others_wrote(drive: Drive) -> None:
    last = Flaky()
    builder = deferred_after("b")
    builder.add_node("last", last, defer=True)
    builder.add_edge("a1", "last")
    drive.invoke(compiled(builder), {})

    assert [call["words"] for call in last.calls] == [["a1", "b", "a2", "a3"]]


@pytest.mark.rule("defer-1")
def test_a_deferred_node_can_start_everything_over(drive: Drive) -> None:
    def again(state: Words) -> Command[str]:
        return Command(update={"words": ["d"]}, goto="a" if state["words"].count("d") < 2 else END)

    builder = chain("a", "b")
    builder.add_node("d", again, defer=True)
    builder.add_edge("a", "d")

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "b", "d"] * 3


@pytest.mark.rule("defer-1")
def test_several_deferred_nodes_run_together(drive: Drive) -> None:
    builder = deferred_after("b")
    builder.add_node("e", says("e"), defer=True)
    builder.add_edge("a1", "e")
    values = drive.stream(compiled(builder), {}, stream_mode="values")

    assert values[-1]["words"] == ["a1", "b", "a2", "a3", "d", "e"]
    assert values[-2]["words"] == ["a1", "b", "a2", "a3"]


@pytest.mark.rule("defer-1")
def test_a_deferred_node_takes_a_step_of_its_own_from_the_limit(drive: Drive) -> None:
    graph = compiled(deferred_after("b"))

    assert drive.invoke(graph, {}, {"recursion_limit": 5})["words"][-1] == "d"
    with pytest.raises(GraphRecursionError):
        drive.invoke(graph, {}, {"recursion_limit": 4})


@pytest.mark.rule("defer-2")
def test_a_deferred_node_after_a_join_waits_for_both(drive: Drive) -> None:
    graph = compiled(deferred_after("b", "a2", join=True))

    assert drive.invoke(graph, {})["words"] == ["a1", "b", "a2", "a3", "d"]


@pytest.mark.rule("defer-2")
def test_a_deferred_node_after_a_join_that_is_never_whole_does_not_run(drive: Drive) -> None:
    assert drive.invoke(compiled(deferred_after("b", "never", join=True)), {})["words"] == ["a1", "b", "a2", "a3"]


@pytest.mark.rule("defer-2")
def test_a_deferred_node_runs_after_a_failed_run_has_gone_on(drive_kept: Drive) -> None:
    builder = deferred_after("b")
    builder.add_node("fails", Flaky(ValueError))
    builder.add_edge("a3", "fails")
    graph, config = drive_kept.keeping(builder), thread("deferred after a failure")
    with pytest.raises(ValueError, match="not yet"):
        drive_kept.invoke(graph, {}, config)

    assert drive_kept.invoke(graph, None, config)["words"] == ["a1", "b", "a2", "a3", "ok", "d"]


@pytest.mark.rule("join-1")
def test_a_join_of_nodes_that_run_in_different_steps_runs_once(drive: Drive) -> None:
    builder = chain("a1", "a2")
    builder.add_node("b", says("b"))
    builder.add_node("j", says("j"))
    builder.add_edge(START, "b")
    builder.add_edge(["a1", "a2", "b"], "j")

    assert drive.invoke(compiled(builder), {})["words"] == ["a1", "b", "a2", "j"]


@pytest.mark.rule("join-1")
def test_a_node_may_be_reached_by_a_join_and_by_an_edge(drive: Drive) -> None:
    builder = chain("a1", "a2")
    builder.add_node("b", says("b"))
    builder.add_node("j", says("j"))
    builder.add_edge(START, "b")
    builder.add_edge(["a2", "b"], "j")
    builder.add_edge("b", "j")

    assert drive.invoke(compiled(builder), {})["words"] == ["a1", "b", "a2", "j", "j"]


@pytest.mark.rule("join-1")
def test_packets_of_a_source_of_a_join_count_as_the_source(drive: Drive) -> None:
    def works(number: int) -> Update:
        return {"words": [str(number)]}

    builder = fan_out("a")
    builder.add_node("w", works)
    builder.add_node("j", says("j"))
    builder.add_edge(["a", "w"], "j")
    builder.add_conditional_edges(START, gives([Send("w", 1), Send("w", 2)]))

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "1", "2", "j"]


@pytest.mark.rule("join-1")
def test_a_join_to_the_end_is_no_node(drive: Drive) -> None:
    builder = fan_out("a", "b")
    builder.add_edge(["a", "b"], END)

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "b"]


@pytest.mark.rule("join-1")
def test_a_join_remembers_what_ran_in_earlier_runs_of_the_thread(drive_kept: Drive) -> None:
    def entry(state: Words) -> str:
        return state["last"]

    builder = StateGraph(Words)
    for name in ("a", "b", "j"):
        builder.add_node(name, says(name))
    builder.add_edge(["a", "b"], "j")
    builder.add_conditional_edges(START, entry)
    graph, config = drive_kept.keeping(builder), thread("a join over runs")

    assert drive_kept.invoke(graph, {"last": "a"}, config)["words"] == ["a"]
    assert drive_kept.invoke(graph, {"last": "b"}, config)["words"] == ["a", "b", "j"]


@pytest.mark.rule("join-2")
@pytest.mark.ours_only("there, a join that never fires is not told of")
def test_a_join_that_still_waits_when_the_run_ends_is_told_of(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    told: list[tuple[str, list[str], list[str]]] = []

    class Notes(RunObserver):
        """It notes joins that still wait."""

        def join_not_released(self, node: str, ran: Sequence[str], missing: Sequence[str]) -> None:
            told.append((node, list(ran), list(missing)))

    builder = fan_out("a")
    builder.add_node("never", says("never"))
    builder.add_node("j", says("j"))
    builder.add_edge(["a", "never"], "j")
    with caplog.at_level(logging.WARNING):
        assert drive.invoke(compiled(builder), {}, observer=Notes())["words"] == ["a"]

    assert told == [("j", ["a"], ["never"])]
    assert any("'j'" in record.getMessage() and "never" in record.getMessage() for record in caplog.records)


@pytest.mark.rule("join-2")
@pytest.mark.ours_only("there, a join that never fires is not told of")
def test_a_join_that_ran_or_that_nothing_reached_is_not_told_of(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []

    class Notes(RunObserver):
        """It notes joins that still wait."""

        def join_not_released(self, node: str, ran: Sequence[str], missing: Sequence[str]) -> None:
            told.append(node)

    builder = fan_out("a", "b")
    for name in ("j", "k", "x", "y"):
        builder.add_node(name, says(name))
    builder.add_edge(["a", "b"], "j")
    builder.add_edge(["x", "y"], "k")
    with caplog.at_level(logging.WARNING):
        assert drive.invoke(compiled(builder), {}, observer=Notes())["words"] == ["a", "b", "j"]

    assert told == []
    assert not caplog.records
