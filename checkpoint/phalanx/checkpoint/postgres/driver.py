"""What is particular about Postgres: its dialect, its transactions, its errors.

The statements of a batch are sent together, and so are a transaction's begin with its first batch and its end with the
last that returns nothing: what costs time is the ways to the server and back. Storing a checkpoint takes one or two.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from phalanx.checkpoint.sql.errors import SaverUnavailableError
from phalanx.checkpoint.sql.statements import Dialect, Operation, Statement

POSTGRES: Final = Dialect(
    bytes_type="BYTEA",
    integer_type="BIGINT",
    float_type="DOUBLE PRECISION",
    table_end="",
    find_table="SELECT 1 WHERE to_regclass(convert_from(?, 'UTF8')) IS NOT NULL",
    find_bytes="position({part} in {whole})",
    lock_schema=Statement("SELECT pg_advisory_xact_lock(?)", [0x5048414C414E58]),
)

SNAPSHOT: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""All statements of the transaction see one state: no blob is forgotten between a checkpoint and its values."""


@lru_cache
def psycopg_sql(sql: str) -> bytes:
    """A statement of ours as psycopg wants it, with parameters in binary. None of ours has a ``%``."""
    return sql.replace("?", "%b").encode()


def returns_rows(statement: Statement) -> bool:
    """Whether there are rows to wait for."""
    return statement.sql.lstrip().startswith(("SELECT", "WITH"))


def wants_snapshot(operation: Operation[Any], status: TransactionStatus) -> bool:
    """Whether to begin by fixing the state that is seen; within a transaction of the caller it is not ours to say."""
    return not operation.writes and status == TransactionStatus.IDLE


def place_of(parameters: "Mapping[str, Any] | str") -> str:
    """Where a database is, as it may be shown."""
    try:
        known = conninfo_to_dict(parameters) if isinstance(parameters, str) else parameters
    except psycopg.Error:
        return "the database of a connection string that cannot be read"
    host, port = known.get("host") or "localhost", known.get("port") or 5432
    return f"Postgres at {host}:{port}/{known.get('dbname') or known.get('user') or ''}"


@contextmanager
def wrapped_errors(where: str) -> Generator[None, None, None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except psycopg.Error as error:
        raise SaverUnavailableError(where, str(error).strip() or type(error).__name__) from error
