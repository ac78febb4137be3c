"""What a delta channel's value is made of: the walk from a checkpoint to its ancestors.

The writes pending on a checkpoint are those that made its child. So the value at a checkpoint is what its nearest
ancestor holds that holds it whole, then the writes on that ancestor, and on all those between. The checkpoint itself is
not asked: who has it knows whether it holds the value. The walk follows parents, never the order of ids: in a thread
that was forked the checkpoints of other branches lie between.

The walk does no I/O, so that blocking and asynchronous savers share it.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from phalanx.checkpoint.base.records import CheckpointTuple, DeltaChannelHistory, PendingWrite
from phalanx.config import RunnableConfig


class HistoryWalk:
    """Gathers the history of channels from ancestors that are visited in turn, the nearest first.

    Args:
        channels: the channels to look for.
    """

    def __init__(self, channels: Iterable[str]) -> None:
        self._newest_first: dict[str, list[list[PendingWrite]]] = {channel: [] for channel in channels}
        self._seeds: dict[str, Any] = {}
        self.missing = {*self._newest_first}
        """The channels whose seed was not met yet."""

    def visit(self, values: Iterable[tuple[str, Any]], writes: Iterable[PendingWrite]) -> None:
        """Take what an ancestor has.

        Args:
            values: the values it holds, of channels that are :attr:`missing`; others are overlooked.
            writes: the writes pending on it, in the order in which the engine applied them.
        """
        here: dict[str, list[PendingWrite]] = {}
        for write in writes:
            if write[1] in self.missing:
                here.setdefault(write[1], []).append(write)
        for channel, found in here.items():
            self._newest_first[channel].append(found)
        for channel, value in values:
            if channel in self.missing:
                self._seeds[channel] = value
                self.missing.discard(channel)

    def visit_tuple(self, found: CheckpointTuple) -> RunnableConfig | None:
        """Take what an ancestor has; where to go next, or ``None`` when the walk is over."""
        self.visit(found.checkpoint["channel_values"].items(), found.pending_writes or ())
        return found.parent_config if self.missing else None

    def result(self) -> dict[str, DeltaChannelHistory]:
        """The history of every channel that was asked for."""
        return {channel: self._history(channel, writes) for channel, writes in self._newest_first.items()}

    def _history(self, channel: str, newest_first: Sequence[list[PendingWrite]]) -> DeltaChannelHistory:
        oldest_first = [write for writes in reversed(newest_first) for write in writes]
        if channel not in self._seeds:
            return {"writes": oldest_first}
        return {"writes": oldest_first, "seed": self._seeds[channel]}
