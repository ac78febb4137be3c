"""Bounding how long an attempt takes: in a thread, by leaving it behind; on an event loop, by cancelling it.

A thread cannot be stopped from outside. One whose time is up is left to itself: it ends when its function returns, and
what it returns is dropped. Where a process can be ended instead (a worker's pool of processes), that is done there.
"""

import contextvars
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Literal, TypeVar

from phalanx.errors import NodeTimeoutError
from phalanx.types import TimeoutPolicy

T = TypeVar("T")

LONGEST_WAIT_S: Final = threading.TIMEOUT_MAX / 2
"""The longest time the standard library can wait for."""


class Clockwork:
    """The two clocks of one attempt: since it began, and since it last showed progress.

    Args:
        node: whose attempt it is, for the error.
        policy: its limits.
    """

    __slots__ = ("_beat_at", "_node", "_policy", "_started_at")

    def __init__(self, node: str, policy: TimeoutPolicy) -> None:
        self._node = node
        self._policy = policy
        self._started_at = self._beat_at = time.monotonic()

    def beat(self) -> None:
        """The attempt makes progress. Safe to call from any thread."""
        self._beat_at = time.monotonic()

    @property
    def counts_streams(self) -> bool:
        """Whether what the node streams counts as progress."""
        return self._policy.refresh_on == "auto"

    def left_s(self) -> float:
        """Seconds until the first of its limits; not more than :data:`LONGEST_WAIT_S`.

        Raises:
            NodeTimeoutError: there are none.
        """
        now = time.monotonic()
        limits: tuple[tuple[Literal["run", "idle"], float | None, float], ...] = (
            ("run", self._policy.run_s, self._started_at),
            ("idle", self._policy.idle_s, self._beat_at),
        )
        left = LONGEST_WAIT_S
        for kind, limit_s, since in limits:
            if limit_s is not None:
                if now - since >= limit_s:
                    raise self._timed_out(kind, now)
                left = min(left, since + limit_s - now)
        return left

    def _timed_out(self, kind: Literal["run", "idle"], now: float) -> NodeTimeoutError:
        policy = self._policy
        return NodeTimeoutError(
            self._node,
            now - self._started_at,
            kind=kind,
            run_timeout=policy.run_s,
            idle_timeout=policy.idle_s,
        )


def run_bounded(clockwork: Clockwork, function: Callable[[], T]) -> T:
    """Call ``function`` in a thread of its own, with this thread's context, and wait as long as the clocks allow.

    Raises:
        NodeTimeoutError: its time is up; the thread is left behind.
        BaseException: what the function raised.
    """
    ended: SimpleQueue[tuple[bool, object]] = SimpleQueue()

    def work() -> None:
        try:
            ended.put((True, function()))
        except BaseException as error:
            ended.put((False, error))

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="phalanx-bounded", daemon=True).start()
    while True:
        try:
            left_s = clockwork.left_s()
        except NodeTimeoutError:
            if ended.empty():  # else it ended in the same moment
                raise
            left_s = 0.0
        try:
            succeeded, result = ended.get(timeout=left_s)
        except Empty:
            continue
        if not succeeded:
            assert isinstance(result, BaseException)
            raise result
        return result  # type: ignore[return-value]
