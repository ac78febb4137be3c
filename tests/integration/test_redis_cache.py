"""The cache on a real server."""

import logging
from typing import Any, cast

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.cache_rules import KEY, NODE, WRITES, CacheRules
from tests.integration.keyspace import Keyspace

from phalanx.cache.redis import RedisCache
from phalanx.errors import CacheUnavailableError


class OnServer:
    """A cache under the test's own prefix. Time passes by taking it from the keys' times to live."""

    def __init__(self, keyspace: Keyspace) -> None:
        self.keyspace = keyspace
        self.cache: RedisCache[Any] = RedisCache(keyspace.client, prefix=f"{keyspace.prefix}cache:")

    def pass_time(self, seconds: float) -> None:
        for name in self.keyspace.names():
            left = self.keyspace.ttl_ms(name)
            if left >= 0:
                # What the test itself takes is not time that passes.
                self.keyspace.client.pexpire(name, max(0, round(left, -3) - int(seconds * 1000)))

    def stored(self) -> int:
        return len(self.keyspace.names())


@pytest.fixture
def rig(keyspace: Keyspace) -> OnServer:
    return OnServer(keyspace)


class TestRedisCache(CacheRules):
    def test_clearing_leaves_every_key_that_is_no_entry_of_this_cache(self, rig: OnServer) -> None:
        prefix = rig.cache.prefix
        others = [
            *("t}:cached:", "{t}:lease", "{t}:cached", "{00}:blobs", "workers", "worker:cached:1", "x{00}:cached:1"),
            *("{t:cached:1", "t}:cached:1"),
        ]
        for name in others:
            rig.keyspace.client.set(f"{prefix}{name}", "someone's", ex=60)
        rig.cache.set({KEY: (WRITES, 60)})
        before = rig.stored()
        rig.cache.clear()
        assert rig.stored() == before - 1 == len(others)
        rig.cache.clear([NODE, ("other",)])
        assert rig.stored() == len(others)

    @pytest.mark.parametrize("clear_all", [True, False])
    def test_a_prefix_is_no_pattern(self, keyspace: Keyspace, clear_all: bool) -> None:
        caches = [
            RedisCache[Any](keyspace.client, prefix=f"{keyspace.prefix}{name}")
            for name in ("a*", "ab", "a?", "[ab]", "a", "a\\", "a\\*", "", "*")
        ]
        for index, cache in enumerate(caches):
            cache.set({KEY: ([("cache", index)], 60)})
        for index, cache in enumerate(caches):
            assert cache.get([KEY]) == {KEY: [("cache", index)]}
            cache.clear(None if clear_all else [NODE])
            assert len(keyspace.names()) == len(caches) - index - 1

    def test_clearing_takes_more_than_one_page(self, rig: OnServer) -> None:
        rig.cache.set({(NODE, str(number)): ([], 60) for number in range(2500)})
        rig.cache.clear([NODE])
        assert rig.stored() == 0

    @pytest.mark.parametrize("data", [b"", b"\x80\x04N.", b"\xc1", b"text"])
    def test_foreign_data_counts_as_missing(self, rig: OnServer, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
        rig.cache.set({KEY: (WRITES, 60)})
        [name] = rig.keyspace.names()
        rig.keyspace.client.set(name, data, ex=60)
        with caplog.at_level(logging.WARNING, logger="phalanx.cache"):
            assert rig.cache.get([KEY]) == {}
        assert "counts as missing" in caplog.text

    def test_a_key_of_another_kind_counts_as_missing_and_is_replaced(self, rig: OnServer) -> None:
        rig.cache.set({KEY: (WRITES, 60)})
        [name] = rig.keyspace.names()
        rig.keyspace.client.delete(name)
        rig.keyspace.write(name, {"field": 1})
        assert rig.cache.get([KEY]) == {}
        rig.cache.set({KEY: (WRITES, 60)})
        assert rig.cache.get([KEY]) == {KEY: WRITES}

    def test_a_cache_is_made_from_a_url_too(self, rig: OnServer) -> None:
        rig.cache.set({KEY: (WRITES, 60)})
        assert RedisCache[Any](rig.keyspace.url, prefix=rig.cache.prefix).get([KEY]) == {KEY: WRITES}

    def test_without_a_prefix_the_keys_have_that_of_all_our_keys(self, rig: OnServer) -> None:
        assert RedisCache[Any](rig.keyspace.client).prefix == "phalanx:cache:"


@pytest.mark.parametrize("given", ["redis://user:secret@127.0.0.1:1/0", "client"])
def test_a_server_that_does_not_answer_is_one_clear_error(given: str) -> None:
    cache: RedisCache[Any] = RedisCache(Redis(port=1, retry=Retry(NoBackoff(), 0)) if given == "client" else given)
    for use in (lambda: cache.get([KEY]), lambda: cache.set({KEY: (WRITES, 1)}), cache.clear):
        with pytest.raises(CacheUnavailableError, match=r"the cache at redis://.*:1\b.* cannot be used") as raised:
            use()
        assert "secret" not in str(raised.value)
        assert raised.value.__cause__ is not None


def test_a_client_that_decodes_what_it_reads_is_refused(keyspace: Keyspace) -> None:
    client = cast("Any", Redis).from_url(keyspace.url, decode_responses=True)
    with pytest.raises(ValueError, match="decode_responses"):
        RedisCache(client)
