"""A saver over an asynchronous connection of psycopg, or a pool of them, for event loops."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from psycopg import AsyncConnection, AsyncPipeline
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
from phalanx.checkpoint.sql.on_loop import LoopSaver
from phalanx.checkpoint.sql.saver import KEEP_ALL, Settings
from phalanx.checkpoint.sql.statements import Batch, Operation, Row, Rows

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

T = TypeVar("T")

Conn: TypeAlias = "AsyncConnection[Any] | AsyncConnectionPool[Any]"


class AsyncPostgresSaver(LoopSaver):
    """Keeps checkpoints in a Postgres database, for graphs that run on an event loop.

    It belongs to the loop it is made on. Its blocking methods do the work there too, so they may be called from any
    thread but that loop's.

    Args:
        conn: a connection, or a pool of them. If a transaction is open in a connection, what is stored is
            part of that; call :meth:`setup` before.
        pipe: not needed; taken since others take it. What can be sent together always is.
        serde: turns values into bytes and back.
        retention: what to keep; everything if left out.
        clock: seconds since the epoch, alike for all who use the database.

    Example:
        >>> async with AsyncPostgresSaver.from_conn_string("postgresql://user@host/database") as saver:
        ...     graph = builder.compile(checkpointer=saver)
    """

    def __init__(
        self,
        conn: Conn,
        pipe: AsyncPipeline | None = None,
        serde: SerializerProtocol | None = None,
        *,
        retention: Retention = KEEP_ALL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        parameters = conn.info.get_parameters() if isinstance(conn, AsyncConnection) else cast("str", conn.conninfo)
        super().__init__(place_of(parameters), POSTGRES, Settings(serde, retention, clock))
        self.conn: Final = conn
        self._lock = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls,
        conn_string: str,
        *,
        pipeline: bool = False,
        serde: SerializerProtocol | None = None,
        retention: Retention = KEEP_ALL,
    ) -> "AsyncGenerator[AsyncPostgresSaver, None]":
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
            connection = await AsyncConnection.connect(conn_string, autocommit=True)
        async with connection:
            saver = cls(connection, serde=serde, retention=retention)
            yield saver
            await asyncio.gather(*saver._running, return_exceptions=True)

    async def _carry_out(self, operation: Operation[T]) -> T:
        # What has begun is ended, so that a caller who is cancelled leaves no half of a transaction in the connection.
        task = self.loop.create_task(self._connected(operation))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _connected(self, operation: Operation[T]) -> T:
        with wrapped_errors(self._where):
            if isinstance(self.conn, AsyncConnection):
                async with self._lock:
                    return await _transact(self.conn, operation)
            async with self.conn.connection() as connection:
                return await _transact(connection, operation)


async def _transact(connection: "AsyncConnection[Any]", operation: Operation[T]) -> T:
    snapshot = wants_snapshot(operation, connection.info.transaction_status)
    async with connection.pipeline(), connection.transaction():
        if snapshot:
            await connection.execute(SNAPSHOT)
        try:
            batch = next(operation.steps)
            while True:
                batch = operation.steps.send(await _rows(connection, batch))
        except StopIteration as stop:
            return cast("T", stop.value)


async def _rows(connection: "AsyncConnection[Any]", batch: Batch) -> list[Rows]:
    cursors = [connection.cursor(binary=True, row_factory=tuple_row) for _ in batch]
    for cursor, statement in zip(cursors, batch, strict=True):
        await cursor.execute(psycopg_sql(statement.sql), statement.parameters)
    none: list[Row] = []
    return [
        await cursor.fetchall() if returns_rows(statement) else none
        for cursor, statement in zip(cursors, batch, strict=True)
    ]
