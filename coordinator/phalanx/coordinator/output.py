"""What a run shows of its state and of its tasks' writes. Pure."""

from collections import Counter
from collections.abc import Sequence

from phalanx.coordinator.state import GraphState
from phalanx.types import Update
from phalanx.worker.run_task import read_channels

Keys = Sequence[str] | str
"""Channels to show as a dict, or the one whose bare value is shown."""


def as_names(keys: Keys) -> Sequence[str]:
    """The channel names in ``keys``."""
    return (keys,) if isinstance(keys, str) else keys


def read_values(state: GraphState, keys: Keys) -> object:
    """The present values of ``keys``; a bare key that holds nothing gives ``None``."""
    return read_channels(state.channels, keys)


def shown_update(writes: Sequence[Update], keys: Keys) -> object:
    """One task's update as a stream shows it.

    A dict of the written keys; a list of one-key dicts when a key was written more than once; ``None`` when none of
    ``keys`` was written; for a bare key its value, or the list of its values.
    """
    if isinstance(keys, str):
        values = [value for channel, value in writes if channel == keys]
        return None if not values else values[0] if len(values) == 1 else values
    shown = [(channel, value) for channel, value in writes if channel in keys]
    if not shown:
        return None
    if max(Counter(channel for channel, _ in shown).values()) > 1:
        return [{channel: value} for channel, value in shown]
    return dict(shown)
