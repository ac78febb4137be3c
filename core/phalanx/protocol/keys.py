"""The names of all keys in the state server. No other module makes one, but for those of a node cache.

All keys of a thread share the hash tag ``{thread}``, so that a script may touch them together on a Redis Cluster. An id
that is not plain is replaced by a hash of it, so that no id, whatever it holds, can reach into another's keys.

| key (after the prefix) | type | holds | lives |
|---|---|---|---|
| ``{T}:lease`` | hash | owner, fencing token, expiry (ms, server clock), step | with the thread |
| ``{T}:blobs`` | hash | digest → immutable serialized value | with the thread |
| ``{T}:checkpoints`` | hash | namespace and id → checkpoint record | with the thread |
| ``{T}:index`` | sorted set, by name | namespace and id of every checkpoint | with the thread |
| ``{T}:about`` | hash | the thread's id if the key does not tell it; notes of whoever prunes it | with the thread |
| ``{T}:writes:<place>`` | hash | task id → packed outcome, on one checkpoint | with the thread |
| ``{T}:claims:<place>`` | hash | task id → claim, or a failed attempt | until the step's commit, or a day after |
| ``inbox:<run>`` | list | doorbells for a run's coordinator | a minute after the last |
| ``workers`` | hash | worker process → what it serves | an hour after the last heartbeat; its reader prunes it |
| ``worker:<id>`` | string | "alive" | its heartbeat deadline |
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Final

DEFAULT_PREFIX: Final = "phalanx:"
_INDEX_END: Final = "}:index"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.\-]{1,128}")


def plain(identity: str) -> str:
    """``identity`` itself where it is safe inside a key, else ``~`` and a hash of it; no two ids give the same."""
    if _PLAIN.fullmatch(identity):
        return identity
    return "~" + hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def retry_field(task_id: str) -> str:
    """The field of a step's claims that holds how the last attempt ended of a task that is to be tried again."""
    return f"{task_id}\x00again"


def at_field(namespace: str) -> str:
    """The field of a lease that names the step of a graph that may be worked on."""
    return f"at\x00{namespace}" if namespace else "at"


THREAD_FIELD: Final = "thread"
"""The field of what is known about a thread that holds its id."""

LONE_WRITES: Final = "step\x00"
"""What those fields start with that name the place of writes whose checkpoint is not there."""

SWEEP: Final = "sweep\x00"
"""What those fields start with that say how many checkpoints a namespace has when it is pruned next."""


@dataclass(frozen=True, slots=True)
class ThreadKeys:
    """The keys of one thread.

    Args:
        thread_id: any text.
        prefix: what all keys of this installation start with.
        tag: what the keys have between braces, where only that is known of the thread.
    """

    thread_id: str
    prefix: str = DEFAULT_PREFIX
    tag: str = ""

    @classmethod
    def of_index(cls, key: str, prefix: str) -> "ThreadKeys | None":
        """The keys of the thread whose index is called ``key``; ``None`` when that is another key.

        If the thread's id had to be hashed, ``thread_id`` is empty: it is among what is known about the thread.
        """
        tag = key[len(prefix) + 1 : -len(_INDEX_END)]
        if key != f"{prefix}{{{tag}{_INDEX_END}":
            return None
        return cls("" if tag.startswith("~") else tag, prefix, tag)

    @staticmethod
    def index_pattern(prefix: str) -> str:
        """What matches the index of every thread, in the server's pattern language."""
        escaped = re.sub(r"([*?\[\]\\^-])", r"\\\1", prefix)
        return f"{escaped}{{*{_INDEX_END}"

    @property
    def hashed(self) -> bool:
        """Whether the thread's id cannot be read from the keys."""
        return (self.tag or plain(self.thread_id)).startswith("~")

    def _key(self, rest: str) -> str:
        return f"{self.prefix}{{{self.tag or plain(self.thread_id)}}}:{rest}"

    @property
    def lease(self) -> str:
        return self._key("lease")

    @property
    def blobs(self) -> str:
        return self._key("blobs")

    @property
    def checkpoints(self) -> str:
        return self._key("checkpoints")

    @property
    def index(self) -> str:
        return self._key("index")

    @property
    def about(self) -> str:
        return self._key("about")

    def writes(self, namespace: str, checkpoint_id: str) -> str:
        """Outcomes of the tasks that start from this checkpoint."""
        return self._key(f"writes:{_place_key(namespace, checkpoint_id)}")

    def claims(self, namespace: str, checkpoint_id: str) -> str:
        """Which worker process runs which of those tasks."""
        return self._key(f"claims:{_place_key(namespace, checkpoint_id)}")


def _place_key(namespace: str, checkpoint_id: str) -> str:
    return f"{plain(namespace) if namespace else ''}:{plain(checkpoint_id)}"


def place(namespace: str, checkpoint_id: str) -> str:
    """The name of a checkpoint inside its thread; sorts by namespace, then by time.

    Raises:
        ValueError: one of them holds the character that parts them.
    """
    if "\x00" in namespace or "\x00" in checkpoint_id:
        raise ValueError(f"namespace {namespace!r} and checkpoint id {checkpoint_id!r} must not hold a NUL character")
    return f"{namespace}\x00{checkpoint_id}"


def place_parts(name: str) -> tuple[str, str]:
    """Namespace and checkpoint id of a :func:`place`."""
    namespace, _, checkpoint_id = name.rpartition("\x00")
    return namespace, checkpoint_id


@dataclass(frozen=True, slots=True)
class ClusterKeys:
    """The keys that belong to no thread."""

    prefix: str = DEFAULT_PREFIX

    @property
    def workers(self) -> str:
        return f"{self.prefix}workers"

    def worker(self, worker_id: str) -> str:
        """Exists while the worker process's heart beats."""
        return f"{self.prefix}worker:{plain(worker_id)}"

    def inbox(self, run_id: str) -> str:
        """Where workers ring for this run's coordinator."""
        return f"{self.prefix}inbox:{plain(run_id)}"
