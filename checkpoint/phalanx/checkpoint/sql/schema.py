"""The tables, as numbered migrations. What a migration does is never changed once it was released.

======================  ====================================================================================
``phalanx_migrations``  the migrations that were applied
``phalanx_threads``     one row a thread. Whoever changes a thread locks its row first, so that no blob is
                        found unused while someone begins to use it
``phalanx_checkpoints`` one row a checkpoint: its parts packed, its values small or as names of blobs
``phalanx_writes``      what tasks of a checkpoint wrote
``phalanx_blobs``       large values under the digest of their bytes, shared within a thread
``phalanx_refs``        which checkpoint, itself or by its tasks' writes, needs which blob
======================  ====================================================================================

Threads and namespaces are in keys by :func:`~phalanx.checkpoint.sql.statements.key_of`; beside a key that is a hash the
whole name is stored. ``held`` lists the channels that have a value, for queries that look for one.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from phalanx.checkpoint.sql.errors import SchemaVersionError
from phalanx.checkpoint.sql.statements import Dialect, Operation, Statement, Steps

_BYTES, _INTEGER, _FLOAT, _END = "{bytes}", "{integer}", "{float}", "{end}"

MIGRATIONS: Final[Sequence[Sequence[str]]] = (
    (
        """
        CREATE TABLE phalanx_threads (
            thread {bytes} NOT NULL PRIMARY KEY,
            full_name {bytes},
            written_at {float} NOT NULL
        )
        """,
        """
        CREATE TABLE phalanx_checkpoints (
            thread {bytes} NOT NULL,
            namespace {bytes} NOT NULL,
            id {bytes} NOT NULL,
            namespace_name {bytes},
            parent {bytes},
            run {bytes},
            held {bytes} NOT NULL,
            metadata {bytes} NOT NULL,
            record {bytes} NOT NULL,
            PRIMARY KEY (thread, namespace, id)
        ){end}
        """,
        "CREATE INDEX phalanx_checkpoints_by_thread ON phalanx_checkpoints (thread, id)",
        "CREATE INDEX phalanx_checkpoints_by_id ON phalanx_checkpoints (id)",
        "CREATE INDEX phalanx_checkpoints_by_run ON phalanx_checkpoints (run) WHERE run IS NOT NULL",
        """
        CREATE TABLE phalanx_writes (
            thread {bytes} NOT NULL,
            namespace {bytes} NOT NULL,
            checkpoint {bytes} NOT NULL,
            task {bytes} NOT NULL,
            idx {integer} NOT NULL,
            task_name {bytes},
            path {bytes} NOT NULL,
            channel {bytes} NOT NULL,
            value {bytes} NOT NULL,
            PRIMARY KEY (thread, namespace, checkpoint, task, idx)
        ){end}
        """,
        """
        CREATE TABLE phalanx_blobs (
            thread {bytes} NOT NULL,
            digest {bytes} NOT NULL,
            data {bytes} NOT NULL,
            PRIMARY KEY (thread, digest)
        )
        """,
        """
        CREATE TABLE phalanx_refs (
            thread {bytes} NOT NULL,
            namespace {bytes} NOT NULL,
            checkpoint {bytes} NOT NULL,
            digest {bytes} NOT NULL,
            PRIMARY KEY (thread, namespace, checkpoint, digest)
        ){end}
        """,
        "CREATE INDEX phalanx_threads_by_time ON phalanx_threads (written_at)",
        "CREATE INDEX phalanx_refs_by_digest ON phalanx_refs (thread, digest)",
    ),
)

_TABLE: Final = b"phalanx_migrations"
_CREATE: Final = """
CREATE TABLE IF NOT EXISTS phalanx_migrations (number {integer} NOT NULL PRIMARY KEY, applied_at {float} NOT NULL)
"""
_NEWEST: Final = Statement("SELECT COALESCE(MAX(number), 0) FROM phalanx_migrations")


def check(dialect: Dialect, where: str) -> Operation[bool]:
    """Whether all migrations were applied.

    Raises:
        SchemaVersionError: more than are known here.
    """

    def steps() -> Steps[bool]:
        (found,) = yield [Statement(dialect.find_table, [_TABLE])]
        if not found:
            return False
        ((newest,),) = (yield [_NEWEST])[0]
        return _compared(newest, where)

    return Operation(steps(), writes=False)


def migrate(dialect: Dialect, where: str, clock: Callable[[], float] = time.time) -> Operation[None]:
    """Apply the migrations that are missing. Others may try to do the same at the same time.

    Raises:
        SchemaVersionError: the database is at a later one than is known here.
    """

    def steps() -> Steps[None]:
        if dialect.lock_schema is not None:
            yield [dialect.lock_schema]
        yield [Statement(_in_dialect(_CREATE, dialect))]
        ((newest,),) = (yield [_NEWEST])[0]
        if _compared(newest, where):
            return
        for number, statements in enumerate(MIGRATIONS[newest:], newest + 1):
            yield [Statement(_in_dialect(sql, dialect)) for sql in statements]
            yield [Statement("INSERT INTO phalanx_migrations (number, applied_at) VALUES (?, ?)", [number, clock()])]

    return Operation(steps(), writes=True)


def _compared(newest: int, where: str) -> bool:
    if newest > len(MIGRATIONS):
        raise SchemaVersionError(where, newest, len(MIGRATIONS))
    return newest == len(MIGRATIONS)


def _in_dialect(sql: str, dialect: Dialect) -> str:
    types: Iterable[tuple[str, str]] = (
        (_BYTES, dialect.bytes_type),
        (_INTEGER, dialect.integer_type),
        (_FLOAT, dialect.float_type),
        (_END, dialect.table_end),
    )
    for name, meant in types:
        sql = sql.replace(name, meant)
    return sql
