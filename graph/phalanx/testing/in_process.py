"""A cluster in one process: a real server, and a real Celery worker in a thread.

Graphs are registered as objects, so that a test may use closures, lambdas and local classes. Everything else is as on
any cluster: values are serialized, tasks are claimed, outcomes recorded, supersteps committed.

Several such clusters may live at once, beside a Celery app of the user's. Celery expects one worker in a process and
keeps the worker's event loop, its task table and the order to stop in global variables. Two workers that shared an
event loop would both read from one connection, and each would wait for ever for the half of a message that the other
got. So a worker here has an event loop, a look at tasks and an order to stop of its own.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from celery import Celery
from celery.concurrency.thread import TaskPool
from celery.exceptions import WorkerShutdown
from celery.signals import worker_ready
from celery.worker import WorkController
from celery.worker.consumer import Consumer
from kombu.asynchronous import get_event_loop, set_event_loop

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

    def __init__(self, server: LocalServer, worker: "WorkerThread") -> None:
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


class _Pool(TaskPool):
    """Runs the tasks of its own app. Celery's threads run those of the process's current app, which is not ours."""

    def on_apply(self, target: Callable[..., object], *args: Any, **options: Any) -> Any:
        return super().on_apply(partial(target, app=self.app), *args, **options)


class _Consumer(Consumer):
    """Also ends while it waits for a server that is gone."""

    controller: Any

    def ensure_connected(self, conn: Any) -> Any:
        return conn.ensure_connection(callback=self.controller.end_if_told)


class _Controller(WorkController):
    """A worker that another thread can stop, and none but this one."""

    hub: Any

    def on_before_init(self, **_: Any) -> None:
        self._told_to_end = threading.Event()

    def on_consumer_ready(self, consumer: Any) -> None:
        worker_ready.send(sender=consumer)

    def end(self) -> None:
        """Have it end soon; called from another thread."""
        self._told_to_end.set()
        self.hub.call_soon(lambda: None)  # so that the loop looks up from its sockets

    def end_if_told(self) -> None:
        """End the loop that calls this, if it is time."""
        if self._told_to_end.is_set():
            raise WorkerShutdown(0)


class WorkerThread:
    """A Celery worker with a pool of threads, run by a thread of its own."""

    _building = threading.Lock()

    def __init__(self, settings: WorkerSettings, registry: GraphRegistry) -> None:
        self.registry = registry
        app: Celery = create_app(settings, registry)
        app.conf.worker_disable_prefetch = False  # without child processes nothing wakes Celery's loop when a task ends
        with self._building, _no_event_loop():
            self._controller: Any = _Controller(
                app=app,
                pool_cls=_Pool,
                consumer_cls=_Consumer,
                concurrency=settings.concurrency,
                without_gossip=True,
                without_mingle=True,
                without_heartbeat=True,
                loglevel="ERROR",
                logfile=None,
                hostname=_HOSTNAME,
            )
        self._controller.hub.on_tick.add(self._controller.end_if_told)
        self.thread = threading.Thread(target=self._controller.start, name="phalanx-celery-worker", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Stop it, and wait until it has stopped."""
        self._controller.end()
        self.thread.join(timeout=10)


@contextmanager
def _no_event_loop() -> Generator[None, None, None]:
    """Hide the process's event loop, which a worker that is being made would take for its own."""
    others = get_event_loop()
    set_event_loop(None)
    try:
        yield
    finally:
        set_event_loop(others)


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
        worker = WorkerThread(settings, GraphRegistry())
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
