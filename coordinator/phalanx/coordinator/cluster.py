"""``Cluster``: where a graph's tasks go. Workers elsewhere, or a small cluster of our own on this machine."""

import os
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from typing import Protocol, Self

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.redis.client import check_reachable, connect, without_password
from phalanx.checkpoint.redis.saver import KEEP_ALL
from phalanx.checkpoint.redis.thread_store import ThreadStore
from phalanx.checkpoint.retention import Retention
from phalanx.config import RunnableConfig
from phalanx.coordinator.batches import Address
from phalanx.coordinator.broker import Broker
from phalanx.coordinator.busy import IfBusy
from phalanx.coordinator.cluster_driver import ClusterDriver
from phalanx.coordinator.cluster_loop import ClusterLoop, Connections
from phalanx.coordinator.default_cluster import set_default_cluster
from phalanx.coordinator.keeping import WORKING_LIFE_S, Keeping, KeepingElsewhere
from phalanx.coordinator.observe import RunObserver
from phalanx.coordinator.opening import Place
from phalanx.coordinator.roster import Roster
from phalanx.coordinator.terms import RunSettings
from phalanx.errors import ClusterError, GraphNotNamedError
from phalanx.protocol.batch import DEFAULT_QUEUE
from phalanx.protocol.keys import DEFAULT_PREFIX, ClusterKeys
from phalanx.types import StreamMode
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.fingerprint import fingerprint
from phalanx.worker.heartbeat import WorkerInfo
from phalanx.worker.registry import CompiledGraph
from phalanx.worker.settings import BROKER_URL_VARIABLE, URL_VARIABLE, broker_of
from phalanx.worker.targets import being_loaded
from phalanx.worker.task_context import RunContext


class Announcer(Protocol):
    """How the workers of a cluster that we own learn of a graph."""

    def announce(self, graph: CompiledGraph, target: str | None = None) -> None:
        """Make ``graph`` known under its name; it is looked for unless its ``target`` is given.

        Raises:
            GraphNotNamedError: workers could not find it.
        """

    def close(self) -> None:
        """End the workers and the server."""


