"""Running a batch in a worker process: claim, fetch what is missing, run, record.

Tasks of synchronous nodes run one after the other in the calling thread. Tasks of coroutine nodes run side by side on
the process's event loop. Outcomes are recorded together when they come quickly, and one by one when a task takes its
time. A slow task does not hold back the news of a finished one for much longer than :data:`FLUSH_AFTER_S`: while a task
runs, the process's :class:`~phalanx.worker.flusher.Flusher` looks after what was gathered before.
"""

import asyncio
import signal
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final, cast

from phalanx.channels.base import MISSING
from phalanx.checkpoint.packing import BlobCache, Packer, bytes_of, resolve
from phalanx.checkpoint.serde import Serializer, encode_exception
from phalanx.config import RunnableConfig
from phalanx.errors import NodeCancelledError
from phalanx.protocol.batch import Batch, BatchTask, Ref
from phalanx.protocol.names import TASKS
from phalanx.protocol.outcome import Outcome, OutcomeKind
from phalanx.types import Send, Update
from phalanx.worker.blueprint import Blueprint, Channel
from phalanx.worker.call_on_loop import call_on_loop
from phalanx.worker.flusher import Flusher
from phalanx.worker.loop import LoopThread
from phalanx.worker.registry import GraphRegistry
from phalanx.worker.run_task import StateView, call_here, run_task, run_to_end
from phalanx.worker.task_context import note_task, task_config
from phalanx.worker.task_store import TaskStore

FLUSH_AFTER_S: Final = 0.02
"""How long a finished task's outcome may wait to be recorded with others."""

_ENDED_BY_SIGNAL: Final = frozenset(number - 256 for number in signal.valid_signals())

Ended = tuple[BatchTask, "list[Update] | BaseException", float]
"""A task, its writes or its error, and how long it took in seconds."""


@dataclass(slots=True)
class BatchRun:
    """One batch, while this process runs it.

    Attributes:
        worker: this worker process.
        loop: the process's event loop.
        cache: the process's blobs.
        flusher: records what a slow task would hold back.
    """

    batch: Batch
    store: TaskStore
    registry: GraphRegistry
    serializer: Serializer
    cache: BlobCache
    loop: LoopThread
    worker: str
    flusher: Flusher
    packer: Packer = field(init=False)
    outcomes: dict[str, bytes] = field(default_factory=dict[str, bytes])
    flushed_at: float = 0.0
    _lock: threading.RLock = field(init=False)  # held while outcomes and their blobs are added or recorded

    def __post_init__(self) -> None:
        self.packer = Packer(self.serializer)
        self._lock = threading.RLock()

    def run(self) -> int:
        """Run what can be claimed of the batch, and return how many tasks that was. Failures become outcomes."""
        claimed = self.store.claim()
        tasks = [task for task in self.batch.tasks if task.id in claimed]
        if not tasks:
            return 0
        try:
            found = self.registry.find(self.batch.graph, self.batch.fingerprint, self.worker)
            prepared = _Prepared.of(self.batch, tasks, found.blueprint, self)
        except Exception as error:  # no task of the batch can run here: each is told why
            for task in tasks:
                self._add((task, error, 0.0))
            self.flush()
            return len(tasks)
        self.flushed_at = time.monotonic()
        with self.flusher.watching(self.flush_if_due):
            for ended in self._run(tasks, prepared):
                self._add(ended)
                self.flush_if_due()
        self.flush()
        return len(tasks)

    def flush_if_due(self) -> None:
        """Record the outcomes gathered so far, unless some were recorded just now."""
        if time.monotonic() - self.flushed_at >= FLUSH_AFTER_S:
            self.flush()

    def flush(self) -> None:
        """Record the outcomes gathered so far. If that fails they stay, for the next time."""
        with self._lock:
            if self.outcomes:
                self.store.record(self.outcomes, self.packer.new_blobs)
                self.packer.take_blobs()
                self.outcomes = {}
            self.flushed_at = time.monotonic()

    def _run(self, tasks: Sequence[BatchTask], prepared: "_Prepared") -> Iterator[Ended]:
        nodes = prepared.blueprint.nodes
        on_loop = [task for task in tasks if nodes[task.node].is_async]
        running = self._start_on_loop(on_loop, prepared) if on_loop else None
        for task in tasks:
            if not nodes[task.node].is_async:
                yield _execute(task, prepared)
        if running is not None:
            for _ in on_loop:
                yield running.get()

    def _start_on_loop(self, tasks: Sequence[BatchTask], prepared: "_Prepared") -> SimpleQueue[Ended]:
        ended: SimpleQueue[Ended] = SimpleQueue()

        async def execute(task: BatchTask) -> None:
            started = time.perf_counter()
            result: list[Update] | BaseException
            try:
                result = await prepared.coroutine(task, on_loop=True)
            except asyncio.CancelledError as error:  # of the node's own making: here nobody cancels
                result = note_task(NodeCancelledError(task.node, str(error) or None), task.node, task.id)
            except BaseException as error:
                result = note_task(error, task.node, task.id)
            ended.put((task, result, time.perf_counter() - started))

        for task in tasks:
            self.loop.start(execute(task))
        return ended

    def _add(self, ended: Ended) -> None:
        with self._lock:
            self._add_locked(*ended)

    def _add_locked(self, task: BatchTask, result: "list[Update] | BaseException", seconds: float) -> None:
        if not isinstance(result, BaseException):
            try:
                writes = self.packer.pack_writes(result, lambda write: _name_of_write(task.node, write))
                outcome = Outcome(OutcomeKind.WRITES, task.attempt, self.worker, seconds, writes)
                self.outcomes[task.id] = outcome.pack()
                return
            except Exception as error:  # the node returned what cannot travel
                result = note_task(error, task.node, task.id)
        encoded = self.serializer.dumps(encode_exception(result))
        self.outcomes[task.id] = Outcome(OutcomeKind.ERROR, task.attempt, self.worker, seconds, error=encoded).pack()


