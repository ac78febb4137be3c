"""Timeouts: how long one attempt of a task may take, in all or between two signs of life."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled
from tests.behaviour.states import Update, Words, alone, fan_out, gives, says

from phalanx.constants import START
from phalanx.errors import NodeTimeoutError
from phalanx.graph import StateGraph
from phalanx.runtime import Runtime
from phalanx.types import RetryPolicy, Send, StreamWriter, TimeoutPolicy

SOON = RetryPolicy(initial_interval=0.001, jitter=False)


async def hangs(_: Words) -> Update:
    """It never ends by itself."""
    await asyncio.Event().wait()
    return {}


async def at_once(_: Words) -> Update:
    """It takes no time."""
    return {"words": ["done"]}


class Hanging:
    """A coroutine node that hangs some times and then answers."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.calls = 0

    async def __call__(self, _: Words) -> Update:
        self.calls += 1
        if self.calls <= self.times:
            await asyncio.Event().wait()
        return {"words": ["done"]}


@pytest.mark.rule("timeout-1")
@pytest.mark.not_on("inline", "coroutine_nodes")
@pytest.mark.parametrize(
    "timeout",
    [
        0.02,
        timedelta(milliseconds=20),
        TimeoutPolicy(run_timeout=0.02),
        TimeoutPolicy(run_timeout=timedelta(milliseconds=20)),
    ],
    ids=["seconds", "a timedelta", "a policy", "a policy with a timedelta"],
)
def test_a_node_that_takes_too_long_fails_and_says_how_long_it_had(drive: Drive, timeout: Any) -> None:
    with pytest.raises(NodeTimeoutError, match=r"^Node 'a' exceeded its run timeout of 0\.020s") as caught:
        drive.invoke(compiled(alone(hangs, timeout=timeout)), {})

    error = caught.value
    assert (error.node, error.kind, error.run_timeout, error.idle_timeout) == ("a", "run", 0.02, None)
    assert error.timeout == 0.02
    assert error.elapsed >= 0.02


@pytest.mark.rule("timeout-1")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_node_that_is_in_time_is_not_disturbed(drive: Drive) -> None:
    assert drive.invoke(compiled(alone(at_once, timeout=60)), {})["words"] == ["done"]


@pytest.mark.rule("timeout-1")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_timeout_is_the_node_s_alone(drive: Drive) -> None:
    """The node beside it takes as long as it likes."""

    async def slow(_: Words) -> Update:
        await asyncio.sleep(0.3)
        return {"words": ["slow"]}

    builder = alone(at_once, timeout=0.2)
    builder.add_node("slow", slow)
    builder.add_edge(START, "slow")

    assert drive.invoke(compiled(builder), {})["words"] == ["done", "slow"]


@pytest.mark.rule("timeout-1")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_timeout_error_of_the_node_s_own_is_not_the_engine_s(drive: Drive) -> None:
    async def gives_up(_: Words) -> Update:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine") as caught:
        drive.invoke(compiled(alone(gives_up, timeout=60)), {})
    assert type(caught.value) is TimeoutError


@pytest.mark.rule("timeout-1")
def test_running_out_of_time_is_no_error_of_the_operating_system() -> None:
    """Or it would not be worth another try."""
    assert not issubclass(NodeTimeoutError, OSError)


@pytest.mark.rule("timeout-2")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_running_out_of_time_is_tried_again_by_default(drive: Drive) -> None:
    node = Hanging(times=1)

    assert drive.invoke(compiled(alone(node, timeout=0.2, retry_policy=SOON)), {})["words"] == ["done"]
    assert node.calls == 2


@pytest.mark.rule("timeout-2")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_each_attempt_has_its_full_time(drive: Drive) -> None:
    """Two attempts hang for their whole time, and the third still has some."""
    node = Hanging(times=2)

    assert drive.invoke(compiled(alone(node, timeout=0.2, retry_policy=SOON)), {})["words"] == ["done"]
    assert node.calls == 3


