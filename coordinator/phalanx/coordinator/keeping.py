"""Where a run on a cluster keeps its thread: in the cluster's state server, or with the graph's own saver.

Either way blobs, claims and outcomes of the running superstep are in the state server. What differs is where
checkpoints go, and how long the working keys live.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from phalanx.channels.base import MISSING
from phalanx.checkpoint.base import CHECKPOINT_FORMAT, BaseCheckpointSaver, CheckpointTuple
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.packing import BlobCache, Packed, Packer, bytes_of, packets_of, resolve
from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.redis.record import CheckpointRecord
from phalanx.checkpoint.redis.saver import pack_write, write_field
from phalanx.checkpoint.redis.thread_store import Lease, ThreadStore
from phalanx.checkpoint.serde import decode_exception
from phalanx.config import RunnableConfig
from phalanx.coordinator.messages import Commit, SaveWrites
from phalanx.coordinator.recorder import Recorder, metadata_of, updated_channels, without_untracked
from phalanx.coordinator.run import shown_error
from phalanx.coordinator.state import GraphState
from phalanx.protocol.batch import Ref
from phalanx.protocol.names import ERROR, TASKS
from phalanx.protocol.outcome import Outcome, OutcomeKind
from phalanx.types import Send, Update

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
    """Keeps the thread in the cluster's state server: a commit is one script.

    Args:
        store: the thread there.
        saver: reads what the store keeps.
        config: the run's config.
        kept: whether the thread outlives the run.
        untracked: the state keys that are never stored.
    """

    def __init__(
        self,
        store: ThreadStore,
        saver: RedisSaver,
        config: RunnableConfig,
        *,
        kept: bool,
        untracked: frozenset[str] = frozenset(),
    ) -> None:
        self.store = store
        self.kept = kept
        self.serializer = saver.serde
        self.refs = StateRefs(Packer(saver.serde))
        self._saver = saver
        self._config = config
        self._untracked = untracked
        self._cache = BlobCache()
        self._last = ""

    def load(self, lease: Lease) -> CheckpointTuple | None:
        """The thread's checkpoint to go on from, with errors of earlier runs out of the way."""
        if not self.kept:
            return None
        found = self._saver.get_tuple(self._config)
        if found is not None:
            self._reopen(lease, CheckpointAddress.of(found.config))
        return found

    def _reopen(self, lease: Lease, at: CheckpointAddress) -> None:
        checkpoint_id = cast("str", at.checkpoint_id)
        key = self.store.keys.writes(at.namespace, checkpoint_id)
        stored = cast("dict[bytes, bytes]", self.store.client.hgetall(key))
        errors: dict[str, tuple[str, bytes]] = {}
        for raw, data in stored.items():
            name = raw.decode()
            if "\x00" in name:
                continue
            outcome = Outcome.unpack(data)
            if outcome.kind is OutcomeKind.ERROR:
                errors[name] = self._moved_aside(name, decode_exception(self.serializer.loads(outcome.error)))
        self.store.reopen(lease=lease, namespace=at.namespace, checkpoint_id=checkpoint_id, errors=errors)

    def _moved_aside(self, task_id: str, error: BaseException) -> tuple[str, bytes]:
        """The field that keeps an error of an earlier run, and the error."""
        return write_field(task_id, -1), pack_write(ERROR, self.serializer.dumps(shown_error(error)))

    def run_again(self, lease: Lease, checkpoint_id: str, errors: Mapping[str, BaseException]) -> None:
        """Let tasks run again that were left to an error handler which is there no more."""
        moved = {task_id: self._moved_aside(task_id, error) for task_id, error in errors.items()}
        if moved:
            self.store.reopen(lease=lease, namespace="", checkpoint_id=checkpoint_id, errors=moved)

    def opened(self, state: GraphState, checkpoint_id: str) -> None:
        """The run has its state: know its references from here on."""
        self.refs.fill(state)
        self._last = checkpoint_id

    def save_writes(self, order: SaveWrites, *, recorded: bool) -> None:
        """Keep a task's writes. Those of a worker are already recorded."""
        if self.kept and not recorded:
            where = CheckpointAddress(self.store.keys.thread_id, "", order.checkpoint_id)
            self._saver.put_writes(where.config(), order.writes, order.task.id)

    def renew(self, lease: Lease) -> None:
        """Say that the run is alive.

        Raises:
            StaleLeaseError: another coordinator has the thread.
        """
        self.store.renew(lease, "", self._last)

    def commit(self, order: Commit, state: GraphState, lease: Lease) -> None:
        """Make a superstep real.

        Raises:
            StaleLeaseError: another coordinator has the thread; nothing was written.
        """
        self.refs.update(state, order.changed)
        record = CheckpointRecord(
            CHECKPOINT_FORMAT,
            order.stamp.at,
            order.parent_id,
            state.versions,
            state.seen,
            updated_channels(state),
            metadata_of(order, self._config),
            self._stored_refs(),
        )
        self._commit(order, lease, record.pack(self.serializer))

    def _stored_refs(self) -> dict[str, Ref]:
        """The references that a checkpoint holds: packets' arguments too are without what is never stored."""
        refs = self.refs.stored()
        if self._untracked and self.kept and TASKS in refs:
            blobs = resolve([refs[TASKS]], self._cache, self._fetch_blobs)
            packets = self._unpacked(packets_of(bytes_of(refs[TASKS], blobs)))
            refs[TASKS] = self.refs.packer.pack_channel(TASKS, packets)
        return refs

    def _fetch_blobs(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        """Blobs: those about to be stored, and those that are."""
        new = {digest: data for digest in digests if (data := self.refs.packer.new_blobs.get(digest)) is not None}
        return {**self.store.fetch_blobs([digest for digest in digests if digest not in new]), **new}

    def _unpacked(self, packets: Sequence[Send]) -> list[Send]:
        """Packets with their arguments as values, without what is never stored."""
        refs = [packet.arg.ref for packet in packets if isinstance(packet.arg, Packed)]
        blobs = resolve(refs, self._cache, self._fetch_blobs)
        loaded = (
            Send(packet.node, self.serializer.loads(bytes_of(packet.arg.ref, blobs)), timeout=packet.timeout)
            if isinstance(packet.arg, Packed)
            else packet
            for packet in packets
        )
        return [without_untracked(packet, self._untracked) for packet in loaded]

    def _commit(self, order: Commit, lease: Lease, record: bytes) -> None:
        self.store.commit(
            lease=lease,
            blobs=self.refs.packer.take_blobs(),
            namespace="",
            checkpoint_id=order.stamp.checkpoint_id,
            parent_id=self._last,
            record=record,
        )
        self._last = order.stamp.checkpoint_id

    def end(self, lease: Lease) -> None:
        """The run is over: give the thread back, or remove what was only for this run."""
        if self.kept:
            self.store.release(lease, "", self._last)
        else:
            self.store.drop(lease, "", [self._last])


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
        untracked: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(store, cluster_saver, config, kept=False, untracked=untracked)
        self._own = own
        self._recorder = Recorder(CheckpointAddress.of(config), config, untracked=untracked)

    def load(self, lease: Lease) -> CheckpointTuple | None:
        found = self._own.get_tuple(self._config)
        if found is not None:
            self._recorder.values = dict(found.checkpoint["channel_values"])
        return found

    def save_writes(self, order: SaveWrites, *, recorded: bool) -> None:
        config, writes, task_id, path = self._recorder.put_writes_arguments(order)
        packets = iter(self._unpacked([cast("Send", value) for channel, value in writes if channel == TASKS]))
        plain: list[Update] = [(channel, next(packets) if channel == TASKS else value) for channel, value in writes]
        self._own.put_writes(config, plain, task_id, path)

    def commit(self, order: Commit, state: GraphState, lease: Lease) -> None:
        self.renew(lease)  # a coordinator that lost the thread must not write to the saver either
        config, checkpoint, metadata, versions = self._recorder.put_arguments(order, state)
        values = checkpoint["channel_values"]
        if TASKS in values:
            values[TASKS] = self._unpacked(cast("Sequence[Send]", values[TASKS]))
        self._own.put(config, checkpoint, metadata, versions)
        self.refs.update(state, order.changed)
        self._commit(order, lease, b"")
