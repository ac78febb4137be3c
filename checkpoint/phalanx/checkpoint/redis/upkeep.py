"""Keeping threads in the state server small: retention, pruning, expiry, deleting; and copying one.

What is to go is chosen here, from what was read; the scripts carry it out unless something changed meanwhile, and then
the choice is made again.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from redis import Redis

from phalanx.checkpoint.packing import BlobCache
from phalanx.checkpoint.redis.client import read_fields
from phalanx.checkpoint.redis.reader import ThreadReader
from phalanx.checkpoint.redis.record import CheckpointRecord
from phalanx.checkpoint.redis.scripts import Argument, Scripts
from phalanx.checkpoint.redis.stored import stored_writes
from phalanx.checkpoint.retention import Link, Retention, link_of, with_needed
from phalanx.checkpoint.serde import Serializer
from phalanx.errors import CorruptDataError, ThreadBusyError
from phalanx.protocol.keys import SWEEP, ThreadKeys, place

_TRIES: Final = 50
_CHOOSE_AGAIN: Final = -1
_NOBODY_KNOWS_WHERE: Final = -2

Choose = Callable[[str, Sequence[Link]], set[str]]
"""The ids of what stays, out of a namespace and its checkpoints."""


@dataclass(slots=True)
class Step:
    """What is stored at a place.

    Attributes:
        record: the checkpoint; empty when only writes are stored.
        writes: whether to replace, field and packed write.
        reused: digests that must be there already.
        blobs: by digest, what is new.
        token: the fencing token of whoever stores it, if a lease guards it.
    """

    namespace: str
    checkpoint_id: str
    parent_id: str = ""
    record: bytes = b""
    writes: Sequence[tuple[bool, str | bytes, bytes]] = ()
    reused: Sequence[str] = ()
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    token: int | None = None


class StaleTokenError(Exception):
    """Another coordinator has taken the thread."""


class Upkeep:
    """Writes to threads as a saver does, and looks after them.

    Args:
        client: the server.
        serializer: the codec.
        cache: blobs that were read before.
        retention: what to keep.
    """

    def __init__(self, client: Redis, serializer: Serializer, cache: BlobCache, retention: Retention) -> None:
        self.client = client
        self.serializer = serializer
        self.retention = retention
        self._cache = cache
        self._scripts = Scripts(client, "phalanx.checkpoint.redis")

    def reader(self, keys: ThreadKeys) -> ThreadReader:
        """Reads a thread."""
        return ThreadReader(self.client, keys, self.serializer, self._cache)

    # --- storing ------------------------------------------------------------------------------------------------------

    def store(self, keys: ThreadKeys, step: Step) -> list[str]:
        """Store what belongs to a place, and do for the thread what is due.

        Returns:
            Those of ``step.reused`` that are not there; then nothing was stored.

        Raises:
            StaleTokenError: nothing was stored.
        """
        prunes = self.retention.keep_last is not None
        lower, upper = (f"[{place(step.namespace, '')}", f"({step.namespace}\x01") if prunes else ("", "")
        arguments: list[Argument] = [
            place(step.namespace, step.checkpoint_id) if step.checkpoint_id else "",
            step.record,
            f"={keys.thread_id}".encode("utf-8", "surrogatepass") if keys.hashed else "",
            self._ttl_ms,
            lower,
            upper,
            f"{SWEEP}{step.namespace}",
            len(step.reused),
            len(step.writes),
            "" if step.token is None else step.token,
            *step.reused,
        ]
        for replaces, name, packed in step.writes:
            arguments += ["1" if replaces else "0", name, packed]
        for digest, data in step.blobs.items():
            arguments += [digest, data]
        of_step = [keys.writes(step.namespace, step.checkpoint_id), keys.claims(step.namespace, step.parent_id)]
        all_keys = [keys.lease, keys.blobs, keys.checkpoints, keys.index, keys.about, *of_step]
        done, *reply = cast("list[object]", self._scripts.run("store", all_keys, arguments))
        if done == -1:
            raise StaleTokenError
        if not done:
            return [cast("bytes", digest).decode() for digest in reply]
        count, sweep_at, due = cast("list[int]", reply)
        if due:
            self._touch(keys)
        if prunes and count >= (sweep_at or self.retention.sweep_at()):
            self._sweep(keys, step.namespace)
        return []

    @property
    def _ttl_ms(self) -> int:
        return 0 if self.retention.ttl_s is None else max(1, int(self.retention.ttl_s * 1000))

    def tend(self, keys: ThreadKeys, namespace: str, *, at_end: bool = False) -> None:
        """Do for a thread what is due after a commit.

        Args:
            at_end: whether the thread will rest now, so that all its keys are given the same deadline.
        """
        if self._ttl_ms or self.retention.keep_last is not None:
            self.store(keys, Step(namespace, ""))
        if self._ttl_ms and at_end:
            self._touch(keys)

    def _touch(self, keys: ThreadKeys) -> None:
        reader = self.reader(keys)
        for _ in range(_TRIES):
            fields = self.client.hlen(keys.about)
            lone, places = reader.lone_places(), reader.places()
            of_steps = _step_keys(keys, {*places, *lone})
            all_keys = [keys.index, keys.about, keys.lease, keys.blobs, keys.checkpoints, *of_steps]
            if self._scripts.run("touch", all_keys, [self._ttl_ms, len(places), fields]):
                return

    # --- pruning ------------------------------------------------------------------------------------------------------

    def prune(self, keys: ThreadKeys, choose: Choose) -> None:
        """Prune every namespace of a thread.

        Raises:
            ThreadBusyError: a run has just taken the thread, and nobody knows yet from where it goes on.
        """
        for _ in range(_TRIES):
            reply = self._prune_once(keys, choose, None)
            if reply == _NOBODY_KNOWS_WHERE:
                raise self._busy(keys)
            if reply != _CHOOSE_AGAIN:
                return
        raise self._busy(keys)

    def _sweep(self, keys: ThreadKeys, namespace: str) -> None:
        """Prune a namespace by what is to be kept. If others are at it too, the next one does it."""
        self._prune_once(keys, lambda _, links: self.retention.survivors(links), namespace)

    def _busy(self, keys: ThreadKeys) -> ThreadBusyError:
        owner = read_fields(self.client, keys.lease, ["owner"]).get("owner", b"").decode()
        return ThreadBusyError(keys.thread_id, owner or "another writer", 0.0)

    def _prune_once(self, keys: ThreadKeys, choose: Choose, only: str | None) -> int:
        reader = self.reader(keys)
        places = reader.places()
        lone = [each for each in reader.lone_places() if each not in places]
        records = self._records(keys, [each for each in places if only is None or each[0] == only])
        going: set[tuple[str, str]] = set()
        arguments: list[Argument] = []
        noted: list[Argument] = []
        for namespace in {namespace for namespace, _ in records}:
            here = {each: found for (where, each), (found, _) in records.items() if where == namespace}
            kept = choose(namespace, [_link(checkpoint_id, record) for checkpoint_id, record in here.items()])
            gone = here.keys() - kept
            going |= {(namespace, checkpoint_id) for checkpoint_id in gone}
            if only is not None:
                noted += [f"{SWEEP}{namespace}", self.retention.sweep_at(len(kept))]
            for checkpoint_id in kept:
                record, data = records[namespace, checkpoint_id]
                if record.parent_id in gone:
                    changed = replace(record, parent_id=None).pack(self.serializer)
                    arguments += [place(namespace, checkpoint_id), hashlib.sha1(data).hexdigest(), changed]
        ordered = [*(each for each in [*places, *lone] if each not in going), *sorted(going)]
        all_keys = [keys.lease, keys.blobs, keys.checkpoints, keys.index, keys.about, *_step_keys(keys, ordered)]
        counts: list[Argument] = [len(ordered), len(ordered) - len(going), len(arguments) // 3]
        named: list[Argument] = [place(*each) for each in ordered]
        return cast("int", self._scripts.run("prune", all_keys, [*counts, *named, *arguments, *noted]))

    def _records(
        self, keys: ThreadKeys, places: Sequence[tuple[str, str]]
    ) -> dict[tuple[str, str], tuple[CheckpointRecord, bytes]]:
        found: dict[tuple[str, str], tuple[CheckpointRecord, bytes]] = {}
        for start in range(0, len(places), 500):
            by_field = {place(*each): each for each in places[start : start + 500]}
            for name, data in read_fields(self.client, keys.checkpoints, [*by_field]).items():
                found[by_field[name]] = (CheckpointRecord.unpack(data, self.serializer), data)
        return found

    def prune_runs(self, keys: ThreadKeys, run_ids: Collection[str]) -> None:
        """Remove what runs made in a thread, but for what others need of it."""
        records = self._records(keys, self.reader(keys).places())
        made = {each for each, (record, _) in records.items() if str(record.metadata.get("run_id")) in run_ids}

        def choose(namespace: str, links: Sequence[Link]) -> set[str]:
            return with_needed(links, [link.id for link in links if (namespace, link.id) not in made])

        if made:
            self.prune(keys, choose)

    # --- whole threads ------------------------------------------------------------------------------------------------

    def delete(self, keys: ThreadKeys) -> None:
        """Remove all keys of a thread."""
        reader = self.reader(keys)
        of_steps = _step_keys(keys, {*reader.places(), *reader.lone_places()})
        self.client.unlink(keys.lease, keys.blobs, keys.checkpoints, keys.index, keys.about, *of_steps)

    def copy(self, source: ThreadKeys, target: ThreadKeys) -> None:
        """Store all that a thread has in another one too, the oldest first; each checkpoint with its writes at once."""
        reader = self.reader(source)
        sent: set[str] = set()
        for namespace, checkpoint_id in sorted(reader.places()):
            for left in reversed(range(_TRIES)):
                ((data, fields),) = reader.raw(namespace, [checkpoint_id])
                if data is None:
                    break  # pruned meanwhile
                record = CheckpointRecord.unpack(data, self.serializer)
                try:
                    blobs = reader.blobs_of(record, stored_writes(fields))
                except CorruptDataError:
                    if left == 0 or reader.raw(namespace, [checkpoint_id]) == [(data, fields)]:
                        raise
                    continue
                step = Step(namespace, checkpoint_id, record.parent_id or "", data)
                step.writes = [(False, name, write) for name, write in fields.items()]
                self._store_copy(target, step, blobs, sent)
                break

    def _store_copy(self, target: ThreadKeys, step: Step, blobs: dict[str, bytes], sent: set[str]) -> None:
        step.reused = [digest for digest in blobs if digest in sent]
        step.blobs = {digest: data for digest, data in blobs.items() if digest not in sent}
        if self.store(target, step):  # pruned there meanwhile
            step.reused, step.blobs = (), blobs
            self.store(target, step)
        sent.update(blobs)


def _link(checkpoint_id: str, record: CheckpointRecord) -> Link:
    metadata = cast("dict[str, object]", record.metadata)
    return link_of(checkpoint_id, record.parent_id, record.values.keys(), metadata)


def _step_keys(keys: ThreadKeys, places: Iterable[tuple[str, str]]) -> list[str]:
    return [made(*each) for each in places for made in (keys.writes, keys.claims)]
