"""The last of any number of writes, for one superstep."""

from collections.abc import Sequence
from typing import ClassVar, Generic, Self

from phalanx.channels.base import MISSING, BaseChannel, Missing, Value


class AnyValue(BaseChannel[Value, Value, Value], Generic[Value]):
    """The last value written in a superstep, of any number; a superstep without a write empties it.

    The right kind when all writers of a superstep write the same, so that it does not matter whose value is kept.
    When they differ, the last in task order is kept and nothing is said about the others.

    Example:
        >>> channel = AnyValue(str)
        >>> channel.update(["yes", "yes"]), channel.get()
        (True, 'yes')
        >>> channel.update([]), channel.is_available()
        (True, False)
    """

    __slots__ = ("value",)

    expires: ClassVar[bool] = True
    finishes: ClassVar[bool] = False

    value: Value | Missing

    def __init__(self, typ: object, key: str = "") -> None:
        super().__init__(typ, key)
        self.value = MISSING

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyValue)

    def copy(self) -> Self:
        return self.from_checkpoint(self.value)

    def checkpoint(self) -> Value | Missing:
        return self.value

    def from_checkpoint(self, checkpoint: Value | Missing) -> Self:
        restored = self._bare()
        restored.value = checkpoint
        return restored

    def get(self) -> Value:
        if self.value is MISSING:
            raise self._empty()
        return self.value

    def is_available(self) -> bool:
        return self.value is not MISSING

    def update(self, values: Sequence[Value]) -> bool:
        if values:
            self.value = values[-1]
            return True
        if self.value is MISSING:
            return False
        self.value = MISSING
        return True


__all__ = ["AnyValue"]
