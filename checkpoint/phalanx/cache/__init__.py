"""Caches: the writes of nodes that were run before with the same input."""

from phalanx.cache.base import BaseCache

__all__ = ["BaseCache"]
