"""Between a run and a saver: a run out of what is stored, and a saver's arguments out of a run's orders.

The drivers do the calling, so that this serves both colours. Only :func:`stamp` and a fresh thread look at the clock.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, cast

from phalanx.channels import DeltaChannel
from phalanx.channels.base import MISSING
from phalanx.checkpoint.base import (
    CHECKPOINT_FORMAT,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    Version,
)
from phalanx.checkpoint.configs import CheckpointAddress, with_config_metadata
from phalanx.checkpoint.ids import checkpoint_id, derived_id
from phalanx.checkpoint.serde import decode_exception
from phalanx.config import RunnableConfig
from phalanx.coordinator.commands import is_command_task
from phalanx.coordinator.messages import Commit, SaveWrites, Stamp
from phalanx.coordinator.run import Run
from phalanx.coordinator.saver_access import PutArguments, PutWritesArguments
from phalanx.coordinator.state import GraphState
from phalanx.coordinator.terms import ANEW, Beginning, Pending, Position, RunSettings
from phalanx.protocol.names import HANDED_OVER, INTERRUPT, NO_WRITES, RESERVED_WRITES, RESUME, TASKS
from phalanx.protocol.paths import path_text
from phalanx.types import Interrupt, Send, Update
from phalanx.worker.blueprint import Blueprint

MOST_SUPERSTEPS: Final = int(os.environ.get("PHALANX_DELTA_MAX_SUPERSTEPS_SINCE_SNAPSHOT", "5000"))
"""The most supersteps whose writes make up a delta channel's value, before it is stored whole again."""


@dataclass(slots=True)
class Delta:
    """What is known of a delta channel's storage.

    Attributes:
        name: the state key.
        supersteps: how many checkpoints have come since the last that holds the whole value.
    """

    name: str
    supersteps: int = 0

    def channel_of(self, state: GraphState) -> DeltaChannel[object]:
        """The channel."""
        return cast("DeltaChannel[object]", state.channels[self.name])


def deltas_of(blueprint: Blueprint, found: CheckpointTuple | None, state: GraphState) -> dict[str, Delta]:
    """The delta channels of a graph whose state was just loaded."""
    counters: Mapping[str, Sequence[int]] = {}
    if found is not None:
        counters = found.metadata.get("counters_since_delta_snapshot") or {}
    deltas: dict[str, Delta] = {}
    for name in blueprint.deltas:
        delta = deltas[name] = Delta(name)
        if name in state.versions:
            since, supersteps = counters.get(name, (MOST_SUPERSTEPS, MOST_SUPERSTEPS))
            delta.channel_of(state).since, delta.supersteps = since, supersteps
    return deltas


@dataclass(slots=True)
class Recorder:
    """Knows where in storage a run's checkpoints belong.

    Attributes:
        address: the run's thread and namespace.
        config: the run's config, whose metadata is stored with each checkpoint.
        parents: the checkpoints that the runs around it stand at, by namespace.
        values: the stored form of every non-empty channel, kept up to date from what each superstep changed.
        untracked: the state keys that are never stored.
        deltas: the state keys that are stored as what was written to them.
        snapshots_only: store those whole all the same, since what tasks write is not stored.
    """

    address: CheckpointAddress
    config: RunnableConfig
    parents: Mapping[str, str] = field(default_factory=dict[str, str])
    values: dict[str, object] = field(default_factory=dict[str, object])
    untracked: frozenset[str] = frozenset()
    deltas: "Mapping[str, Delta]" = field(default_factory=dict[str, "Delta"])
    snapshots_only: bool = False

    def put_arguments(self, order: Commit, state: GraphState) -> PutArguments:
        """The arguments of ``saver.put`` for a commit. Nothing in them changes when the run goes on."""
        for name in order.changed:
            channel = state.channels[name]
            stored = channel.transfer() if channel.stored and name not in self.deltas else MISSING
            if stored is MISSING:
                self.values.pop(name, None)
            elif name == TASKS and self.untracked:
                self.values[name] = [without_untracked(packet, self.untracked) for packet in cast("list[Send]", stored)]
            else:
                self.values[name] = stored
        snapshots = self._snapshots(order, state) if self.deltas else []
        checkpoint: Checkpoint = {
            "v": CHECKPOINT_FORMAT,
            "id": order.stamp.checkpoint_id,
            "ts": order.stamp.at,
            "channel_values": self.values.copy(),
            "channel_versions": state.versions.copy(),
            "versions_seen": state.seen.copy(),  # its inner dicts are replaced, never changed
            "updated_channels": updated_channels(state),
        }
        parent = CheckpointAddress(self.address.thread_id, self.address.namespace, order.parent_id)
        new_versions = {name: state.versions[name] for name in (*order.changed, *snapshots)}
        metadata = metadata_of(order, self.config, self.parents)
        if self.deltas:
            metadata["counters_since_delta_snapshot"] = {
                name: (delta.channel_of(state).since, delta.supersteps)
                for name, delta in self.deltas.items()
                if name in state.versions
            }
        return parent.config(), checkpoint, metadata, new_versions

    def _snapshots(self, order: Commit, state: GraphState) -> list[str]:
        """Take up the whole values of the delta channels that this checkpoint is to hold, and say which."""
        taken: list[str] = []
        for name, delta in self.deltas.items():
            channel = delta.channel_of(state)
            self.values.pop(name, None)
            if name not in state.versions:
                if order.exact or order.parent_id is None or not state.versions:
                    continue
                # Never written to; but writes that were dropped may lie before, and would be taken for its own.
                state.versions[name] = _before_all(state.versions)
            delta.supersteps += 1
            cut_off = not order.exact or order.parent_id is None or self.snapshots_only
            given = order.source == "input" and name in order.changed
            if not (cut_off or given or channel.snapshot_due or delta.supersteps >= MOST_SUPERSTEPS):
                continue
            self.values[name] = channel.snapshot()
            channel.note_snapshot()
            delta.supersteps = 0
            taken.append(name)
        return taken

    def put_writes_arguments(self, order: SaveWrites) -> PutWritesArguments:
        """The arguments of ``saver.put_writes`` for a finished task."""
        where = CheckpointAddress(self.address.thread_id, self.address.namespace, order.checkpoint_id)
        return where.config(), self._kept(order.writes), order.task.id, path_text(order.task.path)

    def _kept(self, writes: Sequence[Update]) -> Sequence[Update]:
        """The writes without what is never stored."""
        if not self.untracked:
            return writes
        return [
            (channel, without_untracked(cast("Send", value), self.untracked) if channel == TASKS else value)
            for channel, value in writes
            if channel not in self.untracked
        ]


