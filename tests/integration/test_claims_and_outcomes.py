"""Claims and outcomes: every attempt runs once, the first outcome counts, and what comes too late leaves nothing."""

import operator
import random
import threading
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict, TypeVar

import pytest
from redis import Redis
from tests.integration.keyspace import Keyspace
from tests.integration.stepping import FIRST, Graph, Superstep, task

from phalanx.checkpoint.redis.scripts import Argument, Scripts
from phalanx.graph import END, START, StateGraph
from phalanx.protocol.doorbell import read_ring
from phalanx.worker.task_store import TaskStore

T = TypeVar("T")
RACERS = 8


class State(TypedDict, total=False):
    seen: Annotated[list[str], operator.add]


def counting() -> tuple[Graph, list[str]]:
    """A graph whose node notes every execution."""
    executions: list[str] = []

    def node(state: State) -> State:
        executions.append("node")
        return {"seen": ["node"]}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile(name="counting"), executions


def racing(count: int, act: Callable[[int], T]) -> list[T]:
    """What ``act`` returns to each of ``count`` threads that start it at the same moment."""
    line, results = threading.Barrier(count), dict[int, T]()

    def race(number: int) -> None:
        line.wait()
        results[number] = act(number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[number] for number in range(count)]


class RepeatedScripts(Scripts):
    """Every call reaches the server twice, as when the first reply is lost with its connection and it is retried."""

    def run(self, name: str, keys: Sequence[str], arguments: Sequence[Argument], pipe: Redis | None = None) -> object:
        super().run(name, keys, arguments, pipe)
        return super().run(name, keys, arguments, pipe)


# --- claims -----------------------------------------------------------------------------------------------------------


def claimed(step: Superstep, *, worker: str = "worker", attempt: int = 1, token: int | None = None) -> set[str]:
    return step.as_seen_by(worker, step.batch(task("a", attempt=attempt), token=token)).claim()


