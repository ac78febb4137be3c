"""Which worker processes are alive and what they serve, as the coordinator last saw it."""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, cast

from redis import Redis

from phalanx.checkpoint.redis.client import pipelined
from phalanx.errors import CorruptDataError
from phalanx.protocol.keys import ClusterKeys
from phalanx.worker.heartbeat import WorkerInfo

FRESH_FOR_S: Final = 0.5
"""How long what was read is taken for true."""

logger = logging.getLogger("phalanx.coordinator")


@dataclass(frozen=True, slots=True)
class Workers:
    """The live worker processes that serve a queue."""

    alive: tuple[WorkerInfo, ...] = ()

    @property
    def slots(self) -> int:
        """How many batches they run at once."""
        return sum(worker.slots for worker in self.alive)

    @property
    def hosts(self) -> list[str]:
        """The machines they run on, sorted."""
        return sorted({worker.host for worker in self.alive})

    @property
    def ids(self) -> frozenset[str]:
        """Their ids."""
        return frozenset(worker.id for worker in self.alive)


class Roster:
    """Reads the list of workers: at most twice a second however many runs ask, while there are any; else each time.

    Safe to use from several threads.

    Args:
        client: the state server.
        keys: where workers are listed.
        clock: monotonic seconds.
    """

    def __init__(self, client: Redis, keys: ClusterKeys, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = -1.0e9
        self._alive: tuple[WorkerInfo, ...] = ()

    def serving(self, queue: str) -> Workers:
        """The live worker processes that serve ``queue``."""
        return Workers(tuple(worker for worker in self.alive() if queue in worker.queues))

    def alive(self) -> tuple[WorkerInfo, ...]:
        """All live worker processes. Entries of dead ones are removed on the way."""
        with self._lock:
            now = self._clock()
            if now - self._read_at >= FRESH_FOR_S or not self._alive:
                self._alive = tuple(self._read())
                self._read_at = now
            return self._alive

    def dead(self, worker_ids: Iterable[str]) -> set[str]:
        """Those of the named worker processes whose heart does not beat, looked up now."""
        asked = sorted(set(worker_ids))
        if not asked:
            return set()
        pipe = pipelined(self._client)
        for worker_id in asked:
            pipe.exists(self._keys.worker(worker_id))
        beating = cast("list[int]", pipe.execute())
        return {worker_id for worker_id, beats in zip(asked, beating, strict=True) if not beats}

    def _read(self) -> Iterable[WorkerInfo]:
        entries = cast("dict[bytes, bytes]", self._client.hgetall(self._keys.workers))
        listed = [worker for data in entries.values() if (worker := _readable(data)) is not None]
        if not listed:
            return
        pipe = pipelined(self._client)
        for worker in listed:
            pipe.exists(self._keys.worker(worker.id))
        beating = cast("list[int]", pipe.execute())
        dead = [worker.id for worker, beats in zip(listed, beating, strict=True) if not beats]
        if dead:
            self._client.hdel(self._keys.workers, *dead)
        yield from (worker for worker, beats in zip(listed, beating, strict=True) if beats)


def _readable(data: bytes) -> WorkerInfo | None:
    try:
        return WorkerInfo.unpack(data)
    except CorruptDataError as error:  # of another version, say; it must not stop the runs of this one
        logger.warning("left out of the list of workers: %s", error)
        return None
