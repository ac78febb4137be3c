"""The cache in a file, used by several processes at once."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from tests.cache_rules import KEY, NODE, WRITES

from phalanx.cache.base import FullKey
from phalanx.cache.sqlite import SqliteCache

TURNS = 100


def write_and_read(path: Path, name: str) -> int:
    """Runs in a process of its own; how many of its own entries it missed."""
    missed = 0
    with SqliteCache[Any](path=path) as cache:
        for turn in range(TURNS):
            own: FullKey = (NODE, f"{name}-{turn}")
            cache.set({own: ([("turn", turn)], 3600), KEY: ([("by", name)], 3600)})
            missed += cache.get([own]) != {own: [("turn", turn)]}
            cache.clear([(name,)])
    return missed


@pytest.mark.parametrize("round_", range(5))
def test_two_processes_write_and_read_one_new_file_at_once(tmp_path: Path, round_: int) -> None:
    path = tmp_path / f"{round_}.db"
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        assert [*pool.map(write_and_read, repeat(path), ["a", "b"])] == [0, 0]
    keys: list[FullKey] = [(NODE, f"{name}-{turn}") for name in "ab" for turn in range(TURNS)]
    with SqliteCache[Any](path=path) as cache:
        assert len(cache.get(keys)) == 2 * TURNS
        assert cache.get([KEY])[KEY] in ([("by", "a")], [("by", "b")])


def use_inherited(cache: SqliteCache[Any], outcome: "multiprocessing.SimpleQueue[object]") -> None:
    """Runs in a forked process."""
    seen = cache.get([KEY])
    cache.set({(NODE, "child"): (WRITES, 3600)})
    cache.close()
    outcome.put(seen)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # other tests' threads may be alive
def test_a_cache_that_was_used_may_be_used_in_forked_processes(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    with SqliteCache[Any](path=tmp_path / "nodes.db") as cache:
        cache.set({KEY: (WRITES, 3600)})
        outcome: multiprocessing.SimpleQueue[object] = context.SimpleQueue()
        children = [context.Process(target=use_inherited, args=(cache, outcome)) for _ in range(2)]
        for child in children:
            child.start()
        assert [outcome.get() for _ in children] == [{KEY: WRITES}] * 2
        for child in children:
            child.join()
        assert cache.get([KEY, (NODE, "child")]) == {KEY: WRITES, (NODE, "child"): WRITES}
        cache.set({KEY: ([], 3600)})
        assert cache.get([KEY]) == {KEY: []}
