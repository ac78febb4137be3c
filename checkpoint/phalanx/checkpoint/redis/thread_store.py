"""What a coordinator does to a thread in the state server: take its lease, commit supersteps, collect outcomes.

Every change checks the fencing token inside its script. A coordinator that lost its lease (it was paused, or cut off)
changes nothing, however late its commands arrive.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from redis import Redis

from phalanx.checkpoint.redis.client import pipelined, read_fields
from phalanx.checkpoint.redis.scripts import Argument, Scripts
from phalanx.errors import StaleLeaseError, ThreadBusyError
from phalanx.protocol.keys import THREAD_FIELD, ThreadKeys, at_field, place, place_parts, retry_field

LEASE_VALID_MS: Final = 15_000
"""How long a coordinator may be silent before another may take its thread."""

RENEW_EVERY_S: Final = 5.0
"""How often a coordinator says that it is alive."""

CLAIMS_LIFE_S: Final = 24 * 3600
"""How long the claims of a step stay whose run ended before the step did."""

LASTING: Final = "1"
"""How a step is noted whose outcomes the next run may need, although its checkpoint is not here."""

PASSING: Final = "run"
"""How a step is noted whose outcomes are of no use to anybody once its run has ended."""

Step = tuple[str, str]
"""The superstep that starts from a checkpoint: its graph's namespace, and the checkpoint's id."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to drive a thread. ``token`` is greater than that of every owner before."""

    owner: str
    token: int


