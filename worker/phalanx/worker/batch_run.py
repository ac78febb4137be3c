"""Running a batch in a worker process: claim, fetch what is missing, run, record.

Tasks of synchronous nodes run one after the other in the calling thread. Tasks of coroutine nodes run side by side on
the process's event loop. Outcomes are recorded together when they come quickly, and one by one when a task takes its
time. A slow task does not hold back the news of a finished one for much longer than :data:`FLUSH_AFTER_S`: while a task
runs, the process's :class:`~phalanx.worker.flusher.Flusher` looks after what was gathered before.
"""

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final, cast

from phalanx.channels.base import MISSING
from phalanx.checkpoint.packing import BlobCache, Packer, bytes_of, resolve
from phalanx.checkpoint.serde import Serializer, decode_exception, encode_exception
from phalanx.config import RunnableConfig
from phalanx.errors import NodeError, NodeTimeoutError
from phalanx.managed import StepLimits
from phalanx.protocol.batch import Batch, BatchTask, Ref
from phalanx.protocol.names import TASKS
from phalanx.protocol.outcome import Outcome, OutcomeKind
from phalanx.protocol.paths import path_text
from phalanx.runtime import RunControl
from phalanx.types import Send, Update
from phalanx.worker.attempt import Attempt, Ended, Raised, Wrote
from phalanx.worker.blueprint import Blueprint, Channel
from phalanx.worker.call_on_loop import attempt_on_loop
from phalanx.worker.deadline import ends_process_after
from phalanx.worker.failures import failure_outcome
from phalanx.worker.flusher import Flusher
from phalanx.worker.inside import blueprint_at
from phalanx.worker.lineage import LooseAnswer, Savers, lineage_from_plain
from phalanx.worker.loop import LoopThread
from phalanx.worker.registry import GraphRegistry
from phalanx.worker.run_task import StateView
from phalanx.worker.task_context import RunContext, TaskContext, note_task
from phalanx.worker.task_store import TaskStore

FLUSH_AFTER_S: Final = 0.02
"""How long a finished task's outcome may wait to be recorded with others."""

LOOK_EVERY_S: Final = 2.0
"""How often tasks that take their time on the event loop are asked for: nobody may wait for them any more."""

_ENDED_BY_SIGNAL: Final = frozenset(number - 256 for number in signal.valid_signals())

logger = logging.getLogger("phalanx.worker")

Done = tuple[BatchTask, Ended, float]
"""A task, how it ended, and how long it took in seconds."""


