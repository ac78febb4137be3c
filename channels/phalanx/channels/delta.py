"""A reduced value that is stored as the writes that made it.

A list that grows by one item a superstep and is stored whole each time costs the square of its length. A delta
channel is stored as what each superstep wrote, with the whole value in between every so often, and is rebuilt from
the last whole value by reducing all later writes in one call. That call gives what the calls of the single supersteps
gave if the reducer does not care how its writes are batched: ``reduce(reduce(v, a), b) == reduce(v, a + b)``.

The channel knows how to fold, replay and mark a snapshot, and how much was written since the last one. Where writes are
kept, and which checkpoints hold a snapshot, is up to who stores them; after a superstep with an ``Overwrite`` one must,
since replay keeps the writes behind an overwrite that the superstep itself dropped.

Whole values are stored ever less often while the value grows: a snapshot is due when at least ``snapshot_frequency``
writes have come since the last one, and at least three quarters of what the value holds. So all snapshots together are
little larger than the last of them, and what is stored in all is proportional to what was written.
"""

import copy
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, Self, cast

from phalanx.channels.base import MISSING, BaseChannel, Missing, Value
from phalanx.channels.reducing import as_overwrite, same_reducer, sole_overwrite, starting_value
from phalanx.types import Overwrite

DEFAULT_SNAPSHOT_FREQUENCY: Final = 100
"""Writes after which the whole value is stored at the earliest, unless the channel says otherwise."""


@dataclass(frozen=True, slots=True)
class DeltaSnapshot(Generic[Value]):
    """Marks a stored value as the whole value of a delta channel, whatever the value itself looks like."""

    value: Value


