"""Savers that live on an event loop. Whoever calls from elsewhere has the work done there."""

import asyncio
from abc import abstractmethod
from concurrent.futures import Future
from typing import TypeVar

from phalanx.checkpoint.sql.errors import SaverUnavailableError, SyncCallOnLoopError
from phalanx.checkpoint.sql.saver import Settings, SqlSaver
from phalanx.checkpoint.sql.statements import Dialect, Operation

T = TypeVar("T")


class LoopSaver(SqlSaver):
    """A saver whose connection belongs to the event loop it was made on.

    The async methods may be awaited on any loop; the blocking ones may be called in any thread but the loop's own.
    """

    def __init__(self, where: str, dialect: Dialect, settings: Settings) -> None:
        super().__init__(where, dialect, settings)
        self.loop = asyncio.get_running_loop()

    async def setup(self) -> None:
        """Make the tables, or bring those of an earlier version up to date. The first use does so by itself.

        Raises:
            SchemaVersionError: the tables are of a later version.
        """
        await self._aset_up()

    @abstractmethod
    async def _carry_out(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction, on :attr:`loop`. It leaves no half of one if its caller is cancelled."""

    async def _aexecute(self, operation: Operation[T]) -> T:
        if asyncio.get_running_loop() is self.loop:
            return await self._carry_out(operation)
        return await asyncio.wrap_future(self._from_elsewhere(operation))

    def _execute(self, operation: Operation[T]) -> T:
        if _running_loop() is self.loop:
            raise SyncCallOnLoopError(type(self).__name__)
        return self._from_elsewhere(operation).result()

    def _from_elsewhere(self, operation: Operation[T]) -> "Future[T]":
        if not self.loop.is_running():
            raise SaverUnavailableError(self._where, "the event loop of its connection has ended")
        return asyncio.run_coroutine_threadsafe(self._carry_out(operation), self.loop)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