@pytest.mark.rule("timeout-3")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_an_attempt_that_ran_out_of_time_loses_what_it_wrote(drive: Drive) -> None:
    """The node has written when its path hangs; both are one task."""
    calls: list[int] = []

    async def path(_: Words) -> str:
        calls.append(1)
        if len(calls) == 1:
            await asyncio.Event().wait()
        return "b"

    builder = alone(at_once, timeout=0.2, retry_policy=SOON)
    builder.add_node("b", says("b"))
    builder.add_conditional_edges("a", path)

    assert drive.invoke(compiled(builder), {})["words"] == ["done", "b"]
    assert len(calls) == 2


@pytest.mark.rule("timeout-3")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_an_attempt_that_ran_out_of_time_is_cancelled(drive: Drive) -> None:
    ended: list[str] = []

    async def cleans_up(_: Words) -> Update:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cleaned")
        return {}

    with pytest.raises(NodeTimeoutError):
        drive.invoke(compiled(alone(cleans_up, timeout=0.02)), {})
    assert ended == ["cleaned"]


# --- signs of life ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("timeout-4")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_node_without_a_sign_of_life_fails(drive: Drive) -> None:
    with pytest.raises(NodeTimeoutError, match=r"^Node 'a' exceeded its idle timeout of 0\.020s") as caught:
        drive.invoke(compiled(alone(hangs, timeout=TimeoutPolicy(idle_timeout=0.02))), {})

    error = caught.value
    assert (error.kind, error.idle_timeout, error.run_timeout) == ("idle", 0.02, None)
    assert error.timeout == 0.02


@pytest.mark.rule("timeout-4")
@pytest.mark.not_on("inline", "coroutine_nodes")
@pytest.mark.parametrize("refresh_on", ["auto", "heartbeat"])
def test_heartbeats_are_signs_of_life(drive: Drive, refresh_on: Any) -> None:
    """Six times a tenth of a second is longer than a third of one."""

    async def beats(_: Words, runtime: Runtime) -> Update:
        for _number in range(6):
            await asyncio.sleep(0.1)
            runtime.heartbeat()
        return {"words": ["done"]}

    policy = TimeoutPolicy(idle_timeout=0.35, refresh_on=refresh_on)

    assert drive.invoke(compiled(alone(beats, timeout=policy)), {})["words"] == ["done"]


@pytest.mark.rule("timeout-4")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_what_a_node_streams_is_a_sign_of_life(drive: Drive) -> None:
    async def tells(_: Words, writer: StreamWriter) -> Update:
        for number in range(6):
            await asyncio.sleep(0.1)
            writer(number)
        return {"words": ["done"]}

    assert drive.invoke(compiled(alone(tells, timeout=TimeoutPolicy(idle_timeout=0.35))), {})["words"] == ["done"]


@pytest.mark.rule("timeout-4")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_where_only_heartbeats_count_what_a_node_streams_does_not(drive: Drive) -> None:
    async def tells(_: Words, writer: StreamWriter) -> Update:
        while True:
            await asyncio.sleep(0.01)
            writer("here")

    graph = compiled(alone(tells, timeout=TimeoutPolicy(idle_timeout=0.1, refresh_on="heartbeat")))

    with pytest.raises(NodeTimeoutError, match="idle timeout"):
        drive.invoke(graph, {})


@pytest.mark.rule("timeout-4")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_signs_of_life_do_not_extend_the_time_in_all(drive: Drive) -> None:
    async def beats(_: Words, runtime: Runtime) -> Update:
        while True:
            await asyncio.sleep(0.005)
            runtime.heartbeat()

    with pytest.raises(NodeTimeoutError, match="run timeout"):
        drive.invoke(compiled(alone(beats, timeout=TimeoutPolicy(run_timeout=0.1, idle_timeout=10))), {})


@pytest.mark.rule("timeout-4")
def test_without_a_timeout_a_heartbeat_does_nothing(drive: Drive) -> None:
    def beats(_: Words, runtime: Runtime) -> Update:
        runtime.heartbeat()
        return {"words": ["done"]}

    assert drive.invoke(compiled(alone(beats)), {})["words"] == ["done"]


# --- packets ----------------------------------------------------------------------------------------------------------


