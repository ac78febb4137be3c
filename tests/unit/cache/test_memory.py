"""The cache in this process."""

from typing import Any

import pytest
from tests.cache_rules import KEY, NODE, CacheRules, Clock

from phalanx.cache.memory import InMemoryCache


class InMemory:
    """A cache in memory with a clock of the test's own."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.cache: InMemoryCache[Any] = InMemoryCache(clock=self.clock)

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds

    def stored(self) -> int:
        return len(self.cache)


@pytest.fixture
def rig() -> InMemory:
    return InMemory()


class TestInMemoryCache(CacheRules):
    def test_reading_drops_what_is_over_wherever_it_is(self, rig: InMemory) -> None:
        rig.cache.set({KEY: ([], 60), (("other",), "key"): ([], 60), (("lasting",), "key"): ([], 90)})
        rig.pass_time(60)
        rig.cache.get([])
        assert rig.stored() == 1

    def test_an_entry_written_again_and_again_ends_with_its_last_time(self, rig: InMemory) -> None:
        for _ in range(1000):
            rig.cache.set({KEY: ([], 60), (NODE, "short"): ([], 50)})
            rig.pass_time(1)
        rig.pass_time(49)
        assert rig.cache.get([KEY, (NODE, "short")]) == {KEY: []}
        rig.pass_time(10)
        assert rig.cache.get([KEY]) == {}
        assert rig.stored() == 0

    def test_an_entry_stored_after_its_namespace_was_cleared_has_its_own_time(self, rig: InMemory) -> None:
        rig.cache.set({KEY: ([], 10)})
        rig.cache.clear([NODE])
        rig.cache.set({KEY: ([], 60)})
        rig.pass_time(10)
        assert rig.cache.get([KEY]) == {KEY: []}
