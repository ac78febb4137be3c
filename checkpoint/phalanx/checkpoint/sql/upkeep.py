"""When a saver looks after what it keeps: which operations are due after a checkpoint was stored."""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.retention import Retention
from phalanx.checkpoint.sql.forgetting import Forgetter, expire_all
from phalanx.checkpoint.sql.statements import Operation, key_of

_REMEMBERED: Final = 10_000
"""Of how many namespaces it is remembered how many checkpoints they may still take. For others it is looked up."""

_SWEEPS_IN_A_TTL: Final = 20

Place = tuple[bytes, bytes]
"""Thread and namespace, as they are stored."""


@dataclass(slots=True)
class Upkeep:
    """Knows when to prune.

    Args:
        retention: what is kept.
        clock: seconds since the epoch.
    """

    retention: Retention
    clock: Callable[[], float]
    _room: OrderedDict[Place, int] = field(default_factory=OrderedDict[Place, int])
    _next_sweep: float = -math.inf
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def cutoff(self) -> float | None:
        """Threads that nobody wrote since then are over."""
        return None if self.retention.ttl_s is None else self.clock() - self.retention.ttl_s

    def after_put(self, address: CheckpointAddress, forgetter: Forgetter) -> Iterator[Operation[None]]:
        """What is due after a checkpoint was stored there."""
        if self.retention.keep_last is not None:
            place = (key_of(address.thread_id), key_of(address.namespace))
            if self._is_full(place):
                yield forgetter.sweep(*place, self.retention, lambda left: self._note(place, left))
        cutoff = self.cutoff()
        if cutoff is not None and self._is_time(cutoff):
            yield expire_all(cutoff)

    def _is_full(self, place: Place) -> bool:
        with self._lock:
            room = self._room.get(place, 0) - 1
            self._room[place] = room
            return room <= 0

    def _note(self, place: Place, left: int) -> None:
        """A namespace was looked at, and has so many checkpoints."""
        with self._lock:
            self._room[place] = self.retention.sweep_at(left if left >= self.retention.sweep_at() else None) - left
            self._room.move_to_end(place)
            while len(self._room) > _REMEMBERED:
                self._room.popitem(last=False)

    def _is_time(self, cutoff: float) -> bool:
        with self._lock:
            if cutoff < self._next_sweep:
                return False
            self._next_sweep = cutoff + (self.retention.ttl_s or 0) / _SWEEPS_IN_A_TTL
            return True
