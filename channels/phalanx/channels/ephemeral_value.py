"""A value that lives for the superstep after it was written."""

from collections.abc import Sequence
from typing import ClassVar, Generic, Self

from phalanx.channels.base import MISSING, BaseChannel, Missing, Value
from phalanx.errors import InvalidUpdateError


class EphemeralValue(BaseChannel[Value, Value, Value], Generic[Value]):
    """A value that the next superstep can read and no later one.

    The right kind for triggers and for hints from one node to the next. It is stored with the checkpoint in between,
    so a run that is taken up again still has it.

    Args:
        typ: the type of the value.
        guard: take at most one write a superstep; otherwise the last in task order counts.

    Raises:
        InvalidUpdateError: from ``update``, when a guarded channel gets more than one write in a superstep.

    Example:
        >>> channel = EphemeralValue(str)
        >>> channel.update(["draft"]), channel.get()
        (True, 'draft')
        >>> channel.update([]), channel.is_available()
        (True, False)
    """

    __slots__ = ("guard", "value")

    expires: ClassVar[bool] = True
    finishes: ClassVar[bool] = False

    value: Value | Missing
    guard: bool

    def __init__(self, typ: object, guard: bool = True) -> None:
        super().__init__(typ)
        self.guard = guard
        self.value = MISSING

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EphemeralValue) and self.guard == other.guard

    def copy(self) -> Self:
        return self.from_checkpoint(self.value)

    def checkpoint(self) -> Value | Missing:
        return self.value

    def from_checkpoint(self, checkpoint: Value | Missing) -> Self:
        restored = self._bare()
        restored.guard = self.guard
        restored.value = checkpoint
        return restored

    def get(self) -> Value:
        if self.value is MISSING:
            raise self._empty()
        return self.value

    def is_available(self) -> bool:
        return self.value is not MISSING

    def update(self, values: Sequence[Value]) -> bool:
        if self.guard and len(values) > 1:
            raise InvalidUpdateError(
                f"At key '{self.key}': EphemeralValue(guard=True) can receive only one value per step. "
                "Use guard=False if you want to store any one of multiple values."
            )
        if values:
            self.value = values[-1]
            return True
        if self.value is MISSING:
            return False
        self.value = MISSING
        return True


__all__ = ["EphemeralValue"]