class Cluster:
    """Workers and the servers between them and us.

    Args:
        url: the state server, Redis 6.2 or newer, or Valkey.
        broker_url: the broker; the state server unless given.
        queue: where tasks go.
        prefix: what all keys start with; installations with different prefixes do not see each other.
        retention: how long threads are kept after their last superstep, and how much of their past; everything for ever
            unless given.

    Raises:
        ClusterUnreachableError: nothing answers at the URL.

    Example:
        >>> with Cluster.local(workers=4) as cluster:
        ...     graph.with_cluster(cluster).invoke({"root": "."})
    """

    def __init__(
        self,
        url: str,
        *,
        broker_url: str | None = None,
        queue: str = DEFAULT_QUEUE,
        prefix: str = DEFAULT_PREFIX,
        retention: Retention = KEEP_ALL,
    ) -> None:
        _refuse_while_loading()
        self.url = url
        self.broker_url = broker_url or broker_of(url)
        self.queue = queue
        self.prefix = prefix
        self._announcer: Announcer | None = None
        self._fingerprints: dict[int, tuple[Blueprint, str]] = {}
        client = connect(url)
        check_reachable(url)
        if broker_url and broker_url.startswith(("redis://", "rediss://")):
            check_reachable(broker_url, "broker")
        self.saver = RedisSaver(client, prefix=prefix, retention=retention)
        self._keys = ClusterKeys(prefix)
        broker, roster = Broker(self.broker_url), Roster(client, self._keys)
        self._connections = Connections(without_password(url), client, broker, roster, self.saver.serde)

    @classmethod
    def from_env(cls) -> Self:
        """The cluster that ``PHALANX_URL`` (and ``PHALANX_BROKER_URL``) names.

        Raises:
            ClusterError: the variable is not set.
        """
        url = os.environ.get(URL_VARIABLE)
        if not url:
            raise ClusterError(f"set {URL_VARIABLE} to the state server's URL, such as redis://127.0.0.1:6379/0")
        return cls(url, broker_url=os.environ.get(BROKER_URL_VARIABLE))

    @classmethod
    def local(cls, workers: int = 2, *, stderr: int | None = None) -> Self:
        """A cluster on this machine: an embedded Valkey and ``workers`` worker processes, gone when this process is.

        Graphs need a name and must be a module's variable, so that the workers can import them; scripts work too.

        Args:
            workers: how many worker processes.
            stderr: the file descriptor that gets what the processes and their nodes print; standard error if left out.

        Raises:
            ValueError: ``workers`` is less than 1.
            ClusterError: the server or the workers do not start.
        """
        from phalanx.coordinator.local import LocalProcesses

        _refuse_while_loading()
        if not isinstance(workers, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"workers is a number of processes, such as 4; got {workers!r}")
        processes = LocalProcesses.start_with_workers(workers, stderr=stderr)
        try:
            cluster = cls(processes.url, broker_url=processes.broker_url)
        except BaseException:
            processes.close()
            raise
        cluster._announcer = processes
        return cluster

    # --- life ---------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections, and end the processes of a cluster of our own. May be called twice."""
        self._connections.closed.set()
        self._connections.broker.close()
        self._connections.client.close()
        if self._announcer is not None:
            self._announcer.close()
            self._announcer = None

    def __repr__(self) -> str:
        return f"<Cluster {without_password(self.url)} queue={self.queue!r}>"

    # --- graphs -------------------------------------------------------------------------------------------------------

    @contextmanager
    def as_default(self) -> Generator[Self, None, None]:
        """Within this context, graphs that were not given a cluster run on this one."""
        before = set_default_cluster(self)
        try:
            yield self
        finally:
            set_default_cluster(before)

    def adopt(self, graph: CompiledGraph) -> None:
        """Make sure that workers can know the graph.

        Raises:
            GraphNotNamedError: it has no name, or our workers could not find it.
        """
        if not graph.name:
            raise GraphNotNamedError(
                "a graph needs a name that workers know it by: compile(name='census'), and start workers with "
                "phalanx worker --graph census=path/to/file.py:graph"
            )
        if self._announcer is not None:
            self._announcer.announce(graph)

    def announce_target(self, graph: CompiledGraph, target: str) -> None:
        """Tell the workers of a local cluster where they find a graph; others are told when they are started.

        Args:
            graph: the graph.
            target: ``pkg.module:attr`` or ``path/file.py:attr``.
        """
        if self._announcer is not None and graph.name:
            self._announcer.announce(graph, target)

    def workers(self) -> Sequence[WorkerInfo]:
        """The live worker processes."""
        return self._connections.roster.alive()

    @contextmanager
    def alone_on(self, config: RunnableConfig, saver: BaseCheckpointSaver) -> Generator[None, None, None]:
        """Keep a thread to oneself, to change its state from outside.

        Args:
            config: addresses the thread.
            saver: the one that keeps it.

        Raises:
            ThreadBusyError: a run drives it.
        """
        store = self._store(config, Place(_thread_of(config)), saver, "")
        nothing_there = bool(store.ttl_s) and not self._connections.client.exists(store.keys.lease)
        lease = store.acquire(f"update-{uuid.uuid4()}")
        try:
            yield
        finally:
            if nothing_there:  # the thread is kept elsewhere, and no run has left anything here
                store.drop(lease, [])
            else:
                store.release(lease, [])

    def driver(
        self,
        blueprint: Blueprint,
        settings: RunSettings,
        context: RunContext,
        place: Place | None,
        saver: BaseCheckpointSaver | None,
        observer: RunObserver,
        listens: frozenset[StreamMode] = frozenset(),
        if_busy: IfBusy = "refuse",
    ) -> ClusterDriver:
        """What drives one run of a graph over this cluster's workers.

        Args:
            place: where in a thread the run belongs; ``None`` if nothing is kept.
            saver: the graph's own, if it has one.
            listens: the modes in which what graphs inside stream is wanted.
            if_busy: what to do when another run drives the thread.

        Raises:
            ClusterError: the cluster was closed.
        """
        if self._connections.closed.is_set():
            raise ClusterError(f"{self!r} was closed; run the graph inside its with block, or make another Cluster")
        config, lineage = context.config, context.lineage
        if saver is None and place is not None:
            lineage = replace(lineage, saver=self.saver)
        elif saver is not None and saver is not self.saver:
            lineage = replace(lineage, elsewhere=True)
        if listens:
            lineage = replace(lineage, below=_heard_by_the_loop, below_modes=listens)
        context = replace(context, lineage=lineage)
        run_id = str(config.get("run_id") or uuid.uuid4())
        store = self._store(config, place, saver, run_id)
        address = Address(
            graph=blueprint.name,
            fingerprint=self._fingerprint(blueprint),
            run_id=run_id,
            thread_id=store.keys.thread_id,
            inbox=self._keys.inbox(run_id),
            queue=self.queue,
            ttl_s=store.life_s,
        )

        def keep(graph: Blueprint, around: RunContext, where: Place | None, own: BaseCheckpointSaver | None) -> Keeping:
            if where is not None and own is not None and own is not self.saver:
                return KeepingElsewhere(store, own, self.saver, around.config, where, around.lineage, graph.untracked)
            return Keeping(store, self.saver, around.config, where, around.lineage, graph.untracked)

        keeping = keep(blueprint, context, place, saver)
        loop = ClusterLoop(blueprint, settings, context, address, self._connections, keeping, keep, observer)
        loop.waits = if_busy == "enqueue"
        return ClusterDriver(loop)

    def _store(
        self, config: RunnableConfig, place: Place | None, saver: BaseCheckpointSaver | None, run_id: str
    ) -> ThreadStore:
        """The keys a run works with: those of its thread, or some of its own if the thread is kept elsewhere or not."""
        client = self._connections.client
        if place is None:
            return ThreadStore(client, self.saver.keys(f"run-{run_id}"), WORKING_LIFE_S)
        if saver is not None and saver is not self.saver:
            thread = f"{_thread_of(config)}\x00{place.namespace}\x00working"
            return ThreadStore(client, self.saver.keys(thread), WORKING_LIFE_S, called=place.thread_id)
        return ThreadStore(client, self.saver.keys(_thread_of(config)), 0, self._life_s)

    @property
    def _life_s(self) -> int:
        """How long a kept thread lives after it was last worked on; 0 for ever."""
        return ceil(self.saver.retention.ttl_s or 0)

    def _fingerprint(self, blueprint: Blueprint) -> str:
        known = self._fingerprints.get(id(blueprint))
        if known is None:
            known = self._fingerprints[id(blueprint)] = (blueprint, fingerprint(blueprint))
        return known[1]


def _heard_by_the_loop(namespace: tuple[str, ...], mode: StreamMode, data: object) -> None:
    """The loop drives graphs inside itself, and hears them without being told."""


def _refuse_while_loading() -> None:
    """A file that starts a cluster when it is imported would do so in every worker, which would start more of them."""
    where = being_loaded()
    if where is not None:
        raise ClusterError(
            f"{where} starts a cluster while it is being imported for its graph; "
            f"put what only the script should do below: if __name__ == '__main__'"
        )


def _thread_of(config: RunnableConfig) -> str:
    thread_id = CheckpointAddress.of(config).thread_id
    try:
        thread_id.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"thread_id {thread_id!r} is no text that can be sent to workers: {error.reason}") from error
    return thread_id
