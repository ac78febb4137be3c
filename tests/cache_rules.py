"""What holds for every cache: a class of tests, which each cache's own test module inherits."""

import asyncio
import logging
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import pytest

from phalanx.cache.base import BaseCache, FullKey, Namespace
from phalanx.checkpoint.serde import Serializer, TypeRegistry
from phalanx.errors import UnserializableError
from phalanx.types import Send

Writes = list[tuple[str, Any]]

NODE: Namespace = ("graph", "node")
KEY: FullKey = (NODE, "key")
WRITES: Writes = [("words", 3), ("seen", ("a", {"b"})), ("__pregel_tasks", Send("count", {"path": "a.txt"}))]
AWKWARD: Sequence[str] = (
    *("", " ", ":", ",", "/", "{}", "}:", "*", "?", "[a]", "\\", "'", '"', "%", "_", "\x00", "\n", "1:a", "é", "🙂"),
    *("\ud83d", "\ud83d\ude42", "a" * 3000, "; DROP TABLE phalanx_cache"),
)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Rig(Protocol):
    """A cache, and what its tests do to it from outside."""

    @property
    def cache(self) -> BaseCache[Any]: ...
    def pass_time(self, seconds: float) -> None: ...
    def stored(self) -> int:
        """How many entries there are, over or not."""
        ...


class Garbled:
    """A serializer whose bytes nobody can read."""

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        return "msgpack", b"\xc1"

    def loads_typed(self, data: tuple[str, bytes]) -> object:
        raise AssertionError("not used")


@dataclass
class Strange:
    """A class that only the registry of one test knows."""

    x: int


