"""One value a superstep: what a plain state key is, and its form for deferred nodes."""

from collections.abc import Sequence
from typing import ClassVar, Generic, Self

from phalanx.channels.base import MISSING, BaseChannel, Missing, Value
from phalanx.errors import ErrorCode, InvalidUpdateError, create_error_message


class LastValue(BaseChannel[Value, Value, Value], Generic[Value]):
    """The last value written, by at most one write a superstep. It stays until the next write.

    The right kind for a key that one node at a time decides about. When several nodes may write it in the same
    superstep, say with a reducer how their writes combine (:class:`BinaryOperatorAggregate`).

    Raises:
        InvalidUpdateError: from ``update``, when a superstep holds more than one write.

    Example:
        >>> channel = LastValue(str, "title")
        >>> channel.update(["Iliad"])
        True
        >>> channel.get()
        'Iliad'
    """

    __slots__ = ("value",)

    expires: ClassVar[bool] = False
    finishes: ClassVar[bool] = False

    value: Value | Missing

    def __init__(self, typ: object, key: str = "") -> None:
        super().__init__(typ, key)
        self.value = MISSING

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LastValue)

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
        if not values:
            return False
        if len(values) > 1:
            raise InvalidUpdateError(
                create_error_message(
                    message=f"At key '{self.key}': Can receive only one value per step. "
                    "Use an Annotated key to handle multiple values.",
                    error_code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
                )
            )
        self.value = values[0]
        return True


class LastValueAfterFinish(BaseChannel[Value, Value, tuple[Value, bool]], Generic[Value]):
    """The last value written, shown only once nothing is left to trigger, and gone when it has triggered its node.

    The right kind for the trigger of a deferred node. Of several writes in a superstep the last counts: a trigger is
    asked whether it was written, not what.

    Example:
        >>> channel = LastValueAfterFinish(str)
        >>> channel.update(["summarize"]), channel.is_available()
        (True, False)
        >>> channel.finish(), channel.get()
        (True, 'summarize')
        >>> channel.consume(), channel.is_available()
        (True, False)
    """

    __slots__ = ("finished", "value")

    expires: ClassVar[bool] = False
    finishes: ClassVar[bool] = True

    value: Value | Missing
    finished: bool

    def __init__(self, typ: object, key: str = "") -> None:
        super().__init__(typ, key)
        self.value = MISSING
        self.finished = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LastValueAfterFinish)

    def copy(self) -> Self:
        return self.from_checkpoint(self.checkpoint())

    def checkpoint(self) -> tuple[Value, bool] | Missing:
        return MISSING if self.value is MISSING else (self.value, self.finished)

    def from_checkpoint(self, checkpoint: tuple[Value, bool] | Missing) -> Self:
        restored = self._bare()
        restored.value, restored.finished = (MISSING, False) if checkpoint is MISSING else checkpoint
        return restored

    def get(self) -> Value:
        if self.value is MISSING or not self.finished:
            raise self._empty()
        return self.value

    def is_available(self) -> bool:
        return self.finished

    def update(self, values: Sequence[Value]) -> bool:
        if not values:
            return False
        self.value = values[-1]
        self.finished = False
        return True

    def consume(self) -> bool:
        if not self.finished:
            return False
        self.value = MISSING
        self.finished = False
        return True

    def finish(self) -> bool:
        if self.finished or self.value is MISSING:
            return False
        self.finished = True
        return True


__all__ = ["LastValue", "LastValueAfterFinish"]
