"""The state of one graph in one thread, between supersteps: channels, versions, and what each node has seen.

A version is a number (or anything a saver makes that sorts) that grows with every superstep; all channels a superstep
changes get the same one. A node is due when a channel that triggers it is newer than the version the node last saw.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from phalanx.channels.base import MISSING
from phalanx.checkpoint.base import BaseCheckpointSaver, Version
from phalanx.worker.blueprint import Blueprint, Channel

NextVersion = Callable[[Version | None], Version]
"""From the newest version so far to the next one."""


def count_up(current: Version | None) -> int:
    """The versions of a run that no saver names: 1, 2, 3, …"""
    if current is None:
        return 1
    if not isinstance(current, int):
        raise TypeError(f"cannot count up from version {current!r} of type {type(current).__name__}")
    return current + 1


def next_version_of(saver: BaseCheckpointSaver | None) -> NextVersion:
    """How a saver counts versions; without one they are numbers."""
    if saver is None:
        return count_up
    return lambda current: saver.get_next_version(current, None)


@dataclass(slots=True)
class GraphState:
    """Mutable, owned by one run. :func:`phalanx.coordinator.apply.apply_writes` alone changes it.

    Attributes:
        channels: every channel of the graph by name.
        versions: the version of every channel that was ever written.
        seen: by node, the versions of its triggers when it last ran. The inner dicts are never changed, only replaced.
        newest: the highest version so far.
        updated: the channels the last superstep updated; ``None`` when that is unknown, as after a load.
        expiring: the channels an update without writes may change: they hold something, and changed since one last had
            no effect on them.
        unfinished: the channels that ``finish`` may change: they changed since it last had no effect on them.
    """

    channels: dict[str, Channel]
    versions: dict[str, Version] = field(default_factory=dict[str, Version])
    seen: dict[str, dict[str, Version]] = field(default_factory=dict[str, dict[str, Version]])
    newest: Version | None = None
    updated: frozenset[str] | None = None
    expiring: set[str] = field(default_factory=set[str])
    unfinished: set[str] = field(default_factory=set[str])

    @classmethod
    def fresh(cls, blueprint: Blueprint) -> "GraphState":
        """The state of a thread on which nothing has run."""
        return cls.load(blueprint, {}, {}, {})

    @classmethod
    def load(
        cls,
        blueprint: Blueprint,
        values: Mapping[str, object],
        versions: Mapping[str, Version],
        seen: Mapping[str, Mapping[str, Version]],
    ) -> "GraphState":
        """The state that a checkpoint holds. Channels the graph no longer has are forgotten."""
        channels = {
            name: channel.from_checkpoint(values.get(name, MISSING)) for name, channel in blueprint.channels.items()
        }
        state = cls(
            channels,
            dict(versions),
            {node: dict(known) for node, known in seen.items()},
            max(versions.values(), default=None),  # pyright: ignore[reportArgumentType, reportCallIssue]
        )
        state.note_changed(channels)
        return state

    def note_changed(self, names: Iterable[str]) -> None:
        """Remember which of the named channels an empty update may change now, and which ``finish`` may change."""
        for name in names:
            channel = self.channels[name]
            if channel.expires and channel.is_available():
                self.expiring.add(name)
            else:
                self.expiring.discard(name)
            if channel.finishes:
                self.unfinished.add(name)
