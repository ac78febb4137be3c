"""The Celery app of the workers, and how a worker process joins the cluster.

Celery brings messages to processes, keeps the processes, and stops them. It stores no results, revives no messages and
times nothing: which tasks are lost and who runs them again is decided by claims and heartbeats. So messages are
acknowledged early, and only msgpack is accepted.
"""

import gc
import os
import threading
from dataclasses import dataclass, field
from multiprocessing import process
from typing import Any, Final

from celery import Celery
from celery.signals import worker_process_init, worker_process_shutdown, worker_ready, worker_shutdown
from celery.worker.request import Request
from celery.worker.state import task_ready

from phalanx.protocol.batch import RUN_BATCH
from phalanx.worker.overrun import Overruns
from phalanx.worker.process import WorkerProcess
from phalanx.worker.registry import GraphRegistry
from phalanx.worker.settings import WorkerSettings

CELERY_SETTINGS: Final[dict[str, Any]] = {
    "accept_content": ["msgpack"],
    "task_serializer": "msgpack",
    "result_serializer": "msgpack",
    "task_ignore_result": True,
    "task_store_errors_even_if_ignored": False,
    "task_acks_late": False,
    "task_track_started": False,
    "worker_prefetch_multiplier": 1,
    "worker_disable_prefetch": True,
    "worker_send_task_events": False,
    "worker_redirect_stdouts": False,
    "worker_hijack_root_logger": False,
    "worker_soft_shutdown_timeout": 10.0,
    "broker_connection_retry_on_startup": True,
    # A reply that stops in its middle would hold the worker up for ever; an idle worker waits outside of any read.
    "broker_transport_options": {"socket_keepalive": True, "health_check_interval": 20, "socket_timeout": 15},
    # Celery warns of each lost connection unless this is set. It cancels tasks acknowledged late; ours are not.
    "worker_cancel_long_running_tasks_on_connection_loss": True,
    "event_queue_expires": 60,
    "control_queue_expires": 60,
}
"""What we rely on, also where it is Celery's own default: that may change, or a configuration file may."""


REPLACE_EVERY_S: Final = 0.5
"""How often the pool looks for processes that have ended, to start others in their place."""


@dataclass(slots=True)
class _Joined:
    """What this process is to the cluster. A forked process starts with its parent's and replaces it."""

    settings: WorkerSettings
    registry: GraphRegistry
    process: WorkerProcess | None = None
    pid: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def current(self, *, slots: int = 1, with_parent: bool = False) -> WorkerProcess:
        """This process's member of the cluster, made when first wanted."""
        with self.lock:
            if self.process is None or self.pid != os.getpid():
                joining = WorkerProcess(self.settings, self.registry, slots=slots, with_parent=with_parent)
                joining.start()  # if the server does not answer, the next message tries again
                self.process, self.pid = joining, os.getpid()
            return self.process

    def leave(self) -> None:
        """Leave the cluster, if this process has joined it."""
        if self.process is not None and self.pid == os.getpid():
            self.process.stop()
            self.process = None


def create_app(settings: WorkerSettings, registry: GraphRegistry) -> Celery:
    """The Celery app of a worker that runs nothing but Phalanx."""
    app = Celery("phalanx", broker=settings.broker, set_as_current=False)
    app.conf.update(CELERY_SETTINGS)
    app.conf.task_default_queue = settings.queues[0]
    register(app, settings, registry)
    return app


def register(app: Celery, settings: WorkerSettings, registry: GraphRegistry) -> None:
    """Let the workers of ``app`` run Phalanx's tasks. For a team that has a Celery app of its own.

    The app must accept msgpack; its other settings may be what they are.

    Args:
        app: the team's app.
        settings: how to reach the state server, and the queues that the app's workers take tasks from.
        registry: the graphs its workers know.
    """
    joined = _Joined(settings, registry)

    def run_batch(wire: object) -> None:
        joined.current().run_message(wire)

    overruns = Overruns(settings, registry)

    class BatchRequest(Request):
        """A message on its way through the pool, which ends the process that takes far too long over it.

        Celery would log a process that has ended as errors with tracebacks. Here it is a task's outcome, or a task that
        is lost and handed out again.
        """

        def on_timeout(self, soft: bool, timeout: float) -> None:
            if soft:
                super().on_timeout(soft, timeout)
                return
            task_ready(self)
            overruns.record(self.args[0], timeout)

        def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> None:
            error = getattr(exc_info.exception, "exc", exc_info.exception)
            if type(error).__name__ in ("TimeLimitExceeded", "WorkerLostError"):
                task_ready(self)
            else:
                super().on_failure(exc_info, send_failed_event, return_ok)

    # A shared task would appear in every other Celery app of this process too, and the first of them would win.
    app.task(name=RUN_BATCH, ignore_result=True, acks_late=False, shared=False, Request=BatchRequest)(run_batch)
    _connect_signals(app, joined)


def _connect_signals(app: Celery, joined: _Joined) -> None:
    """Join when a pool's process starts, or, for pools without processes, when the worker is ready."""

    def process_started(**_: object) -> None:
        gc.collect()
        gc.freeze()  # what was imported lives as long as the process: no collection need look at it again
        _may_start_processes()
        joined.current(with_parent=True)

    def worker_started(sender: Any = None, **_: object) -> None:
        if sender is None or sender.app is not app:
            return
        if _has_processes(sender):
            # Of itself Celery may take five seconds to replace a process that has ended.
            sender.hub.call_repeatedly(REPLACE_EVERY_S, sender.pool.maintain_pool)
        else:
            joined.current(slots=int(sender.controller.concurrency or 1))

    def process_ended(**_: object) -> None:
        joined.leave()

    def worker_ended(sender: Any = None, **_: object) -> None:
        if sender is not None and sender.app is app:
            joined.leave()

    worker_process_init.connect(process_started, weak=False)
    worker_process_shutdown.connect(process_ended, weak=False)
    worker_ready.connect(worker_started, weak=False)
    worker_shutdown.connect(worker_ended, weak=False)


def _may_start_processes() -> None:
    """Let nodes start processes, as they may elsewhere: the pool marks its own as daemons, which may not."""
    config: dict[str, Any] = getattr(process.current_process(), "_config")  # noqa: B009
    config["daemon"] = False
    # The pool's key is of a class of its own, which cannot be handed down to a fresh process.
    handed_down: Any = getattr(process, "AuthenticationString")  # noqa: B009 - the library's types leave it out
    config["authkey"] = handed_down(config["authkey"])


def _has_processes(consumer: Any) -> bool:
    return "prefork" in consumer.controller.pool_cls.__module__