# A batch reducer may take writes of any type, and Callable is contravariant in it: only Any lets every reducer in.
class DeltaChannel(BaseChannel[Value, Any, DeltaSnapshot[Value] | Value], Generic[Value]):
    """A value that all writes of a superstep are folded into by one call: ``value = reducer(value, writes)``.

    The right kind for a key that grows long, such as a conversation: what is stored each superstep is the writes, not
    the value, and the whole value only now and then. ``checkpoint`` therefore never has anything; ``snapshot`` does.

    ``Overwrite(value)`` in any of its forms replaces the value and drops the superstep's other writes;
    ``Overwrite(None)`` goes back to the start. A channel that was declared and not yet restored is empty; restored
    from nothing it starts at ``typ()``.

    Args:
        reducer: ``(value, writes) -> value``; the writes of several supersteps may come in one call. It may change
            the value it is given in place, if it does not raise after that.
        typ: the type of the value; it must be callable with nothing. A list if not given.
        snapshot_frequency: store the whole value after this many writes at the earliest.

    Raises:
        ValueError: ``snapshot_frequency`` is not positive.
        TypeError: ``typ`` cannot be called with nothing.
        InvalidUpdateError: from ``update``, when a superstep holds two overwrites.

    Example:
        >>> def extend(value: list[str], writes: Sequence[str]) -> list[str]:
        ...     return [*value, *writes]
        >>> channel = DeltaChannel(extend, list)
        >>> channel.update(["a", "b"]), channel.get()
        (True, ['a', 'b'])
        >>> channel.snapshot()
        DeltaSnapshot(value=['a', 'b'])
    """

    __slots__ = ("_shared", "overwritten", "reducer", "since", "snapshot_frequency", "value")

    expires: ClassVar[bool] = False
    finishes: ClassVar[bool] = False

    value: Value | Missing
    reducer: Callable[[Value, Sequence[Any]], Value]
    snapshot_frequency: int
    since: int  # writes since the last snapshot
    overwritten: bool  # whether an overwrite was among them
    _shared: bool

    def __init__(
        self,
        reducer: Callable[[Value, Sequence[Any]], Value],
        typ: type[Value] | None = None,
        *,
        snapshot_frequency: int = DEFAULT_SNAPSHOT_FREQUENCY,
    ) -> None:
        if snapshot_frequency < 1:
            raise ValueError(f"snapshot_frequency must be a positive int, got {snapshot_frequency}")
        super().__init__(list if typ is None else typ)
        self.reducer = reducer
        self.snapshot_frequency = snapshot_frequency
        self.value = MISSING
        self.since, self.overwritten = 0, False
        self._shared = False
        self._start()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeltaChannel):
            return False
        channel = cast("DeltaChannel[object]", other)
        return self.snapshot_frequency == channel.snapshot_frequency and same_reducer(self.reducer, channel.reducer)

    def copy(self) -> Self:
        self._shared = True
        copied = self._holding(self.value, shared=True)
        copied.since, copied.overwritten = self.since, self.overwritten
        return copied

    def checkpoint(self) -> Missing:
        return MISSING

    def snapshot(self) -> DeltaSnapshot[Value] | Missing:
        """The whole value, marked as such for storing, or ``MISSING`` when there is none."""
        if self.value is MISSING:
            return MISSING
        self._shared = True
        return DeltaSnapshot(self.value)

    @property
    def snapshot_due(self) -> bool:
        """Whether the whole value is to be stored now; see the module's header."""
        if self.overwritten:
            return True
        if self.since < self.snapshot_frequency:
            return False
        return not isinstance(self.value, Sized) or 4 * self.since >= 3 * len(self.value)

    def note_snapshot(self) -> None:
        """The whole value is stored."""
        self.since, self.overwritten = 0, False

    def from_checkpoint(self, checkpoint: DeltaSnapshot[Value] | Value | Missing) -> Self:
        """A channel from a snapshot, from a plain value stored when the key had another kind, or from nothing."""
        if isinstance(checkpoint, DeltaSnapshot):
            return self._holding(cast("DeltaSnapshot[Value]", checkpoint).value, shared=True)
        if checkpoint is MISSING or checkpoint is None:
            return self._holding(self._start(), shared=False)
        return self._holding(checkpoint, shared=True)

    def transfer(self) -> Value | Missing:
        if self.value is not MISSING:
            self._shared = True
        return self.value

    def get(self) -> Value:
        if self.value is MISSING:
            raise self._empty()
        return self.value

    def is_available(self) -> bool:
        return self.value is not MISSING

    def update(self, values: Sequence[Any]) -> bool:
        if not values:
            return False
        overwrite = sole_overwrite(values)
        self.since += len(values)
        if overwrite is not None:
            self.overwritten = True
            self._replace(overwrite)
        else:
            self._reduce(values)
        return True

    def replay_writes(self, writes: Sequence[tuple[str, str, object]]) -> None:
        """Rebuild the value from the stored writes of any number of supersteps, oldest first, in one reducer call.

        The last ``Overwrite`` among them is where it starts; what came before does not matter.

        Args:
            writes: ``(task_id, channel, value)``, all of this channel.
        """
        values = [value for _, _, value in writes]
        for index in range(len(values) - 1, -1, -1):
            overwrite = as_overwrite(values[index])
            if overwrite is not None:
                self._replace(overwrite)
                values = values[index + 1 :]
                break
        if values:
            self._reduce(values)

    def _reduce(self, writes: Sequence[object]) -> None:
        """Fold ``writes`` in. The reducer may work in place, so it never gets a value that someone else holds."""
        if self.value is MISSING:
            value = self._start()
        elif self._shared:
            value = copy.copy(self.value)
        else:
            value = self.value
        self.value = self.reducer(value, writes)
        self._shared = False

    def _replace(self, overwrite: Overwrite) -> None:
        if overwrite.value is None:
            self.value, self._shared = self._start(), False
        else:
            self.value, self._shared = cast("Value", overwrite.value), True

    def _start(self) -> Value:
        start = starting_value(self.typ)
        if start is MISSING:
            raise TypeError(
                f"DeltaChannel at key {self.key!r} starts from its type called with nothing, and {self.typ!r} "
                f"cannot be called so; give a concrete type such as list"
            )
        return cast("Value", start)

    def _holding(self, value: Value | Missing, *, shared: bool) -> Self:
        channel = self._bare()
        channel.reducer = self.reducer
        channel.snapshot_frequency = self.snapshot_frequency
        channel.value = value
        channel.since, channel.overwritten = 0, False
        channel._shared = shared
        return channel


__all__ = ["DEFAULT_SNAPSHOT_FREQUENCY", "DeltaChannel", "DeltaSnapshot"]