class ThreadStore:
    """One thread, as the coordinator that drives it sees it.

    Args:
        client: the state server.
        keys: the thread's keys.
        ttl_s: how long the keys of a thread of which only the latest state is kept live after the last commit; 0 for
            one that is kept.
        life_s: how long those of a kept thread live after it was last worked on; 0 for ever.
        called: what its users call the thread, where the keys are under another name.
    """

    def __init__(self, client: Redis, keys: ThreadKeys, ttl_s: int, life_s: int = 0, called: str = "") -> None:
        self.client = client
        self.keys = keys
        self.ttl_s = ttl_s
        self.life_s = ttl_s or life_s
        self.called = called or keys.thread_id
        self._scripts = Scripts(client, "phalanx.checkpoint.redis")

    # --- the lease ----------------------------------------------------------------------------------------------------

    def acquire(self, owner: str) -> Lease:
        """Take the lease.

        Raises:
            ThreadBusyError: another run drives the thread.
        """
        arguments: list[Argument] = [owner, LEASE_VALID_MS, self.ttl_s * 1000, PASSING]
        reply = self._scripts.run("lease_acquire", [self.keys.lease, self.keys.about], arguments)
        token, *more = cast("list[object]", reply)
        if not token:
            other, left_ms = cast("tuple[bytes, int]", tuple(more))
            raise ThreadBusyError(self.called, other.decode(), left_ms / 1000)
        if self.keys.hashed and not self.ttl_s:  # whoever lists threads finds its id nowhere else
            self.client.hset(self.keys.about, THREAD_FIELD, self.keys.thread_id.encode("utf-8", "surrogatepass"))
        lease = Lease(owner, cast("int", token))
        for left in cast("list[bytes]", more):  # by one that died
            self.forget(lease, place_parts(left.decode()))
        return lease

    def renew(self, lease: Lease, checkpoint_id: str | None, inside: Iterable[Step] = ()) -> None:
        """Say that the owner is alive, and keep alive what the run works on.

        Args:
            checkpoint_id: where the run stands; ``None`` if a graph inside asks, which does not know.
            inside: where the runs of graphs inside stand.

        Raises:
            StaleLeaseError: another one has taken the thread, or the server lost the last commit.
        """
        keys = self.keys
        step = [keys.claims("", checkpoint_id or ""), keys.writes("", checkpoint_id or "")]
        working = [keys.blobs, keys.checkpoints, keys.index]
        if self.ttl_s:
            working += self._step_keys(inside)
        arguments: list[Argument] = [lease.token, LEASE_VALID_MS, self.ttl_s * 1000, int(checkpoint_id is not None)]
        if not self._scripts.run("lease_renew", [keys.lease, *step, *working], arguments):
            raise self.stale(lease)

    def release(self, lease: Lease, steps: Iterable[Step]) -> None:
        """Give the lease back; nothing happens when it is no longer this one.

        Args:
            steps: where the run and those of graphs inside stand. If they end within a step, its claims get an end too.
        """
        claims = [self.keys.claims(*step) for step in steps]
        self._scripts.run("lease_release", [self.keys.lease, *claims], [lease.token, CLAIMS_LIFE_S])

    def forget(self, lease: Lease, step: Step) -> None:
        """Delete what is left of the last step of a graph inside whose checkpoints are not kept."""
        keys = self.keys
        all_keys = [keys.lease, keys.checkpoints, keys.index, keys.about, *self._step_keys([step])]
        self._scripts.run("forget", all_keys, [lease.token, at_field(step[0]), place(*step)])

    def _step_keys(self, steps: Iterable[Step]) -> list[str]:
        return [made(*step) for step in steps for made in (self.keys.claims, self.keys.writes)]

    def stale(self, lease: Lease) -> StaleLeaseError:
        """The error of a coordinator that lost its lease."""
        return StaleLeaseError(
            f"run {lease.owner} lost its lease on thread {self.called!r} (token {lease.token}): "
            f"another run has taken the thread since, or the state server lost its last writes; nothing more was "
            f"written by this run, and the thread stands where it last committed: look at its state, then go on "
            f"with input None"
        )

    # --- supersteps ---------------------------------------------------------------------------------------------------

    def commit(
        self,
        *,
        lease: Lease,
        blobs: Mapping[str, bytes],
        namespace: str,
        checkpoint_id: str,
        parent_id: str,
        record: bytes,
        noted: str = "",
    ) -> None:
        """Store blobs and a checkpoint, and retire the superstep that led to it, atomically.

        Args:
            parent_id: the checkpoint the superstep started from; its claims are retired.
            record: the checkpoint; empty when it is kept elsewhere, or nowhere.
            noted: how to note the superstep that begins, if no record names it (:data:`LASTING`, :data:`PASSING`); then
                the outcomes of the one that ends are deleted too.

        Raises:
            StaleLeaseError: nothing was written.
        """
        stored = commit(
            self._scripts,
            self.keys,
            token=lease.token,
            ttl_s=self.ttl_s,
            blobs=blobs,
            namespace=namespace,
            checkpoint_id=checkpoint_id,
            parent_id=parent_id,
            record=record,
            noted=noted,
        )
        if not stored:
            raise self.stale(lease)

    def store_blobs(self, blobs: Mapping[str, bytes]) -> None:
        """Store blobs that tasks about to be handed out refer to."""
        pipe = pipelined(self.client)
        for digest, data in blobs.items():
            pipe.hsetnx(self.keys.blobs, digest, data)
        if self.ttl_s:
            pipe.expire(self.keys.blobs, self.ttl_s)
        pipe.execute()

    def fetch_blobs(self, digests: Sequence[str]) -> dict[str, bytes]:
        """The blobs that exist of those named."""
        return read_fields(self.client, self.keys.blobs, digests)

    def outcomes(self, namespace: str, checkpoint_id: str, task_ids: Sequence[str]) -> dict[str, bytes]:
        """The recorded outcomes of those tasks, packed."""
        return read_fields(self.client, self.keys.writes(namespace, checkpoint_id), task_ids)

    def retries(self, namespace: str, checkpoint_id: str, task_ids: Sequence[str]) -> dict[str, bytes]:
        """The outcomes of those tasks' last attempts that are to be followed by another, packed."""
        fields = [retry_field(task_id) for task_id in task_ids]
        found = read_fields(self.client, self.keys.claims(namespace, checkpoint_id), fields)
        return {task_id: found[field] for task_id, field in zip(task_ids, fields, strict=True) if field in found}

    def claims(self, namespace: str, checkpoint_id: str, task_ids: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Attempt and worker process of those tasks that a worker has claimed."""
        found = read_fields(self.client, self.keys.claims(namespace, checkpoint_id), task_ids)
        claims: dict[str, tuple[int, str]] = {}
        for task_id, data in found.items():
            attempt, worker, *_ = data.decode().split("|")
            claims[task_id] = (int(attempt), worker)
        return claims

    def reopen(
        self, *, lease: Lease, namespace: str, checkpoint_id: str, errors: Mapping[str, tuple[str, bytes]]
    ) -> None:
        """Move what tasks came to in earlier runs aside, so that they can run again.

        Args:
            errors: by task id, the field that keeps what is moved aside, and that; nothing is kept in a field without a
                name.

        Raises:
            StaleLeaseError: nothing was written.
        """
        arguments: list[Argument] = [lease.token]
        for task_id, (kept_as, error) in errors.items():
            arguments += [task_id, retry_field(task_id), kept_as, error]
        where = (namespace, checkpoint_id)
        keys = [self.keys.lease, self.keys.writes(*where), self.keys.claims(*where)]
        if errors and not self._scripts.run("reopen", keys, arguments):
            raise self.stale(lease)

    def void_claims(self, lease: Lease, namespace: str, checkpoint_id: str, task_ids: Sequence[str]) -> None:
        """Forget who runs these tasks; nothing happens when the lease is stale.

        What they still come to is dropped, unless the next run has them claimed again by then.
        """
        keys = [self.keys.lease, self.keys.claims(namespace, checkpoint_id)]
        if task_ids:
            self._scripts.run("void_claims", keys, [lease.token, *task_ids])

    def drop(self, lease: Lease, steps: Iterable[Step]) -> None:
        """Delete the thread's keys, and those of the named steps; nothing happens when the lease is stale."""
        keys = self.keys
        all_keys = [keys.lease, keys.blobs, keys.checkpoints, keys.index, *self._step_keys(steps)]
        self._scripts.run("drop", all_keys, [lease.token])


def commit(
    scripts: Scripts,
    keys: ThreadKeys,
    *,
    token: int | None,
    ttl_s: int,
    blobs: Mapping[str, bytes],
    namespace: str,
    checkpoint_id: str,
    parent_id: str,
    record: bytes,
    noted: str = "",
) -> bool:
    """Call ``commit.lua``. Returns whether it was done; without a token nothing can be stale."""
    arguments: list[Argument] = [
        "" if token is None else token,
        ttl_s * 1000,
        place(namespace, checkpoint_id),
        record,
        place(namespace, parent_id),
        at_field(namespace),
        noted,
    ]
    for digest, data in blobs.items():
        arguments += [digest, data]
    all_keys = [
        keys.lease,
        keys.blobs,
        keys.checkpoints,
        keys.index,
        keys.claims(namespace, parent_id),
        keys.writes(namespace, parent_id),
        keys.claims(namespace, checkpoint_id),
        keys.about,
    ]
    return bool(scripts.run("commit", all_keys, arguments))
