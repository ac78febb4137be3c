"""What a coordinator does about tasks whose worker process is gone: a test is the only worker, and claims by hand."""

import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict, cast

import pytest
from tests.integration.keyspace import Keyspace
from tests.support import wait_until

from phalanx.checkpoint.redis.scripts import Scripts
from phalanx.config import RunnableConfig
from phalanx.constants import START
from phalanx.coordinator import Cluster, cluster_loop, lost_tasks
from phalanx.coordinator.local import LocalServer
from phalanx.coordinator.observe import RunObserver
from phalanx.errors import NodeLostError
from phalanx.graph import StateGraph
from phalanx.protocol.batch import Batch
from phalanx.protocol.doorbell import ring
from phalanx.protocol.keys import ClusterKeys
from phalanx.protocol.plain import unpack
from phalanx.worker.process import WorkerProcess
from phalanx.worker.registry import GraphRegistry
from phalanx.worker.settings import WorkerSettings
from phalanx.worker.task_store import TaskStore

CONFIG: Final[RunnableConfig] = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    value: int


def double(state: State) -> State:
    return {"value": 2 * state.get("value", 0)}


graph = StateGraph(State).add_node("double", double).add_edge(START, "double").compile(name="doubling")


class Losses(RunObserver):
    """Which worker processes a run took for lost."""

    def __init__(self) -> None:
        self.of: list[str] = []

    def worker_lost(self, worker: str, tasks: int) -> None:
        self.of.append(worker)


@dataclass
class Bench:
    """A cluster whose only worker is listed and alive, and takes nothing off the queue."""

    keyspace: Keyspace
    cluster: Cluster
    worker: WorkerProcess
    losses: Losses = field(default_factory=Losses)

    def start(self, given: object) -> "Future[Any]":
        """Begin a run in a thread."""
        result: Future[Any] = Future()

        def run() -> None:
            try:
                on_cluster = graph.with_cluster(self.cluster)
                result.set_result(on_cluster.invoke(given, CONFIG, observer=self.losses))
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return result

    def next_message(self) -> Batch:
        """Take the next message off the queue."""
        _, data = cast("tuple[bytes, bytes]", self.keyspace.client.brpop([self.cluster.queue], timeout=10))
        body = base64.b64decode(json.loads(data)["body"])
        return unpack(body, "a message", lambda parts: Batch.from_wire(parts[0][0]))

    def queued(self) -> int:
        return self.keyspace.client.llen(self.cluster.queue)

    def claim(self, batch: Batch, worker: str) -> set[str]:
        """Claim its tasks for a worker process whose heart does not beat."""
        client = self.keyspace.client
        return TaskStore(client, Scripts(client, "phalanx.worker"), batch, worker, self.keyspace.prefix).claim()

    def let_it_look(self, batch: Batch, times: int = 20) -> None:
        """Return when the run has looked after its tasks so many times; each bell makes it do so."""
        inbox = ClusterKeys(self.keyspace.prefix).inbox(batch.run_id)
        for _ in range(times):
            self.keyspace.client.rpush(inbox, ring("another", []))
            wait_until(lambda: not self.keyspace.client.llen(inbox), "the bell to be heard")


@pytest.fixture
def bench(server: LocalServer, keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(cluster_loop, "LOOK_EVERY_S", 0.0)
    queue = f"queue-of-{keyspace.prefix}"
    registry = GraphRegistry()
    registry.add("doubling", graph)
    worker = WorkerProcess(WorkerSettings(keyspace.url, queues=(queue,), prefix=keyspace.prefix), registry)
    worker.start()
    with Cluster(server.url, broker_url=server.broker_url, queue=queue, prefix=keyspace.prefix) as cluster:
        yield Bench(keyspace, cluster, worker)
    worker.stop()
    keyspace.client.delete(queue)


def lose(bench: Bench, names: list[str]) -> Batch:
    """Let a run lose its task with each of the named worker processes; the last message it sent."""
    batch = bench.next_message()
    for name in names:
        assert bench.claim(batch, name)
        bench.let_it_look(batch, 1)
        if name != names[-1]:
            batch = bench.next_message()
    return batch


def test_a_lost_worker_process_counts_once_however_long_the_next_attempt_waits(bench: Bench) -> None:
    running = bench.start({"value": 21})
    lose(bench, ["dead"])
    again = bench.next_message()
    bench.let_it_look(again)

    assert [task.attempt for task in again.tasks] == [2]
    assert (bench.losses.of, bench.queued(), running.done()) == (["dead"], 0, False)
    assert bench.worker.run_message(again.to_wire()) == 1
    assert running.result(timeout=20) == {"value": 42}


def test_a_lost_message_of_a_second_attempt_is_sent_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    running = bench.start({"value": 21})
    lose(bench, ["dead"])
    lost = bench.next_message()
    monkeypatch.setattr(lost_tasks, "UNCLAIMED_AFTER_S", 0.0)
    again = bench.next_message()
    monkeypatch.undo()

    assert again.tasks == lost.tasks
    assert bench.worker.run_message(again.to_wire()) == 1
    assert running.result(timeout=20) == {"value": 42}


def test_a_task_that_was_given_up_runs_again_when_the_thread_goes_on(bench: Bench) -> None:
    running = bench.start({"value": 21})
    lose(bench, ["one", "two", "three"])
    with pytest.raises(NodeLostError, match=r"3 times \(workers: one, two, three\)"):
        running.result(timeout=20)

    going_on = bench.start(None)
    refused = bench.next_message()
    assert bench.worker.run_message(refused.to_wire()) == 0
    bench.let_it_look(refused, 1)
    again = bench.next_message()

    assert [task.attempt for task in again.tasks] == [4]
    assert bench.worker.run_message(again.to_wire()) == 1
    assert going_on.result(timeout=20) == {"value": 42}