@dataclass(slots=True)
class BatchRun:
    """One batch, while this process runs it.

    Attributes:
        worker: this worker process.
        loop: the process's event loop.
        cache: the process's blobs.
        flusher: records what a slow task would hold back.
        killable: whether this process is ended from outside when a batch takes longer than its limit.
        savers: what keeps the threads of graphs that are called inside of tasks.
    """

    batch: Batch
    store: TaskStore
    registry: GraphRegistry
    serializer: Serializer
    cache: BlobCache
    loop: LoopThread
    worker: str
    flusher: Flusher
    killable: bool = False
    savers: Savers = field(default_factory=Savers)
    packer: Packer = field(init=False)
    outcomes: dict[str, bytes] = field(default_factory=dict[str, bytes])
    retries: dict[str, bytes] = field(default_factory=dict[str, bytes])
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
            blueprint = blueprint_at(found.blueprint, self.batch.namespace)
            prepared = _Prepared.of(self.batch, tasks, blueprint, found.saver, self)
        except Exception as error:
            self._refuse(tasks, error)
            return len(tasks)
        self.flushed_at = time.monotonic()
        with self.flusher.watching(self.flush_if_due):
            for task, ended, seconds in self._run(tasks, prepared):
                self._conclude(task, ended, seconds, prepared)
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
            if self.outcomes or self.retries:
                self.store.record(self.outcomes, self.packer.new_blobs, self.retries)
                self.packer.take_blobs()
                self.outcomes, self.retries = {}, {}
            self.flushed_at = time.monotonic()

    def _run(self, tasks: Sequence[BatchTask], prepared: "_Prepared") -> Iterator[Done]:
        nodes = prepared.blueprint.nodes
        on_loop = [task for task in tasks if nodes[task.node].is_async]
        running = _OnLoop.start(on_loop, prepared, self.loop) if on_loop else None
        for task in tasks:
            if not nodes[task.node].is_async:
                yield self._execute(task, prepared)
        while running is not None and running.left:
            done = running.next(LOOK_EVERY_S)
            if done is not None:
                yield done
            elif self.store.is_over():
                self.store.give_back(running.cancel())

    def _execute(self, task: BatchTask, prepared: "_Prepared") -> Done:
        """Run a task in this thread; with a time limit that ends this process, if need be."""
        started = time.perf_counter()
        attempt = prepared.attempt(task)
        limit_s = attempt.process_limit_s

        def out_of_time() -> None:
            error = NodeTimeoutError(task.node, time.perf_counter() - started, kind="run", run_timeout=limit_s)
            self._conclude(task, attempt.raised(error), time.perf_counter() - started, prepared)
            self.flush()
            logger.warning("%s Its process ends", error)

        ended: Ended
        try:
            with nullcontext() if limit_s is None else ends_process_after(limit_s, out_of_time):
                ended = attempt.run_here()
        except BaseException as error:  # also SystemExit: it is the node's, and a task without an outcome is missed
            if _ends_the_process(error):
                raise
            ended = Raised(note_task(error, task.node, task.id))
        return task, _with_answers(ended, attempt.context, task), time.perf_counter() - started

    def _add(self, task: BatchTask, outcome: Outcome) -> None:
        (self.outcomes if outcome.is_final else self.retries)[task.id] = outcome.pack()

    def _conclude(self, task: BatchTask, ended: Ended, seconds: float, prepared: "_Prepared") -> None:
        """Note a task's outcome, and the blobs it refers to, for the next time they are recorded."""
        with self._lock:
            if isinstance(ended, Wrote):
                kind = OutcomeKind.CACHED if ended.cached else OutcomeKind.WRITES
                try:
                    writes = self.packer.pack_writes(ended.writes, lambda write: _name_of_write(task.node, write))
                    path = path_text(task.path) if prepared.blueprint.deltas else ""
                    outcome = Outcome(kind, task.attempt, self.worker, seconds, writes, drain=prepared.drain, path=path)
                    self._add(task, outcome)
                    return
                except Exception as error:  # the node returned what cannot travel
                    ended = Raised(note_task(error, task.node, task.id))
            blueprint, drain = prepared.blueprint, prepared.drain
            made = partial(
                failure_outcome, blueprint, self.serializer, task, worker=self.worker, seconds=seconds, drain=drain
            )
            try:
                outcome = made(ended)
            except Exception as error:  # the node asked what cannot travel
                outcome = made(Raised(note_task(error, task.node, task.id)))
            self._add(task, outcome)

    def _refuse(self, tasks: Sequence[BatchTask], error: Exception) -> None:
        """No task of the batch can run here: tell each why."""
        encoded = self.serializer.dumps(encode_exception(error))
        with self._lock:
            for task in tasks:
                self._add(task, Outcome(OutcomeKind.ERROR, task.attempt, self.worker, 0.0, error=encoded))
        self.flush()


def _with_answers(ended: Ended, context: TaskContext, task: BatchTask) -> Ended:
    """How an attempt ended, with the answers of a task that took one to no question."""
    if not (task.loose and isinstance(ended, Raised) and context.answers):
        return ended
    return replace(ended, answers=context.answers)


def _name_of_write(node: str, write: Update) -> str:
    channel, value = write
    if channel == TASKS:
        return f"node {node!r}, the argument of its Send to {cast('Send', value).node!r}"
    return f"node {node!r}, state key {channel!r}"


def _ends_the_process(error: BaseException) -> bool:
    """Whether it is no error of the node: Celery's pool raises it in whatever runs when a signal ends the process."""
    return isinstance(error, SystemExit) and error.code in _ENDED_BY_SIGNAL


