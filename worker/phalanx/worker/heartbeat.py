"""The heartbeat of a worker process: while it beats, what the process has claimed is its own.

Its deadline is kept by the server's clock, so that the clocks of the machines do not matter. A process whose parent
is gone ends itself: nobody would give it work or stop it.
"""

import logging
import os
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from redis import Redis
from redis.exceptions import RedisError

from phalanx.checkpoint.redis.client import pipelined
from phalanx.protocol.keys import ClusterKeys
from phalanx.protocol.plain import expect, expect_list, pack, unpack

BEAT_EVERY_S: Final = 1.5
DEADLINE_S: Final = 6.0
"""How long after its last beat a worker process is taken for dead."""
_ENTRY_LIFE_S: Final = 3600

logger = logging.getLogger("phalanx.worker")


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What a worker process says about itself.

    Attributes:
        id: unique: host, process id, and a part made at its start.
        slots: how many batches it runs at once.
        graphs: the graphs it had when it joined; a local cluster's workers learn of more.
    """

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    slots: int
    graphs: tuple[str, ...] = ()

    def pack(self) -> bytes:
        """The stored form."""
        return pack([self.id, self.host, self.pid, self.queues, self.slots, self.graphs])

    @classmethod
    def unpack(cls, data: bytes) -> "WorkerInfo":
        """Read the stored form.

        Raises:
            CorruptDataError: it is not one.
        """

        def read(record: Any) -> WorkerInfo:
            identity, host, pid, queues, slots, graphs = expect_list(record)
            return cls(
                expect(str, identity),
                expect(str, host),
                expect(int, pid),
                tuple(expect(str, queue) for queue in expect_list(queues)),
                expect(int, slots),
                tuple(expect(str, graph) for graph in expect_list(graphs)),
            )

        return unpack(data, "a worker's entry", read)

    @classmethod
    def of_this_process(cls, queues: Sequence[str], slots: int, graphs: Sequence[str] = ()) -> "WorkerInfo":
        """This process, under a new id."""
        host, pid = socket.gethostname(), os.getpid()
        return cls(f"{host}:{pid}:{os.urandom(3).hex()}", host, pid, tuple(queues), slots, tuple(graphs))


class Heartbeat:
    """Beats in a thread of its own until it is stopped.

    Args:
        client: the state server.
        keys: where workers are listed.
        info: this process.
        with_parent: end this process when its parent has ended.
    """

    def __init__(self, client: Redis, keys: ClusterKeys, info: WorkerInfo, *, with_parent: bool) -> None:
        self._client = client
        self._keys = keys
        self._info = info
        self._parent = os.getppid() if with_parent else None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="phalanx-heartbeat", daemon=True)

    def start(self) -> None:
        """Beat once now, and from now on; also when the server does not answer yet."""
        self._try_to_beat()
        self._thread.start()

    def stop(self) -> None:
        """Say good-bye: the process takes no more tasks, and what it has claimed is free."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2)
        try:
            pipe = pipelined(self._client)
            pipe.hdel(self._keys.workers, self._info.id)
            pipe.unlink(self._keys.worker(self._info.id))
            pipe.execute()
        except RedisError as error:
            logger.info("could not say good-bye; the heartbeat's deadline will: %s", error)

    def go_on_as(self, info: WorkerInfo) -> None:
        """Beat under another id from now on. The one before is taken for dead once its deadline has passed."""
        self._info = info
        self._try_to_beat()

    def _run(self) -> None:
        while not self._stopped.wait(BEAT_EVERY_S):
            if self._parent is not None and os.getppid() != self._parent:
                os._exit(1)
            self._try_to_beat()

    def _try_to_beat(self) -> None:
        try:
            self._beat()
        except (RedisError, OSError) as error:
            logger.warning("heartbeat of %s failed: %s", self._info.id, error)

    def _beat(self) -> None:
        info = self._info
        pipe = pipelined(self._client)
        pipe.set(self._keys.worker(info.id), b"alive", px=int(DEADLINE_S * 1000))
        pipe.hset(self._keys.workers, info.id, info.pack())
        pipe.expire(self._keys.workers, _ENTRY_LIFE_S)
        pipe.execute()
