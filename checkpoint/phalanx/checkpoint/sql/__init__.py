"""What the savers over SQL databases have in common: everything but the connection.

An operation on a thread is a generator: it yields batches of statements, is sent their rows, and returns a result. It
does no I/O, so SQLite and Postgres, and a blocking and an asynchronous driver of each, carry out the same ones.

==================  ================================================================
``statements``      statements, batches, operations; how names become bytes
``schema``          the tables, as numbered migrations
``values``          values as they are stored: small ones in the row, large ones as blobs
``reading``         operations that read
``writing``         operations that write
``forgetting``      operations that delete
``saver``           the savers' public methods, over a driver's two ways to run an operation
==================  ================================================================
"""

from phalanx.checkpoint.sql.errors import SaverUnavailableError, SchemaVersionError, SyncCallOnLoopError

__all__ = ["SaverUnavailableError", "SchemaVersionError", "SyncCallOnLoopError"]
