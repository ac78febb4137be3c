"""What a superstep waits for besides its tasks: launches that are due later, and the end of its time.

Pure; the driver's clock comes in as an argument.
"""

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from phalanx.coordinator.messages import Launch
from phalanx.worker.timeouts import LONGEST_WAIT_S


@dataclass(slots=True)
class Timers:
    """The launches of one superstep that wait for their time, in a heap, and the time it may take itself."""

    _heap: list[tuple[float, int, Launch]] = field(default_factory=list[tuple[float, int, Launch]])
    _numbers: "count[int]" = field(default_factory=count)  # launches of one moment go in the order they were ordered
    _deadline: float | None = None

    def __bool__(self) -> bool:
        """Whether a launch waits."""
        return bool(self._heap)

    @property
    def running(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self._heap) or self._deadline is not None

    def begin(self, limit_s: float | None, now: float) -> None:
        """Another superstep begins, and may take ``limit_s`` seconds; what waited is forgotten."""
        self._heap.clear()
        self._deadline = None if limit_s is None else now + limit_s

    def out_of_time(self, now: float) -> bool:
        """Whether the superstep has taken as long as it may."""
        return self._deadline is not None and now >= self._deadline

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
        """Seconds until there is something to do; ``None`` when no launch waits and the time is not limited.

        Not more than the standard library can wait for: who waited in vain asks again.
        """
        moments = [
            moment for moment in (self._heap[0][0] if self._heap else None, self._deadline) if moment is not None
        ]
        return min(LONGEST_WAIT_S, max(0.0, min(moments) - now)) if moments else None
