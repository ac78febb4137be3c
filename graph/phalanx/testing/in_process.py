"""A cluster in one process: a real server, and a real Celery worker in a thread.

Graphs are registered as objects, so that a test may use closures, lambdas and local classes. Everything else is as on
any cluster: values are serialized, tasks are claimed, outcomes recorded, supersteps committed.
"""

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from celery import Celery
from celery.app.trace import reset_worker_optimizations, setup_worker_optimizations
from celery.signals import worker_ready
from celery.worker import WorkController, state

from phalanx.coordinator.cluster import Cluster
from phalanx.coordinator.local import LocalServer
from phalanx.errors import ClusterError
from phalanx.worker.app import create_app
from phalanx.worker.registry import CompiledGraph, GraphRegistry
from phalanx.worker.settings import WorkerSettings

_START_S: Final = 20.0
_HOSTNAME: Final = "phalanx-in-process@localhost"


class InProcessCluster(Cluster):
    """A cluster whose workers are threads of this process."""

    def __init__(self, server: LocalServer, worker: "_WorkerThread") -> None:
        super().__init__(server.url, broker_url=server.broker_url)
        self._server = server
        self._worker = worker

    def adopt(self, graph: CompiledGraph) -> None:
        super().adopt(graph)
        self._worker.registry.add(graph.name, graph)

    def close(self) -> None:
        super().close()
        self._worker.stop()
        self._server.close()


class _Controller(WorkController):
    """Does what Celery's own application of a worker does around the bare controller."""

    def on_before_init(self, **_: Any) -> None:
        # Without this, tasks are looked up in the process's current app, which is not ours.
        setup_worker_optimizations(self.app, _HOSTNAME)

    def on_consumer_ready(self, consumer: Any) -> None:
        worker_ready.send(sender=consumer)


class _WorkerThread:
    """A Celery worker with a pool of threads, run by a thread of its own."""

    def __init__(self, settings: WorkerSettings, registry: GraphRegistry) -> None:
        self.registry = registry
        app: Celery = create_app(settings, registry)
        app.conf.worker_disable_prefetch = False  # without child processes nothing wakes Celery's loop when a task ends
        self._controller: Any = _Controller(
            app=app,
            pool_cls="threads",
            concurrency=settings.concurrency,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
            loglevel="ERROR",
            logfile=None,
            hostname=_HOSTNAME,
        )
        self._thread = threading.Thread(target=self._controller.start, name="phalanx-celery-worker", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop it, and wait until it has stopped."""
        stop: Any = state
        stop.should_stop = 0  # Celery's own way to stop a worker from another thread; read by its loop
        self._thread.join(timeout=10)
        stop.should_stop = None
        reset_worker_optimizations(self._controller.app)


@contextmanager
def in_process_cluster(workers: int = 2) -> Generator[InProcessCluster, None, None]:
    """A cluster inside this process, for as long as the context lasts.

    Args:
        workers: how many batches it runs at once.

    Raises:
        ClusterError: the embedded server is missing, or the worker does not start.
    """
    server = LocalServer.start()
    try:
        settings = WorkerSettings(server.url, server.broker_url, concurrency=workers)
        worker = _WorkerThread(settings, GraphRegistry())
        cluster = InProcessCluster(server, worker)
    except BaseException:
        server.close()
        raise
    try:
        _wait_until_ready(cluster)
        yield cluster
    finally:
        cluster.close()


def _wait_until_ready(cluster: Cluster) -> None:
    deadline = time.monotonic() + _START_S
    while not cluster.workers():
        if time.monotonic() > deadline:
            raise ClusterError(f"the worker thread did not join within {_START_S:.0f} s")
        time.sleep(0.02)
