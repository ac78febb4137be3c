"""How a saver is called: in the calling thread, or from an event loop. What calls one is written once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from phalanx.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from phalanx.config import RunnableConfig
from phalanx.types import Update

PutArguments: TypeAlias = tuple[RunnableConfig, Checkpoint, CheckpointMetadata, ChannelVersions]
PutWritesArguments: TypeAlias = tuple[RunnableConfig, Sequence[Update], str, str]
Accepts: TypeAlias = Callable[[CheckpointTuple], bool]


class SaverAccess(Protocol):
    """Calls a saver the way its surroundings allow."""

    @property
    def saver(self) -> BaseCheckpointSaver: ...

    async def get(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config addresses."""
        ...

    async def newest(
        self, config: RunnableConfig, accepts: Accepts, before: RunnableConfig | None = None
    ) -> CheckpointTuple | None:
        """The newest checkpoint of a thread's namespace that is accepted, of those before another."""
        ...

    async def history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        """What the values of delta channels at a checkpoint are made of."""
        ...

    async def put(self, arguments: PutArguments) -> RunnableConfig:
        """Store a checkpoint."""
        ...

    async def put_writes(self, arguments: PutWritesArguments) -> None:
        """Store writes pending on a checkpoint."""
        ...


@dataclass(frozen=True, slots=True)
class SaverHere:
    """Calls a saver in this thread. Never suspends."""

    saver: BaseCheckpointSaver

    async def get(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.saver.get_tuple(config)

    async def newest(
        self, config: RunnableConfig, accepts: Accepts, before: RunnableConfig | None = None
    ) -> CheckpointTuple | None:
        return next((found for found in self.saver.list(config, before=before) if accepts(found)), None)

    async def history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        return self.saver.get_delta_channel_history(config=config, channels=channels)

    async def put(self, arguments: PutArguments) -> RunnableConfig:
        return self.saver.put(*arguments)

    async def put_writes(self, arguments: PutWritesArguments) -> None:
        self.saver.put_writes(*arguments)


@dataclass(frozen=True, slots=True)
class SaverOnLoop:
    """Calls a saver without blocking the event loop."""

    saver: BaseCheckpointSaver

    async def get(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self.saver.aget_tuple(config)

    async def newest(
        self, config: RunnableConfig, accepts: Accepts, before: RunnableConfig | None = None
    ) -> CheckpointTuple | None:
        async for found in self.saver.alist(config, before=before):
            if accepts(found):
                return found
        return None

    async def history(self, config: RunnableConfig, channels: Sequence[str]) -> Mapping[str, DeltaChannelHistory]:
        return await self.saver.aget_delta_channel_history(config=config, channels=channels)

    async def put(self, arguments: PutArguments) -> RunnableConfig:
        return await self.saver.aput(*arguments)

    async def put_writes(self, arguments: PutWritesArguments) -> None:
        await self.saver.aput_writes(*arguments)
