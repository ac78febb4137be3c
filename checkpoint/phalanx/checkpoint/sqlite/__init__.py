"""Checkpoints in a SQLite database: a file for the threads and processes of one machine, or memory.

:class:`SqliteSaver` is for blocking callers, and needs nothing but Python;
:class:`phalanx.checkpoint.sqlite.aio.AsyncSqliteSaver` is for event loops, and needs the extra ``sqlite``.
"""

from phalanx.checkpoint.sqlite.saver import SqliteSaver

__all__ = ["SqliteSaver"]
