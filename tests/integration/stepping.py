"""A superstep driven by hand: the test holds the lease, hands tasks to worker processes, and reads their outcomes."""

import itertools
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.integration.keyspace import Keyspace

from phalanx.checkpoint.packing import Packer
from phalanx.checkpoint.redis.scripts import Scripts
from phalanx.checkpoint.redis.thread_store import Lease, ThreadStore
from phalanx.checkpoint.serde import Serializer, decode_exception
from phalanx.graph import CompiledStateGraph
from phalanx.protocol.batch import Batch, BatchTask, Ref
from phalanx.protocol.doorbell import read_ring
from phalanx.protocol.keys import ClusterKeys
from phalanx.protocol.outcome import Outcome, OutcomeKind
from phalanx.worker.fingerprint import fingerprint
from phalanx.worker.lineage import Lineage, lineage_to_plain
from phalanx.worker.process import WorkerProcess
from phalanx.worker.registry import GraphRegistry
from phalanx.worker.settings import WorkerSettings
from phalanx.worker.task_store import TaskStore

Graph = CompiledStateGraph[Any]

FIRST: Final = "c1"
"""The checkpoint that the superstep starts from."""

NO_CONFIG_NO_CONTEXT_NO_DRAIN: Final[list[object]] = [{}, None, None, lineage_to_plain(Lineage())]
"""What all tasks of the run share."""

_numbers: Final = itertools.count(1)


def task(task_id: str, node: str = "node", *, attempt: int = 1, arg: Ref | None = None) -> BatchTask:
    """A task; with an argument, one that a packet made."""
    if arg is None:
        return BatchTask(task_id, node, attempt, ("__pregel_pull", node), (f"branch:to:{node}",), None)
    return BatchTask(task_id, node, attempt, ("__pregel_push", 0), ("__pregel_push",), arg)


@dataclass
class Superstep:
    """A superstep of a thread.

    Attributes:
        store: the thread, as its coordinator sees it.
        lease: the right to drive it.
        graph: whose tasks these are.
        state: what the tasks may read.
    """

    keyspace: Keyspace
    store: ThreadStore
    lease: Lease
    graph: Graph | None = None
    state: Mapping[str, object] = field(default_factory=dict[str, object])
    run_id: str = field(default_factory=lambda: f"run-{next(_numbers)}")

    @classmethod
    def of(
        cls,
        keyspace: Keyspace,
        graph: Graph | None = None,
        *,
        thread_id: str = "t",
        ttl_s: int = 0,
        state: Mapping[str, object] | None = None,
    ) -> "Superstep":
        """The first superstep of a thread, driven by a coordinator of its own."""
        store = keyspace.thread(thread_id, ttl_s=ttl_s)
        return cls(keyspace, store, store.acquire("coordinator"), graph, state or {})

    @property
    def inbox(self) -> str:
        return ClusterKeys(self.keyspace.prefix).inbox(self.run_id)

    def batch(self, *tasks: BatchTask, token: int | None = None) -> Batch:
        """A message with these tasks."""
        packer, serializer = Packer(Serializer()), Serializer()
        state = {name: packer.ref(value) for name, value in self.state.items()}
        self.store.store_blobs(packer.take_blobs())
        return Batch(
            graph=self.graph.name if self.graph else "graph",
            fingerprint=fingerprint(self.graph.blueprint) if self.graph else "",
            run_id=self.run_id,
            thread_id=self.store.keys.thread_id,
            namespace="",
            checkpoint_id=FIRST,
            step=1,
            token=self.lease.token if token is None else token,
            state=state,
            around=serializer.dumps(NO_CONFIG_NO_CONTEXT_NO_DRAIN),
            stop=100,
            ttl_s=self.store.ttl_s,
            tasks=tasks,
        )

    def as_seen_by(self, worker: str, batch: Batch, scripts: Scripts | None = None) -> TaskStore:
        """The thread, as a worker process sees it."""
        client = self.keyspace.client
        return TaskStore(client, scripts or Scripts(client, "phalanx.worker"), batch, worker, self.keyspace.prefix)

    @contextmanager
    def worker(self, graph: Graph | None = None) -> Generator[WorkerProcess]:
        """A worker process, in this one, that knows the graph or another one in its place."""
        registry = GraphRegistry()
        known = graph or self.graph
        if known is not None:
            registry.add(known.name, known)
        process = WorkerProcess(WorkerSettings(self.keyspace.url, prefix=self.keyspace.prefix), registry)
        try:
            yield process
        finally:
            process.stop()

    def run(self, *tasks: BatchTask) -> int:
        """Have a worker process run these tasks; how many it ran."""
        with self.worker() as worker:
            return worker.run_message(self.batch(*tasks).to_wire())

    def commit(
        self, checkpoint_id: str = "c2", *, parent_id: str = FIRST, blobs: Mapping[str, bytes] | None = None
    ) -> None:
        """End the superstep."""
        self.store.commit(
            lease=self.lease,
            blobs=blobs or {},
            namespace="",
            checkpoint_id=checkpoint_id,
            parent_id=parent_id,
            record=b"a record",
        )

    def recorded(self, *task_ids: str) -> dict[str, bytes]:
        """The outcomes that are there, packed."""
        return self.store.outcomes("", FIRST, task_ids)

    def outcome(self, task_id: str) -> Outcome:
        """The outcome of a task."""
        return Outcome.unpack(self.recorded(task_id)[task_id])

    def error(self, task_id: str) -> BaseException:
        """The error a task ended with."""
        outcome = self.outcome(task_id)
        assert outcome.kind is OutcomeKind.ERROR, f"task {task_id} did not fail: {outcome}"
        return decode_exception(Serializer().loads(outcome.error))

    def written(self, task_id: str) -> dict[str, object]:
        """What a task wrote, by channel."""
        outcome = self.outcome(task_id)
        if outcome.kind is OutcomeKind.ERROR:
            raise self.error(task_id)
        return {w.channel: Serializer().loads(w.value) for w in outcome.writes if isinstance(w.value, bytes)}

    def rung(self) -> list[str]:
        """The tasks that doorbells name, in order."""
        found: Sequence[tuple[str, list[str]]] = [read_ring(data) for data in self.keyspace.rings(self.inbox)]
        return [task_id for checkpoint_id, task_ids in found if checkpoint_id == FIRST for task_id in task_ids]


def other_version(batch: Batch) -> Batch:
    """The same message, from a coordinator that holds another version of the graph."""
    return replace(batch, fingerprint="0" * 16)
