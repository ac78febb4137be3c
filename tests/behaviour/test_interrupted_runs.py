"""Runs that are left, run out of time or meet a changed graph: what their threads show, and how they go on."""

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Flaky, Update, Words, alone, chain, fan_out, gives, says

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.constants import START
from phalanx.errors import NodeCancelledError, NodeError
from phalanx.graph import StateGraph
from phalanx.runtime import RunControl, Runtime
from phalanx.testing.in_process import InProcessCluster
from phalanx.types import RetryPolicy, Send


def test_a_thread_whose_reader_left_shows_what_is_done_and_what_comes_next() -> None:
    graph, config = chain("a", "b").compile(InMemorySaver()), thread("left")
    updates = graph.stream({}, config)
    assert next(updates) == {"a": {"words": ["a"]}}
    updates.close()  # type: ignore[attr-defined]

    state = graph.get_state(config)
    assert (state.next, state.values["words"]) == (("b",), ["a"])
    assert graph.invoke(None, config)["words"] == ["a", "b"]
    assert graph.get_state(config).next == ()


def test_a_thread_whose_reader_left_in_a_loop_shows_that_it_goes_round_again() -> None:
    builder = chain("a")
    builder.add_edge("a", "a")
    graph, config = builder.compile(InMemorySaver()), thread("left in a loop")
    updates = graph.stream({}, config)
    for _ in range(3):
        next(updates)
    updates.close()  # type: ignore[attr-defined]

    assert graph.get_state(config).next == ("a",)


def test_a_run_on_a_cluster_that_is_cancelled_applies_nothing_more(cluster: InProcessCluster) -> None:
    began, go = threading.Event(), threading.Event()

    def slow(_: Words) -> Update:
        began.set()
        assert go.wait(20)
        return {"words": ["slow"]}

    builder = chain("a")
    builder.add_node("slow", slow)
    builder.add_edge("a", "slow")
    graph = builder.compile(name="cancelled").with_cluster(cluster)
    config = thread("cancelled on a cluster")

    async def cancel() -> None:
        run = asyncio.ensure_future(graph.ainvoke({}, config))
        await asyncio.to_thread(began.wait, 20)
        run.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(cancel())
    history = [state.values.get("words") for state in graph.get_state_history(config)]
    assert history[0] == ["a"]
    assert graph.invoke(None, config)["words"] == ["a", "slow"]


def test_a_thread_whose_superstep_ran_out_of_time_goes_on_although_the_node_still_hangs(drive_kept: Drive) -> None:
    release, calls = threading.Event(), list[int]()

    def hangs_once(_: Words) -> Update:
        calls.append(1)
        if len(calls) == 1:
            release.wait(3)
        return {"words": ["done"]}

    graph, config = drive_kept.keeping(alone(hangs_once)), thread("out of time, again")
    graph.step_timeout = 0.3
    try:
        with pytest.raises(TimeoutError):
            drive_kept.invoke(graph, {}, config)
        graph.step_timeout = 20.0
        assert drive_kept.invoke(graph, None, config)["words"] == ["done"]
    finally:
        release.set()


def test_a_task_whose_error_handler_is_there_no_more_runs_again(drive_kept: Drive) -> None:
    def fails(_: object) -> Update:
        raise ValueError("old code")

    def handler(_: Words, error: NodeError) -> Update:
        raise KeyError(error.node)

    before, config = drive_kept.keeping(alone(fails, error_handler=handler)), thread("without its handler")
    with pytest.raises(KeyError):
        drive_kept.invoke(before, {}, config)
    after = drive_kept.keeping(alone(says("new code")))
    after.checkpointer = before.checkpointer
    assert drive_kept.invoke(after, None, config)["words"] == ["new code"]


def test_what_a_node_sets_in_its_context_is_its_own(drive: Drive) -> None:
    mine: contextvars.ContextVar[str] = contextvars.ContextVar("mine", default="unset")

    def sets(_: Words) -> Update:
        mine.set("by the node")
        return {"words": [mine.get()]}

    assert drive.invoke(compiled(alone(sets)), {})["words"] == ["by the node"]
    assert mine.get() == "unset"


@pytest.mark.ours_only("there any reason will do")
@pytest.mark.parametrize("reason", [5, None, b"x"], ids=repr)
def test_a_reason_to_stop_must_be_a_text_and_a_wrong_one_costs_no_thread(drive_kept: Drive, reason: Any) -> None:
    def asks(_: Words, runtime: Runtime) -> Update:
        assert runtime.control is not None
        runtime.control.request_drain(reason)
        return {"words": ["a"]}

    node = Flaky()
    builder = alone(asks)
    builder.add_node("b", node)
    graph, config = drive_kept.keeping(builder), thread(f"a wrong reason {reason!r}")
    with pytest.raises(TypeError, match="reason to drain must be a text"):
        drive_kept.invoke(graph, {}, config)
    assert drive_kept.get_state(graph, config).next == ("a",)


def test_a_coroutine_that_cancels_itself_beside_another_ends_the_run() -> None:
    async def cancels_itself(_: Words) -> Update:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(10)
        return {}

    builder = fan_out("b")
    builder.add_node("a", cancels_itself)
    builder.add_edge(START, "a")

    async def run() -> None:
        async with asyncio.timeout(20):
            await builder.compile().ainvoke({})

    with pytest.raises((NodeCancelledError, asyncio.CancelledError)):
        asyncio.run(run())


@pytest.mark.ours_only("there an attempt costs several tasks of the event loop")
def test_many_retries_on_an_event_loop_start_no_more_tasks_than_there_is_work() -> None:
    started = 0

    async def flaky(number: int, runtime: Runtime) -> Update:
        nonlocal started
        started += 1
        assert runtime.execution_info is not None
        if runtime.execution_info.node_attempt <= number % 3:
            raise ConnectionError
        return {"count": 1}

    builder = StateGraph(Words)
    builder.add_node("flaky", flaky, retry_policy=RetryPolicy(initial_interval=0.001, jitter=False))
    builder.add_conditional_edges(START, gives([Send("flaky", number) for number in range(600)]))

    async def run() -> tuple[Any, int]:
        most, loop = 0, asyncio.get_running_loop()
        made = asyncio.tasks.Task

        def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
            nonlocal most
            most += 1
            return made(coroutine, loop=loop, **options)

        loop.set_task_factory(factory)
        return await builder.compile().ainvoke({}), most

    result, tasks = asyncio.run(run())
    assert result["count"] == 600
    assert started == 1200
    assert tasks <= 2 * started


def test_a_run_asked_to_stop_before_it_began_does_nothing(drive: Drive) -> None:
    control, node = RunControl(), Flaky()
    control.request_drain()
    with pytest.raises(Exception, match="Graph drained: shutdown"):
        drive.invoke(compiled(alone(node)), {}, control=control)
    assert node.calls == []