def test_a_claim_says_who_runs_which_attempt(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    assert claimed(step, worker="host:1:ab", attempt=2) == {"a"}
    assert step.store.claims("", FIRST, ["a", "b"]) == {"a": (2, "host:1:ab")}


@pytest.mark.parametrize("off_by", [-1, 1])
def test_a_claim_with_another_token_than_the_leases_is_refused(keyspace: Keyspace, off_by: int) -> None:
    step = Superstep.of(keyspace)
    before = keyspace.everything()
    assert claimed(step, token=step.lease.token + off_by) == set()
    assert keyspace.everything() == before


def test_a_claim_is_refused_when_another_coordinator_took_the_thread(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    keyspace.expire_lease(step.store)
    step.store.acquire("another")
    assert claimed(step) == set()


def test_a_claim_is_refused_when_the_run_has_ended(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    step.store.release(step.lease, [("", FIRST)])
    assert claimed(step) == set()


def test_a_claim_is_refused_on_a_thread_that_is_gone(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, ttl_s=60)
    step.store.drop(step.lease, [("", FIRST)])
    assert claimed(step) == set()
    assert not keyspace.names()


def test_a_claim_is_refused_when_the_outcome_is_there(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    assert claimed(step)
    step.as_seen_by("worker", step.batch()).record({"a": b"outcome"}, {})
    assert claimed(step, attempt=2) == set()


def test_a_claim_is_refused_when_its_attempt_is_claimed_even_by_the_same_worker(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    assert claimed(step, worker="one") == {"a"}
    assert claimed(step, worker="one") == set()
    assert claimed(step, worker="two") == set()


def test_a_claim_is_refused_when_a_later_attempt_is_claimed(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    assert claimed(step, worker="two", attempt=2) == {"a"}
    assert claimed(step, worker="one", attempt=1) == set()
    assert step.store.claims("", FIRST, ["a"]) == {"a": (2, "two")}


@pytest.mark.parametrize(("earlier", "later"), [(1, 2), (9, 10), (99, 100)])
def test_a_higher_attempt_takes_over(keyspace: Keyspace, earlier: int, later: int) -> None:
    step = Superstep.of(keyspace)
    assert claimed(step, worker="one", attempt=earlier) == {"a"}
    assert claimed(step, worker="two", attempt=later) == {"a"}
    assert step.store.claims("", FIRST, ["a"]) == {"a": (later, "two")}


def test_a_batch_gets_those_of_its_tasks_that_are_free(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    assert claimed(step) == {"a"}
    assert step.as_seen_by("other", step.batch(task("a"), task("b"))).claim() == {"b"}


def test_a_claim_whose_reply_got_lost_is_granted_when_it_is_retried(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    flaky = RepeatedScripts(keyspace.client, "phalanx.worker")
    assert step.as_seen_by("worker", step.batch(task("a"), task("b")), flaky).claim() == {"a", "b"}


def test_a_message_delivered_twice_runs_once(keyspace: Keyspace) -> None:
    graph, executions = counting()
    step = Superstep.of(keyspace, graph)
    message = step.batch(task("a"), task("b")).to_wire()
    with step.worker() as one, step.worker() as two:
        assert [one.run_message(message), two.run_message(message), one.run_message(message)] == [2, 0, 0]
    assert len(executions) == 2


@pytest.mark.parametrize("ttl_s", [0, 60])
def test_a_message_that_turns_up_again_after_the_commit_runs_nothing_and_leaves_nothing(
    keyspace: Keyspace, ttl_s: int
) -> None:
    graph, executions = counting()
    step = Superstep.of(keyspace, graph, ttl_s=ttl_s)
    message = step.batch(task("a")).to_wire()
    with step.worker() as worker:
        worker.run_message(message)
        step.commit()
        before = keyspace.everything()
        assert worker.run_message(message) == 0
    assert len(executions) == 1
    assert keyspace.everything() == before


def test_the_claims_of_a_thread_that_is_not_kept_have_an_end(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, ttl_s=60)
    claimed(step)
    assert not keyspace.lasting()


def test_a_task_whose_error_was_moved_aside_can_be_claimed_and_recorded_again(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    at_work = step.as_seen_by("worker", step.batch(task("a"), task("b")))
    at_work.claim()
    at_work.record({"a": b"an error", "b": b"done"}, {})
    step.store.reopen(lease=step.lease, namespace="", checkpoint_id=FIRST, errors={"a": ("a\x00-1", b"kept")})
    assert step.recorded("a", "b") == {"b": b"done"}
    assert at_work.claim() == {"a"}
    at_work.record({"a": b"done"}, {})
    assert keyspace.fields(step.store.keys.writes("", FIRST)) == {b"a": b"done", b"b": b"done", b"a\x00-1": b"kept"}


def test_many_workers_that_race_for_the_same_tasks_claim_each_exactly_once(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    ids = [f"task-{number}" for number in range(200)]

    def claim_all(number: int) -> list[str]:
        order = random.Random(number).sample(ids, len(ids))
        chunks = [order[start : start + 10] for start in range(0, len(order), 10)]
        stores = [step.as_seen_by(f"worker-{number}", step.batch(*map(task, chunk))) for chunk in chunks]
        return [task_id for store in stores for task_id in store.claim()]

    won = racing(RACERS, claim_all)
    assert sorted(task_id for each in won for task_id in each) == sorted(ids)
    owners = {task_id: f"worker-{number}" for number, each in enumerate(won) for task_id in each}
    assert {task_id: worker for task_id, (_, worker) in step.store.claims("", FIRST, ids).items()} == owners


# --- outcomes ---------------------------------------------------------------------------------------------------------


def at_work(step: Superstep, *task_ids: str, worker: str = "worker", attempt: int = 1) -> TaskStore:
    """A worker process that has claimed these tasks."""
    store = step.as_seen_by(worker, step.batch(*(task(task_id, attempt=attempt) for task_id in task_ids)))
    assert store.claim() == set(task_ids)
    return store


def test_the_first_outcome_of_a_task_counts_whichever_attempt_it_is_of(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    slow, quick = at_work(step, "a", worker="slow"), at_work(step, "a", worker="quick", attempt=2)
    slow.record({"a": b"of the first attempt"}, {"one": b"1"})
    quick.record({"a": b"of the second attempt"}, {"two": b"2"})
    assert step.recorded("a") == {"a": b"of the first attempt"}
    assert keyspace.fields(step.store.keys.blobs) == {b"one": b"1"}


def test_an_outcome_of_a_task_that_nobody_claimed_is_dropped(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    at_work(step, "a").record({"a": b"outcome", "forged": b"outcome"}, {})
    assert keyspace.fields(step.store.keys.writes("", FIRST)) == {b"a": b"outcome"}


@pytest.mark.parametrize("ttl_s", [0, 60])
def test_an_outcome_that_comes_after_the_commit_is_dropped_and_leaves_only_a_doorbell(
    keyspace: Keyspace, ttl_s: int
) -> None:
    step = Superstep.of(keyspace, ttl_s=ttl_s)
    late = at_work(step, "a")
    step.commit()
    before = keyspace.everything()
    late.record({"a": b"too late"}, {"digest": b"bytes"})
    after = keyspace.everything()
    assert after.pop(step.inbox)
    assert after == before


def test_an_outcome_that_comes_after_the_thread_was_dropped_leaves_only_a_doorbell(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, ttl_s=60)
    late = at_work(step, "a")
    step.store.drop(step.lease, [("", FIRST)])
    late.record({"a": b"too late"}, {"digest": b"bytes"})
    assert keyspace.names() == [step.inbox]


def test_workers_that_race_to_record_leave_one_outcome_of_each_task(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    ids = [f"task-{number}" for number in range(50)]
    workers = [at_work(step, *ids, worker=str(number), attempt=number + 1) for number in range(RACERS)]

    def record_all(number: int) -> None:
        for each in ids:
            workers[number].record({each: str(number).encode()}, {})

    racing(RACERS, record_all)
    outcomes = step.recorded(*ids)
    assert outcomes.keys() == set(ids)
    assert set(outcomes.values()) <= {str(number).encode() for number in range(RACERS)}
    for worker in workers:
        worker.record(dict.fromkeys(ids, b"later"), {})
    assert step.recorded(*ids) == outcomes


def test_whoever_hears_a_doorbell_finds_the_outcome(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    ids = [f"task-{number}" for number in range(100)]
    worker = at_work(step, *ids)
    heard, missed = list[str](), list[str]()

    def listen() -> None:
        while len(heard) < len(ids):
            ring: Any = keyspace.client.blpop([step.inbox], timeout=10)
            assert ring, "no doorbell"
            _, named = read_ring(ring[1])
            missed.extend(set(named) - step.recorded(*named).keys())
            heard.extend(named)

    listener = threading.Thread(target=listen)
    listener.start()
    for task_id in ids:
        worker.record({task_id: b"outcome"}, {})
    listener.join()
    assert heard == ids
    assert not missed


def test_an_inbox_that_nobody_reads_ends_by_itself(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    at_work(step, "a").record({"a": b"outcome"}, {})
    assert 0 < keyspace.ttl_ms(step.inbox) <= 60_000
    assert step.rung() == ["a"]
