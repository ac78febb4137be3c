"""What every saver promises, of the Redis saver on each kind of server there is."""

import itertools
from collections.abc import Iterator
from typing import Any, Final

import pytest
from redis import Redis
from tests.integration.keyspace import Keyspace, is_kept

from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.redis.client import scanned
from phalanx.testing.saver_conformance import SaverConformance

_numbers: Final = itertools.count(1)


def saver_on(client: Redis) -> Iterator[RedisSaver]:
    """A saver with keys of its own. After the test, every key belongs to a thread, and deleting threads leaves none."""
    prefix = f"test-[{next(_numbers)}]:"
    saver = RedisSaver(client, prefix=prefix)
    yield saver
    pattern = prefix.replace("[", "\\[").replace("]", "\\]") + "*"
    assert all(is_kept(name) for name in scanned(client, pattern))
    for found in saver.list(None):
        saver.delete_thread(found.config.get("configurable", {})["thread_id"])
    assert [*scanned(client, pattern)] == []


class TestOnValkey(SaverConformance):
    """The embedded Valkey."""

    @pytest.fixture
    def saver(self, keyspace: Keyspace) -> Any:
        yield from saver_on(keyspace.client)


class TestOnRedis(SaverConformance):
    """The system's Redis."""

    @pytest.fixture
    def saver(self, redis_client: Redis) -> Any:
        yield from saver_on(redis_client)


class TestOnRedisCluster(SaverConformance):
    """Three masters, each with a third of the threads."""

    @pytest.fixture
    def saver(self, cluster_client: Redis) -> Any:
        yield from saver_on(cluster_client)
