"""Batches that kept their process for far too long: the pool ends the process, and this tells the run why.

A process whose task is out of time ends itself; see :mod:`phalanx.worker.deadline`. What cannot do that, since native
code holds its interpreter, the pool's parent ends a while later. Such a batch holds a single task; the process that ran
it is replaced by the pool, and no other is touched.
"""

import logging
import time
from typing import Final

from redis import Redis

from phalanx.checkpoint.redis.client import connect
from phalanx.checkpoint.redis.scripts import Scripts
from phalanx.checkpoint.serde import Serializer
from phalanx.errors import NodeTimeoutError
from phalanx.protocol.batch import Batch
from phalanx.worker.attempt import Attempt
from phalanx.worker.failures import failure_outcome
from phalanx.worker.registry import GraphRegistry
from phalanx.worker.run_task import StateView
from phalanx.worker.settings import WorkerSettings
from phalanx.worker.task_context import RunContext, TaskContext
from phalanx.worker.task_store import TaskStore

_PATIENCE_S: Final = 5.0  # whoever waits here is the parent of all processes of the pool

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
        """Record a timeout as the outcome of each task in a batch whose process is about to be ended. Raises nothing.

        Args:
            wire: the batch, as it came off the queue.
            limit_s: how long it was allowed to take.
        """
        try:
            batch = Batch.from_wire(wire)
            self._record(batch, limit_s)
            nodes = ", ".join(sorted({task.node for task in batch.tasks}))
            logger.warning("node %s of run %s took longer than %s s: its process ends", nodes, batch.run_id, limit_s)
        except Exception as error:  # the pool ends the process only after this; once it is gone its tasks are lost ones
            logger.warning("could not say that a batch took longer than %s s: %s", limit_s, error)

    def _record(self, batch: Batch, limit_s: float) -> None:
        client, scripts = self._connections()
        store = TaskStore(client, scripts, batch, "", self._settings.prefix)
        blueprint = self._registry.find(batch.graph, batch.fingerprint, "the pool's parent").blueprint
        outcomes: dict[str, bytes] = {}
        retries: dict[str, bytes] = {}
        for task in batch.tasks:
            context = TaskContext.of_batch(RunContext({}), batch, task, time.time() - limit_s)
            node = blueprint.nodes[task.node]
            policy = task.timeout or node.policies.timeout
            run_s = None if policy is None else policy.run_s
            error = NodeTimeoutError(task.node, limit_s, kind="run", run_timeout=run_s or limit_s)
            ended = Attempt(blueprint, node, StateView({}), context).raised(error)
            outcome = failure_outcome(blueprint, self._serializer, task, ended, worker="", seconds=limit_s)
            (outcomes if outcome.is_final else retries)[task.id] = outcome.pack()
        store.record(outcomes, {}, retries)

    def _connections(self) -> tuple[Redis, Scripts]:
        if self._connected is None:
            client = connect(self._settings.url, retries=1, wait_s=_PATIENCE_S)
            self._connected = client, Scripts(client, "phalanx.worker")
        return self._connected
