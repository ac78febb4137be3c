"""The cache in a file, as one process sees it."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.cache_rules import KEY, WRITES, CacheRules, Clock

from phalanx.cache.sqlite import SqliteCache
from phalanx.errors import CacheUnavailableError


class InFile:
    """A cache in a file of the test's own, with a clock of its own."""

    def __init__(self, path: Path) -> None:
        self.clock = Clock()
        self.path = path
        self.cache: SqliteCache[Any] = SqliteCache(path=path, clock=self.clock)

    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds

    def stored(self) -> int:
        return int(self.execute("SELECT count(*) FROM phalanx_cache")[0][0]) if self.path.exists() else 0

    def execute(self, statement: str, *values: object) -> list[Any]:
        """Past the cache."""
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(statement, values).fetchall()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[InFile]:
    opened = InFile(tmp_path / "nodes.db")
    yield opened
    opened.cache.close()


class TestSqliteCache(CacheRules):
    def test_another_cache_on_the_same_file_sees_the_same(self, rig: InFile) -> None:
        rig.cache.set({KEY: (WRITES, 60)})
        with SqliteCache[Any](path=str(rig.path), clock=rig.clock) as other:
            assert other.get([KEY]) == {KEY: WRITES}
            other.clear()
        assert rig.cache.get([KEY]) == {}

    def test_a_closed_cache_opens_again_when_it_is_used(self, rig: InFile) -> None:
        rig.cache.set({KEY: (WRITES, 60)})
        rig.cache.close()
        rig.cache.close()
        assert rig.cache.get([KEY]) == {KEY: WRITES}

    def test_readers_do_not_wait_for_writers(self, rig: InFile) -> None:
        rig.cache.set({KEY: (WRITES, 60)})
        with closing(sqlite3.connect(rig.path, isolation_level=None)) as writer:
            writer.execute("BEGIN EXCLUSIVE")
            writer.execute("DELETE FROM phalanx_cache")
            assert rig.cache.get([KEY]) == {KEY: WRITES}

    @pytest.mark.parametrize("data", [b"", b"\x80\x04N.", b"\xc1", b"\x93\x01\x02\x03", "text", 7])
    def test_foreign_data_counts_as_missing(self, rig: InFile, data: object, caplog: pytest.LogCaptureFixture) -> None:
        rig.cache.set({KEY: (WRITES, 60)})
        rig.execute("UPDATE phalanx_cache SET data = ?", data)
        assert rig.cache.get([KEY]) == {}
        assert "counts as missing" in caplog.text

    def test_a_file_that_is_no_cache_is_an_error_that_names_it_and_stays_as_it_is(self, rig: InFile) -> None:
        rig.path.write_bytes(b"not a database, but somebody's file\n" * 100)
        before = rig.path.read_bytes()
        for use in (lambda: rig.cache.get([KEY]), lambda: rig.cache.set({KEY: (WRITES, 1)}), rig.cache.clear):
            with pytest.raises(CacheUnavailableError, match=re.escape(str(rig.path))):
                use()
        assert rig.path.read_bytes() == before

    def test_a_folder_that_is_not_there_is_an_error_that_names_the_file(self, tmp_path: Path) -> None:
        cache: SqliteCache[Any] = SqliteCache(path=tmp_path / "none" / "nodes.db")
        with pytest.raises(CacheUnavailableError, match=r"none.nodes\.db"):
            cache.get([KEY])

    def test_the_file_may_hold_other_tables(self, rig: InFile) -> None:
        rig.execute("CREATE TABLE entries (x)")
        rig.cache.set({KEY: (WRITES, 60)})
        rig.cache.clear()
        assert rig.execute("SELECT count(*) FROM entries") == [(0,)]

    def test_a_cache_may_live_in_memory(self) -> None:
        with SqliteCache[Any](path=":memory:") as cache:
            cache.set({KEY: (WRITES, 60)})
            assert cache.get([KEY]) == {KEY: WRITES}
