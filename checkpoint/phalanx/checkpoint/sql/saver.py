"""The public methods of savers over SQL databases: each makes an operation, and has the driver run it."""

import os
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from phalanx.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.packing import BlobCache
from phalanx.checkpoint.retention import Retention
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.checkpoint.sql.errors import SaverUnavailableError
from phalanx.checkpoint.sql.forgetting import Forgetter
from phalanx.checkpoint.sql.reading import Reader, Wanted
from phalanx.checkpoint.sql.schema import check, migrate
from phalanx.checkpoint.sql.statements import Dialect, Operation
from phalanx.checkpoint.sql.upkeep import Upkeep
from phalanx.checkpoint.sql.writing import Writer
from phalanx.config import RunnableConfig
from phalanx.types import Update

T = TypeVar("T")

KEEP_ALL: Final = Retention()

_CACHED_BYTES: Final = 64 << 20
"""How much of the large values that were read a saver keeps in memory."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user may choose of a saver.

    Attributes:
        serde: turns values into bytes and back.
        retention: what to keep.
        clock: seconds since the epoch, alike for all who use the database.
    """

    serde: SerializerProtocol | None = None
    retention: Retention = KEEP_ALL
    clock: Callable[[], float] = time.time


class SqlSaver(BaseCheckpointSaver[Any]):
    """Keeps checkpoints in a SQL database.

    A subclass says how an operation is run: :meth:`_execute` for blocking callers, :meth:`_aexecute` for the others.
    """

    def __init__(self, where: str, dialect: Dialect, settings: Settings) -> None:
        super().__init__(serde=settings.serde)
        self._where = where
        self._dialect = dialect
        self._clock = settings.clock
        self._upkeep = Upkeep(settings.retention, settings.clock)
        self._cache = BlobCache(_CACHED_BYTES)
        self._ready = False
        self._process = os.getpid()

    @abstractmethod
    def _execute(self, operation: Operation[T]) -> T:
        """Run an operation in a transaction.

        Raises:
            SaverUnavailableError: the database cannot be used.
        """

    @abstractmethod
    async def _aexecute(self, operation: Operation[T]) -> T:
        """:meth:`_execute` without blocking the event loop."""

    # --- reading ------------------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        packed = self._run(self._reader().get(CheckpointAddress.of(config)))
        return None if packed is None else packed.unpack(self.serde)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        packed = await self._arun(self._reader().get(CheckpointAddress.of(config)))
        return None if packed is None else packed.unpack(self.serde)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the public name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        return self._listed(Wanted.of(config, filter, before, limit, self._upkeep.cutoff()))

    def _listed(self, wanted: Wanted | None) -> Iterator[CheckpointTuple]:
        while wanted is not None and wanted.left != 0:
            page, wanted = self._run(self._reader().page(wanted))
            for packed in page:
                yield packed.unpack(self.serde)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the public name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        wanted: Wanted | None = Wanted.of(config, filter, before, limit, self._upkeep.cutoff())
        while wanted is not None and wanted.left != 0:
            page, wanted = await self._arun(self._reader().page(wanted))
            for packed in page:
                yield packed.unpack(self.serde)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self._run(self._reader().delta_history(CheckpointAddress.of(config), channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._arun(self._reader().delta_history(CheckpointAddress.of(config), channels))

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        address = CheckpointAddress.of(config)
        self._run(self._writer().put(address, checkpoint, metadata, new_versions))
        for operation in self._upkeep.after_put(address, self._forgetter()):
            self._run(operation)
        return _stored_at(address, checkpoint)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        address = CheckpointAddress.of(config)
        await self._arun(self._writer().put(address, checkpoint, metadata, new_versions))
        for operation in self._upkeep.after_put(address, self._forgetter()):
            await self._arun(operation)
        return _stored_at(address, checkpoint)

    def put_writes(self, config: RunnableConfig, writes: Sequence[Update], task_id: str, task_path: str = "") -> None:
        self._run(self._writer().put_writes(CheckpointAddress.of_checkpoint(config), writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[Update], task_id: str, task_path: str = ""
    ) -> None:
        address = CheckpointAddress.of_checkpoint(config)
        await self._arun(self._writer().put_writes(address, writes, task_id, task_path))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._run(self._writer().copy_thread(str(source_thread_id), str(target_thread_id)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._arun(self._writer().copy_thread(str(source_thread_id), str(target_thread_id)))

    # --- forgetting ---------------------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        self._run(self._forgetter().delete_thread(str(thread_id)))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._arun(self._forgetter().delete_thread(str(thread_id)))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._run(self._forgetter().delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._arun(self._forgetter().delete_for_runs(run_ids))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for operation in self._forgetter().prune(thread_ids, strategy):
            self._run(operation)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        for operation in self._forgetter().prune(thread_ids, strategy):
            await self._arun(operation)

    # --- the rest -----------------------------------------------------------------------------------------------------

    def get_next_version(self, current: Any, channel: None = None) -> Any:
        """The version after ``current``: 1, 2, 3, …; in a thread that came from a saver with texts, the next such text.

        Raises:
            ValueError: the text is not a padded number with something after a point.
        """
        if not isinstance(current, str):
            return super().get_next_version(current)
        number, _, rest = current.partition(".")
        return f"{int(number) + 1:0{len(number)}}.{rest}"

    # --- inside -------------------------------------------------------------------------------------------------------

    def _run(self, operation: Operation[T]) -> T:
        self._check_process()
        if not self._ready:
            self._set_up()
        with self._doubts():
            return self._execute(operation)

    async def _arun(self, operation: Operation[T]) -> T:
        self._check_process()
        if not self._ready:
            await self._aset_up()
        with self._doubts():
            return await self._aexecute(operation)

    def _check_process(self) -> None:
        """A connection that two processes use ends in confusion, or in a broken file."""
        if os.getpid() != self._process:
            raise SaverUnavailableError(self._where, "this process was forked from the one that made the saver")

    @contextmanager
    def _doubts(self) -> Generator[None, None, None]:
        """After an error look for the tables again: they may have been made in a transaction that was rolled back."""
        try:
            yield
        except SaverUnavailableError:
            self._ready = False
            raise

    def _set_up(self) -> None:
        if not self._execute(check(self._dialect, self._where)):
            self._execute(migrate(self._dialect, self._where, self._clock))
        self._ready = True

    async def _aset_up(self) -> None:
        if not await self._aexecute(check(self._dialect, self._where)):
            await self._aexecute(migrate(self._dialect, self._where, self._clock))
        self._ready = True

    # Made for each call, since who holds a saver may give it another serializer.

    def _reader(self) -> Reader:
        return Reader(self._dialect, self.serde, self._cache, self._upkeep.cutoff())

    def _writer(self) -> Writer:
        return Writer(self.serde, self._clock(), self._upkeep.cutoff())

    def _forgetter(self) -> Forgetter:
        return Forgetter(self.serde)


def _stored_at(address: CheckpointAddress, checkpoint: Checkpoint) -> RunnableConfig:
    return CheckpointAddress(address.thread_id, address.namespace, checkpoint["id"]).config()
