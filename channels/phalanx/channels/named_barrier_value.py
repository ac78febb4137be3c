"""A gate that opens when every one of a set of names was written."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar, Generic, Self, cast

from phalanx.channels.base import MISSING, BaseChannel, Missing, Value
from phalanx.errors import InvalidUpdateError


class NamedBarrierValue(BaseChannel[None, Value, set[Value]], Generic[Value]):
    """Available, with the value ``None``, once every name was written, in whichever supersteps; consuming closes it.

    The right kind for a node that waits for several others: each writes its name, and the node runs once for all of
    them.

    Args:
        typ: the type of a name.
        names: the names to wait for.

    Raises:
        InvalidUpdateError: from ``update``, when something is written that is not one of the names.

    Example:
        >>> channel = NamedBarrierValue(str, {"fetch", "parse"})
        >>> channel.update(["fetch"]), channel.is_available()
        (True, False)
        >>> channel.update(["parse"]), channel.is_available()
        (True, True)
        >>> channel.consume(), channel.is_available()
        (True, False)
    """

    __slots__ = ("names", "seen")

    expires: ClassVar[bool] = False
    finishes: ClassVar[bool] = False

    names: set[Value]
    seen: set[Value]

    def __init__(self, typ: type[Value], names: set[Value]) -> None:
        super().__init__(typ)
        self.names = names
        self.seen = set()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedBarrierValue) and self.names == cast("NamedBarrierValue[object]", other).names

    def copy(self) -> Self:
        return self.from_checkpoint(self.seen)

    def checkpoint(self) -> set[Value]:
        return set(self.seen)

    def from_checkpoint(self, checkpoint: set[Value] | Missing) -> Self:
        restored = self._bare()
        restored.names = self.names
        restored.seen = set() if checkpoint is MISSING else set(checkpoint)
        return restored

    def get(self) -> None:
        if self.seen != self.names:
            raise self._empty()

    def is_available(self) -> bool:
        return self.seen == self.names

    def update(self, values: Sequence[Value]) -> bool:
        new = _unseen(values, self.names, self.seen, self.key)
        self.seen |= new
        return bool(new)

    def consume(self) -> bool:
        if self.seen != self.names:
            return False
        self.seen = set()
        return True


class NamedBarrierValueAfterFinish(BaseChannel[None, Value, tuple[set[Value], bool]], Generic[Value]):
    """A :class:`NamedBarrierValue` that opens only when, besides, nothing is left to trigger.

    The right kind for a deferred node that waits for several others.

    Args:
        typ: the type of a name.
        names: the names to wait for.

    Raises:
        InvalidUpdateError: from ``update``, when something is written that is not one of the names.

    Example:
        >>> channel = NamedBarrierValueAfterFinish(str, {"fetch"})
        >>> channel.update(["fetch"]), channel.is_available()
        (True, False)
        >>> channel.finish(), channel.is_available()
        (True, True)
    """

    __slots__ = ("finished", "names", "seen")

    expires: ClassVar[bool] = False
    finishes: ClassVar[bool] = True

    names: set[Value]
    seen: set[Value]
    finished: bool

    def __init__(self, typ: type[Value], names: set[Value]) -> None:
        super().__init__(typ)
        self.names = names
        self.seen = set()
        self.finished = False

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NamedBarrierValueAfterFinish)
            and self.names == cast("NamedBarrierValueAfterFinish[object]", other).names
        )

    def copy(self) -> Self:
        return self.from_checkpoint((self.seen, self.finished))

    def checkpoint(self) -> tuple[set[Value], bool]:
        return set(self.seen), self.finished

    def from_checkpoint(self, checkpoint: tuple[set[Value], bool] | Missing) -> Self:
        seen, finished = (set[Value](), False) if checkpoint is MISSING else checkpoint
        restored = self._bare()
        restored.names = self.names
        restored.seen = set(seen)
        restored.finished = finished
        return restored

    def get(self) -> None:
        if not self.is_available():
            raise self._empty()

    def is_available(self) -> bool:
        return self.finished and self.seen == self.names

    def update(self, values: Sequence[Value]) -> bool:
        new = _unseen(values, self.names, self.seen, self.key)
        self.seen |= new
        return bool(new)

    def consume(self) -> bool:
        if not self.is_available():
            return False
        self.seen = set()
        self.finished = False
        return True

    def finish(self) -> bool:
        if self.finished or self.seen != self.names:
            return False
        self.finished = True
        return True


def _unseen(values: Sequence[Value], names: AbstractSet[Value], seen: AbstractSet[Value], key: str) -> set[Value]:
    """The names among ``values`` that were not seen yet."""
    for value in values:
        if value not in names:
            known = ", ".join(sorted(map(repr, names)))
            raise InvalidUpdateError(f"At key '{key}': Value {value} not in {{{known}}}")
    return set(values) - seen


__all__ = ["NamedBarrierValue", "NamedBarrierValueAfterFinish"]