class CacheRules:
    """Inherit, and provide a fixture ``rig``."""

    def test_what_was_stored_comes_back_as_it_was(self, rig: Rig) -> None:
        rig.cache.set({KEY: (WRITES, None)})
        assert rig.cache.get([KEY]) == {KEY: WRITES}
        rig.cache.clear()

    def test_only_what_is_there_is_returned(self, rig: Rig) -> None:
        rig.cache.set({KEY: (WRITES, 60), (NODE, "other"): ([], 60)})
        assert rig.cache.get([(NODE, "other"), (NODE, "none"), (("none",), "key")]) == {(NODE, "other"): []}
        assert rig.cache.get([KEY, KEY]) == {KEY: WRITES}

    def test_asking_for_nothing_and_storing_nothing_is_fine(self, rig: Rig) -> None:
        rig.cache.set({})
        assert rig.cache.get([]) == {}
        assert rig.stored() == 0

    def test_who_gets_a_value_cannot_change_what_the_next_one_gets(self, rig: Rig) -> None:
        given: Writes = [("list", [1])]
        rig.cache.set({KEY: (given, 60)})
        given[0][1].append("by the writer")
        rig.cache.get([KEY])[KEY][0][1].append("by a reader")
        assert rig.cache.get([KEY]) == {KEY: [("list", [1])]}

    def test_storing_again_replaces(self, rig: Rig) -> None:
        rig.cache.set({KEY: ([("a", 1)], 60)})
        rig.cache.set({KEY: ([("a", 2)], 60)})
        assert rig.cache.get([KEY]) == {KEY: [("a", 2)]}
        assert rig.stored() == 1

    # --- time to live -------------------------------------------------------------------------------------------------

    def test_an_entry_is_gone_when_its_time_is_over(self, rig: Rig) -> None:
        rig.cache.set({KEY: (WRITES, 60)})
        rig.pass_time(59)
        assert KEY in rig.cache.get([KEY])
        rig.pass_time(1)
        assert rig.cache.get([KEY]) == {}

    def test_an_entry_without_time_to_live_stays_until_it_is_cleared(self, rig: Rig) -> None:
        rig.cache.set({KEY: (WRITES, None)})
        rig.pass_time(1e9)
        assert KEY in rig.cache.get([KEY])
        rig.cache.clear([NODE])
        assert rig.cache.get([KEY]) == {}

    @pytest.mark.parametrize(("first", "second", "lives"), [(10, 60, True), (60, 10, False), (10, None, True)])
    def test_the_time_to_live_is_that_of_the_last_write(
        self, rig: Rig, first: int, second: int | None, lives: bool
    ) -> None:
        rig.cache.set({KEY: (WRITES, first)})
        rig.cache.set({KEY: (WRITES, second)})
        rig.pass_time(30)
        assert (KEY in rig.cache.get([KEY])) is lives
        rig.cache.clear()

    @pytest.mark.parametrize("ttl", [0, -1])
    def test_what_has_no_time_left_is_not_stored_and_what_it_replaces_is_gone(self, rig: Rig, ttl: int) -> None:
        rig.cache.set({KEY: (WRITES, 60)})
        rig.cache.set({KEY: (WRITES, ttl)})
        assert rig.cache.get([KEY]) == {}
        assert rig.stored() == 0

    def test_a_time_to_live_beyond_all_clocks_is_a_very_long_one(self, rig: Rig) -> None:
        rig.cache.set({KEY: (WRITES, sys.maxsize)})
        rig.pass_time(1e9)
        assert KEY in rig.cache.get([KEY])

    def test_what_is_over_does_not_stay_in_the_store(self, rig: Rig) -> None:
        rig.cache.set({(NODE, str(number)): (WRITES, 60) for number in range(100)})
        assert rig.stored() == 100
        rig.pass_time(60)
        rig.cache.set({KEY: (WRITES, 60)})
        assert rig.stored() == 1

    # --- namespaces and names -----------------------------------------------------------------------------------------

    def test_clearing_forgets_whole_namespaces_and_nothing_else(self, rig: Rig) -> None:
        names: list[Namespace] = [("a",), ("a", "b"), ("a", "b", "c"), ("b",), ()]
        rig.cache.set({(name, key): ([], 60) for name in names for key in ("1", "2")})
        rig.cache.clear([("a",)])
        assert {name for name, _ in rig.cache.get([(name, "1") for name in names])} == {*names[1:]}
        rig.cache.clear([("a", "b"), (), ("never", "used")])
        assert {name for name, _ in rig.cache.get([(name, "2") for name in names])} == {("a", "b", "c"), ("b",)}
        assert rig.stored() == 4

    def test_clearing_no_namespace_forgets_nothing_and_clearing_all_everything(self, rig: Rig) -> None:
        rig.cache.set({KEY: ([], 60), ((), ""): ([], 60)})
        rig.cache.clear([])
        assert rig.stored() == 2
        rig.cache.clear()
        assert rig.stored() == 0

    def test_no_two_namespaces_are_the_same(self, rig: Rig) -> None:
        pairs: list[Namespace] = [("a", "b"), ("a,b",), ("a:b",), ("a/b",), ("ab",), ("a", "", "b"), ("a", "b", "")]
        names: list[Namespace] = [*pairs, *((text,) for text in AWKWARD), *((text, text) for text in AWKWARD), ()]
        rig.cache.set({(name, "key"): ([("name", index)], 60) for index, name in enumerate(names)})
        found = rig.cache.get([(name, "key") for name in names])
        assert found == {(name, "key"): [("name", index)] for index, name in enumerate(names)}
        for name in names:
            rig.cache.clear([name])
            del found[name, "key"]
            assert rig.stored() == len(found)

    def test_no_two_keys_are_the_same(self, rig: Rig) -> None:
        rig.cache.set({(NODE, key): ([("key", index)], 60) for index, key in enumerate(AWKWARD)})
        found = rig.cache.get([(NODE, key) for key in AWKWARD])
        assert found == {(NODE, key): [("key", index)] for index, key in enumerate(AWKWARD)}

    # --- what cannot be stored or read --------------------------------------------------------------------------------

    def test_bytes_that_cannot_be_read_count_as_missing(self, rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
        good = rig.cache.serde
        rig.cache.serde = Garbled()
        rig.cache.set({KEY: (WRITES, 60)})
        rig.cache.serde = good
        rig.cache.set({(NODE, "good"): (WRITES, 60)})
        with caplog.at_level(logging.WARNING, logger="phalanx.cache"):
            assert rig.cache.get([KEY, (NODE, "good")]) == {(NODE, "good"): WRITES}
        assert "counts as missing" in caplog.text
        assert repr(KEY) in caplog.text

    def test_a_value_of_a_class_this_process_does_not_know_counts_as_missing(
        self, rig: Rig, caplog: pytest.LogCaptureFixture
    ) -> None:
        knowing = TypeRegistry()
        knowing.register(Strange)
        rig.cache.serde = Serializer(knowing)
        rig.cache.set({KEY: ([("a", Strange(1))], 60)})
        assert rig.cache.get([KEY]) == {KEY: [("a", Strange(1))]}
        rig.cache.serde = Serializer(TypeRegistry())
        assert rig.cache.get([KEY]) == {}
        assert "Strange" in caplog.text

    def test_a_value_that_cannot_be_stored_is_refused_and_nothing_is_stored(self, rig: Rig) -> None:
        with pytest.raises(UnserializableError, match=r"cache entry .*'bad'.* at \[0\]\[1\]"):
            rig.cache.set({KEY: (WRITES, 60), (NODE, "bad"): ([("a", object())], 60)})
        assert rig.stored() == 0

    # --- many at once -------------------------------------------------------------------------------------------------

    def test_the_async_forms_do_the_same(self, rig: Rig) -> None:
        async def use() -> tuple[object, object]:
            await rig.cache.aset({KEY: (WRITES, 60), (("other",), "key"): ([], 60)})
            await rig.cache.aclear([("other",)])
            before = await rig.cache.aget([KEY, (("other",), "key")])
            await rig.cache.aclear()
            return before, await rig.cache.aget([KEY])

        assert asyncio.run(use()) == ({KEY: WRITES}, {})

    def test_many_threads_may_use_it_at_once(self, rig: Rig) -> None:
        def use(number: int) -> int:
            own: FullKey = (NODE, str(number))
            for turn in range(20):
                rig.cache.set({own: ([("turn", turn)], 60), KEY: ([("turn", turn)], 60)})
                assert rig.cache.get([own]) == {own: [("turn", turn)]}
                rig.cache.clear([("nobody",)])
            return number

        with ThreadPoolExecutor(8) as pool:
            assert [*pool.map(use, range(8))] == [*range(8)]
        assert rig.stored() == 9
