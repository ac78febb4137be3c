"""Tasks that are to be launched later: a heap by time. Pure; the driver's clock comes in as an argument."""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from phalanx.coordinator.messages import Launch


@dataclass(slots=True)
class Timers:
    """The launches of one superstep that wait for their time."""

    _heap: list[tuple[float, int, Launch]] = field(default_factory=list[tuple[float, int, Launch]])
    _numbers: "count[int]" = field(default_factory=count)  # launches of one moment go in the order they were ordered

    def __bool__(self) -> bool:
        return bool(self._heap)

    def add(self, launch: Launch, now: float) -> None:
        """Wait with ``launch`` as long as it says, from ``now`` on, in seconds of the driver's clock."""
        heappush(self._heap, (now + launch.after_s, next(self._numbers), launch))

    def due(self, now: float) -> list[Launch]:
        """The launches whose time has come. They wait no longer."""
        found: list[Launch] = []
        while self._heap and self._heap[0][0] <= now:
            found.append(heappop(self._heap)[2])
        return found

    def next_in(self, now: float) -> float | None:
        """Seconds until the next one is due; ``None`` when none waits."""
        return max(0.0, self._heap[0][0] - now) if self._heap else None

    def clear(self) -> None:
        """Forget them all."""
        self._heap.clear()
