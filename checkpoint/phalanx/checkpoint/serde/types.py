"""The reserved names of writes and channels, and what a serializer may rely on of channels and packets."""

from collections.abc import Sequence
from typing import Final, Protocol, Self, TypeVar

from phalanx.protocol.names import ERROR, INTERRUPT, RESUME, TASKS

Value = TypeVar("Value", covariant=True)
Update = TypeVar("Update", contravariant=True)
Stored = TypeVar("Stored")

SCHEDULED: Final = "__scheduled__"
"""A write that LangGraph's schedulers make. The engine itself makes none."""


class ChannelProtocol(Protocol[Value, Update, Stored]):
    """The form of a channel, whatever its class. ``Stored`` includes what stands for an empty one."""

    @property
    def ValueType(self) -> object: ...  # noqa: N802 - the public name
    @property
    def UpdateType(self) -> object: ...  # noqa: N802 - the public name
    def checkpoint(self) -> Stored: ...
    def from_checkpoint(self, checkpoint: Stored) -> Self: ...
    def update(self, values: Sequence[Update]) -> bool: ...
    def get(self) -> Value: ...
    def consume(self) -> bool: ...


class SendProtocol(Protocol):
    """The form of a packet, whatever its class."""

    node: str
    arg: object


__all__ = ["ERROR", "INTERRUPT", "RESUME", "SCHEDULED", "TASKS", "ChannelProtocol", "SendProtocol"]
