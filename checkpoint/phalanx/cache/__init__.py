"""Caches: the writes of nodes that were run before with the same input.

==============================  ==========================================================
:mod:`phalanx.cache.memory`     in this process
:mod:`phalanx.cache.sqlite`     in a file, for the processes of one machine
:mod:`phalanx.cache.redis`      on a server, for all machines
:mod:`phalanx.cache.key`        what makes two inputs the same
==============================  ==========================================================
"""

from phalanx.cache.base import BaseCache

__all__ = ["BaseCache"]
