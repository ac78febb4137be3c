"""Storing on an event loop: what is begun is stored to its end, and :class:`LoopBacklog` stores in the background.

The twin of :mod:`phalanx.coordinator.backlog` for coroutines.
"""

import asyncio

from phalanx.coordinator.saver_access import SaverOnLoop
from phalanx.coordinator.saving import MOST_AHEAD, Saved


async def stored(saved: Saved, access: SaverOnLoop) -> None:
    """Store something. Who is cancelled meanwhile is so after it is stored."""
    storing = asyncio.ensure_future(saved.store(access))
    try:
        await asyncio.shield(storing)
    except asyncio.CancelledError:
        await asyncio.wait([storing])
        raise


class LoopBacklog:
    """What waits to be stored, in order.

    Args:
        access: the saver.
    """

    def __init__(self, access: SaverOnLoop) -> None:
        self._access = access
        self._error: BaseException | None = None
        self._told = False
        self._queue: asyncio.Queue[Saved | None] = asyncio.Queue(MOST_AHEAD)
        self._task = asyncio.ensure_future(self._work())

    async def add(self, saved: Saved) -> None:
        """Have something stored after all that was added before.

        Raises:
            Exception: what was added before could not be stored.
        """
        self._raise()
        await self._queue.put(saved)

    async def close(self) -> None:
        """Wait until everything is stored.

        Raises:
            Exception: it could not be.
        """
        await self._queue.put(None)
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await asyncio.wait([self._task])
            raise
        self._raise()

    def _raise(self) -> None:
        if self._error is not None and not self._told:
            self._told = True
            raise self._error

    async def _work(self) -> None:
        while (saved := await self._queue.get()) is not None:
            if self._error is None:
                try:
                    await saved.store(self._access)
                except BaseException as error:
                    self._error = error
