"""A value that writes are folded into one by one: what an annotated state key is."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, Self, cast

from phalanx.channels.base import MISSING, BaseChannel, Missing, Value
from phalanx.channels.reducing import same_reducer, sole_overwrite, starting_value
from phalanx.types import Overwrite


class BinaryOperatorAggregate(BaseChannel[Value, Value | Overwrite, Value], Generic[Value]):
    """A value that every write is folded into, in task order: ``value = operator(value, write)``.

    The right kind for a key that several nodes write in the same superstep. It starts at ``typ()`` (``[]`` for
    ``list`` and ``Sequence``, ``0`` for ``int``), so it can be read before anything is written; if ``typ`` cannot be
    called with nothing the channel starts empty and takes its first write as it is.

    A write of ``Overwrite(value)`` (also ``{"__overwrite__": value}`` or ``{"type": "__overwrite__", "value": value}``)
    replaces the value; the other writes of that superstep are dropped.

    Args:
        typ: the type of the value.
        operator: the reducer ``(value, write) -> value``. It returns a new value and leaves its arguments as they are,
            since copies of the channel share them.

    Raises:
        InvalidUpdateError: from ``update``, when a superstep holds two overwrites.

    Example:
        >>> import operator
        >>> channel = BinaryOperatorAggregate(list, operator.add)
        >>> channel.update([["a"], ["b"]]), channel.get()
        (True, ['a', 'b'])
        >>> channel.update([["c"], Overwrite(["z"])]), channel.get()
        (True, ['z'])
    """

    __slots__ = ("operator", "value")

    expires: ClassVar[bool] = False
    finishes: ClassVar[bool] = False

    value: Value | Missing
    operator: Callable[[Value, Value], Value]

    def __init__(self, typ: type[Value], operator: Callable[[Value, Value], Value]) -> None:
        super().__init__(typ)
        self.operator = operator
        self.value = cast("Value | Missing", starting_value(typ))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BinaryOperatorAggregate):
            return False
        return same_reducer(self.operator, cast("BinaryOperatorAggregate[object]", other).operator)

    def copy(self) -> Self:
        return self._holding(self.value)

    def checkpoint(self) -> Value | Missing:
        return self.value

    def from_checkpoint(self, checkpoint: Value | Missing) -> Self:
        if checkpoint is MISSING:
            return self._holding(cast("Value | Missing", starting_value(self.typ)))
        return self._holding(checkpoint)

    def get(self) -> Value:
        if self.value is MISSING:
            raise self._empty()
        return self.value

    def is_available(self) -> bool:
        return self.value is not MISSING

    def update(self, values: Sequence[Value | Overwrite]) -> bool:
        if not values:
            return False
        overwrite = sole_overwrite(values)
        if overwrite is not None:
            self.value = cast("Value", overwrite.value)
            return True
        operator = self.operator
        value = self.value
        for write in cast("Sequence[Value]", values):
            value = write if value is MISSING else operator(value, write)
        self.value = value
        return True

    def _holding(self, value: Value | Missing) -> Self:
        channel = self._bare()
        channel.operator = self.operator
        channel.value = value
        return channel


__all__ = ["BinaryOperatorAggregate"]
