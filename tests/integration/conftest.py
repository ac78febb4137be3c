"""One real server for the session, started here and by nobody else; each test has a key prefix of its own."""

import itertools
import os
from collections.abc import Iterator
from typing import Final

import pytest
from redis import Redis
from tests.integration.keyspace import Keyspace, is_kept
from tests.integration.servers import any_binary, cluster_of_three, one_server, redis_binary

from phalanx.checkpoint.redis.client import connect
from phalanx.coordinator.local import LocalServer
from phalanx.errors import ClusterError

_numbers: Final = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[LocalServer]:
    """An embedded Valkey."""
    try:
        started = LocalServer.start()
    except ClusterError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    yield started
    started.close()


@pytest.fixture(scope="session")
def client(server: LocalServer) -> Iterator[Redis]:
    """One connection pool for all tests."""
    connected = connect(server.url)
    yield connected
    connected.close()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """The system's Redis, for what must not work on the embedded server alone."""
    with one_server(redis_binary()) as url:
        yield url


@pytest.fixture(scope="session")
def redis_client(redis_url: str) -> Iterator[Redis]:
    """A connection pool to it."""
    connected = connect(redis_url)
    yield connected
    connected.close()


@pytest.fixture(scope="session")
def cluster_url() -> Iterator[str]:
    """A Redis Cluster of three masters."""
    with cluster_of_three(any_binary()) as url:
        yield url


@pytest.fixture(scope="session")
def cluster_client(cluster_url: str) -> Iterator[Redis]:
    """A client of it."""
    connected = connect(cluster_url)
    yield connected
    connected.close()


@pytest.fixture(autouse=True)
def keyspace(server: LocalServer, client: Redis) -> Iterator[Keyspace]:
    """The test's own keys. After it, every key must have an end, but for those of threads that are kept."""
    space = Keyspace(server.url, client, f"test-{next(_numbers)}:")
    yield space
    forever = [name for name in space.lasting() if not is_kept(name)]
    assert not forever, f"keys that would stay for ever: {forever}"
