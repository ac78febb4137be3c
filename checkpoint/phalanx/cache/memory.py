"""A cache in this process: for tests, examples, and graphs whose runs share a process."""

import heapq
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from phalanx.cache.base import BaseCache, FullKey, Namespace
from phalanx.cache.entries import packed, unpacked
from phalanx.checkpoint.serde import SerializerProtocol

Value = TypeVar("Value")

_FEW: Final = 64


class _Held(NamedTuple):
    data: bytes
    deadline: float | None


class InMemoryCache(BaseCache[Value]):
    """Keeps values serialized, so that whoever gets one cannot change what the next one gets.

    Entries without a time to live stay until they are cleared.

    Args:
        serde: turns values into bytes and back.
        clock: seconds, from anywhere.
    """

    def __init__(self, *, serde: SerializerProtocol | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(serde=serde)
        self._clock = clock
        self._lock = threading.Lock()
        self._held: defaultdict[Namespace, dict[str, _Held]] = defaultdict(dict)
        # Every deadline that was ever set, and so also those of entries that were replaced or cleared since.
        self._deadlines: list[tuple[float, Namespace, str]] = []
        self._tidy_at = _FEW

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Value]:
        with self._lock:
            self._expire(self._clock())
            found = {full_key: held.data for full_key in keys if (held := self._find(full_key)) is not None}
        return unpacked(self.serde, found)

    def set(self, pairs: Mapping[FullKey, tuple[Value, int | None]]) -> None:
        entries = packed(self.serde, pairs)
        with self._lock:
            now = self._clock()
            for (namespace, key), entry in entries.items():
                deadline = entry.deadline(now)
                self._held[namespace][key] = _Held(entry.data, deadline)
                if deadline is not None:
                    heapq.heappush(self._deadlines, (deadline, namespace, key))
            self._expire(now)
            self._tidy()

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        with self._lock:
            for namespace in [*self._held] if namespaces is None else namespaces:
                self._held.pop(namespace, None)
            self._forget_old_deadlines()

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Value]:
        return self.get(keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[Value, int | None]]) -> None:
        self.set(pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        self.clear(namespaces)

    def __len__(self) -> int:
        """How many entries are held, those included that are over and were not noticed yet."""
        with self._lock:
            return sum(map(len, self._held.values()))

    def _find(self, full_key: FullKey) -> _Held | None:
        namespace, key = full_key
        return self._held.get(namespace, {}).get(key)

    def _expire(self, now: float) -> None:
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, namespace, key = heapq.heappop(self._deadlines)
            if self._is_current(deadline, namespace, key):
                del self._held[namespace][key]
                if not self._held[namespace]:
                    del self._held[namespace]

    def _is_current(self, deadline: float, namespace: Namespace, key: str) -> bool:
        held = self._find((namespace, key))
        return held is not None and held.deadline == deadline

    def _tidy(self) -> None:
        """Keep the list of deadlines within twice the entries: one written again and again leaves one each time."""
        if len(self._deadlines) >= self._tidy_at:
            self._forget_old_deadlines()

    def _forget_old_deadlines(self) -> None:
        self._deadlines = sorted({item for item in self._deadlines if self._is_current(*item)})  # sorted is a heap
        self._tidy_at = _FEW + 2 * len(self._deadlines)


__all__ = ["InMemoryCache"]
