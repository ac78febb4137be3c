"""What a test sees of the server it runs on: the keys under a prefix of its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from redis import Redis

from phalanx.checkpoint.redis.thread_store import ThreadStore
from phalanx.protocol.keys import ThreadKeys

KEPT: Final = frozenset({"lease", "blobs", "checkpoints", "index", "about", "writes", "claims"})
"""The kinds of keys that live as long as a thread that is kept."""


@dataclass(frozen=True, slots=True)
class Keyspace:
    """The keys under one prefix.

    Attributes:
        url: the server.
        client: a connection to it.
        prefix: what this test's keys start with.
    """

    url: str
    client: Redis
    prefix: str

    def thread(self, thread_id: str = "t", *, ttl_s: int = 0) -> ThreadStore:
        """A thread as its coordinator sees it."""
        return ThreadStore(self.client, ThreadKeys(thread_id, self.prefix), ttl_s)

    def names(self) -> list[str]:
        """The names of all keys, sorted."""
        client = cast("Any", self.client)  # the client library leaves this method half typed
        found: Iterator[bytes] = client.scan_iter(f"{self.prefix}*", count=1000)
        return sorted(key.decode() for key in found)

    def everything(self) -> dict[str, bytes]:
        """The content of every key, as the server itself would move it elsewhere."""
        return {name: cast("bytes", self.client.dump(name)) for name in self.names()}

    def ttl_ms(self, key: str) -> int:
        """How long a key still lives; -1 is for ever, and -2 says that there is none."""
        return self.client.pttl(key)

    def lasting(self) -> list[str]:
        """The keys without a time to live."""
        return [name for name in self.names() if self.ttl_ms(name) == -1]

    def fields(self, key: str) -> dict[bytes, bytes]:
        """A hash."""
        return cast("dict[bytes, bytes]", self.client.hgetall(key))

    def write(self, key: str, fields: Mapping[str, bytes | str | int]) -> None:
        """Write into a hash, past everybody."""
        self.client.hset(key, mapping=cast("Any", dict(fields)))

    def members(self, key: str) -> list[bytes]:
        """A sorted set, in its order."""
        return cast("list[bytes]", self.client.zrange(key, 0, -1))  # pyright: ignore[reportUnknownMemberType]

    def rings(self, key: str) -> list[bytes]:
        """A list."""
        return cast("list[bytes]", self.client.lrange(key, 0, -1))

    def expire_lease(self, store: ThreadStore) -> None:
        """As if the owner of the thread's lease had been silent for too long."""
        self.write(store.keys.lease, {"until": 1})


def is_kept(key: str) -> bool:
    """Whether a key belongs to a thread, and may live as long as it."""
    _, braced, kind = key.partition("}:")
    return bool(braced) and kind.split(":")[0] in KEPT
