"""A cache on a Redis or Valkey server, for all machines.

One key an entry, which the server itself drops at the end of its time:

| key (after the prefix) | type | holds | lives |
|---|---|---|---|
| ``{N}:cached:<key>`` | string | one value; N is a hash of the namespace | its time to live; for ever if it has none |

There is no index of what to clear: it would have to be kept true, and alive as long as its longest entry, by every
write. Clearing is rare and walks the server's keys instead (``SCAN``, a page at a time, nobody waits for it).
"""

import hashlib
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, TypeVar, cast

from redis import Redis
from redis.exceptions import RedisError

from phalanx.cache.base import BaseCache, FullKey, Namespace
from phalanx.cache.entries import namespace_bytes, packed, unpacked
from phalanx.checkpoint.redis.client import connect, pipelined, without_password
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.errors import CacheUnavailableError
from phalanx.protocol.keys import plain

Value = TypeVar("Value")

_PAGE: Final = 1000
_WAIT_S: Final = 5.0
"""How long an answer may take. Less than for the state: a run can do without its cache."""


class RedisCache(BaseCache[Value]):
    """Keeps values on a server.

    Args:
        redis: a URL, or a client of redis-py that does not decode responses.
        serde: turns values into bytes and back.
        prefix: what all keys start with.

    Raises:
        ValueError: the URL is not one of a Redis server, or the client decodes responses.
    """

    def __init__(
        self, redis: str | Redis, *, serde: SerializerProtocol | None = None, prefix: str = "phalanx:cache:"
    ) -> None:
        super().__init__(serde=serde)
        self.client: Final = connect(redis, retries=1, wait_s=_WAIT_S) if isinstance(redis, str) else redis
        self.prefix: Final = prefix
        settings = cast("dict[str, Any]", cast("Any", self.client).get_connection_kwargs())
        if settings.get("decode_responses"):
            raise ValueError("RedisCache stores bytes: give it a client made without decode_responses=True, or a URL")
        self._where: Final = without_password(redis) if isinstance(redis, str) else _address(settings)

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Value]:
        by_namespace: dict[Namespace, dict[FullKey, str]] = {}
        for namespace, key in keys:
            by_namespace.setdefault(namespace, {})[namespace, key] = self._name(namespace, key)
        found: dict[FullKey, object] = {}
        if by_namespace:
            with self._wrapped_errors():
                pipe = pipelined(self.client)
                for names in by_namespace.values():  # a command each: on a Redis Cluster they lie on several servers
                    pipe.mget([*names.values()])
                for names, answers in zip(by_namespace.values(), pipe.execute(), strict=True):
                    found.update(zip(names, answers, strict=True))
        return unpacked(self.serde, {full_key: data for full_key, data in found.items() if data is not None})

    def set(self, pairs: Mapping[FullKey, tuple[Value, int | None]]) -> None:
        entries = packed(self.serde, pairs)
        if not entries:
            return
        with self._wrapped_errors():
            pipe = pipelined(self.client)
            for (namespace, key), entry in entries.items():
                name = self._name(namespace, key)
                if entry.is_over:
                    pipe.unlink(name)
                else:
                    pipe.set(name, entry.data, px=None if entry.ttl_s is None else max(1, round(entry.ttl_s * 1000)))
            pipe.execute()

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget everything in these namespaces; everything under the prefix unless given.

        Takes as long as it takes the server to go through all its keys once.

        Raises:
            CacheUnavailableError: the server does not answer or refuses.
        """
        heads = None if namespaces is None else {self._head(namespace).encode() for namespace in namespaces}
        if heads == set():
            return
        tag = "*" if heads is None or len(heads) > 1 else _tag((namespaces or [()])[0])
        client = cast("Any", self.client)  # the client library leaves scan_iter half typed
        with self._wrapped_errors():
            names: Iterable[bytes] = client.scan_iter(f"{_literally(self.prefix)}{{{tag}}}:cached:*", count=_PAGE)
            ours = (name for name in names if heads is None or _head_of(name) in heads)
            while page := [*islice(ours, _PAGE)]:
                self.client.unlink(*page)

    def _head(self, namespace: Namespace) -> str:
        return f"{self.prefix}{{{_tag(namespace)}}}:cached:"

    def _name(self, namespace: Namespace, key: str) -> str:
        return self._head(namespace) + plain(key)

    @contextmanager
    def _wrapped_errors(self) -> Generator[None, None, None]:
        try:
            yield
        except (RedisError, OSError) as error:
            raise CacheUnavailableError(self._where, str(error)) from error


def _tag(namespace: Namespace) -> str:
    return hashlib.blake2b(namespace_bytes(namespace), digest_size=16).hexdigest()


def _head_of(name: bytes) -> bytes:
    head, kind, _ = name.rpartition(b":cached:")
    return head + kind


def _literally(text: str) -> str:
    """``text`` as a pattern of the server that matches nothing else."""
    return re.sub(r"([*?\[\]\\])", r"\\\1", text)


def _address(settings: Mapping[str, Any]) -> str:
    path: object = settings.get("path")
    return f"unix://{path}" if path else f"redis://{settings.get('host', '?')}:{settings.get('port', '?')}"


__all__ = ["RedisCache"]
