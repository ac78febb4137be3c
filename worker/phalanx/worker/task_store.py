"""What a worker process does to a thread in the state server: claim tasks, fetch blobs, record outcomes, ring."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Final, cast

from redis import Redis

from phalanx.checkpoint.redis.client import pipelined, read_fields
from phalanx.checkpoint.redis.scripts import Argument, Scripts
from phalanx.protocol.batch import Batch
from phalanx.protocol.doorbell import ring
from phalanx.protocol.keys import ClusterKeys, ThreadKeys, at_field, retry_field

_NONE: Final[Mapping[str, bytes]] = {}
_INBOX_LIFE_S: Final = 60  # so that what is rung after the run has ended does not stay


class TaskStore:
    """One batch's thread, as a worker process sees it.

    Args:
        client: the state server.
        scripts: this package's, on that server.
        batch: whose tasks it is about.
        worker: this worker process.
        prefix: what all keys start with.
    """

    def __init__(self, client: Redis, scripts: Scripts, batch: Batch, worker: str, prefix: str) -> None:
        self._client = client
        self._batch = batch
        self._worker = worker
        self._keys = ThreadKeys(batch.thread_id, prefix)
        self._claims = self._keys.claims(batch.namespace, batch.checkpoint_id)
        self._writes = self._keys.writes(batch.namespace, batch.checkpoint_id)
        self._inbox = ClusterKeys(prefix).inbox(batch.run_id)  # a message names runs and threads, never keys
        self._at = self._claims.encode()
        self._at_field = at_field(batch.namespace)
        self._scripts = scripts

    def claim(self) -> set[str]:
        """Claim the batch's tasks; returns the ids of those that are this worker's to run."""
        batch = self._batch
        call = uuid.uuid4().hex
        arguments: list[Argument] = [batch.token, self._worker, batch.ttl_s * 1000, call, self._at_field]
        for task in batch.tasks:
            arguments += [task.id, task.attempt]
        claimed = self._scripts.run("claim", [self._keys.lease, self._claims, self._writes], arguments)
        return {task_id.decode() for task_id in cast("list[bytes]", claimed)}

    def is_over(self) -> bool:
        """Whether nobody waits for the batch's outcomes any more: its run has ended, or its superstep has.

        A run whose coordinator died is not over. Another one may go on from the same superstep, and then waits for what
        is under way.
        """
        fields = read_fields(self._client, self._keys.lease, ["owner", self._at_field])
        return not fields.get("owner") or fields.get(self._at_field, self._at) != self._at

    def give_back(self, task_ids: Sequence[str]) -> None:
        """Claim no longer these tasks, which were left before their end."""
        self._scripts.run("give_back", [self._claims], [self._worker, *task_ids])

    def fetch_blobs(self, digests: Sequence[str]) -> dict[str, bytes]:
        """The blobs that exist of those named."""
        return read_fields(self._client, self._keys.blobs, digests)

    def record(
        self, outcomes: Mapping[str, bytes], blobs: Mapping[str, bytes], retries: Mapping[str, bytes] = _NONE
    ) -> None:
        """Record outcomes, and only then ring: whoever hears the bell finds them.

        Args:
            outcomes: by task id; final.
            blobs: what the outcomes refer to.
            retries: by task id; those of attempts that are to be followed by another.
        """
        attempts = {task.id: task.attempt for task in self._batch.tasks}
        arguments: list[Argument] = [self._batch.ttl_s * 1000, len(outcomes), len(retries)]
        for task_id, data in outcomes.items():
            arguments += [task_id, data]
        for task_id, data in retries.items():
            arguments += [task_id, retry_field(task_id), attempts.get(task_id, 0), data]
        for digest, data in blobs.items():
            arguments += [digest, data]
        pipe = pipelined(self._client)
        self._scripts.run("record", [self._claims, self._writes, self._keys.blobs], arguments, pipe)
        pipe.rpush(self._inbox, ring(self._batch.checkpoint_id, [*outcomes, *retries]))
        pipe.expire(self._inbox, _INBOX_LIFE_S)
        pipe.execute()
