"""A list of what was written."""

from collections.abc import Sequence
from types import GenericAlias
from typing import ClassVar, Generic, Self, Union, cast

from phalanx.channels.base import MISSING, BaseChannel, Missing, Value


class Topic(BaseChannel[Sequence[Value], Value | list[Value], list[Value]], Generic[Value]):
    """The values written in the last superstep in task order, or with ``accumulate`` those of all supersteps.

    The right kind for a mailbox: any number of writers, nothing is merged or dropped. A write that is a list adds its
    items (one level deep); every other write is one item, also a tuple or a set. ``get`` returns a fresh list each
    time.

    Args:
        typ: the type of one item.
        accumulate: keep the items of earlier supersteps; otherwise each superstep starts empty.

    Example:
        >>> channel = Topic(int)
        >>> channel.update([1, [2, 3]]), channel.get()
        (True, [1, 2, 3])
        >>> channel.update([]), channel.is_available()
        (True, False)
    """

    __slots__ = ("accumulate", "values")

    expires: ClassVar[bool] = True
    finishes: ClassVar[bool] = False

    values: list[Value]
    accumulate: bool

    def __init__(self, typ: type[Value], accumulate: bool = False) -> None:
        super().__init__(typ)
        self.accumulate = accumulate
        self.values = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Topic) and self.accumulate == other.accumulate

    @property
    def ValueType(self) -> object:  # noqa: N802 - the public name
        """A sequence of items."""
        return GenericAlias(Sequence, (self.typ,))

    @property
    def UpdateType(self) -> object:  # noqa: N802 - the public name
        """An item or a list of items."""
        return Union[self.typ, GenericAlias(list, (self.typ,))]  # noqa: UP007 - typ may be a string

    def copy(self) -> Self:
        return self.from_checkpoint(self.values)

    def checkpoint(self) -> list[Value]:
        return list(self.values)

    def from_checkpoint(self, checkpoint: list[Value] | Missing) -> Self:
        restored = self._bare()
        restored.accumulate = self.accumulate
        restored.values = [] if checkpoint is MISSING else list(checkpoint)
        return restored

    def get(self) -> list[Value]:
        if not self.values:
            raise self._empty()
        return list(self.values)

    def is_available(self) -> bool:
        return bool(self.values)

    def update(self, values: Sequence[Value | list[Value]]) -> bool:
        items: list[Value] = []
        for write in values:
            if isinstance(write, list):
                items.extend(cast("list[Value]", write))
            else:
                items.append(write)
        if self.accumulate:
            self.values.extend(items)
            return bool(items)
        changed = bool(items or self.values)
        self.values = items
        return changed


__all__ = ["Topic"]
