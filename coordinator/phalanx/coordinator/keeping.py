"""Where a run on a cluster keeps its thread: in the cluster's state server, or with the graph's own saver.

Either way blobs, claims and outcomes of the running superstep are in the state server. What differs is where
checkpoints go, and how long the working keys live.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from phalanx.channels.base import MISSING
from phalanx.checkpoint.base import CHECKPOINT_FORMAT, SPECIAL_WRITES, BaseCheckpointSaver
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.packing import BlobCache, Packed, Packer, bytes_of, packets_of, resolve
from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.redis.record import CheckpointRecord
from phalanx.checkpoint.redis.saver import KEEP_ALL
from phalanx.checkpoint.redis.stored import pack_write, write_field
from phalanx.checkpoint.redis.thread_store import LASTING, PASSING, Lease, Step, ThreadStore
from phalanx.checkpoint.redis.upkeep import StaleTokenError
from phalanx.checkpoint.serde import decode_exception
from phalanx.config import RunnableConfig
from phalanx.coordinator.messages import Commit, SaveWrites
from phalanx.coordinator.opening import Opened, Place, open_place, opened_anew
from phalanx.coordinator.recorder import Delta, Recorder, metadata_of, updated_channels, without_untracked
from phalanx.coordinator.run import Run, shown_error
from phalanx.coordinator.saver_access import SaverHere
from phalanx.coordinator.state import GraphState
from phalanx.protocol.batch import Ref
from phalanx.protocol.names import ERROR, INTERRUPT, TASKS
from phalanx.protocol.outcome import Outcome, OutcomeKind
from phalanx.protocol.paths import path_text
from phalanx.types import Send, Update
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.lineage import NAMESPACE_SEPARATOR, Lineage
from phalanx.worker.run_task import run_to_end

WORKING_LIFE_S: Final = 24 * 3600
"""How long the keys of a run that keeps no thread stay after its last commit, should nobody remove them."""


@dataclass(slots=True)
class StateRefs:
    """References to every channel that holds something, for workers. A channel that does not change is packed once.

    Attributes:
        untracked: the channels that no checkpoint holds.
    """

    packer: Packer
    refs: dict[str, Ref] = field(default_factory=dict[str, Ref])
    untracked: set[str] = field(default_factory=set[str])

    def fill(self, state: GraphState) -> None:
        """Pack every channel; for a state that was just loaded."""
        self.update(state, state.channels)

    def update(self, state: GraphState, names: Iterable[str]) -> None:
        """Pack the named channels anew."""
        for name in names:
            channel = state.channels[name]
            transferred = channel.transfer()
            if transferred is MISSING:
                self.refs.pop(name, None)
            else:
                self.refs[name] = self.packer.pack_channel(name, transferred)
            if not channel.stored:
                self.untracked.add(name)

    def stored(self) -> dict[str, Ref]:
        """The references that a checkpoint holds."""
        return {name: ref for name, ref in self.refs.items() if name not in self.untracked}


class Keeping:
    """Keeps a graph's checkpoints in the cluster's state server: a commit is one script.

    Args:
        store: the thread there.
        saver: reads what the store keeps.
        config: the run's config.
        place: where in the thread the graph's checkpoints belong; ``None`` when they do not outlive the run.
        lineage: where the run stands among runs.
        untracked: the state keys that are never stored.
    """

    def __init__(
        self,
        store: ThreadStore,
        saver: RedisSaver,
        config: RunnableConfig,
        place: Place | None,
        lineage: Lineage,
        untracked: frozenset[str] = frozenset(),
    ) -> None:
        self.store = store
        self.place = place
        self._lineage = lineage
        self.namespace = lineage.namespace
        if place is None and lineage.namespace:  # its checkpoints have the same ids in every run, and its keys must not
            self.namespace = f"{lineage.namespace}{NAMESPACE_SEPARATOR}{uuid.uuid4().int}"
        self.serializer = saver.serde
        self.refs = StateRefs(Packer(saver.serde))
        self._saver = saver
        self._config = config
        self._parents = lineage.parents
        self._untracked = untracked
        self._cache = BlobCache()
        self._last = ""

    @property
    def kept(self) -> bool:
        """Whether the graph's checkpoints are kept in the state server."""
        return self.place is not None

    @property
    def passing(self) -> bool:
        """Whether nothing of it outlives the run."""
        return self.place is None

    @property
    def step(self) -> Step:
        """Where the run stands."""
        return (self.namespace, self._last)

    def load(self, lease: Lease, blueprint: Blueprint, given: object) -> Opened:
        """What to go on from, with errors and questions of earlier runs out of the way."""
        if self.place is None:
            return opened_anew(self._lineage)
        opened = run_to_end(open_place(SaverHere(self._saver), blueprint, self.place, given))
        if opened.found is not None:
            self._reopen(lease, CheckpointAddress.of(opened.found.config))
        return opened

    def _reopen(self, lease: Lease, at: CheckpointAddress) -> None:
        checkpoint_id = cast("str", at.checkpoint_id)
        key = self.store.keys.writes(at.namespace, checkpoint_id)
        stored = cast("dict[bytes, bytes]", self.store.client.hgetall(key))
        aside: dict[str, tuple[str, bytes]] = {}
        for raw, data in stored.items():
            name = raw.decode()
            if "\x00" in name:
                continue
            outcome = Outcome.unpack(data)
            if outcome.kind in (OutcomeKind.ERROR, OutcomeKind.INVALID_ANSWER):
                aside[name] = self._moved_aside(name, decode_exception(self.serializer.loads(outcome.error)))
            elif outcome.kind is OutcomeKind.INTERRUPTED:
                aside[name] = self._kept_write(name, INTERRUPT, outcome.error)
        self.store.reopen(lease=lease, namespace=at.namespace, checkpoint_id=checkpoint_id, errors=aside)

    def _moved_aside(self, task_id: str, error: BaseException) -> tuple[str, bytes]:
        """The field that keeps an error of an earlier run, and the error."""
        return self._kept_write(task_id, ERROR, self.serializer.dumps(shown_error(error)))

    def _kept_write(self, task_id: str, channel: str, value: bytes) -> tuple[str, bytes]:
        return write_field(task_id, SPECIAL_WRITES[channel]), pack_write(channel, value)

    def run_again(self, lease: Lease, run: Run) -> None:
        """Let tasks run again that had an outcome: they were left to an error handler which is there no more, or are
        answered anew."""
        moved = {task_id: self._moved_aside(task_id, error) for task_id, error in run.disowned.items()}
        if run.beginning.again:
            moved |= {task_id: ("", b"") for task_id in run.answers.tasks if task_id not in moved}
        if moved:
            where = (self.namespace, run.position.checkpoint_id)
            self.store.reopen(lease=lease, namespace=where[0], checkpoint_id=where[1], errors=moved)

    def opened(self, state: GraphState, checkpoint_id: str) -> None:
        """The run has its state: know its references from here on."""
        self.refs.fill(state)
        self._last = checkpoint_id

    def save_writes(self, order: SaveWrites, lease: Lease, *, recorded: bool) -> None:
        """Keep a task's writes. Those of a worker are already recorded.

        Raises:
            StaleLeaseError: another coordinator has the thread; nothing was written.
        """
        if not self.kept or recorded:
            return
        at = CheckpointAddress(self.store.keys.thread_id, self.namespace, order.checkpoint_id)
        path = path_text(order.task.path)
        try:
            self._saver.put_writes_as(lease.token, at.config(), order.writes, order.task.id, path)
        except StaleTokenError as error:
            raise self.store.stale(lease) from error

    def check(self, lease: Lease) -> None:
        """Make sure that the thread is still this run's.

        Raises:
            StaleLeaseError: another coordinator has it.
        """
        self.store.renew(lease, None if self.namespace else self._last)

    def commit(self, order: Commit, state: GraphState, lease: Lease) -> None:
        """Make a superstep real.

        Raises:
            StaleLeaseError: another coordinator has the thread; nothing was written.
        """
        self.refs.update(state, order.changed)
        if not self.kept and self.store.ttl_s == 0:  # a graph inside, in a thread that is kept
            self._commit(order, lease, b"", noted=PASSING)
            return
        record = CheckpointRecord(
            CHECKPOINT_FORMAT,
            order.stamp.at,
            order.parent_id,
            state.versions,
            state.seen,
            updated_channels(state),
            metadata_of(order, self._config, self._parents),
            self._stored_refs(),
        )
        self._commit(order, lease, record.pack(self.serializer))
        self._tend()

    def _stored_refs(self) -> dict[str, Ref]:
        """The references that a checkpoint holds: packets' arguments too are without what is never stored."""
        refs = self.refs.stored()
        if self._untracked and self.kept and TASKS in refs:
            blobs = self.resolve([refs[TASKS]])
            packets = self._unpacked(packets_of(bytes_of(refs[TASKS], blobs)))
            refs[TASKS] = self.refs.packer.pack_channel(TASKS, packets)
        return refs

    def _fetch_blobs(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Blobs: those about to be stored, and those that are."""
        new = {digest: data for digest in digests if (data := self.refs.packer.new_blobs.get(digest)) is not None}
        return {**self.store.fetch_blobs([digest for digest in digests if digest not in new]), **new}

    def resolve(self, refs: Sequence[Ref]) -> Mapping[str, bytes]:
        """The blobs behind references."""
        return resolve(refs, self._cache, self._fetch_blobs)

    def _unpacked(self, packets: Sequence[Send]) -> list[Send]:
        """Packets with their arguments as values, without what is never stored."""
        refs = [packet.arg.ref for packet in packets if isinstance(packet.arg, Packed)]
        blobs = self.resolve(refs)
        loaded = (
            Send(packet.node, self.serializer.loads(bytes_of(packet.arg.ref, blobs)), timeout=packet.timeout)
            if isinstance(packet.arg, Packed)
            else packet
            for packet in packets
        )
        return [without_untracked(packet, self._untracked) for packet in loaded]

    def _commit(self, order: Commit, lease: Lease, record: bytes, *, noted: str = "") -> None:
        self.store.commit(
            lease=lease,
            blobs=self.refs.packer.take_blobs(),
            namespace=self.namespace,
            checkpoint_id=order.stamp.checkpoint_id,
            parent_id=self._last,
            record=record,
            noted=noted,
        )
        self._last = order.stamp.checkpoint_id

    def _tend(self, *, at_end: bool = False) -> None:
        """Have the thread kept for as long, and with as much of its past, as the cluster's retention says."""
        if self.place is not None and self._saver.retention is not KEEP_ALL:
            self._saver.tend(self.place.address().config(), at_end=at_end)

    def end_inside(self, lease: Lease) -> None:
        """A graph inside has come to its end: what nobody will ask for goes."""
        if not self.kept:
            self.store.forget(lease, self.step)

    def end(self, lease: Lease, inside: Iterable[Step]) -> None:
        """The run is over: give the thread back, or remove what was only for this run.

        Args:
            inside: where the runs of graphs inside stand that have not come to their end.
        """
        steps = [self.step, *inside]
        if self.store.ttl_s:
            self.store.drop(lease, steps)
        else:
            self.store.release(lease, steps)
            self._tend(at_end=True)


class KeepingElsewhere(Keeping):
    """The graph has a saver of its own: checkpoints go there, before the superstep is retired here.

    Should the coordinator die in between, the saver has the newer state, and a run goes on from it.
    """

    def __init__(
        self,
        store: ThreadStore,
        own: BaseCheckpointSaver,
        cluster_saver: RedisSaver,
        config: RunnableConfig,
        place: Place,
        lineage: Lineage,
        untracked: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(store, cluster_saver, config, None, lineage, untracked)
        self.namespace = lineage.namespace
        self._own = own
        self._there = place
        self._recorder = Recorder(place.address(), config, lineage.parents, untracked=untracked, snapshots_only=True)

    @property
    def passing(self) -> bool:
        return False

    def load(self, lease: Lease, blueprint: Blueprint, given: object) -> Opened:
        opened = run_to_end(open_place(SaverHere(self._own), blueprint, self._there, given))
        if opened.found is not None:
            self._recorder.values = dict(opened.found.checkpoint["channel_values"])
            self._recorder.deltas = {name: Delta(name) for name in blueprint.deltas}
            self._reopen(lease, CheckpointAddress.of(opened.found.config))
        return opened

    def save_writes(self, order: SaveWrites, lease: Lease, *, recorded: bool) -> None:
        if not recorded:
            self.check(lease)
        config, writes, task_id, path = self._recorder.put_writes_arguments(order)
        packets = iter(self._unpacked([cast("Send", value) for channel, value in writes if channel == TASKS]))
        plain: list[Update] = [(channel, next(packets) if channel == TASKS else value) for channel, value in writes]
        self._own.put_writes(config, plain, task_id, path)

    def commit(self, order: Commit, state: GraphState, lease: Lease) -> None:
        self.check(lease)  # a coordinator that lost the thread must not write to the saver either
        config, checkpoint, metadata, versions = self._recorder.put_arguments(order, state)
        values = checkpoint["channel_values"]
        if TASKS in values:
            values[TASKS] = self._unpacked(cast("Sequence[Send]", values[TASKS]))
        self._own.put(config, checkpoint, metadata, versions)
        self.refs.update(state, order.changed)
        self._commit(order, lease, b"", noted="" if self.store.ttl_s else LASTING)
