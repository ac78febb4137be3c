"""A saver over a connection or a pool of connections of psycopg."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from psycopg import Connection, Pipeline
from psycopg.rows import tuple_row

from phalanx.checkpoint.postgres.driver import (
    POSTGRES,
    SNAPSHOT,
    place_of,
    psycopg_sql,
    returns_rows,
    wants_snapshot,
    wrapped_errors,
)
from phalanx.checkpoint.retention import Retention
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.checkpoint.sql.saver import KEEP_ALL, Settings, SqlSaver
from phalanx.checkpoint.sql.statements import Batch, Operation, Row, Rows

if TYPE_CHECKING:
    from psycopg_pool import ConnectionPool

T = TypeVar("T")

Conn: TypeAlias = "Connection[Any] | ConnectionPool[Any]"


class PostgresSaver(SqlSaver):
    """Keeps checkpoints in a Postgres database. Safe to use from several threads and processes.

    With a single connection threads take turns; with a pool each has a connection while it needs one. The async methods
    run in threads; :class:`~phalanx.checkpoint.postgres.aio.AsyncPostgresSaver` does without.

    Args:
        conn: a connection, or a pool of them. If a transaction is open in a connection, what is stored is
            part of that; call :meth:`setup` before.
        pipe: not needed; taken since others take it. What can be sent together always is.
        serde: turns values into bytes and back.
        retention: what to keep; everything if left out.
        clock: seconds since the epoch, alike for all who use the database.

    Example:
        >>> with PostgresSaver.from_conn_string("postgresql://user@host/database") as saver:
        ...     graph = builder.compile(checkpointer=saver)
    """

    def __init__(
        self,
        conn: Conn,
        pipe: Pipeline | None = None,
        serde: SerializerProtocol | None = None,
        *,
        retention: Retention = KEEP_ALL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if isinstance(conn, str):
            raise TypeError(
                "PostgresSaver takes a connection or a pool; got a text. For one: "
                "with PostgresSaver.from_conn_string(text) as saver"
            )
        parameters = conn.info.get_parameters() if isinstance(conn, Connection) else cast("str", conn.conninfo)
        super().__init__(place_of(parameters), POSTGRES, Settings(serde, retention, clock))
        self.conn: Final = conn
        self._lock = threading.RLock()

    @classmethod
    @contextmanager
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,
        serde: SerializerProtocol | None = None,
        retention: Retention = KEEP_ALL,
    ) -> "Generator[PostgresSaver, None, None]":
        """A saver over a connection of its own, which is closed in the end.

        Args:
            conn_string: a URL (``postgresql://…``) or keywords (``host=… dbname=…``).
            pipeline: not needed; taken since others take it.
            serde: turns values into bytes and back.
            retention: what to keep; everything if left out.

        Raises:
            SaverUnavailableError: the server does not answer, or refuses us.
        """
        with wrapped_errors(place_of(conn_string)):
            connection = Connection.connect(conn_string, autocommit=True)
        with connection:
            yield cls(connection, serde=serde, retention=retention)

    def setup(self) -> None:
        """Make the tables, or bring those of an earlier version up to date. The first use does so by itself.

        Raises:
            SchemaVersionError: the tables are of a later version.
        """
        self._set_up()

    def _execute(self, operation: Operation[T]) -> T:
        with wrapped_errors(self._where):
            if isinstance(self.conn, Connection):
                with self._lock:
                    return _transact(self.conn, operation)
            with self.conn.connection() as connection:
                return _transact(connection, operation)

    async def _aexecute(self, operation: Operation[T]) -> T:
        return await asyncio.to_thread(self._execute, operation)


def _transact(connection: "Connection[Any]", operation: Operation[T]) -> T:
    snapshot = wants_snapshot(operation, connection.info.transaction_status)
    with connection.pipeline(), connection.transaction():
        if snapshot:
            connection.execute(SNAPSHOT)
        try:
            batch = next(operation.steps)
            while True:
                batch = operation.steps.send(_rows(connection, batch))
        except StopIteration as stop:
            return cast("T", stop.value)


def _rows(connection: "Connection[Any]", batch: Batch) -> list[Rows]:
    cursors = [connection.cursor(binary=True, row_factory=tuple_row) for _ in batch]
    for cursor, statement in zip(cursors, batch, strict=True):
        cursor.execute(psycopg_sql(statement.sql), statement.parameters)
    none: list[Row] = []
    return [
        cursor.fetchall() if returns_rows(statement) else none for cursor, statement in zip(cursors, batch, strict=True)
    ]