def sending(packet: Send, **options: Any) -> StateGraph[Words]:
    builder = StateGraph(Words)
    builder.add_node("a", hangs, **options)
    builder.add_conditional_edges(START, gives(packet))
    return builder


@pytest.mark.rule("timeout-5")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_packet_s_timeout_replaces_its_node_s(drive: Drive) -> None:
    with pytest.raises(NodeTimeoutError, match=r"run timeout of 0\.020s"):
        drive.invoke(compiled(sending(Send("a", {}, timeout=0.02), timeout=60)), {})


@pytest.mark.rule("timeout-5")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_packet_without_a_timeout_has_its_node_s(drive: Drive) -> None:
    with pytest.raises(NodeTimeoutError, match=r"run timeout of 0\.020s"):
        drive.invoke(compiled(sending(Send("a", {}), timeout=0.02)), {})


@pytest.mark.rule("timeout-5")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_packet_may_have_more_time_than_its_node_allows(drive: Drive) -> None:
    async def slow(_: object) -> Update:
        await asyncio.sleep(0.05)
        return {"words": ["slow"]}

    builder = StateGraph(Words)
    builder.add_node("a", slow, timeout=0.01)
    builder.add_conditional_edges(START, gives(Send("a", {}, timeout=60)))

    assert drive.invoke(compiled(builder), {})["words"] == ["slow"]


@pytest.mark.rule("timeout-5")
def test_packets_with_other_timeouts_are_other_packets() -> None:
    assert Send("a", 1, timeout=1) == Send("a", 1, timeout=TimeoutPolicy(run_timeout=1))
    assert Send("a", 1, timeout=1) != Send("a", 1)
    assert Send("a", 1).timeout is None


# --- what is no timeout -----------------------------------------------------------------------------------------------


@pytest.mark.rule("timeout-6")
@pytest.mark.parametrize(
    ("timeout", "message"),
    [
        (0, "run_timeout must be greater than 0"),
        (-1.5, "run_timeout must be greater than 0"),
        (timedelta(0), "run_timeout must be greater than 0"),
        (TimeoutPolicy(idle_timeout=-1), "idle_timeout must be greater than 0"),
    ],
    ids=repr,
)
def test_a_time_that_is_not_greater_than_zero_is_refused(timeout: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        alone(at_once, timeout=timeout).compile()
    with pytest.raises(ValueError, match=message):
        Send("a", 1, timeout=timeout)


# --- nodes that are no coroutines -------------------------------------------------------------------------------------


@pytest.mark.rule("timeout-7")
@pytest.mark.ours_only("there, a node that is no coroutine function cannot have a timeout")
def test_a_synchronous_node_that_takes_too_long_fails_too(drive: Drive) -> None:
    release = threading.Event()

    def hangs_in_a_thread(_: Words) -> Update:
        release.wait(20)
        return {}

    try:
        with pytest.raises(NodeTimeoutError, match=r"^Node 'a' exceeded its run timeout of 0\.050s"):
            drive.invoke(compiled(alone(hangs_in_a_thread, timeout=0.05)), {})
    finally:
        release.set()


@pytest.mark.rule("timeout-7")
@pytest.mark.ours_only("there, a node that is no coroutine function cannot have a timeout")
def test_what_a_synchronous_node_returns_too_late_is_lost(drive: Drive) -> None:
    calls: list[int] = []
    release = threading.Event()

    def late_once(_: Words) -> Update:
        calls.append(1)
        if len(calls) == 1:
            release.wait(20)
            return {"words": ["late"]}
        return {"words": ["in time"]}

    builder = alone(late_once, timeout=0.2, retry_policy=SOON)
    builder.add_node("b", lambda _: release.set())
    builder.add_edge("a", "b")
    try:
        assert drive.invoke(compiled(builder), {})["words"] == ["in time"]
    finally:
        release.set()
    assert len(calls) == 2


@pytest.mark.rule("timeout-7")
@pytest.mark.ours_only("there, a node that is no coroutine function cannot have a timeout")
def test_a_synchronous_node_in_time_is_not_disturbed(drive: Drive) -> None:
    builder = fan_out("x")
    builder.add_node("a", says("a"), timeout=60)
    builder.add_edge(START, "a")

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "x"]