def _before_all(versions: ChannelVersions) -> Version:
    """A version that no write has had, so that it makes no node due."""
    return type(next(iter(versions.values())))()


def without_untracked(packet: Send, untracked: frozenset[str]) -> Send:
    """A packet as it is stored: its argument, if it is a dict, has no keys that are never stored."""
    given: object = packet.arg
    argument = cast("dict[str, object]", given) if isinstance(given, dict) else {}
    if untracked.isdisjoint(argument):
        return packet
    kept = {key: value for key, value in argument.items() if key not in untracked}
    return Send(packet.node, kept, timeout=packet.timeout)


def metadata_of(order: Commit, config: RunnableConfig, parents: Mapping[str, str]) -> CheckpointMetadata:
    """What is stored about a commit's checkpoint."""
    return with_config_metadata({"source": order.source, "step": order.step, "parents": {**parents}}, config)


def updated_channels(state: GraphState) -> list[str] | None:
    """The channels the last superstep updated, as a checkpoint keeps them."""
    return None if state.updated is None else sorted(state.updated)


def stamp(run: Run) -> Stamp:
    """A new checkpoint id and the time, for the step the run is in."""
    if run.namespace and not run.settings.kept:
        return now(derived_id(run.namespace, run.position.step))
    return now(checkpoint_id(run.position.step, run.position.checkpoint_id))


def now(identity: str) -> Stamp:
    """The time, for a checkpoint with that id."""
    return Stamp(identity, datetime.now(UTC).isoformat())


Histories = Mapping[str, DeltaChannelHistory]
"""What the values of delta channels are made of, by state key."""

NO_HISTORIES: Final[Histories] = {}


def load_state(blueprint: Blueprint, found: CheckpointTuple, histories: Histories) -> GraphState:
    """The state that a checkpoint holds."""
    checkpoint = found.checkpoint
    values = dict(checkpoint["channel_values"])
    for name, history in histories.items():
        channel = cast("DeltaChannel[object]", blueprint.channels[name]).from_checkpoint(history.get("seed", MISSING))
        channel.replay_writes(history["writes"])
        values[name] = channel.snapshot()
    return GraphState.load(blueprint, values, checkpoint["channel_versions"], checkpoint["versions_seen"])


def missing_deltas(blueprint: Blueprint, found: CheckpointTuple) -> list[str]:
    """The delta channels that were written to, and whose value a checkpoint does not hold."""
    checkpoint = found.checkpoint
    versions, values = checkpoint["channel_versions"], checkpoint["channel_values"]
    return [name for name in blueprint.deltas if name in versions and name not in values]


def open_run(
    blueprint: Blueprint,
    settings: RunSettings,
    found: CheckpointTuple | None,
    namespace: str = "",
    beginning: Beginning = ANEW,
    histories: Histories = NO_HISTORIES,
) -> tuple[Run, dict[str, object]]:
    """A run that goes on from a stored checkpoint, or starts a thread; with the stored channel values."""
    if found is None:
        # One step before the input's own checkpoint, which is -1.
        identity = derived_id(namespace, -2) if namespace and not settings.kept else checkpoint_id(-2)
        fresh = Position(identity, False, -1, namespace)
        state = GraphState.fresh(blueprint)
        return Run(blueprint, state, fresh, settings, namespace=namespace, beginning=beginning), {}
    checkpoint = found.checkpoint
    state = load_state(blueprint, found, histories)
    if checkpoint.get("updated_channels") is not None:
        state.updated = frozenset(checkpoint["updated_channels"] or ())
    there = str(found.config.get("configurable", {}).get("checkpoint_ns", ""))
    position = Position(checkpoint["id"], True, found.metadata.get("step", -1) + 1, there)
    run = Run(blueprint, state, position, settings, pending_of(found), namespace, beginning)
    return run, dict(checkpoint["channel_values"])


def pending_of(found: CheckpointTuple) -> Pending:
    """What a stored checkpoint tells of the tasks that ran from it."""
    commands: dict[str, list[Update]] = {}
    finished: dict[str, list[Update]] = {}
    handed_over: dict[str, BaseException] = {}
    questions: dict[str, Sequence[Interrupt]] = {}
    answers: dict[str, Sequence[object]] = {}
    for task_id, channel, value in found.pending_writes or ():
        if is_command_task(task_id):
            commands.setdefault(task_id, []).append((channel, value))
        elif channel == HANDED_OVER:
            handed_over[task_id] = decode_exception(value)
        elif channel == INTERRUPT:
            questions[task_id] = list(value)
        elif channel == RESUME:
            answers[task_id] = list(value)
        elif channel not in RESERVED_WRITES or channel == NO_WRITES:
            finished.setdefault(task_id, []).append((channel, value))
    given = [commands[task_id] for task_id in sorted(commands)]
    return Pending(given, dict(finished), handed_over, questions, answers)
