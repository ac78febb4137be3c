"""One driver a thread, within this process: a run that drives a thread keeps others from it.

On a cluster the thread's lease does this for all processes. Here it is for runs that a saver alone keeps: whoever comes
second is refused, or waits for its turn, in the order of coming. A saver that several processes share cannot tell them
of one another this way.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Final, Literal

from phalanx.errors import ThreadBusyError

IfBusy = Literal["refuse", "enqueue"]
"""What becomes of a run whose thread is being driven by another: an error at once, or it waits for its turn."""

_LOCK: Final = threading.Lock()


@dataclass(slots=True)
class _Queue:
    """Who drives a thread, and who waits to be called."""

    driving: "Turn"
    waiting: "deque[Turn]" = field(default_factory=lambda: deque[Turn]())


@dataclass(slots=True, eq=False)
class Turn:
    """A run's turn to drive a thread.

    Args:
        saver: keeps the thread.
        owner: names the run in errors.
    """

    saver: object
    thread_id: str
    owner: str
    _call: Callable[[], object] = lambda: None

    @property
    def _key(self) -> tuple[int, str]:
        return id(self.saver), self.thread_id

    def take(self, if_busy: IfBusy) -> None:
        """Take the thread, in a thread that may block.

        Raises:
            ThreadBusyError: another run drives it, and this one does not wait.
        """
        event = threading.Event()
        if self._begin(if_busy, event.set):
            return
        try:
            event.wait()
        except BaseException:
            self.release()
            raise

    async def atake(self, if_busy: IfBusy) -> None:
        """Take the thread without blocking the event loop.

        Raises:
            ThreadBusyError: another run drives it, and this one does not wait.
        """
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        if self._begin(if_busy, lambda: loop.call_soon_threadsafe(event.set)):
            return
        try:
            await event.wait()
        except BaseException:
            self.release()
            raise

    def _begin(self, if_busy: IfBusy, call: Callable[[], object]) -> bool:
        """Take the thread if it is free, else wait to be called. Returns whether it was free."""
        with _LOCK:
            held = _HELD.get(self._key)
            if held is None:
                _HELD[self._key] = _Queue(self)
                return True
            if if_busy == "refuse":
                raise ThreadBusyError(self.thread_id, held.driving.owner, inf)
            self._call = call
            held.waiting.append(self)
            return False

    def release(self) -> None:
        """Let the next one drive the thread; or, if it is not this one's turn yet, wait no longer."""
        with _LOCK:
            held = _HELD.get(self._key)
            if held is None:
                return
            if self in held.waiting:
                held.waiting.remove(self)
                return
            if held.driving is not self:
                return
            if not held.waiting:
                del _HELD[self._key]
                return
            following = held.waiting.popleft()
            held.driving = following
        following._call()


_HELD: Final = dict[tuple[int, str], _Queue]()
"""The threads that are being driven, by their saver."""


@contextmanager
def alone_on(saver: object, thread_id: str) -> Generator[None, None, None]:
    """Keep a thread to oneself, to change its state from outside.

    Raises:
        ThreadBusyError: a run drives it.
    """
    turn = Turn(saver, thread_id, "an update")
    turn.take("refuse")
    try:
        yield
    finally:
        turn.release()
