"""What every channel is: a value that changes once a superstep, by the writes of that superstep together.

A channel knows no version, no name of its writers and no storage. The engine calls ``update`` with all writes of a
superstep at once, ``consume`` when a node triggered by the channel ran, and ``finish`` when nothing is left to trigger;
each says whether the channel changed, and the engine gives changed channels their next version.

Two class attributes let the engine leave channels alone that cannot change, so that a superstep costs what it touches
and not what the graph holds. They promise something about the class, so a subclass from elsewhere starts with the
safe answer.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from phalanx.errors import EmptyChannelError


class Missing(Enum):
    """The type of :data:`MISSING`."""

    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING
"""What an empty channel's ``checkpoint`` returns."""

Value = TypeVar("Value")
Update = TypeVar("Update")
Stored = TypeVar("Stored")


class BaseChannel(ABC, Generic[Value, Update, Stored]):
    """A channel of values ``Value``, written with ``Update``, stored as ``Stored``.

    Args:
        typ: the type of the values, used for schemas and for the starting value of reducers.
        key: the state key, for messages; the graph sets it when it builds its channels.
    """

    __slots__ = ("key", "typ")

    expires: ClassVar[bool] = True
    """Whether an update with no writes can change the channel."""

    finishes: ClassVar[bool] = True
    """Whether ``finish`` can change the channel."""

    stored: ClassVar[bool] = True
    """Whether checkpoints hold the channel; the value of one that is not lives as long as its run."""

    def __init__(self, typ: object, key: str = "") -> None:
        self.typ = typ
        self.key = key

    @property
    def ValueType(self) -> object:  # noqa: N802 - the public name
        """The type of the value that ``get`` returns."""
        return self.typ

    @property
    def UpdateType(self) -> object:  # noqa: N802 - the public name
        """The type of one write."""
        return self.typ

    @abstractmethod
    def copy(self) -> Self:
        """An independent channel with the same content. The value itself is shared."""

    @abstractmethod
    def checkpoint(self) -> Stored | Missing:
        """What to store to rebuild the channel, or ``MISSING`` when there is nothing."""

    @abstractmethod
    def from_checkpoint(self, checkpoint: Stored | Missing) -> Self:
        """A new channel of this kind from what ``checkpoint`` returned."""

    def transfer(self) -> object:
        """What another process needs to hold the same channel, or ``MISSING`` when it is empty."""
        return self.checkpoint()

    def receive(self, transferred: Any) -> Self:
        """A new channel of this kind from what ``transfer`` returned elsewhere."""
        return self.from_checkpoint(transferred)

    @abstractmethod
    def get(self) -> Value:
        """The current value.

        Raises:
            EmptyChannelError: there is none.
        """

    def is_available(self) -> bool:
        """Whether ``get`` has something to return."""
        try:
            self.get()
        except EmptyChannelError:
            return False
        return True

    @abstractmethod
    def update(self, values: Sequence[Update]) -> bool:
        """Apply the writes of one superstep, in order; there may be none. Returns whether the channel changed.

        Raises:
            InvalidUpdateError: the writes cannot be taken together. The channel is then as before.
        """

    def consume(self) -> bool:
        """A node that this channel triggered has run. Returns whether the channel changed."""
        return False

    def finish(self) -> bool:
        """Nothing is left to trigger. Returns whether the channel changed."""
        return False

    # Copying and restoring are once a task and once a run for every channel, so they go around ``__init__``, which may
    # have to find a starting value. A subclass that adds slots fills them in its ``copy`` and ``from_checkpoint``.
    def _bare(self) -> Self:
        """A channel of this class with this type and key, and no other attribute yet."""
        bare = object.__new__(type(self))
        bare.typ = self.typ
        bare.key = self.key
        return bare

    def _empty(self) -> EmptyChannelError:
        """The error for a ``get`` that finds nothing."""
        return EmptyChannelError(f"channel {self.key!r} ({type(self).__name__}) holds no value")


__all__ = ["MISSING", "BaseChannel", "Missing"]
