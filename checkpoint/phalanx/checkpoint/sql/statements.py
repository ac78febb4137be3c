"""Statements, batches and operations, and how names become bytes.

Whatever comes from outside is a parameter; the text of a statement is always one of ours. Names are stored as bytes, so
that NUL and lone surrogates, which the databases' texts cannot hold, are nothing special. UTF-8 sorts as the text does,
with surrogates too.
"""

import hashlib
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

T = TypeVar("T")

Parameter: TypeAlias = bytes | int | float | None
Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Sequence[Row]


class Statement(NamedTuple):
    """One statement; ``?`` stands for a parameter."""

    sql: str
    parameters: Sequence[Parameter] = ()


Batch: TypeAlias = Sequence[Statement]
Steps: TypeAlias = Generator[Batch, Sequence[Rows], T]
"""Yields batches, is sent the rows of each statement of the batch, and returns its result."""


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """What is done in one transaction.

    Attributes:
        steps: the statements. They run once.
        writes: whether it changes anything. If not, all of its statements see one state of the database.
    """

    steps: Steps[T]
    writes: bool


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a database differs from others.

    Attributes:
        bytes_type: the type of columns of bytes.
        integer_type: that of whole numbers of 64 bits.
        float_type: that of numbers of 64 bits.
        table_end: what stands behind the columns of a table that is best kept in the order of its key.
        find_table: a query for one parameter, a table's name as bytes, which has a row if the table is there.
        find_bytes: an expression for where ``{part}`` begins in ``{whole}``; 0 if it is not there.
        lock_schema: keeps others from changing tables until the transaction ends, where beginning to write does not.
    """

    bytes_type: str
    integer_type: str
    float_type: str
    table_end: str
    find_table: str
    find_bytes: str
    lock_schema: Statement | None = None


# --- names ------------------------------------------------------------------------------------------------------------

_LONGEST_KEY: Final = 240
"""Keys stay far below what fits into an index, which is 2,700 bytes in Postgres for all columns together."""

_HASHED: Final = b"\xff"
"""No UTF-8 starts with it."""


def encoded(name: str) -> bytes:
    """A name as it is stored."""
    return name.encode("utf-8", "surrogatepass")


def decoded(name: bytes) -> str:
    """The name."""
    return bytes(name).decode("utf-8", "surrogatepass")


def key_of(name: str) -> bytes:
    """What stands for a name of any length in a table's key: the name, or a hash of one that is long."""
    return short_key(encoded(name))


def short_key(name: bytes) -> bytes:
    """:func:`key_of` of an encoded name."""
    return name if len(name) <= _LONGEST_KEY else _HASHED + hashlib.blake2b(name, digest_size=20).digest()


def full_name(name: str) -> bytes | None:
    """What must be stored beside a name's key, so that the name can be read: nothing where the key is the name."""
    data = encoded(name)
    return data if len(data) > _LONGEST_KEY else None


def name_of(key: bytes, full: bytes | None) -> str:
    """The name behind a key."""
    return decoded(key if full is None else full)


# --- many rows --------------------------------------------------------------------------------------------------------

_ROWS_AT_ONCE: Final = (64, 8, 1)
"""Few sizes, so that drivers prepare few statements."""

_DIGESTS_AT_ONCE: Final = 256


def insert(
    table: str, columns: Sequence[str], rows: Iterable[Sequence[Parameter]], conflict: str = "DO NOTHING"
) -> list[Statement]:
    """Statements that insert rows, many at once.

    Args:
        conflict: what happens to a row whose key exists. ``DO UPDATE`` bears no key twice in ``rows``.
    """
    left = list(rows)
    statements: list[Statement] = []
    for size in _ROWS_AT_ONCE:
        while len(left) >= size:
            taken, left = left[:size], left[size:]
            parameters = [value for row in taken for value in row]
            statements.append(Statement(_insert_sql(table, tuple(columns), size, conflict), parameters))
    return statements


@lru_cache
def _insert_sql(table: str, columns: tuple[str, ...], rows: int, conflict: str) -> str:
    one = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([one] * rows)} ON CONFLICT {conflict}"


def with_list(sql: str, before: Sequence[Parameter], listed: Sequence[bytes]) -> list[Statement]:
    """Statements that look for values of a list, whose place in ``sql`` is ``{list}``. The list comes last."""
    statements: list[Statement] = []
    for start in range(0, len(listed), _DIGESTS_AT_ONCE):
        part = listed[start : start + _DIGESTS_AT_ONCE]
        size = next(size for size in (1, 16, _DIGESTS_AT_ONCE) if size >= len(part))
        padded = [*part, *[part[-1]] * (size - len(part))]
        statements.append(Statement(sql.replace("{list}", ", ".join("?" * size)), [*before, *padded]))
    return statements
