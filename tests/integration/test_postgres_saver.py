"""The Postgres savers: what every saver does, and what is particular about servers, connections and pools."""

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, cast

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from tests.integration.loop_saver_rules import LoopSaverRules, OwnConnectionRules
from tests.integration.postgres_server import NoPostgresError, PostgresServer
from tests.integration.sql_saver_rules import SqlSaverRules
from tests.integration.sql_saver_support import LARGE, at, chain, dangling, put, steps
from tests.support import wait_until

from phalanx.checkpoint.postgres import PostgresSaver
from phalanx.checkpoint.postgres.aio import AsyncPostgresSaver
from phalanx.checkpoint.sql import SaverUnavailableError
from phalanx.checkpoint.sql.on_loop import LoopSaver
from phalanx.checkpoint.sql.saver import SqlSaver
from phalanx.testing.saver_conformance import SaverConformance

_numbers: Final = itertools.count(1)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A server of this module's own."""
    try:
        started = PostgresServer()
    except NoPostgresError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    yield started
    started.close()


class Schema:
    """A schema of one test's own, which is a database to all who connect to it."""

    def __init__(self, server: PostgresServer) -> None:
        name = f"test_{next(_numbers)}"
        with psycopg.connect(server.conn_string(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        self.conn_string = server.conn_string(name)

    @contextmanager
    def saver(self, **options: Any) -> Generator[SqlSaver, None, None]:
        with psycopg.connect(self.conn_string) as connection:
            yield PostgresSaver(connection, **options)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.conn_string) as connection:
            return connection.execute(sql.encode()).fetchall()

    def waiting(self) -> bool:
        """Whether someone waits for someone else's transaction."""
        return bool(self.query("SELECT 1 FROM pg_locks WHERE NOT granted"))

    def opener(self) -> Callable[[], AbstractContextManager[SqlSaver]]:
        return partial(PostgresSaver.from_conn_string, self.conn_string)

    def loop_saver(self) -> AbstractAsyncContextManager[LoopSaver]:
        return AsyncPostgresSaver.from_conn_string(self.conn_string)

    def pool(self) -> "ConnectionPool[Any]":
        """A pool of a few connections, which checks that each is alive."""
        check = ConnectionPool[Any].check_connection
        return ConnectionPool(self.conn_string, min_size=1, max_size=3, open=False, check=check, timeout=10)


class PooledSchema(Schema):
    """The same, where savers for event loops have a pool."""

    @asynccontextmanager
    async def _loop_saver(self) -> AsyncGenerator[LoopSaver, None]:
        async with AsyncConnectionPool(self.conn_string, min_size=1, max_size=3, open=False) as pool:
            yield AsyncPostgresSaver(pool)

    def loop_saver(self) -> AbstractAsyncContextManager[LoopSaver]:
        return self._loop_saver()


@pytest.fixture
def database(postgres: PostgresServer) -> Schema:
    return Schema(postgres)


class TestPostgresSaver(SaverConformance, SqlSaverRules):
    """The blocking saver, with one connection."""

    @pytest.fixture
    def saver(self, database: Schema) -> Iterator[Any]:
        with PostgresSaver.from_conn_string(database.conn_string) as saver:
            yield saver


class TestPostgresSaverWithPool(SqlSaverRules):
    """The blocking saver, with a pool."""

    @pytest.fixture
    def saver(self, database: Schema) -> Iterator[Any]:
        with database.pool() as pool:
            yield PostgresSaver(pool)


class TestAsyncPostgresSaver(SaverConformance, OwnConnectionRules):
    """The saver for event loops, on its loop."""

    forms = ("async",)

    @pytest.fixture
    def saver(self, database: Schema, runner: asyncio.Runner) -> Iterator[Any]:
        opened = database.loop_saver()
        yield runner.run(cast("Any", opened.__aenter__()))
        runner.run(cast("Any", opened.__aexit__(None, None, None)))


class TestAsyncPostgresSaverWithPool(LoopSaverRules):
    """The saver for event loops, with a pool."""

    @pytest.fixture
    def database(self, postgres: PostgresServer) -> Schema:
        return PooledSchema(postgres)


# --- servers ----------------------------------------------------------------------------------------------------------


def test_a_server_that_does_not_answer_is_a_clear_error_that_hides_the_password() -> None:
    opened = PostgresSaver.from_conn_string("postgresql://ada:secret@127.0.0.1:1/things?connect_timeout=2")
    with pytest.raises(SaverUnavailableError, match=r"127\.0\.0\.1:1/things") as caught:
        opened.__enter__()
    assert "secret" not in str(caught.value)


def test_what_is_no_connection_string_is_a_clear_error() -> None:
    opened = PostgresSaver.from_conn_string("no connection string")
    with pytest.raises(SaverUnavailableError, match="connection string"):
        opened.__enter__()


def test_a_saver_whose_connection_was_closed_says_so(database: Schema) -> None:
    with database.opener()() as saver:
        put(saver, at(), {"a": 1})
    for call in (lambda: saver.get_tuple(at()), lambda: put(saver, at(), {}), lambda: saver.delete_thread("t")):
        with pytest.raises(SaverUnavailableError, match="closed"):
            call()


def test_a_pool_outlives_its_server(database: Schema, postgres: PostgresServer) -> None:
    with database.pool() as pool, database.opener()() as single:
        saver = PostgresSaver(pool)
        chain(saver, 2)
        assert steps(single) == [1, 0]
        postgres.stop()
        with pytest.raises(SaverUnavailableError, match="Postgres at"):
            single.get_tuple(at())
        postgres.start()
        assert steps(saver) == [1, 0]
        with pytest.raises(SaverUnavailableError, match="closed"):
            single.get_tuple(at())


# --- at the same time -------------------------------------------------------------------------------------------------


def test_nobody_forgets_a_blob_that_a_transaction_under_way_begins_to_use(database: Schema) -> None:
    with database.opener()() as pruning, psycopg.connect(database.conn_string) as connection:
        put(pruning, at(), {"large": LARGE})
        put(pruning, at(), {"large": None})
        connection.execute("SELECT 1")  # a transaction is open, so that what is stored next is not to be seen yet
        put(PostgresSaver(connection), at(), {"large": LARGE})
        with ThreadPoolExecutor(1) as pool:
            pruned = pool.submit(pruning.prune, ["t"])
            wait_until(lambda: pruned.done() or database.waiting(), "the pruning waits for the transaction")
            connection.commit()
            pruned.result()
        assert dangling(database) == 0
        found = pruning.get(at())
        assert found is not None
        assert found["channel_values"] == {"large": LARGE}


# --- connections of the user's own ------------------------------------------------------------------------------------


@pytest.mark.parametrize("autocommit", [True, False])
def test_what_is_stored_stays_whether_or_not_the_connection_commits_by_itself(
    database: Schema, autocommit: bool
) -> None:
    with psycopg.connect(database.conn_string, autocommit=autocommit) as connection:
        saver = PostgresSaver(connection)
        chain(saver, 2)
        assert steps(saver) == [1, 0]
        connection.rollback()
    assert database.query("SELECT COUNT(*) FROM phalanx_checkpoints") == [(2,)]


def test_what_is_stored_is_part_of_a_transaction_that_is_open(database: Schema) -> None:
    with psycopg.connect(database.conn_string) as connection:
        connection.row_factory = cast("Any", dict_row)
        saver = PostgresSaver(connection)
        saver.setup()
        connection.execute("CREATE TABLE mine (a int)")
        where = put(saver, at(), {"a": 1})
        assert steps(saver) == [0]
        with pytest.raises(TypeError):
            put(saver, where, {"a": object()})
        connection.rollback()
        assert saver.get_tuple(at()) is None
        connection.execute("CREATE TABLE mine (a int)")
        put(saver, at(), {"a": 2}, step=2)
        connection.commit()
    with database.opener()() as other:
        assert steps(other) == [2]


def test_a_user_who_may_not_make_tables_uses_those_that_are_there(database: Schema) -> None:
    with database.opener()() as saver:
        chain(saver, 1)
    schema, reader = database.query("SELECT current_schema()")[0][0], f"reader_{next(_numbers)}"
    with psycopg.connect(database.conn_string, autocommit=True) as connection:
        for statement in (
            f"CREATE ROLE {reader} LOGIN",
            f"GRANT USAGE ON SCHEMA {schema} TO {reader}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {reader}",
        ):
            connection.execute(statement.encode())
    with PostgresSaver.from_conn_string(database.conn_string.replace("user=tests", f"user={reader}")) as saver:
        put(saver, at(), {"number": 1, "large": LARGE}, step=1)
        assert steps(saver) == [1, 0]
        saver.delete_thread("t")
