"""A saver over a connection of aiosqlite, for event loops."""

import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

import aiosqlite

from phalanx.checkpoint.retention import Retention
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.checkpoint.sql.errors import SaverUnavailableError
from phalanx.checkpoint.sql.on_loop import LoopSaver
from phalanx.checkpoint.sql.saver import KEEP_ALL, Settings
from phalanx.checkpoint.sql.statements import Operation
from phalanx.checkpoint.sqlite.driver import SQLITE, WAIT_S, transact, wrapped_errors, write_ahead

T = TypeVar("T")


class AsyncSqliteSaver(LoopSaver):
    """Keeps checkpoints in a SQLite database, for graphs that run on an event loop.

    It belongs to the loop it is made on. Its blocking methods do the work there too, so they may be called from any
    thread but that loop's.

    Args:
        conn: a connection. If a transaction is open in it, what is stored is part of that; call :meth:`setup` before.
        serde: turns values into bytes and back.
        retention: what to keep; everything if left out.
        clock: seconds since the epoch, alike for all who use the database.

    Example:
        >>> async with AsyncSqliteSaver.from_conn_string("checkpoints.db") as saver:
        ...     graph = builder.compile(checkpointer=saver)
    """

    def __init__(
        self,
        conn: aiosqlite.Connection,
        *,
        serde: SerializerProtocol | None = None,
        retention: Retention = KEEP_ALL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__("the given SQLite connection", SQLITE, Settings(serde, retention, clock))
        self.conn: Final = conn

    @classmethod
    @asynccontextmanager
    async def from_conn_string(
        cls, conn_string: str, *, serde: SerializerProtocol | None = None, retention: Retention = KEEP_ALL
    ) -> "AsyncGenerator[AsyncSqliteSaver, None]":
        """A saver over a connection of its own, which is closed in the end.

        Args:
            conn_string: the file, which is made if there is none, but not its folder; not on a network drive. Or
                ``":memory:"``.
            serde: turns values into bytes and back.
            retention: what to keep; everything if left out.

        Raises:
            SaverUnavailableError: the file cannot be opened, or is none of SQLite's.
        """
        with wrapped_errors(conn_string):
            connection = await aiosqlite.connect(conn_string, timeout=WAIT_S)
        try:
            with wrapped_errors(conn_string):
                await _in_its_thread(connection, write_ahead)
            saver = cls(connection, serde=serde, retention=retention)
            saver._where = conn_string
            yield saver
        finally:
            await connection.close()

    async def _carry_out(self, operation: Operation[T]) -> T:
        try:
            with wrapped_errors(self._where):
                return await _in_its_thread(self.conn, lambda connection: transact(connection, operation))
        except _ClosedError as error:
            raise SaverUnavailableError(self._where, str(error)) from error


class _ClosedError(Exception):
    """The connection was closed."""


async def _in_its_thread(connection: aiosqlite.Connection, function: Callable[[sqlite3.Connection], T]) -> T:
    """Call a function in the thread of a connection, with the connection that aiosqlite wraps.

    A transaction is one way there and back, then, instead of one for each of its statements; nothing comes in between,
    and it does not stop halfway when the caller is cancelled. aiosqlite has no public name for this.
    """
    library = cast("Any", connection)
    began = False

    def call() -> T:
        nonlocal began
        began = True
        return function(library._conn)

    try:
        return cast("T", await library._execute(call))
    except ValueError as error:
        if began:
            raise
        raise _ClosedError(str(error)) from error