@dataclass(slots=True)
class _OnLoop:
    """The tasks of a batch that run side by side on the process's event loop.

    Attributes:
        left: what cancels each that has not ended, by task id.
    """

    left: dict[str, Callable[[], object]] = field(default_factory=dict[str, "Callable[[], object]"])
    _done: SimpleQueue[Done] = field(default_factory=lambda: SimpleQueue[Done]())

    @classmethod
    def start(cls, tasks: Sequence[BatchTask], prepared: "_Prepared", loop: LoopThread) -> "_OnLoop":
        running = cls()
        for task in tasks:
            running.left[task.id] = loop.start(running._execute(task, prepared))
        return running

    async def _execute(self, task: BatchTask, prepared: "_Prepared") -> None:
        started = time.perf_counter()
        ended: Ended
        attempt = prepared.attempt(task)
        try:
            ended = await attempt_on_loop(attempt)
        except BaseException as error:
            ended = Raised(note_task(error, task.node, task.id))
        ended = _with_answers(ended, attempt.context, task)
        self._done.put((task, ended, time.perf_counter() - started))

    def next(self, timeout_s: float) -> Done | None:
        """The next to end; ``None`` when none does in time."""
        try:
            done = self._done.get(timeout=timeout_s)
        except Empty:
            return None
        del self.left[done[0].id]
        return done

    def cancel(self) -> list[str]:
        """Cancel what has not ended. Returns the ids; how they end is of no interest."""
        left, self.left = self.left, {}
        for cancel in left.values():
            cancel()
        return [*left]


@dataclass(slots=True)
class _Prepared:
    """A batch with its graph found and its references resolved."""

    batch: Batch
    blueprint: Blueprint
    view: StateView
    blobs: Mapping[str, bytes]
    serializer: Serializer
    context: RunContext
    killable: bool

    @classmethod
    def of(
        cls, batch: Batch, tasks: Sequence[BatchTask], blueprint: Blueprint, own_saver: object, run: BatchRun
    ) -> "_Prepared":
        arguments: list[Ref] = [task.arg for task in tasks if task.arg is not None]
        blobs = resolve([*batch.state.values(), *arguments], run.cache, run.store.fetch_blobs)
        channels: dict[str, Channel] = {}
        names = {
            name
            for task in tasks
            for name in blueprint.channels_read(task.node, pushed=task.arg is not None, failed=task.failed)
        }
        for name in names:
            ref = batch.state.get(name)
            stored = MISSING if ref is None else run.serializer.loads(bytes_of(ref, blobs))
            channels[name] = blueprint.channels[name].receive(stored)
        around = cast("tuple[RunnableConfig, object, str | None, object]", run.serializer.loads(batch.around))
        config, context, drain, told = around
        control = RunControl()
        if drain is not None:
            control.request_drain(drain)
        lineage = lineage_from_plain(told, replace(run.savers, own=own_saver))
        shared = RunContext(config, context, blueprint.store, control, lineage=lineage)
        view = StateView(channels, StepLimits(batch.step, batch.stop))
        return cls(batch, blueprint, view, blobs, run.serializer, shared, run.killable)

    def attempt(self, task: BatchTask) -> Attempt:
        """One attempt of a task of the batch, to be run on the event loop or in this thread."""
        node = self.blueprint.nodes[task.node]
        if task.ran:
            node = replace(node, actions=())
        shared = self.context
        if task.loose:
            loose = LooseAnswer(*cast("list[object]", self.serializer.loads(task.loose)))
            shared = replace(shared, lineage=replace(shared.lineage, loose=loose))
        context = TaskContext.of_batch(shared, self.batch, task, time.time())
        if task.answers:
            context.answers = cast("list[object]", self.serializer.loads(task.answers))
        if task.failed:
            context.error = NodeError(task.failed, decode_exception(self.serializer.loads(task.error)))
        packed = task.arg
        arg = None if packed is None else (lambda: self.serializer.loads(bytes_of(packed, self.blobs)))
        timeout = task.timeout or node.policies.timeout
        return Attempt(self.blueprint, node, self.view, context, arg, timeout, self.killable)

    @property
    def drain(self) -> str | None:
        """Why a node of the batch asked the run to stop, if one did."""
        control = self.context.control
        return None if control is None else control.drain_reason
