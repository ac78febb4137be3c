"""Batches that kept their process for too long: the pool ends the process, and this tells the run why.

It happens in the pool's parent, which is the one to know. Such a batch holds a single task; the process that ran it is
replaced by the pool, and no other is touched.
"""

import logging
import time

from redis import Redis

from phalanx.checkpoint.redis.client import connect
from phalanx.checkpoint.redis.scripts import Scripts
from phalanx.checkpoint.serde import Serializer
from phalanx.errors import NodeTimeoutError, PhalanxError
from phalanx.protocol.batch import Batch, BatchTask
from phalanx.worker.attempt import Attempt
from phalanx.worker.failures import failure_outcome
from phalanx.worker.registry import GraphRegistry
from phalanx.worker.run_task import StateView
from phalanx.worker.settings import WorkerSettings
from phalanx.worker.task_context import RunContext, TaskContext
from phalanx.worker.task_store import TaskStore

logger = logging.getLogger("phalanx.worker")


class Overruns:
    """Records that batches took too long.

    Args:
        settings: how to reach the state server; connected to when first needed.
        registry: the graphs, whose policies say what becomes of a task that timed out.
    """

    def __init__(self, settings: WorkerSettings, registry: GraphRegistry) -> None:
        self._settings = settings
        self._registry = registry
        self._serializer = Serializer()
        self._connected: tuple[Redis, Scripts] | None = None

    def record(self, wire: object, limit_s: float) -> None:
        """Record a timeout as the outcome of each task in a batch whose process was ended.

        Args:
            wire: the batch, as it came off the queue.
            limit_s: how long it was allowed to take.
        """
        batch = Batch.from_wire(wire)
        client, scripts = self._connections()
        store = TaskStore(client, scripts, batch, "", self._settings.prefix)
        try:
            self._record(store, batch, limit_s)
            nodes = ", ".join(sorted({task.node for task in batch.tasks}))
            logger.warning("node %s of run %s took longer than %s s: its process ends", nodes, batch.run_id, limit_s)
        except PhalanxError as error:  # the graph is not known here, or is another version: then nothing ran either
            logger.warning("could not say that a batch of run %s took too long: %s", batch.run_id, error)

    def _record(self, store: TaskStore, batch: Batch, limit_s: float) -> None:
        blueprint = self._registry.find(batch.graph, batch.fingerprint, "the pool's parent").blueprint
        outcomes: dict[str, bytes] = {}
        retries: dict[str, bytes] = {}
        for task in batch.tasks:
            context = _context(batch, task, time.time() - limit_s)
            error = NodeTimeoutError(task.node, limit_s, kind="run", run_timeout=limit_s)
            ended = Attempt(blueprint, blueprint.nodes[task.node], StateView({}), context).raised(error)
            outcome = failure_outcome(blueprint, self._serializer, task, ended, worker="", seconds=limit_s)
            (outcomes if outcome.is_final else retries)[task.id] = outcome.pack()
        store.record(outcomes, {}, retries)

    def _connections(self) -> tuple[Redis, Scripts]:
        if self._connected is None:
            client = connect(self._settings.url)
            self._connected = client, Scripts(client, "phalanx.worker")
        return self._connected


def _context(batch: Batch, task: BatchTask, began_at: float) -> TaskContext:
    return TaskContext(
        RunContext({}),
        task.node,
        task.id,
        task.path,
        task.triggers,
        batch.step,
        batch.checkpoint_id,
        task.tries,
        task.first_try_at or began_at,
    )
