"""Limits of a run: supersteps, tasks at once, time of a superstep; asking it to stop."""

import asyncio
import threading
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Flaky, Update, Words, alone, chain, fan_out, gives, says
from tests.support import wait_until

from phalanx.constants import START
from phalanx.errors import GraphDrained, GraphRecursionError, ParentCommand
from phalanx.graph import StateGraph
from phalanx.runtime import RunControl
from phalanx.types import Command


@pytest.mark.rule("limit-1")
def test_the_step_limit_is_checked_before_the_end_is_looked_at(drive: Drive) -> None:
    """Two nodes and the step of the input need three, although nothing is left after the second."""
    graph = compiled(chain("a", "b"))

    assert drive.invoke(graph, {}, {"recursion_limit": 3})["words"] == ["a", "b"]
    with pytest.raises(GraphRecursionError, match=r"^Recursion limit of 2 reached"):
        drive.invoke(graph, {}, {"recursion_limit": 2})


@pytest.mark.rule("limit-1")
def test_the_step_limit_is_the_run_s_and_not_the_thread_s(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("limit of the run", recursion_limit=3)
    for _ in range(3):
        drive_kept.invoke(graph, {}, config)

    assert drive_kept.get_state(graph, config).values["words"] == ["a", "b"] * 3


@pytest.mark.rule("limit-1")
def test_a_graph_in_a_node_counts_its_own_steps(drive: Drive) -> None:
    builder = chain("a")
    builder.add_node("inner", chain("x", "y", "z").compile())
    builder.add_edge("a", "inner")

    with pytest.raises(GraphRecursionError, match=r"^Recursion limit of 3 reached"):
        drive.invoke(compiled(builder), {}, {"recursion_limit": 3})
    assert drive.invoke(compiled(builder), {}, {"recursion_limit": 4})["words"] == ["a", "a", "x", "y", "z"]


@pytest.mark.rule("limit-1")
def test_without_a_step_limit_a_run_may_take_thousands_of_steps(drive: Drive) -> None:
    rounds = 300 if drive.name == "cluster" else 2000

    def more(state: Words) -> Command[str]:
        return Command(update={"count": 1}, goto="a" if state["count"] < rounds else ())

    assert drive.invoke(compiled(alone(more)), {})["count"] == rounds + 1


# --- tasks at once ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("limit-2")
def test_a_negative_number_of_tasks_at_once_is_refused(drive: Drive) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # what it says is a thread pool's or a semaphore's matter there
        drive.invoke(compiled(chain("a")), {}, {"max_concurrency": -1})


@pytest.mark.rule("limit-2")
@pytest.mark.ours_only("there, 0 means no limit on an event loop and is refused elsewhere")
def test_no_task_at_once_is_refused_on_every_driver(drive: Drive) -> None:
    with pytest.raises(ValueError, match="max_concurrency"):
        drive.invoke(compiled(chain("a")), {}, {"max_concurrency": 0})


@pytest.mark.rule("limit-2")
def test_a_number_of_tasks_at_once_that_is_no_number_is_refused(drive: Drive) -> None:
    config: Any = {"max_concurrency": "many"}
    with pytest.raises(TypeError):
        drive.invoke(compiled(chain("a")), {}, config)


@pytest.mark.rule("limit-2")
def test_one_task_at_once_runs_them_one_by_one(drive: Drive) -> None:
    now: list[str] = []

    def works(_: Words) -> Update:
        assert not now
        now.append("x")
        now.pop()
        return {"count": 1}

    builder = StateGraph(Words)
    for number in range(6):
        builder.add_node(f"n{number}", works)
        builder.add_edge(START, f"n{number}")

    assert drive.invoke(compiled(builder), {}, {"max_concurrency": 1})["count"] == 6


# --- time of a superstep ----------------------------------------------------------------------------------------------


@pytest.mark.rule("limit-3")
def test_a_graph_has_no_time_limit_for_a_superstep_unless_it_is_set() -> None:
    assert chain("a").compile().step_timeout is None


@pytest.mark.rule("limit-3")
def test_a_superstep_that_takes_too_long_fails_the_run(drive: Drive) -> None:
    release = threading.Event()

    def hangs(_: Words) -> Update:
        release.wait(0.3)
        return {}

    graph = compiled(alone(hangs))
    graph.step_timeout = 0.05
    try:
        with pytest.raises(TimeoutError):
            drive.invoke(graph, {})
    finally:
        release.set()


@pytest.mark.rule("limit-3")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_coroutines_of_a_superstep_that_takes_too_long_are_cancelled(drive: Drive) -> None:
    ended: list[str] = []

    async def hangs(_: Words) -> Update:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("hangs")
        return {}

    graph = compiled(alone(hangs))
    graph.step_timeout = 0.05
    with pytest.raises(TimeoutError):
        drive.invoke(graph, {})
    wait_until(lambda: ended == ["hangs"], "the end of the coroutine")


@pytest.mark.rule("limit-3")
def test_a_superstep_in_time_is_not_disturbed_and_each_has_its_full_time(drive: Drive) -> None:
    waits = threading.Event()

    def slow(_: Words) -> Update:
        waits.wait(0.25)
        return {"count": 1}

    builder = alone(slow)
    for name, before in (("b", "a"), ("c", "b")):
        builder.add_node(name, slow)
        builder.add_edge(before, name)
    graph = compiled(builder)
    graph.step_timeout = 0.7

    assert drive.invoke(graph, {})["count"] == 3


@pytest.mark.rule("limit-3")
def test_a_thread_whose_superstep_took_too_long_can_go_on(drive_kept: Drive) -> None:
    release = threading.Event()
    calls: list[int] = []

    def hangs_once(_: Words) -> Update:
        calls.append(1)
        if len(calls) == 1:
            release.wait(0.3)
        return {"words": ["in time"]}

    builder = chain("first")
    builder.add_node("hangs", hangs_once)
    builder.add_edge("first", "hangs")
    graph, config = drive_kept.keeping(builder), thread("too long")
    graph.step_timeout = 0.1
    with pytest.raises(TimeoutError):
        drive_kept.invoke(graph, {}, config)
    release.set()
    graph.step_timeout = None

    assert drive_kept.invoke(graph, None, config)["words"] == ["first", "in time"]


@pytest.mark.rule("limit-3")
def test_a_time_limit_does_not_hide_a_command_for_the_graph_above(drive: Drive) -> None:
    graph = compiled(alone(gives(Command[str](graph=Command.PARENT))))
    graph.step_timeout = 20

    with pytest.raises(ParentCommand):
        drive.invoke(graph, {})


# --- asking a run to stop ---------------------------------------------------------------------------------------------


def asking(control: RunControl) -> StateGraph[Words]:
    """``a`` asks the run to stop, ``side`` runs beside it, ``b`` would follow."""

    def asks(_: Words) -> Update:
        control.request_drain("bye")
        return {"words": ["a"]}

    builder = fan_out("side")
    builder.add_node("a", asks)
    builder.add_node("b", says("b"))
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    return builder


@pytest.mark.rule("drain-1")
def test_a_run_that_is_asked_to_stop_ends_after_its_superstep(drive_kept: Drive) -> None:
    control = RunControl()
    graph, config = drive_kept.keeping(asking(control)), thread("drained")
    with pytest.raises(GraphDrained, match=r"^Graph drained: bye$") as caught:
        drive_kept.invoke(graph, {}, config, control=control)

    assert caught.value.reason == "bye"
    state = drive_kept.get_state(graph, config)
    assert (state.values["words"], state.next) == (["a", "side"], ("b",))


@pytest.mark.rule("drain-1")
def test_a_thread_whose_run_was_stopped_goes_on(drive_kept: Drive) -> None:
    control = RunControl()
    graph, config = drive_kept.keeping(asking(control)), thread("drained and going on")
    with pytest.raises(GraphDrained):
        drive_kept.invoke(graph, {}, config, control=control)

    assert drive_kept.invoke(graph, None, config, control=RunControl())["words"] == ["a", "side", "b"]


@pytest.mark.rule("drain-1")
def test_a_run_without_a_thread_can_be_stopped_too(drive: Drive) -> None:
    control, last = RunControl(), Flaky()
    builder = asking(control)
    builder.add_node("last", last)
    builder.add_edge("b", "last")

    with pytest.raises(GraphDrained, match="bye"):
        drive.stream(compiled(builder), {}, control=control)
    assert last.calls == []


@pytest.mark.rule("drain-2")
def test_a_run_that_has_nothing_left_to_do_ends_as_if_it_was_not_asked_to_stop(drive: Drive) -> None:
    control = RunControl()

    def asks(_: Words) -> Update:
        control.request_drain()
        return {"words": ["a"]}

    assert drive.invoke(compiled(alone(asks)), {}, control=control)["words"] == ["a"]


@pytest.mark.rule("drain-2")
def test_a_deferred_node_is_something_left_to_do(drive: Drive) -> None:
    control = RunControl()
    builder = asking(control)
    builder.add_node("later", says("later"), defer=True)
    builder.add_edge("a", "later")

    with pytest.raises(GraphDrained):
        drive.invoke(compiled(builder), {}, control=control)


@pytest.mark.rule("drain-2")
def test_a_run_that_is_asked_to_stop_before_it_begins_keeps_its_input(drive_kept: Drive) -> None:
    node = Flaky()
    control = RunControl()
    control.request_drain()
    graph, config = drive_kept.keeping(alone(node)), thread("drained at once")
    with pytest.raises(GraphDrained, match="shutdown"):
        drive_kept.invoke(graph, {"last": "x"}, config, control=control)
    assert node.calls == []

    assert drive_kept.invoke(graph, None, config) == {"words": ["ok"], "count": 0, "last": "x"}


@pytest.mark.rule("drain-2")
def test_a_node_that_fails_in_the_last_superstep_fails_the_run(drive: Drive) -> None:
    control = RunControl()

    def asks_and_fails(_: Words) -> Update:
        control.request_drain()
        raise LookupError("failed")

    with pytest.raises(LookupError, match="failed"):
        drive.invoke(compiled(alone(asks_and_fails)), {}, control=control)


@pytest.mark.rule("drain-3")
def test_a_switch_says_whether_and_why_it_was_used() -> None:
    control = RunControl()
    assert (control.drain_requested, control.drain_reason) == (False, None)

    control.request_drain("lunch")
    assert (control.drain_requested, control.drain_reason) == (True, "lunch")


@pytest.mark.rule("drain-3")
@pytest.mark.ours_only("there, the last reason counts")
def test_of_several_reasons_the_first_counts() -> None:
    control = RunControl()
    control.request_drain("lunch")
    control.request_drain("dinner")

    assert control.drain_reason == "lunch"
