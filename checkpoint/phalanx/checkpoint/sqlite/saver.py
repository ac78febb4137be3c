"""A saver over a connection of Python's own SQLite module."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeVar

from phalanx.checkpoint.retention import Retention
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.checkpoint.sql.saver import KEEP_ALL, Settings, SqlSaver
from phalanx.checkpoint.sql.statements import Operation
from phalanx.checkpoint.sqlite.driver import SQLITE, WAIT_S, transact, wrapped_errors, write_ahead

T = TypeVar("T")


class SqliteSaver(SqlSaver):
    """Keeps checkpoints in a SQLite database. Safe to use from several threads, and a file from several processes.

    The async methods run in threads; :class:`~phalanx.checkpoint.sqlite.aio.AsyncSqliteSaver` does without.

    Args:
        conn: a connection that other threads may use: ``sqlite3.connect(..., check_same_thread=False)``. If a
            transaction is open in it, what is stored is part of that; call :meth:`setup` before.
        serde: turns values into bytes and back.
        retention: what to keep; everything if left out.
        clock: seconds since the epoch, alike for all who use the database.

    Example:
        >>> with SqliteSaver.from_conn_string("checkpoints.db") as saver:
        ...     graph = builder.compile(checkpointer=saver)
    """

    def __init__(
        self,
        conn: sqlite3.Connection,
        *,
        serde: SerializerProtocol | None = None,
        retention: Retention = KEEP_ALL,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(conn, sqlite3.Connection):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"SqliteSaver takes a connection; got {conn!r}. For a path: "
                f"with SqliteSaver.from_conn_string(path) as saver"
            )
        super().__init__("the given SQLite connection", SQLITE, Settings(serde, retention, clock))
        self.conn: Final = conn
        self._lock = threading.RLock()

    @classmethod
    @contextmanager
    def from_conn_string(
        cls, conn_string: str, *, serde: SerializerProtocol | None = None, retention: Retention = KEEP_ALL
    ) -> "Generator[SqliteSaver, None, None]":
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
            connection = sqlite3.connect(conn_string, timeout=WAIT_S, check_same_thread=False)
        try:
            with wrapped_errors(conn_string):
                write_ahead(connection)
            saver = cls(connection, serde=serde, retention=retention)
            saver._where = conn_string
            yield saver
        finally:
            connection.close()

    def setup(self) -> None:
        """Make the tables, or bring those of an earlier version up to date. The first use does so by itself.

        Raises:
            SchemaVersionError: the tables are of a later version.
        """
        self._set_up()

    def _execute(self, operation: Operation[T]) -> T:
        with self._lock, wrapped_errors(self._where):
            return transact(self.conn, operation)

    async def _aexecute(self, operation: Operation[T]) -> T:
        return await asyncio.to_thread(self._execute, operation)
