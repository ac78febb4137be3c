"""A value of the run that no checkpoint holds."""

from collections.abc import Sequence
from typing import ClassVar, Generic, Self

from phalanx.channels.base import MISSING, BaseChannel, Missing, Value
from phalanx.errors import InvalidUpdateError


class UntrackedValue(BaseChannel[Value, Value, Value], Generic[Value]):
    """The last value written, kept for the run and never stored: ``checkpoint`` has nothing, whatever was written.

    The right kind for what must not or cannot be stored: a secret, an open connection, a cache. A run that is taken up
    again starts without it.

    Args:
        typ: the type of the value.
        guard: take at most one write a superstep; otherwise the last in task order counts.

    Raises:
        InvalidUpdateError: from ``update``, when a guarded channel gets more than one write in a superstep.

    Example:
        >>> channel = UntrackedValue(str)
        >>> channel.update(["token"]), channel.get(), channel.checkpoint()
        (True, 'token', MISSING)
    """

    __slots__ = ("guard", "value")

    expires: ClassVar[bool] = False
    finishes: ClassVar[bool] = False

    stored: ClassVar[bool] = False

    value: Value | Missing
    guard: bool

    def __init__(self, typ: type[Value], guard: bool = True) -> None:
        super().__init__(typ)
        self.guard = guard
        self.value = MISSING

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntrackedValue) and self.guard == other.guard

    def copy(self) -> Self:
        twin = self.from_checkpoint(MISSING)
        twin.value = self.value
        return twin

    def checkpoint(self) -> Missing:
        return MISSING

    def from_checkpoint(self, checkpoint: Value | Missing) -> Self:
        restored = self._bare()
        restored.guard = self.guard
        restored.value = MISSING
        return restored

    def transfer(self) -> Value | Missing:
        return self.value

    def receive(self, transferred: Value | Missing) -> Self:
        channel = self.copy()
        channel.value = transferred
        return channel

    def get(self) -> Value:
        if self.value is MISSING:
            raise self._empty()
        return self.value

    def is_available(self) -> bool:
        return self.value is not MISSING

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        if self.guard and len(values) > 1:
            raise InvalidUpdateError(
                f"At key '{self.key}': UntrackedValue(guard=True) can receive only one value per step. "
                "Use guard=False if you want to store any one of multiple values."
            )
        self.value = values[-1]
        return True


__all__ = ["UntrackedValue"]
