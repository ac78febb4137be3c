"""Checkpoint ids: UUIDs of version 6 (RFC 9562), which sort by time, with the superstep in the clock sequence.

The field makes ids of one process readable (``…-8002-…`` is step 2) and the time part strictly grows within a
process, so that a later checkpoint has a greater id even when the clock stands still or is set back.
"""

import os
import re
import threading
import time

from xxhash import xxh3_128_hexdigest

_EPOCH_OFFSET_100NS = 0x01B21DD213814000  # from 1582-10-15, where UUID time starts, to 1970-01-01
_LAST_TICK = (1 << 60) - 1
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-6[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
_lock = threading.Lock()
_last = 0
_node = int.from_bytes(os.urandom(6), "big")


def _forget_node() -> None:
    # A forked worker must not make the ids of its parent, nor wait for a thread that only its parent has.
    global _node, _lock
    _lock = threading.Lock()
    _node = int.from_bytes(os.urandom(6), "big")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_node)


def checkpoint_id(step: int, after: str = "") -> str:
    """A new id, greater than every id this process made before, and than ``after``.

    Args:
        step: the superstep.
        after: the checkpoint before; it may come from a machine whose clock is ahead of this one's.
    """
    value = f"{next_ticks(after):015x}"
    return f"{value[:8]}-{value[8:12]}-6{value[12:]}-{0x8000 | (step & 0x3FFF):04x}-{_node:012x}"


def derived_id(place: str, step: int) -> str:
    """An id that is the same whenever it is made, for a graph inside of a task whose checkpoints nobody keeps.

    Its tasks are then the same ones when the task is run again, and what they ask can be answered.

    Args:
        place: the graph's namespace.
        step: the superstep.
    """
    value = xxh3_128_hexdigest(f"{place}|{step}".encode("utf-8", "surrogatepass"))
    return f"{value[:8]}-{value[8:12]}-8{value[13:16]}-{0x8000 | (step & 0x3FFF):04x}-{value[20:]}"


def next_ticks(after: str = "") -> int:
    """The time of a new id, in 100 ns since 1582-10-15; no two ids of this process have the same.

    Args:
        after: an id whose time must be earlier.
    """
    global _last
    with _lock:
        _last = max(time.time_ns() // 100 + _EPOCH_OFFSET_100NS, _last + 1, _ticks_of(after) + 1)
        return _last


def process_node() -> int:
    """What tells the ids of this process from those of others: 48 random bits."""
    return _node


def _ticks_of(identity: str) -> int:
    """The time in an id; 0 for what is not one of ours."""
    if not _ID.fullmatch(identity):
        return 0
    ticks = int(identity[:8] + identity[9:13] + identity[15:18], 16)
    return ticks if ticks < _LAST_TICK else 0
