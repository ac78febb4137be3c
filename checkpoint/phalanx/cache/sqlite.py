"""A cache in a file, for the threads and processes of one machine.

SQLite keeps order between processes: in write-ahead mode readers wait for nobody and writers wait for each other. A
connection must not be used in a process forked from the one that opened it, so each process opens its own, when it
first needs it.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self, TypeVar

from phalanx.cache.base import BaseCache, FullKey, Namespace
from phalanx.cache.entries import namespace_bytes, packed, text_bytes, unpacked
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.errors import CacheUnavailableError

Value = TypeVar("Value")

_WAIT_S: Final = 30.0
"""How long a writer waits for the writers before it."""

_RETRY_S: Final = 0.01

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS phalanx_cache (
    namespace BLOB NOT NULL,
    key BLOB NOT NULL,
    deadline REAL,
    data BLOB NOT NULL,
    PRIMARY KEY (namespace, key)
);
CREATE INDEX IF NOT EXISTS phalanx_cache_deadline ON phalanx_cache (deadline) WHERE deadline IS NOT NULL;
"""
_GET: Final = """
SELECT data FROM phalanx_cache WHERE namespace = ? AND key = ? AND (deadline IS NULL OR deadline > ?)
"""
_SET: Final = "INSERT OR REPLACE INTO phalanx_cache (namespace, key, deadline, data) VALUES (?, ?, ?, ?)"
_EXPIRE: Final = "DELETE FROM phalanx_cache WHERE deadline <= ?"


class SqliteCache(BaseCache[Value]):
    """Keeps values in a file. What is over is deleted when something is stored.

    Args:
        path: the file, which is made if there is none; its folder must exist. Not on a network drive.
        serde: turns values into bytes and back.
        clock: seconds since the epoch, alike in all processes.

    Example:
        >>> with SqliteCache(path="nodes.db") as cache:
        ...     graph = builder.compile(cache=cache)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        serde: SerializerProtocol | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(serde=serde)
        self.path: Final = os.fspath(path)
        self._clock = clock
        # By process. What a forked process inherits stays in here, untouched: to close it would be to use it.
        self._files: dict[int, _File] = {}

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Value]:
        found: dict[FullKey, object] = {}
        if keys:
            with self._file().transaction("BEGIN") as connection:
                now = self._clock()
                for namespace, key in keys:
                    row = connection.execute(_GET, (namespace_bytes(namespace), text_bytes(key), now)).fetchone()
                    if row is not None:
                        found[namespace, key] = row[0]
        return unpacked(self.serde, found)

    def set(self, pairs: Mapping[FullKey, tuple[Value, int | None]]) -> None:
        entries = packed(self.serde, pairs)
        if not entries:
            return
        with self._file().transaction("BEGIN IMMEDIATE") as connection:
            now = self._clock()
            rows = (
                (namespace_bytes(namespace), text_bytes(key), entry.deadline(now), entry.data)
                for (namespace, key), entry in entries.items()
            )
            connection.executemany(_SET, rows)
            connection.execute(_EXPIRE, (now,))

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with self._file().transaction("BEGIN IMMEDIATE") as connection:
            if namespaces is None:
                connection.execute("DELETE FROM phalanx_cache")
            else:
                names = ((namespace_bytes(namespace),) for namespace in namespaces)
                connection.executemany("DELETE FROM phalanx_cache WHERE namespace = ?", names)

    def close(self) -> None:
        """Close this process's connection. The next use opens another."""
        opened = self._files.pop(os.getpid(), None)
        if opened is not None:
            opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _file(self) -> "_File":
        process = os.getpid()
        return self._files.get(process) or self._files.setdefault(process, _File(self.path))


class _File:
    """One process's connection, used by one thread at a time."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self, begin: str) -> Generator[sqlite3.Connection, None, None]:
        """All or nothing of what is done with the connection inside."""
        with self._lock, _wrapped_errors(self._path):
            if self._connection is None:
                self._connection = _open(self._path)
            connection = self._connection
            connection.execute(begin)
            with connection:  # commits, or rolls back
                yield connection

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def _open(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
    try:
        _write_ahead(connection)
        connection.execute("PRAGMA synchronous = NORMAL")  # the last entries may be lost with the power, not the file
        connection.executescript(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Change the file's mode. Here alone SQLite does not wait by itself for others that do so at the same time."""
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_RETRY_S)
        else:
            return


@contextmanager
def _wrapped_errors(path: str) -> Generator[None, None, None]:
    try:
        yield
    except sqlite3.Error as error:
        raise CacheUnavailableError(path, str(error)) from error


__all__ = ["SqliteCache"]
