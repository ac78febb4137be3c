"""One attempt of one task: its input, the cache, its time limit, and whether another is to follow."""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest
from tests.unit.blueprints import graph

from phalanx.cache.base import BaseCache, FullKey, Namespace
from phalanx.errors import GraphBubbleUp, NodeCancelledError, NodeTimeoutError, UnserializableError
from phalanx.protocol.names import NO_WRITES
from phalanx.runtime import Runtime, get_runtime
from phalanx.types import CachePolicy, RetryPolicy, TimeoutPolicy, Update
from phalanx.worker.attempt import Attempt, Ended, Raised, Wrote
from phalanx.worker.blueprint import Node, Policies, Reader
from phalanx.worker.call_on_loop import attempt_on_loop
from phalanx.worker.functions import UserFunction
from phalanx.worker.run_task import StateView
from phalanx.worker.task_context import RunContext, TaskContext

LONG_S: Final = 20.0
SHORT_S: Final = 0.02
NOTE: Final = "During task with name 'n' and id 'id'"
Function = Callable[..., object]
Run = Callable[[Attempt], Ended]


class DictCache(BaseCache[Any]):
    """Remembers in a dict, and notes what it is asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[FullKey, Any] = {}
        self.ttls: list[int | None] = []
        self.broken = ""

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
        if self.broken == "get":
            raise ConnectionError("the cache is gone")
        return {key: self.entries[key] for key in keys if key in self.entries}

    def set(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        if self.broken == "set":
            raise ConnectionError("the cache is gone")
        for key, (value, ttl) in pairs.items():
            self.entries[key] = value
            self.ttls.append(ttl)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self.entries.clear()


class Counting:
    """A node that counts its executions and writes what it is given; it raises if told to."""

    def __init__(self, *errors: BaseException) -> None:
        self.calls: list[object] = []
        self._errors = [*errors]

    def __call__(self, state: object) -> object:
        self.calls.append(state)
        if self._errors:
            raise self._errors.pop(0)
        return {"value": state}


def writes_of(output: object) -> list[Update]:
    return [*output.items()] if isinstance(output, dict) else []  # pyright: ignore


def attempt(
    action: Function | None,
    *,
    policies: Policies | None = None,
    cache: BaseCache[Any] | None = None,
    retry: tuple[RetryPolicy, ...] = (),
    timeout: TimeoutPolicy | None = None,
    given: object = "input",
    number: int = 1,
    killable: bool = False,
) -> Attempt:
    actions = () if action is None else (UserFunction.of(action),)
    node = Node("n", ("to:n",), Reader(()), actions, writes_of, policies=policies or Policies())
    context = TaskContext(RunContext({}), "n", "id", ("__pregel_push", 0), ("__pregel_push",), 1, attempt=number)
    context.first_attempt_at = 17.5
    blueprint = replace(graph(node), cache=cache, retry=retry)
    return Attempt(blueprint, node, StateView({}), context, lambda: given, timeout, killable)


def here(made: Attempt) -> Ended:
    return made.run_here()


def on_loop(made: Attempt) -> Ended:
    return asyncio.run(attempt_on_loop(made))


@pytest.fixture(params=[here, on_loop], ids=["here", "on a loop"])
def run(request: pytest.FixtureRequest) -> Run:
    """Each way to run an attempt."""
    made: Run = request.param
    return made


def raised(ended: Ended) -> Raised:
    assert isinstance(ended, Raised)
    return ended


# --- how it ends ------------------------------------------------------------------------------------------------------


def test_an_attempt_that_comes_to_its_end_wrote(run: Run) -> None:
    assert run(attempt(Counting())) == Wrote([("value", "input")])


def test_an_attempt_that_fails_says_whose_task_it_was_and_without_a_policy_it_was_the_last(run: Run) -> None:
    error = ValueError("no")

    ended = raised(run(attempt(Counting(error))))

    assert ended == Raised(error)
    assert error.__notes__ == [NOTE]


def test_an_argument_that_cannot_be_had_fails_the_attempt(run: Run) -> None:
    def broken() -> object:
        raise KeyError("gone")

    node = Counting()
    made = attempt(node)
    made.arg = broken

    assert isinstance(raised(run(made)).error, KeyError)
    assert node.calls == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)], ids=repr)
def test_what_is_no_error_of_the_node_goes_through(error: BaseException) -> None:
    with pytest.raises(type(error)):
        attempt(Counting(error)).run_here()


# --- again ------------------------------------------------------------------------------------------------------------


def policy(**fields: Any) -> RetryPolicy:
    given_fields: dict[str, Any] = {"jitter": False, "retry_on": Exception, "initial_interval": 2.0, **fields}
    return RetryPolicy(**given_fields)


def test_a_failed_attempt_that_its_policy_tries_again_says_when_and_when_the_first_began(run: Run) -> None:
    error = ValueError("no")

    ended = run(attempt(Counting(error), policies=Policies(retry=(policy(),)), number=2))

    assert ended == Raised(error, 4.0, 17.5)


def test_the_last_attempt_is_not_followed_by_another(run: Run) -> None:
    ended = run(attempt(Counting(ValueError()), policies=Policies(retry=(policy(max_attempts=3),)), number=3))

    assert raised(ended).retry_after_s is None


def test_a_wait_of_no_time_is_another_attempt_all_the_same(run: Run) -> None:
    made = attempt(Counting(ValueError()), policies=Policies(retry=(policy(initial_interval=0.0),)))

    assert raised(run(made)).retry_after_s == 0.0


def test_the_graph_s_policies_are_for_nodes_that_have_none(run: Run) -> None:
    graph_s = (policy(initial_interval=9.0),)

    alone = raised(run(attempt(Counting(ValueError()), retry=graph_s)))
    own = raised(run(attempt(Counting(ValueError()), retry=graph_s, policies=Policies(retry=(policy(),)))))
    other = policy(retry_on=KeyError)
    never = raised(run(attempt(Counting(ValueError()), retry=graph_s, policies=Policies(retry=(other,)))))

    assert [each.retry_after_s for each in (alone, own, never)] == [9.0, 2.0, None]


def test_jitter_adds_less_than_a_second(run: Run) -> None:
    found = {
        raised(run(attempt(Counting(ValueError()), policies=Policies(retry=(policy(jitter=True),))))).retry_after_s
        for _ in range(5)
    }

    assert all(wait is not None and 2.0 <= wait < 3.0 for wait in found)
    assert len(found) > 1


def test_a_predicate_that_raises_fails_the_task_for_good_and_both_errors_are_told(run: Run) -> None:
    own, first = ZeroDivisionError("in the predicate"), ValueError("in the node")

    def broken(error: Exception) -> bool:
        raise own

    ended = raised(run(attempt(Counting(first), policies=Policies(retry=(policy(retry_on=broken),)))))

    assert ended == Raised(own)
    assert own.__context__ is first
    assert own.__notes__ == first.__notes__ == [NOTE]


def test_a_wrong_retry_on_is_told_and_the_node_s_error_with_it(run: Run) -> None:
    first = ValueError("in the node")

    ended = raised(run(attempt(Counting(first), policies=Policies(retry=(policy(retry_on=5),)))))

    assert isinstance(ended.error, TypeError)
    assert ended.error.__context__ is first
    assert ended.retry_after_s is None


def test_what_is_no_failure_is_not_tried_again(run: Run) -> None:
    ended = raised(run(attempt(Counting(GraphBubbleUp()), policies=Policies(retry=(policy(),)))))

    assert ended.retry_after_s is None


def test_a_coroutine_that_cancels_itself_has_failed_and_is_not_tried_again() -> None:
    async def cancels(state: object) -> object:
        raise asyncio.CancelledError("why")

    ended = raised(on_loop(attempt(cancels, policies=Policies(retry=(policy(),)))))

    assert isinstance(ended.error, NodeCancelledError)
    assert (ended.error.node, ended.error.message, ended.retry_after_s) == ("n", "why", None)


def test_an_attempt_that_is_cancelled_from_outside_is_no_failure() -> None:
    async def both() -> None:
        started = asyncio.Event()

        async def hang(state: object) -> object:
            started.set()
            await asyncio.sleep(LONG_S)
            return state

        running = asyncio.ensure_future(attempt_on_loop(attempt(hang, policies=Policies(retry=(policy(),)))))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(both())


# --- in time ----------------------------------------------------------------------------------------------------------


def test_an_attempt_that_takes_too_long_has_failed_and_is_tried_again_by_the_default_policy() -> None:
    release = threading.Event()

    def hang(state: object) -> object:
        release.wait(LONG_S)
        return state

    ended = raised(here(attempt(hang, timeout=TimeoutPolicy(SHORT_S), policies=Policies(retry=(RetryPolicy(),)))))

    release.set()
    assert isinstance(ended.error, NodeTimeoutError)
    assert ended.error.__notes__ == [NOTE]
    assert ended.retry_after_s is not None


def test_a_coroutine_that_takes_too_long_has_failed_and_is_tried_again_by_the_default_policy() -> None:
    async def hang(state: object) -> object:
        await asyncio.sleep(LONG_S)
        return state

    made = attempt(hang, timeout=TimeoutPolicy(SHORT_S), policies=Policies(retry=(RetryPolicy(),)))
    ended = raised(on_loop(made))

    assert isinstance(ended.error, NodeTimeoutError)
    assert ended.error.__notes__ == [NOTE]
    assert ended.retry_after_s is not None


def test_an_attempt_in_time_wrote_and_its_node_knew_its_task(run: Run) -> None:
    def looks(state: object, runtime: Runtime) -> object:
        return {"same": get_runtime() is runtime, "key": runtime.idempotency_key}

    assert run(attempt(looks, timeout=TimeoutPolicy(LONG_S))) == Wrote([("same", True), ("key", "id")])


def threads_of(made: Attempt, seen: list[int]) -> bool:
    assert isinstance(made.run_here(), Wrote)
    return seen == [threading.get_ident()]


@pytest.mark.parametrize(
    ("timeout", "killable", "stays"),
    [
        (None, False, True),
        (None, True, True),
        (TimeoutPolicy(LONG_S), False, False),
        (TimeoutPolicy(LONG_S), True, True),
        (TimeoutPolicy(None, LONG_S), True, False),
        (TimeoutPolicy(LONG_S, LONG_S), True, False),
    ],
)
def test_a_thread_of_its_own_is_only_for_what_must_be_left_behind(
    timeout: TimeoutPolicy | None, killable: bool, stays: bool
) -> None:
    seen: list[int] = []

    def looks(state: object) -> object:
        seen.append(threading.get_ident())
        return {}

    assert threads_of(attempt(looks, timeout=timeout, killable=killable), seen) is stays


# --- from the cache ---------------------------------------------------------------------------------------------------

CACHED: Final = Policies(cache=CachePolicy(ttl=60))


def test_a_node_is_not_run_again_for_the_same_input(run: Run) -> None:
    cache, node = DictCache(), Counting()

    assert run(attempt(node, cache=cache, policies=CACHED)) == Wrote([("value", "input")])
    assert run(attempt(node, cache=cache, policies=CACHED)) == Wrote([("value", "input")], cached=True)
    assert node.calls == ["input"]
    assert cache.ttls == [60]


def test_a_node_is_run_for_another_input(run: Run) -> None:
    cache, node = DictCache(), Counting()

    for given in ("one", "two"):
        assert run(attempt(node, cache=cache, policies=CACHED, given=given)) == Wrote([("value", given)])
    assert node.calls == ["one", "two"]


def test_that_a_node_wrote_nothing_is_remembered(run: Run) -> None:
    cache = DictCache()
    for cached in (False, True):
        ended = run(attempt(lambda state: None, cache=cache, policies=CACHED))  # pyright: ignore
        assert ended == Wrote([(NO_WRITES, None)], cached=cached)


@pytest.mark.parametrize(("policies", "cache"), [(Policies(), DictCache()), (CACHED, None)])
def test_without_a_policy_or_a_cache_nothing_is_remembered(
    run: Run, policies: Policies, cache: DictCache | None
) -> None:
    node = Counting()

    for _ in range(2):
        assert run(attempt(node, cache=cache, policies=policies)) == Wrote([("value", "input")])
    assert len(node.calls) == 2
    assert cache is None or cache.entries == {}


def test_a_node_without_a_function_has_nothing_to_remember(run: Run) -> None:
    cache = DictCache()

    assert run(attempt(None, cache=cache, policies=CACHED, given={"value": 1})) == Wrote([("value", 1)])
    assert cache.entries == {}


def test_failures_are_not_remembered(run: Run) -> None:
    cache, node = DictCache(), Counting(ValueError("once"))

    assert isinstance(run(attempt(node, cache=cache, policies=CACHED)), Raised)
    assert cache.entries == {}
    assert run(attempt(node, cache=cache, policies=CACHED)) == Wrote([("value", "input")])


def test_a_key_function_is_given_the_input_and_says_what_counts(run: Run) -> None:
    cache, node, asked = DictCache(), Counting(), list[object]()

    def key(given: object) -> str:
        asked.append(given)
        return "always the same"

    policies = Policies(cache=CachePolicy(key_func=key))
    run(attempt(node, cache=cache, policies=policies, given="one"))
    ended = run(attempt(node, cache=cache, policies=policies, given="two"))

    assert ended == Wrote([("value", "one")], cached=True)
    assert asked == ["one", "two"]


def broken_key(given: object) -> str:
    raise KeyError("in the key function")


@pytest.mark.parametrize(
    ("cache_policy", "given", "kind"),
    [
        (CachePolicy(key_func=broken_key), "input", KeyError),
        (CachePolicy(key_func=lambda given: 5), "input", TypeError),  # type: ignore[arg-type, return-value]  # pyright: ignore
        (CachePolicy(), threading.Lock(), UnserializableError),
    ],
    ids=["raises", "wrong type", "no key"],
)
def test_an_input_without_a_key_fails_the_attempt_before_its_node_has_run(
    run: Run, cache_policy: CachePolicy, given: object, kind: type[Exception]
) -> None:
    node = Counting()

    ended = raised(run(attempt(node, cache=DictCache(), policies=Policies(cache=cache_policy), given=given)))

    assert isinstance(ended.error, kind)
    assert ended.error.__notes__ == [NOTE]
    assert node.calls == []


@pytest.mark.parametrize("broken", ["get", "set"])
def test_a_cache_that_is_gone_costs_a_warning_and_not_what_the_node_did(
    run: Run, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    cache, node = DictCache(), Counting()
    cache.broken = broken

    ended = run(attempt(node, cache=cache, policies=replace(CACHED, retry=(policy(),))))

    assert ended == Wrote([("value", "input")])
    assert len(node.calls) == 1
    assert "could not" in caplog.text


def test_what_is_no_list_of_writes_in_the_cache_is_taken_for_nothing(run: Run) -> None:
    cache, node = DictCache(), Counting()
    run(attempt(node, cache=cache, policies=CACHED))
    for key in cache.entries:
        cache.entries[key] = 5

    assert run(attempt(node, cache=cache, policies=CACHED)) == Wrote([("value", "input")])
    assert len(node.calls) == 2


def test_what_is_remembered_is_of_one_node_s_function_and_name() -> None:
    one, other = attempt(Counting()).node, attempt(writes_of).node

    assert one.cache_namespace == ("writes", f"{__name__}.Counting", "n")
    assert other.cache_namespace == ("writes", f"{__name__}.writes_of", "n")
    assert replace(one, name="m").cache_namespace != one.cache_namespace


def test_a_task_that_is_found_in_the_cache_is_in_time_as_others_are(run: Run) -> None:
    cache, node = DictCache(), Counting()
    limit = TimeoutPolicy(LONG_S)

    run(attempt(node, cache=cache, policies=CACHED, timeout=limit))

    assert run(attempt(node, cache=cache, policies=CACHED, timeout=limit)) == Wrote([("value", "input")], cached=True)