def _name_of_write(node: str, write: Update) -> str:
    channel, value = write
    if channel == TASKS:
        return f"node {node!r}, the argument of its Send to {cast('Send', value).node!r}"
    return f"node {node!r}, state key {channel!r}"


def _execute(task: BatchTask, prepared: "_Prepared") -> Ended:
    started = time.perf_counter()
    result: list[Update] | BaseException
    try:
        result = run_to_end(prepared.coroutine(task, on_loop=False))
    except BaseException as error:  # also SystemExit: it is the node's, and a task without an outcome would be missed
        if _ends_the_process(error):
            raise
        result = note_task(error, task.node, task.id)
    return task, result, time.perf_counter() - started


def _ends_the_process(error: BaseException) -> bool:
    """Whether it is no error of the node: Celery's pool raises it in whatever runs when a signal ends the process."""
    return isinstance(error, SystemExit) and error.code in _ENDED_BY_SIGNAL


@dataclass(slots=True)
class _Prepared:
    """A batch with its graph found and its references resolved."""

    batch: Batch
    blueprint: Blueprint
    view: StateView
    blobs: Mapping[str, bytes]
    serializer: Serializer

    @classmethod
    def of(cls, batch: Batch, tasks: Sequence[BatchTask], blueprint: Blueprint, run: BatchRun) -> "_Prepared":
        arguments: list[Ref] = [task.arg for task in tasks if task.arg is not None]
        blobs = resolve([*batch.state.values(), *arguments], run.cache, run.store.fetch_blobs)
        channels: dict[str, Channel] = {}
        names = {
            name for task in tasks for name in blueprint.nodes[task.node].channels_read(pushed=task.arg is not None)
        }
        for name in names:
            ref = batch.state.get(name)
            stored = MISSING if ref is None else run.serializer.loads(bytes_of(ref, blobs))
            channels[name] = blueprint.channels[name].receive(stored)
        return cls(batch, blueprint, StateView(channels), blobs, run.serializer)

    def coroutine(self, task: BatchTask, *, on_loop: bool) -> Coroutine[object, None, list[Update]]:
        """The task's procedure, to be driven on the event loop or in this thread."""
        node = self.blueprint.nodes[task.node]
        if task.arg is None:
            value = self.view.read(node.reader)
        else:
            value = self.serializer.loads(bytes_of(task.arg, self.blobs))
        call = call_on_loop if on_loop else call_here
        return run_task(node, value, self.view, call, lambda: self._config(task))

    def _config(self, task: BatchTask) -> RunnableConfig:
        config = cast("RunnableConfig", self.serializer.loads(self.batch.config))
        return task_config(config, task.node, task.id, task.path, task.triggers, self.batch.step)
