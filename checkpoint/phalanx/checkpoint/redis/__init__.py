"""A thread's state in Redis or Valkey (6.2 or newer): plain commands and Lua, no modules."""

from phalanx.checkpoint.redis.saver import RedisSaver

__all__ = ["RedisSaver"]
