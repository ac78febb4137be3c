"""What is particular about SQLite: its dialect, its transactions, its files. Both savers use a connection alike."""

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar, cast

from phalanx.checkpoint.sql.errors import SaverUnavailableError
from phalanx.checkpoint.sql.statements import Batch, Dialect, Operation, Rows

T = TypeVar("T")

WAIT_S: Final = 30.0
"""How long a writer waits for the writers before it."""

_RETRY_S: Final = 0.01

SQLITE: Final = Dialect(
    bytes_type="BLOB",
    integer_type="INTEGER",
    float_type="REAL",
    table_end=" WITHOUT ROWID",
    find_table="SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = CAST(? AS TEXT)",
    find_bytes="instr({whole}, {part})",
)


def write_ahead(connection: sqlite3.Connection) -> None:
    """Change the file's mode to one in which readers wait for nobody.

    Here alone SQLite does not wait by itself for others that do so at the same time.
    """
    until = time.monotonic() + WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def transact(connection: sqlite3.Connection, operation: Operation[T]) -> T:
    """Carry out an operation in a transaction; if the connection's owner has one open, as a part of that."""
    inside = connection.in_transaction
    cursor = connection.cursor()
    cursor.row_factory = None  # whatever the connection's owner likes
    if inside:
        cursor.execute("SAVEPOINT phalanx")
    else:  # who will write waits for other writers before it reads, not after
        cursor.execute("BEGIN IMMEDIATE" if operation.writes else "BEGIN")
    try:
        result = _carried_out(cursor, operation)
        cursor.execute("RELEASE phalanx" if inside else "COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # after some errors SQLite has rolled back already
            for statement in ("ROLLBACK TO phalanx", "RELEASE phalanx") if inside else ("ROLLBACK",):
                cursor.execute(statement)
        raise
    return result


def _carried_out(cursor: sqlite3.Cursor, operation: Operation[T]) -> T:
    try:
        batch = next(operation.steps)
        while True:
            batch = operation.steps.send(_rows(cursor, batch))
    except StopIteration as stop:
        return cast("T", stop.value)


def _rows(cursor: sqlite3.Cursor, batch: Batch) -> list[Rows]:
    return [cursor.execute(statement.sql, statement.parameters).fetchall() for statement in batch]


@contextmanager
def wrapped_errors(where: str) -> Generator[None, None, None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise SaverUnavailableError(where, str(error)) from error
