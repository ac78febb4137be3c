"""A worker process: what it holds for as long as it lives, and how it runs a message."""

import logging
import threading
from typing import Final

from phalanx.checkpoint.packing import BlobCache
from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.redis.client import connect
from phalanx.checkpoint.redis.scripts import Scripts
from phalanx.checkpoint.retention import Retention
from phalanx.checkpoint.serde import Serializer
from phalanx.errors import CorruptDataError
from phalanx.protocol.batch import Batch
from phalanx.protocol.keys import ClusterKeys
from phalanx.worker.batch_run import FLUSH_AFTER_S, BatchRun
from phalanx.worker.flusher import Flusher
from phalanx.worker.heartbeat import Heartbeat, WorkerInfo
from phalanx.worker.lineage import Savers
from phalanx.worker.loop import LoopThread
from phalanx.worker.registry import GraphRegistry
from phalanx.worker.settings import WorkerSettings
from phalanx.worker.task_store import TaskStore

_WORKING_LIFE_S: Final = 7 * 24 * 3600
"""How long the state of a graph stays that was called inside of a task, where the thread itself is kept elsewhere."""

logger = logging.getLogger("phalanx.worker")


class WorkerProcess:
    """Everything a process keeps between batches: connection, graphs, blobs, event loop, heartbeat.

    Args:
        settings: how to reach the cluster.
        registry: the graphs it knows.
        slots: how many batches it runs at once.
        with_parent: end this process when its parent has ended.
    """

    def __init__(
        self, settings: WorkerSettings, registry: GraphRegistry, *, slots: int = 1, with_parent: bool = False
    ) -> None:
        self.settings = settings
        self.registry = registry
        self.info = WorkerInfo.of_this_process(settings.queues, slots, registry.names)
        self._client = connect(settings.url)
        self._scripts = Scripts(self._client, "phalanx.worker")
        self._serializer = Serializer()
        saver = RedisSaver(self._client, serde=self._serializer, prefix=settings.prefix)
        forgetful = RedisSaver(
            self._client, serde=self._serializer, prefix=settings.prefix, retention=Retention(ttl_s=_WORKING_LIFE_S)
        )
        self._savers = Savers(saver, forgetful)
        self._caches = threading.local()
        self._loop = LoopThread()
        self._killable = with_parent
        self._flusher = Flusher(FLUSH_AFTER_S)
        self._heartbeat = Heartbeat(self._client, ClusterKeys(settings.prefix), self.info, with_parent=with_parent)

    def start(self) -> None:
        """Join the cluster."""
        self._heartbeat.start()

    def stop(self) -> None:
        """Leave the cluster."""
        self._heartbeat.stop()
        self._loop.close()
        self._flusher.close()
        self._client.close()

    def run_message(self, wire: object) -> int:
        """Run a batch as it came off the queue; returns how many tasks were run here."""
        try:
            batch = Batch.from_wire(wire)
        except CorruptDataError as error:
            logger.error("dropped %s", error)
            return 0
        worker = self.info.id
        store = TaskStore(self._client, self._scripts, batch, worker, self.settings.prefix)
        run = BatchRun(
            batch,
            store,
            self.registry,
            self._serializer,
            self._cache(),
            self._loop,
            worker,
            self._flusher,
            killable=self._killable,
            savers=self._savers,
        )
        try:
            return run.run()
        except Exception:
            self._start_over()
            raise

    def _start_over(self) -> None:
        """Go on as another worker process.

        What was claimed and could not be recorded would be waited for as long as the claiming process is alive.
        """
        self.info = WorkerInfo.of_this_process(self.info.queues, self.info.slots, self.registry.names)
        self._heartbeat.go_on_as(self.info)

    def _cache(self) -> BlobCache:
        cache: BlobCache | None = getattr(self._caches, "blobs", None)
        if cache is None:
            cache = self._caches.blobs = BlobCache()
        return cache
