"""The SQLite savers: what every saver does, and what is particular about files and connections."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from tests.integration.loop_saver_rules import OwnConnectionRules, on_loop_elsewhere
from tests.integration.sql_saver_rules import SqlSaverRules
from tests.integration.sql_saver_support import at, chain, made, put, steps

from phalanx.checkpoint.sql import SaverUnavailableError
from phalanx.checkpoint.sql.on_loop import LoopSaver
from phalanx.checkpoint.sql.saver import SqlSaver
from phalanx.checkpoint.sqlite import SqliteSaver
from phalanx.checkpoint.sqlite.aio import AsyncSqliteSaver
from phalanx.testing.saver_conformance import SaverConformance


class File:
    """A database in a file."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    @contextmanager
    def saver(self, **options: Any) -> Generator[SqlSaver, None, None]:
        with closing(sqlite3.connect(self.path, timeout=30, check_same_thread=False)) as connection:
            yield SqliteSaver(connection, **options)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            return connection.execute(sql).fetchall()

    def opener(self) -> Callable[[], AbstractContextManager[SqlSaver]]:
        return partial(SqliteSaver.from_conn_string, self.path)

    def loop_saver(self) -> AbstractAsyncContextManager[LoopSaver]:
        return AsyncSqliteSaver.from_conn_string(self.path)


@pytest.fixture
def database(tmp_path: Path) -> File:
    return File(tmp_path / "checkpoints.db")


class TestSqliteSaver(SaverConformance, SqlSaverRules):
    """The blocking saver, over a file."""

    @pytest.fixture
    def saver(self, database: File) -> Iterator[Any]:
        with SqliteSaver.from_conn_string(database.path) as saver:
            yield saver


class TestSqliteSaverInMemory(SaverConformance):
    """The blocking saver, over no file."""

    @pytest.fixture
    def saver(self) -> Iterator[Any]:
        with SqliteSaver.from_conn_string(":memory:") as saver:
            yield saver


class TestAsyncSqliteSaver(SaverConformance, OwnConnectionRules):
    """The saver for event loops, on its loop."""

    forms = ("async",)

    @pytest.fixture
    def saver(self, database: File, runner: asyncio.Runner) -> Iterator[Any]:
        opened = AsyncSqliteSaver.from_conn_string(database.path)
        yield runner.run(opened.__aenter__())
        runner.run(opened.__aexit__(None, None, None))


class TestAsyncSqliteSaverFromOutside(SaverConformance):
    """The saver for event loops, asked by threads and loops that are not its own."""

    @pytest.fixture
    def saver(self, database: File) -> Iterator[Any]:
        with on_loop_elsewhere(database) as saver:
            yield saver


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_keeps_what_was_stored(database: File) -> None:
    with database.opener()() as saver:
        chain(saver, 3)
    with database.opener()() as saver:
        assert steps(saver) == [2, 1, 0]


def test_readers_and_writers_of_one_file_do_not_block_each_other(database: File) -> None:
    with database.opener()() as one, database.opener()() as two:
        chain(one, 100)
        listed = two.list(at())
        assert next(listed).metadata.get("step") == 99
        put(one, at(), {"number": 100}, step=100)
        assert len([*listed]) == 99


NO_DATABASES = [("text.db", "not a database"), ("no such folder/c.db", "unable to open")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file that is none of SQLite's."""
    (tmp_path / "text.db").write_text("no database at all" * 100, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("name", "reason"), NO_DATABASES)
def test_what_is_no_database_is_refused(folder: Path, name: str, reason: str) -> None:
    opened = SqliteSaver.from_conn_string(str(folder / name))
    with pytest.raises(SaverUnavailableError, match=rf"{name}.*{reason}"):
        opened.__enter__()


@pytest.mark.parametrize(("name", "reason"), NO_DATABASES)
def test_what_is_no_database_is_refused_on_an_event_loop_too(folder: Path, name: str, reason: str) -> None:
    async def enter() -> None:
        before = threading.enumerate()
        opened = AsyncSqliteSaver.from_conn_string(str(folder / name))
        with pytest.raises(SaverUnavailableError, match=rf"{name}.*{reason}"):
            await opened.__aenter__()
        for thread in threading.enumerate():  # aiosqlite's may still have something to say to the loop
            if thread not in before:
                await asyncio.to_thread(thread.join)

    asyncio.run(enter())


def test_a_saver_whose_connection_was_closed_says_so(database: File) -> None:
    with database.opener()() as saver:
        put(saver, at(), {"a": 1})
    for call in (lambda: saver.get_tuple(at()), lambda: put(saver, at(), {}), lambda: saver.delete_thread("t")):
        with pytest.raises(SaverUnavailableError, match="closed database"):
            call()


def test_a_file_that_is_locked_too_long_is_a_clear_error_and_nothing_is_stored(database: File) -> None:
    with database.opener()() as saver:
        chain(saver, 1)
    with closing(sqlite3.connect(database.path, timeout=0.01, check_same_thread=False)) as connection:
        waiting = SqliteSaver(connection)
        with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(SaverUnavailableError, match="locked"):
                put(waiting, at(), {"number": 1})
            assert steps(waiting) == [0]
            other.execute("ROLLBACK")
        put(waiting, at(), {"number": 1}, step=1)
        assert steps(waiting) == [1, 0]


# --- connections of the user's own ------------------------------------------------------------------------------------


def test_what_is_stored_is_part_of_a_transaction_that_is_open(database: File) -> None:
    with closing(sqlite3.connect(database.path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        saver.setup()
        connection.execute("CREATE TABLE mine (a)")
        connection.execute("INSERT INTO mine VALUES (1)")
        assert connection.in_transaction
        where = put(saver, at(), {"a": 1})
        with pytest.raises(TypeError):
            put(saver, where, {"a": object()})
        connection.rollback()
        assert saver.get_tuple(at()) is None
        connection.execute("INSERT INTO mine VALUES (2)")
        put(saver, at(), {"a": 2}, step=2)
        connection.commit()
    assert database.query("SELECT a FROM mine") == [(2,)]
    with database.opener()() as other:
        assert steps(other) == [2]


def test_a_connection_may_make_rows_of_any_kind(database: File) -> None:
    with closing(sqlite3.connect(database.path, check_same_thread=False, isolation_level=None)) as connection:
        connection.row_factory = lambda cursor, row: {"row": row}
        saver = SqliteSaver(connection)
        chain(saver, 2)
        assert steps(saver) == [1, 0]


def test_a_saver_for_event_loops_takes_a_connection(database: File) -> None:
    async def use() -> object:
        async with aiosqlite.connect(database.path) as connection:
            saver = AsyncSqliteSaver(connection)
            await saver.setup()
            await connection.execute("CREATE TABLE mine (a)")
            await connection.execute("INSERT INTO mine VALUES (1)")
            await saver.aput(at(), made({"a": 1}), {"step": 1}, {"a": 1})
            await connection.rollback()
            before = await saver.aget_tuple(at())
            await saver.aput(at(), made({"a": 2}), {"step": 2}, {"a": 1})
            return before, [found.metadata async for found in saver.alist(at())]

    assert asyncio.run(use()) == (None, [{"step": 2}])
