"""Applying the writes of a superstep to the channels. The order in which tasks finished has no part in the result.

The order is fixed: tasks by path; what they have seen; one next version for the whole superstep; ``consume`` of the
channels that triggered them; all writes of a channel in one ``update``; an empty update for channels that silence can
change; and, if nothing updated can trigger a node, ``finish``.

The step is atomic. Channels are changed as copies, and the state takes them over only when every write was accepted; a
write that cannot be taken raises and leaves the state as it was.
"""

import logging
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from phalanx.checkpoint.base import Version
from phalanx.coordinator.plan import TaskPath, path_order
from phalanx.coordinator.state import GraphState, NextVersion
from phalanx.errors import UnknownNodeError
from phalanx.protocol.names import BRANCH, RESERVED_WRITES, TASKS
from phalanx.types import Send, Update
from phalanx.worker.blueprint import Blueprint, Channel

logger = logging.getLogger("phalanx.apply")


@dataclass(frozen=True, slots=True)
class TaskWrites:
    """What one task wrote, or what the run's input writes (with an empty path and no triggers)."""

    path: TaskPath
    name: str
    triggers: tuple[str, ...]
    writes: Sequence[Update]


@dataclass(slots=True)
class _Step:
    """The changes of one superstep, before they are taken over."""

    state: GraphState
    changed: dict[str, Channel] = field(default_factory=dict[str, Channel])
    updated: set[str] = field(default_factory=set[str])
    bumped: set[str] = field(default_factory=set[str])
    kept: set[str] = field(default_factory=set[str])
    finished: set[str] = field(default_factory=set[str])

    def writable(self, name: str) -> Channel:
        """The channel's copy in this step."""
        channel = self.changed.get(name)
        if channel is None:
            channel = self.changed[name] = self.state.channels[name].copy()
        return channel

    def note(self, name: str, changed: bool) -> None:
        """Record that an operation changed the channel, and whether it can now be read."""
        if changed:
            self.bumped.add(name)
            if self.changed[name].is_available():
                self.updated.add(name)

    # A channel that an empty update or ``finish`` leaves as it is need not be told again until it has changed.

    def expire(self, written: Container[str]) -> None:
        """Tell the channels that silence may change and that were not written."""
        for name in sorted(name for name in self.state.expiring if name not in written):
            changed = self.writable(name).update(())
            self.note(name, changed)
            if not changed:
                self.kept.add(name)

    def finish(self) -> None:
        """Tell the channels that ``finish`` may change."""
        may_finish = self.state.unfinished.union(name for name in self.bumped if self.changed[name].finishes)
        for name in sorted(may_finish):
            changed = self.writable(name).finish()
            self.note(name, changed)
            if not changed:
                self.finished.add(name)


def apply_writes(
    blueprint: Blueprint, state: GraphState, tasks: Iterable[TaskWrites], next_version: NextVersion
) -> frozenset[str]:
    """Apply one superstep to ``state`` and return the channels whose version it changed.

    Args:
        blueprint: the graph.
        state: changed in place, as a whole or not at all.
        tasks: what each task wrote, in any order.
        next_version: makes the superstep's version from the newest one.

    Raises:
        InvalidUpdateError: a channel cannot take its writes together.
        UnknownNodeError: a packet is for a node the graph does not have.
    """
    ordered = [*tasks]
    if len(ordered) > 1:
        ordered.sort(key=lambda task: path_order(task.path))
    triggered = any(task.triggers for task in ordered)
    step = _Step(state)

    for name in sorted({trigger for task in ordered for trigger in task.triggers if trigger in state.channels}):
        step.note(name, step.writable(name).consume())
    written = _by_channel(blueprint, ordered)
    for name, values in written.items():
        try:
            changed = step.writable(name).update(values)
        except Exception as error:  # the channel refuses, or the user's reducer raises
            writers = sorted({task.name for task in ordered if any(channel == name for channel, _ in task.writes)})
            error.add_note(f"While updating state key {name!r}, written by: {', '.join(writers)}")
            raise
        step.note(name, changed)
    if triggered:
        step.expire(written)
        if not any(name in blueprint.trigger_to_nodes for name in step.updated):
            step.finish()

    _take_over(step, ordered, next_version)
    return frozenset(step.bumped)


def _by_channel(blueprint: Blueprint, ordered: Sequence[TaskWrites]) -> dict[str, list[object]]:
    written: dict[str, list[object]] = {}
    for task in ordered:
        for channel, value in task.writes:
            if channel in written:
                written[channel].append(value)
            elif channel in blueprint.channels:
                written[channel] = [value]
            elif channel not in RESERVED_WRITES:
                _warn_of_unknown(blueprint, task, channel)
            if channel == TASKS:
                _check_packet(blueprint, task, value)
    return written


def _warn_of_unknown(blueprint: Blueprint, task: TaskWrites, channel: str) -> None:
    if channel.startswith(BRANCH):
        logger.warning(
            "node %r goes on to %r, which is not a node of this graph, so that path ends there; its nodes are: %s",
            task.name,
            channel.removeprefix(BRANCH),
            _nodes_of(blueprint),
        )
    else:
        logger.warning("node %s wrote to unknown channel %s; the write is ignored", task.name, channel)


def _nodes_of(blueprint: Blueprint) -> str:
    return ", ".join(sorted(name for name, spec in blueprint.nodes.items() if not spec.hidden))


def _check_packet(blueprint: Blueprint, task: TaskWrites, packet: object) -> None:
    node = cast("Send", packet).node
    if node not in blueprint.nodes:
        raise UnknownNodeError(
            f"node {task.name!r} sent a packet to {node!r}, which is not a node of this graph; "
            f"its nodes are: {_nodes_of(blueprint)}"
        )


def _take_over(step: _Step, ordered: Sequence[TaskWrites], next_version: NextVersion) -> None:
    state = step.state
    version = next_version(state.newest) if step.bumped else None  # first of all, since it may raise
    seen: dict[str, dict[str, Version]] = {}
    for task in ordered:
        known = seen.get(task.name) or state.seen.get(task.name, {})
        seen[task.name] = known | {
            trigger: state.versions[trigger] for trigger in task.triggers if trigger in state.versions
        }
    state.seen.update(seen)
    state.expiring -= step.kept
    state.unfinished -= step.finished
    if version is not None:
        state.newest = version
        for name in step.bumped:
            state.versions[name] = version
            state.channels[name] = step.changed[name]
        state.note_changed(step.bumped)
    state.updated = frozenset(step.updated)
