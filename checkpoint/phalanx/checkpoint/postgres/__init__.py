"""Checkpoints in a Postgres database, for the processes of many machines. Needs the extra ``postgres``.

:class:`PostgresSaver` is for blocking callers; :class:`phalanx.checkpoint.postgres.aio.AsyncPostgresSaver` is for event
loops.
"""

from phalanx.checkpoint.postgres.saver import PostgresSaver

__all__ = ["PostgresSaver"]
