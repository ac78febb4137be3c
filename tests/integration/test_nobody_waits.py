"""Tasks on an event loop that nobody waits for any more are left, and can be claimed by others."""

import asyncio
import threading
from typing import Final

import pytest
from tests.integration.keyspace import Keyspace
from tests.integration.stepping import FIRST, Superstep, task
from tests.support import wait_until

from phalanx.graph import START, StateGraph
from phalanx.worker import batch_run

WORKER: Final = "host-1"


def test_a_batch_is_wanted_while_its_run_is_in_its_superstep(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    assert not step.as_seen_by(WORKER, step.batch(task("a"))).is_over()


def test_a_batch_is_over_when_its_superstep_is_committed(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    seen = step.as_seen_by(WORKER, step.batch(task("a")))
    step.commit()
    assert seen.is_over()


def test_a_batch_is_over_when_its_run_has_given_the_thread_back(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    seen = step.as_seen_by(WORKER, step.batch(task("a")))
    step.store.release(step.lease, [("", FIRST)])
    assert seen.is_over()


def test_a_batch_is_over_when_its_thread_is_gone(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, ttl_s=60)
    seen = step.as_seen_by(WORKER, step.batch(task("a")))
    step.store.drop(step.lease, [("", FIRST)])
    assert seen.is_over()


def test_a_coordinator_that_takes_the_thread_over_in_the_same_superstep_waits_for_what_is_under_way(
    keyspace: Keyspace,
) -> None:
    step = Superstep.of(keyspace)
    seen = step.as_seen_by(WORKER, step.batch(task("a")))
    step.store.release(step.lease, [("", FIRST)])
    lease = step.store.acquire("another coordinator")
    assert not seen.is_over()
    step.store.renew(lease, FIRST)
    assert not seen.is_over()


def test_a_task_that_was_given_back_can_be_claimed_as_the_same_attempt(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    batch = step.batch(task("a"), task("b"))
    seen = step.as_seen_by(WORKER, batch)
    assert seen.claim() == {"a", "b"}
    seen.give_back(["a"])
    assert step.as_seen_by("other", batch).claim() == {"a"}


def test_what_another_worker_process_has_claimed_since_is_not_given_back(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    seen = step.as_seen_by(WORKER, step.batch(task("a")))
    seen.claim()
    later = step.batch(task("a", attempt=2))
    assert step.as_seen_by("other", later).claim() == {"a"}
    seen.give_back(["a", "stranger"])
    assert step.as_seen_by("third", later).claim() == set()
    assert {name: worker for name, (_, worker) in step.store.claims("", FIRST, ["a"]).items()} == {"a": "other"}


def test_a_coroutine_that_nobody_waits_for_is_cancelled_and_records_nothing(
    keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_run, "LOOK_EVERY_S", 0.05)
    began, ended = threading.Event(), threading.Event()

    async def hangs(_: dict[str, int]) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    graph = StateGraph(dict[str, int]).add_node("node", hangs).add_edge(START, "node").compile(name="hanging")
    step = Superstep.of(keyspace, graph)
    with step.worker() as worker:
        running = threading.Thread(target=worker.run_message, args=(step.batch(task("a")).to_wire(),))
        running.start()
        assert began.wait(20)
        step.store.release(step.lease, [("", FIRST)])
        assert ended.wait(20)
        running.join(20)
        assert not running.is_alive()
        wait_until(lambda: not step.store.claims("", FIRST, ["a"]), "the claim to be given back")
    assert step.recorded("a") == {}
