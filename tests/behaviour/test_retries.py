"""Retry policies: which failures are tried again, how often, after how long, and what stays of a failed attempt."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import asyncio
import time
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled
from tests.behaviour.states import Flaky, Update, Words, alone, chain, gives, says

from phalanx.constants import START
from phalanx.graph import StateGraph
from phalanx.types import Command, RetryPolicy, Send, default_retry_on


def soon(**fields: Any) -> RetryPolicy:
    """A policy that hardly waits."""
    every: dict[str, Any] = {"initial_interval": 0.001, "jitter": False, "retry_on": Exception, **fields}
    return RetryPolicy(**every)


class UnknownTroubleError(Exception):
    """An error of a kind that no policy knows."""


@pytest.mark.rule("retry-1")
def test_a_failed_task_is_tried_again_until_it_succeeds(drive: Drive) -> None:
    node = Flaky(ValueError, ValueError)

    assert drive.invoke(compiled(alone(node, retry_policy=soon())), {})["words"] == ["ok"]
    assert len(node.calls) == 3


@pytest.mark.rule("retry-1")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_coroutine_node_is_tried_again_too(drive: Drive) -> None:
    flaky = Flaky(ValueError, ValueError)

    async def node(state: Words) -> Any:
        await asyncio.sleep(0)
        return flaky(state)

    assert drive.invoke(compiled(alone(node, retry_policy=soon())), {})["words"] == ["ok"]
    assert len(flaky.calls) == 3


@pytest.mark.rule("retry-1")
def test_without_a_policy_nothing_is_tried_again(drive: Drive) -> None:
    node = Flaky(ConnectionError)

    with pytest.raises(ConnectionError, match="not yet"):
        drive.invoke(compiled(alone(node)), {})
    assert len(node.calls) == 1


@pytest.mark.rule("retry-2")
@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_the_number_of_attempts_counts_the_first_try(drive: Drive, attempts: int) -> None:
    node = Flaky(*[ValueError] * 9)

    with pytest.raises(ValueError, match="not yet"):
        drive.invoke(compiled(alone(node, retry_policy=soon(max_attempts=attempts))), {})
    assert len(node.calls) == attempts


@pytest.mark.rule("retry-2")
def test_a_policy_has_defaults() -> None:
    assert RetryPolicy() == RetryPolicy(0.5, 2.0, 128.0, 3, True, default_retry_on)


@pytest.mark.rule("retry-3")
@pytest.mark.parametrize(("error", "attempts"), [(KeyError, 2), (ValueError, 4), (OSError, 1)])
def test_the_first_policy_that_matches_decides(drive: Drive, error: type[Exception], attempts: int) -> None:
    policies = [
        soon(retry_on=KeyError, max_attempts=2),
        soon(retry_on=(LookupError, ValueError), max_attempts=4),
        soon(retry_on=ValueError, max_attempts=8),
    ]
    node = Flaky(*[error] * 9)

    with pytest.raises(error):
        drive.invoke(compiled(alone(node, retry_policy=policies)), {})
    assert len(node.calls) == attempts


@pytest.mark.rule("retry-3")
@pytest.mark.parametrize(
    "retry_on",
    [LookupError, [ValueError, LookupError], (LookupError,), lambda error: "not yet" in str(error)],
    ids=["a class", "a list", "a tuple", "a predicate"],
)
def test_what_is_tried_again_is_said_by_classes_or_a_predicate(drive: Drive, retry_on: Any) -> None:
    node = Flaky(KeyError)

    assert drive.invoke(compiled(alone(node, retry_policy=soon(retry_on=retry_on))), {})["words"] == ["ok"]


@pytest.mark.rule("retry-3")
@pytest.mark.parametrize(
    "retry_on",
    [ValueError, [ValueError, OSError], lambda error: "other" in str(error)],
    ids=["a class", "a list", "a predicate"],
)
def test_what_no_policy_asks_for_is_not_tried_again(drive: Drive, retry_on: Any) -> None:
    node = Flaky(KeyError)

    with pytest.raises(KeyError):
        drive.invoke(compiled(alone(node, retry_policy=soon(retry_on=retry_on))), {})
    assert len(node.calls) == 1


@pytest.mark.rule("retry-3")
def test_what_is_no_class_and_no_predicate_is_refused(drive: Drive) -> None:
    with pytest.raises(TypeError, match="retry_on must be an Exception class"):
        drive.invoke(compiled(alone(Flaky(KeyError), retry_policy=soon(retry_on=5))), {})


@pytest.mark.rule("retry-4")
def test_each_wait_is_longer_by_the_factor(drive: Drive) -> None:
    node = Flaky(ValueError, ValueError, ValueError)
    policy = soon(initial_interval=0.01, backoff_factor=3, max_attempts=4)
    drive.invoke(compiled(alone(node, retry_policy=policy)), {})
    waits = [after - before for before, after in zip(node.times, node.times[1:], strict=False)]

    assert [wait >= least for wait, least in zip(waits, (0.01, 0.03, 0.09), strict=True)] == [True] * 3, waits


@pytest.mark.rule("retry-4")
def test_no_wait_is_longer_than_the_longest_interval(drive: Drive) -> None:
    """Without it the second wait would be of a hundred seconds."""
    node = Flaky(ValueError, ValueError)
    policy = soon(initial_interval=0.01, backoff_factor=10_000, max_interval=0.02)
    drive.invoke(compiled(alone(node, retry_policy=policy)), {})

    assert 0.02 <= node.times[2] - node.times[1] < 50


@pytest.mark.rule("retry-4")
def test_jitter_adds_up_to_a_second_to_each_wait(drive: Drive) -> None:
    """Four waits within 30 ms, out of a second, is one chance in a million."""
    failed: dict[int, float] = {}
    waits: list[float] = []

    def works(number: int) -> Update:
        if number not in failed:
            failed[number] = time.monotonic()
            raise UnknownTroubleError
        waits.append(time.monotonic() - failed[number])
        return {"count": 1}

    builder = StateGraph(Words)
    builder.add_node("works", works, retry_policy=RetryPolicy(initial_interval=0.0, jitter=True))
    builder.add_conditional_edges(START, gives([Send("works", number) for number in range(4)]))

    assert drive.invoke(compiled(builder), {})["count"] == 4
    assert max(waits) > 0.03


@pytest.mark.rule("retry-5")
def test_nothing_that_a_failed_attempt_wrote_is_kept(drive: Drive) -> None:
    """The node has written when its path fails; both are one task."""
    path = Flaky(ValueError, answer="b")
    builder = alone(says("a"), retry_policy=soon())
    builder.add_node("b", says("b"))
    builder.add_conditional_edges("a", lambda state: path(state))

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "b"]
    assert len(path.calls) == 2


@pytest.mark.rule("retry-5")
def test_updates_of_a_failed_attempt_are_not_streamed(drive: Drive) -> None:
    node = Flaky(ValueError)

    assert drive.stream(compiled(alone(node, retry_policy=soon())), {}) == [{"a": {"words": ["ok"]}}]


@pytest.mark.rule("retry-6")
def test_every_attempt_reads_the_same_state(drive: Drive) -> None:
    node = Flaky(ValueError, ValueError)
    builder = chain("first")
    builder.add_node("a", node, retry_policy=soon())
    builder.add_edge("first", "a")
    drive.invoke(compiled(builder), {"last": "x"})

    assert node.calls == [{"words": ["first"], "count": 0, "last": "x"}] * 3


@pytest.mark.rule("retry-6")
def test_packets_are_tried_again_one_by_one(drive: Drive) -> None:
    calls: list[int] = []

    def works(number: int) -> Update:
        calls.append(number)
        if number == 1 and calls.count(1) < 3:
            raise UnknownTroubleError
        return {"words": [str(number)]}

    builder = StateGraph(Words)
    builder.add_node("works", works, retry_policy=soon())
    builder.add_conditional_edges(START, gives([Send("works", number) for number in range(3)]))

    assert drive.invoke(compiled(builder), {})["words"] == ["0", "1", "2"]
    assert sorted(calls) == [0, 1, 1, 1, 2]


@pytest.mark.rule("retry-6")
def test_tasks_beside_a_retried_one_run_once(drive: Drive) -> None:
    flaky, calm = Flaky(ValueError, ValueError), Flaky()
    builder = alone(flaky, retry_policy=soon())
    builder.add_node("calm", calm)
    builder.add_edge(START, "calm")

    assert drive.invoke(compiled(builder), {})["words"] == ["ok", "ok"]
    assert len(calm.calls) == 1


# --- what is worth another try ----------------------------------------------------------------------------------------


@pytest.mark.rule("retry-7")
@pytest.mark.parametrize(
    "error",
    [
        *(ConnectionError, ConnectionResetError, BrokenPipeError, UnknownTroubleError, Exception, EOFError),
        *(MemoryError, AssertionError, BufferError),
    ],
)
def test_lost_connections_and_errors_of_unknown_kinds_are_worth_another_try(error: type[Exception]) -> None:
    assert default_retry_on(error("x"))


@pytest.mark.rule("retry-7")
@pytest.mark.parametrize(
    "error",
    [
        *(ValueError, TypeError, ArithmeticError, ZeroDivisionError, ImportError, LookupError, KeyError, NameError),
        *(SyntaxError, RuntimeError, NotImplementedError, RecursionError, ReferenceError, StopIteration),
        *(StopAsyncIteration, OSError, FileNotFoundError, PermissionError, TimeoutError),
    ],
)
def test_mistakes_in_code_and_data_are_not_worth_another_try(error: type[Exception]) -> None:
    assert not default_retry_on(error("x"))


@pytest.mark.rule("retry-7")
@pytest.mark.parametrize(("status", "again"), [(500, True), (503, True), (599, True), (404, False), (429, False)])
def test_a_server_s_trouble_is_worth_another_try_and_a_refusal_is_not(status: int, again: bool) -> None:
    httpx: Any = pytest.importorskip("httpx")
    response = httpx.Response(status, request=httpx.Request("GET", "http://localhost"))

    assert default_retry_on(httpx.HTTPStatusError("x", request=response.request, response=response)) is again


@pytest.mark.rule("retry-7")
@pytest.mark.ours_only("there, a refusal told by requests is tried again, since such a response counts as false")
@pytest.mark.parametrize(("status", "again"), [(500, True), (503, True), (404, False), (429, False)])
def test_so_it_is_with_the_other_client_library(status: int, again: bool) -> None:
    requests: Any = pytest.importorskip("requests")
    response = requests.Response()
    response.status_code = status

    assert default_retry_on(requests.HTTPError("x", response=response)) is again


@pytest.mark.rule("retry-7")
@pytest.mark.parametrize(("error", "attempts"), [(ConnectionError, 2), (UnknownTroubleError, 2), (ValueError, 1)])
def test_a_policy_that_does_not_say_what_to_retry_retries_what_is_worth_it(
    drive: Drive, error: type[Exception], attempts: int
) -> None:
    node = Flaky(*[error] * 9)
    policy = RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=2)

    with pytest.raises(error):
        drive.invoke(compiled(alone(node, retry_policy=policy)), {})
    assert len(node.calls) == attempts


# --- graphs in retried nodes ------------------------------------------------------------------------------------------


@pytest.mark.rule("retry-8")
def test_a_retried_node_runs_the_graph_in_it_from_its_first_node(drive: Drive) -> None:
    first, second = Flaky(answer={"words": ["first"]}), Flaky(ValueError, answer={"words": ["second"]})
    inner = alone(first)
    inner.add_node("second", second)
    inner.add_edge("a", "second")
    builder = chain("before")
    builder.add_node("inner", inner.compile(), retry_policy=soon())
    builder.add_edge("before", "inner")

    assert drive.invoke(compiled(builder), {})["words"] == ["before", "before", "first", "second"]
    assert len(first.calls) == len(second.calls) == 2


@pytest.mark.rule("retry-8")
def test_a_policy_in_an_inner_graph_retries_there(drive: Drive) -> None:
    first, second = Flaky(answer={"words": ["first"]}), Flaky(ValueError, answer={"words": ["second"]})
    inner = alone(first)
    inner.add_node("second", second, retry_policy=soon())
    inner.add_edge("a", "second")
    builder = chain("before")
    builder.add_node("inner", inner.compile())
    builder.add_edge("before", "inner")

    assert drive.invoke(compiled(builder), {})["words"] == ["before", "before", "first", "second"]
    assert (len(first.calls), len(second.calls)) == (1, 2)


@pytest.mark.rule("retry-9")
def test_a_command_for_the_graph_above_is_no_failure_to_retry(drive: Drive) -> None:
    node = Flaky(answer=Command[str](graph=Command.PARENT, update={"words": ["up"]}))
    builder = chain("before")
    builder.add_node("inner", alone(node, retry_policy=soon()).compile(), retry_policy=soon())
    builder.add_edge("before", "inner")

    assert drive.invoke(compiled(builder), {})["words"] == ["before", "up"]
    assert len(node.calls) == 1


@pytest.mark.rule("retry-9")
def test_the_last_error_is_the_one_that_is_raised_and_says_which_task_it_came_from(drive: Drive) -> None:
    node = Flaky(KeyError, ValueError, LookupError)

    with pytest.raises(LookupError) as caught:
        drive.invoke(compiled(alone(node, retry_policy=soon())), {})
    assert type(caught.value) is LookupError
    assert any("During task with name 'a' and id '" in note for note in caught.value.__notes__)
