"""Connections to the state server: one place that knows the client library, its timeouts and its errors."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast
from urllib.parse import urlsplit, urlunsplit

from redis import Redis, RedisCluster
from redis.backoff import ExponentialBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from phalanx.errors import ClusterUnreachableError

BLOCK_S: Final = 1.0
"""The longest a client waits inside one command."""

_CONNECT_TIMEOUT_S: Final = 4.0
_SOCKET_TIMEOUT_S: Final = 15.0  # well above BLOCK_S, or a waiting command would look like a dead connection


_OF_CLUSTER: Final = {"redis+cluster": "redis", "rediss+cluster": "rediss"}


def connect(url: str, *, retries: int = 5, wait_s: float = _SOCKET_TIMEOUT_S) -> Redis:
    """A client with bounded waits, which retries commands over a broken connection. All our commands bear repeating.

    Args:
        url: the server; with ``redis+cluster://`` or ``rediss+cluster://`` any server of a Redis Cluster. The client is
            then the library's for clusters, which has the same commands.
        retries: how often a command is tried again.
        wait_s: how long an answer may take.

    Raises:
        ValueError: the URL is not one of a Redis server.
    """
    scheme, separator, rest = url.partition("://")
    if scheme in _OF_CLUSTER:
        return _connect_to_cluster(f"{_OF_CLUSTER[scheme]}{separator}{rest}", retries, wait_s)
    of_tcp = {"socket_connect_timeout": _CONNECT_TIMEOUT_S, "socket_keepalive": True}
    tcp_only = {} if url.startswith("unix:") else of_tcp
    return Redis.from_url(  # pyright: ignore[reportUnknownMemberType]
        url,
        protocol=2,
        socket_timeout=wait_s,
        **tcp_only,
        health_check_interval=20,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), retries),
        retry_on_error=[RedisConnectionError, RedisTimeoutError],
    )


def _connect_to_cluster(url: str, retries: int, wait_s: float) -> Redis:
    found = RedisCluster.from_url(  # pyright: ignore[reportUnknownMemberType]
        url,
        protocol=2,
        socket_connect_timeout=_CONNECT_TIMEOUT_S,
        socket_timeout=wait_s,
        socket_keepalive=True,
        health_check_interval=20,
        retry=Retry(ExponentialBackoff(cap=1.0, base=0.05), retries),
    )
    return cast("Redis", found)


def scanned(client: Redis, pattern: str) -> Iterator[str]:
    """The names of keys that match, of all servers if it is a cluster. A key may come more than once.

    Args:
        pattern: in the server's pattern language.
    """
    found: Iterator[bytes] = cast("Any", client).scan_iter(pattern, count=1000)
    return (name.decode() for name in found)


def ping(client: Redis) -> None:
    """Ask whether the server answers; raises the client library's error if not."""
    client.ping()  # pyright: ignore[reportUnknownMemberType]


def pipelined(client: Redis) -> Any:
    """A pipeline: commands sent together, in order, without a transaction. The client library leaves it untyped."""
    return client.pipeline(transaction=False)  # pyright: ignore[reportUnknownMemberType]


def read_fields(client: Redis, key: str, fields: Sequence[str]) -> dict[str, bytes]:
    """The fields that exist of those named, of a hash of bytes."""
    if not fields:
        return {}
    found = cast("list[bytes | None]", client.hmget(key, list(fields)))
    return {field: data for field, data in zip(fields, found, strict=True) if data is not None}


def without_password(url: str) -> str:
    """``url`` as it may be shown."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    user = parts.username or ""
    port = f":{parts.port}" if parts.port else ""
    return urlunsplit(parts._replace(netloc=f"{user}:***@{parts.hostname}{port}"))


def check_reachable(url: str, role: str = "state server") -> None:
    """Fail soon, within ten seconds, and say what is wrong, when no such server answers at ``url``.

    Raises:
        ClusterUnreachableError: naming the server's role, the URL and the reason.
        ValueError: the URL is not one of a Redis server.
    """
    client = connect(url, retries=1, wait_s=_CONNECT_TIMEOUT_S)
    try:
        with wrapped_errors(url, role):
            ping(client)
    except RedisError as error:
        reason = f"what answers is not a Redis server, or refuses us: {error}"
        raise ClusterUnreachableError(role, without_password(url), reason) from error
    finally:
        client.close()


@contextmanager
def wrapped_errors(url: str, role: str = "state server") -> Generator[None, None, None]:
    """Turn the client library's connection errors into ours."""
    try:
        yield
    except AuthenticationError as error:
        raise ClusterUnreachableError(role, without_password(url), f"it refuses the login: {error}") from error
    except (RedisConnectionError, RedisTimeoutError, OSError) as error:
        raise ClusterUnreachableError(role, without_password(url), str(error)) from error
    except RedisError as error:
        if "NOAUTH" in str(error):
            raise ClusterUnreachableError(role, without_password(url), "it wants a password") from error
        raise
