"""A saver over one Redis or Valkey server, or a cluster of them. A cluster keeps the threads of graphs without a saver
in it."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self, cast

from redis import Redis
from redis.exceptions import ResponseError

from phalanx.checkpoint.base import (
    SPECIAL_WRITES,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from phalanx.checkpoint.configs import CheckpointAddress, matches
from phalanx.checkpoint.packing import BlobCache, Packer
from phalanx.checkpoint.redis.client import connect, scanned
from phalanx.checkpoint.redis.reader import ThreadReader
from phalanx.checkpoint.redis.record import CheckpointRecord
from phalanx.checkpoint.redis.stored import pack_value, pack_write, write_field
from phalanx.checkpoint.redis.upkeep import Step, Upkeep
from phalanx.checkpoint.retention import LATEST_ONLY, Retention, check_strategy
from phalanx.checkpoint.serde import Serializer
from phalanx.config import RunnableConfig
from phalanx.protocol.batch import Ref
from phalanx.protocol.keys import DEFAULT_PREFIX, ThreadKeys
from phalanx.protocol.names import TASKS
from phalanx.types import Update

KEEP_ALL: Final = Retention()

logger = logging.getLogger("phalanx.checkpoint")


class RedisSaver(BaseCheckpointSaver):
    """Keeps checkpoints in Redis: values as blobs by content. What does not change is stored once, and sent once.

    Needs plain commands and scripts only, of Redis 6.2 or later, or Valkey. All keys of a thread have one hash tag, so
    a Redis Cluster will do.

    Args:
        server: a URL, with ``redis+cluster://`` for a cluster; or a client made with
            :func:`phalanx.checkpoint.redis.client.connect`, or any other that returns bytes.
        serde: the codec.
        prefix: what all keys start with.
        retention: what to keep; everything if left out.
    """

    serde: Serializer  # pyright: ignore[reportIncompatibleVariableOverride] - blobs need this codec

    def __init__(
        self,
        server: str | Redis,
        *,
        serde: Serializer | None = None,
        prefix: str = DEFAULT_PREFIX,
        retention: Retention = KEEP_ALL,
    ) -> None:
        super().__init__(serde=serde or Serializer())
        self._owns_client = isinstance(server, str)
        self.client = connect(server) if isinstance(server, str) else server
        self.prefix = prefix
        self.retention = retention
        self._upkeep = Upkeep(self.client, self.serde, BlobCache(), retention)
        self._known = KnownRefs()

    @classmethod
    def from_conn_string(cls, conn_string: str, *, retention: Retention = KEEP_ALL) -> Self:
        """A saver over connections of its own; the same as giving the URL to the class."""
        return cls(conn_string, retention=retention)

    def setup(self) -> None:
        """Nothing is to be set up; for code that was written for savers that need it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, if the saver made them."""
        if self._owns_client:
            self.client.close()

    def keys(self, thread_id: str) -> ThreadKeys:
        """The keys of a thread."""
        return ThreadKeys(str(thread_id), self.prefix)

    def _reader(self, thread_id: str) -> ThreadReader:
        return self._upkeep.reader(self.keys(thread_id))

    # --- reading ------------------------------------------------------------------------------------------------------

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        address = CheckpointAddress.of(config)
        reader = self._reader(address.thread_id)
        checkpoint_id = address.checkpoint_id or next(reader.ids(address.namespace), None)
        return None if checkpoint_id is None else self._load(reader, address.namespace, checkpoint_id)

    def _load(self, reader: ThreadReader, namespace: str, checkpoint_id: str) -> CheckpointTuple | None:
        found = reader.load(namespace, checkpoint_id)
        if found is None:
            return None
        loaded, record = found
        self._known.note(CheckpointAddress(reader.keys.thread_id, namespace, checkpoint_id), record.values)
        return loaded

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the public name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints of a thread, newest first.

        Args:
            config: the thread, and optionally the namespace; ``None`` means all threads, for which the server's keys
                are scanned, those of others too.
            filter: metadata entries that must be equal.
            before: only checkpoints older than this one.
            limit: the most to return.

        Raises:
            NotImplementedError: all threads are asked for, and the server does not let its keys be scanned.
        """
        bound = CheckpointAddress.of(before).checkpoint_id if before else None
        listed = self._of_all_threads(bound) if config is None else self._of_thread(config, bound)
        return islice(self._matching(listed, filter or {}), limit)

    def _matching(
        self, listed: Iterator[tuple[str, str, ThreadReader]], wanted: Mapping[str, object]
    ) -> Iterator[CheckpointTuple]:
        for checkpoint_id, namespace, reader in listed:
            found = self._load(reader, namespace, checkpoint_id)
            if found is not None and matches(cast("Mapping[str, object]", found.metadata), wanted):
                yield found

    def _of_thread(self, config: RunnableConfig, before: str | None) -> Iterator[tuple[str, str, ThreadReader]]:
        address = CheckpointAddress.of(config)
        reader = self._reader(address.thread_id)
        if "checkpoint_ns" in config.get("configurable", {}):
            namespaces = [address.namespace]
        else:
            namespaces = sorted({namespace for namespace, _ in reader.places()})

        def addresses(namespace: str) -> Iterator[tuple[str, str]]:
            return ((checkpoint_id, namespace) for checkpoint_id in reader.ids(namespace, before))

        for checkpoint_id, namespace in merge(*map(addresses, namespaces), reverse=True):
            if address.checkpoint_id in (None, checkpoint_id):
                yield checkpoint_id, namespace, reader

    def _of_all_threads(self, before: str | None) -> Iterator[tuple[str, str, ThreadReader]]:
        found: list[tuple[str, str, ThreadReader]] = []
        for keys in self._threads():
            thread_id = self._upkeep.reader(keys).thread_id()
            if thread_id is None:
                logger.warning("a thread is left out of the list: its id was not noted", extra={"key": keys.index})
            else:
                reader = self._reader(thread_id)
                found += [(each, namespace, reader) for namespace, each in reader.places()]
        newest_first = sorted(found, key=lambda item: item[:2], reverse=True)
        return (item for item in newest_first if before is None or item[0] < before)

    def _threads(self) -> Iterator[ThreadKeys]:
        """The keys of every thread; of those whose id is hashed, the id is not known here."""
        try:
            names = sorted({*scanned(self.client, ThreadKeys.index_pattern(self.prefix))})
        except ResponseError as error:
            raise NotImplementedError(
                f"the server does not let its keys be scanned, so one thread at a time can be listed: {error}"
            ) from error
        return (keys for name in names if (keys := ThreadKeys.of_index(name, self.prefix)) is not None)

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        address = CheckpointAddress.of(config)
        reader = self._reader(address.thread_id)
        checkpoint_id = address.checkpoint_id or next(reader.ids(address.namespace), "")
        return reader.history(address.namespace, checkpoint_id, channels)

    # --- writing ------------------------------------------------------------------------------------------------------

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        address = CheckpointAddress.of(config)
        at = CheckpointAddress(address.thread_id, address.namespace, checkpoint["id"])
        values = checkpoint["channel_values"]
        # Packets are packed anew: a list of them refers to blobs that nobody would look for.
        known = self._known.of(address)
        same = values.keys() & known.keys() - new_versions.keys() - {TASKS}
        refs = {name: known[name] for name in same}
        packer = Packer(self.serde)
        refs |= {name: packer.pack_channel(name, value) for name, value in values.items() if name not in refs}
        step = self._step(address, checkpoint, metadata, refs, packer)
        step.reused = [ref for ref in refs.values() if isinstance(ref, str) and ref not in step.blobs]
        if self._upkeep.store(self.keys(address.thread_id), step):  # pruned with the parent meanwhile
            refs = {name: packer.pack_channel(name, value) for name, value in values.items()}
            self._upkeep.store(self.keys(address.thread_id), self._step(address, checkpoint, metadata, refs, packer))
        self._known.note(at, refs)
        return at.config()

    def _step(
        self,
        address: CheckpointAddress,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        refs: dict[str, Ref],
        packer: Packer,
    ) -> Step:
        record = CheckpointRecord(
            checkpoint["v"],
            checkpoint["ts"],
            address.checkpoint_id,
            checkpoint["channel_versions"],
            checkpoint["versions_seen"],
            checkpoint.get("updated_channels"),
            metadata,
            refs,
        )
        parent_id = address.checkpoint_id or ""
        packed, blobs = record.pack(self.serde), packer.take_blobs()
        return Step(address.namespace, checkpoint["id"], parent_id, packed, blobs=blobs)

    def put_writes(self, config: RunnableConfig, writes: Sequence[Update], task_id: str, task_path: str = "") -> None:
        self.put_writes_as(None, config, writes, task_id, task_path)

    def put_writes_as(
        self, token: int | None, config: RunnableConfig, writes: Sequence[Update], task_id: str, task_path: str
    ) -> None:
        """Store writes if the thread's lease has this fencing token; without one, whoever drives the thread.

        Raises:
            StaleTokenError: it has another; nothing was stored.
        """
        address = CheckpointAddress.of_checkpoint(config)
        packer = Packer(self.serde)
        step = Step(address.namespace, cast("str", address.checkpoint_id), token=token)
        packed: list[tuple[bool, str, bytes]] = []
        for index, (channel, value) in enumerate(writes):
            fixed = SPECIAL_WRITES.get(channel)
            name = write_field(task_id, index if fixed is None else fixed)
            packed.append((fixed is not None, name, pack_value(packer, channel, value, task_path)))
        step.writes, step.blobs = packed, packer.take_blobs()
        if packed:
            self._upkeep.store(self.keys(address.thread_id), step)

    def tend(self, config: RunnableConfig, *, at_end: bool = False) -> None:
        """Prune and prolong a thread as :attr:`retention` says; for who commits to it past :meth:`put`.

        Args:
            at_end: whether the thread will rest now, so that all its keys are given the same deadline.
        """
        address = CheckpointAddress.of(config)
        self._upkeep.tend(self.keys(address.thread_id), address.namespace, at_end=at_end)

    # --- forgetting, and copying --------------------------------------------------------------------------------------

    def delete_thread(self, thread_id: str) -> None:
        self._upkeep.delete(self.keys(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Forget the checkpoints that these runs made, with the writes pending on them.

        The server's keys are scanned, and every thread is looked at: this is for tidying up, not for every day.

        Raises:
            ThreadBusyError: a run has just taken one of the threads.
            NotImplementedError: the server does not let its keys be scanned.
        """
        unwanted = {*map(str, run_ids)}
        for keys in self._threads():
            self._upkeep.prune_runs(keys, unwanted)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        source, target = self.keys(source_thread_id), self.keys(target_thread_id)
        if source != target:
            self._upkeep.copy(source, target)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Forget what is old of these threads.

        Raises:
            ValueError: there is no such strategy.
            ThreadBusyError: a run has just taken one of the threads, and nobody knows yet from where it goes on.
        """
        check_strategy(strategy)
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
            else:
                self._upkeep.prune(self.keys(thread_id), lambda _, links: LATEST_ONLY.survivors(links))


class KnownRefs:
    """The references of checkpoints that were put or read lately, so that what did not change is not sent again.

    Args:
        most: how many checkpoints; the one used longest ago is forgotten first.
    """

    def __init__(self, most: int = 64) -> None:
        self._most = most
        self._refs: OrderedDict[CheckpointAddress, Mapping[str, Ref]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, address: CheckpointAddress) -> Mapping[str, Ref]:
        """Those of a checkpoint, as far as they are known."""
        with self._lock:
            found = self._refs.get(address)
            if found is not None:
                self._refs.move_to_end(address)
            return found or {}

    def note(self, address: CheckpointAddress, refs: Mapping[str, Ref]) -> None:
        """Remember those of a checkpoint."""
        with self._lock:
            self._refs[address] = refs
            self._refs.move_to_end(address)
            while len(self._refs) > self._most:
                self._refs.popitem(last=False)


__all__ = ["KEEP_ALL", "RedisSaver", "pack_write", "write_field"]
