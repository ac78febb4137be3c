"""The cluster loop: carries a run's orders out over workers.

The loop is synchronous and decides nothing that matters to the result. It hands tasks out, waits at its inbox for
doorbells, reads the outcomes they point at, and brings them to the run. Doorbells are hints: once a second it also
looks for outcomes whose bell it did not hear, for tasks whose worker process is gone, and for messages that got lost.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from redis import Redis
from redis.exceptions import RedisError

from phalanx.checkpoint.packing import Packed
from phalanx.checkpoint.redis.client import BLOCK_S
from phalanx.checkpoint.redis.thread_store import RENEW_EVERY_S, Lease
from phalanx.checkpoint.serde import Serializer, decode_exception
from phalanx.coordinator.batches import Address, BatchMaker
from phalanx.coordinator.broker import Broker
from phalanx.coordinator.handout import HandOut
from phalanx.coordinator.keeping import Keeping
from phalanx.coordinator.messages import (
    Commit,
    Dispatch,
    Emit,
    Event,
    Fail,
    Finish,
    Launch,
    Order,
    SaveWrites,
    TaskFailed,
    TaskFinished,
    WarnOfJoin,
)
from phalanx.coordinator.observe import RunObserver, tell_of_join, tell_of_step, tell_of_task
from phalanx.coordinator.plan import Task
from phalanx.coordinator.recorder import open_run, stamp
from phalanx.coordinator.roster import Roster, Workers
from phalanx.coordinator.run import Run, RunSettings
from phalanx.coordinator.timers import Timers
from phalanx.errors import ClusterError, ClusterUnreachableError, CorruptDataError, NodeLostError
from phalanx.protocol.doorbell import read_ring
from phalanx.protocol.outcome import Outcome, OutcomeKind
from phalanx.types import Send, Update
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.run_task import StateView, call_here, run_task, run_to_end
from phalanx.worker.task_context import RunContext, TaskContext, note_task

LOOK_EVERY_S: Final = 1.0
"""How often the loop looks for what no doorbell tells."""

UNCLAIMED_AFTER_S: Final = 5.0
"""How long a task may stay unclaimed, with nothing in the queue, before its message counts as lost."""

MAX_LOST: Final = 3
"""How many worker processes a task may take down."""

BACKSTOP_S: Final = 5.0
"""How much longer than its task may take a worker process lives, if it does not end itself when the time is up. Less
than the deadline of a heartbeat: what holds the interpreter holds that up too, and is a timeout rather than a death."""

SAY_WAITING_EVERY_S: Final = 3.0
_SAY_WAITING_AFTER_S: Final = 1.0
_RINGS_AT_ONCE: Final = 1000
_SHORTEST_WAIT_S: Final = 0.002  # Redis before 7.0.9 takes a millisecond and less for "as long as it takes"

logger = logging.getLogger("phalanx.coordinator")


@dataclass(frozen=True, slots=True)
class Connections:
    """What the runs of one cluster share. Safe to use from several threads.

    Attributes:
        url: the state server, for messages.
        closed: set when the cluster is closed, maybe while runs are under way.
    """

    url: str
    client: Redis
    broker: Broker
    roster: Roster
    serializer: Serializer
    closed: threading.Event = field(default_factory=threading.Event)


class StoppedError(BaseException):
    """The reader of a stream has left."""


@dataclass(slots=True)
class ClusterLoop:
    """The loop; see the module's header.

    Attributes:
        run: the run, once the loop has begun.
        stopping: set from another thread to leave the run where it is.
    """

    blueprint: Blueprint
    settings: RunSettings
    context: RunContext
    address: Address
    connections: Connections
    keeping: Keeping
    observer: RunObserver
    stopping: threading.Event = field(default_factory=threading.Event)
    run: Run = field(init=False)
    _log: logging.LoggerAdapter[logging.Logger] = field(init=False)
    _lease: Lease = field(init=False)
    _handout: HandOut = field(init=False)
    _batches: BatchMaker = field(init=False)
    _timers: Timers = field(default_factory=Timers)
    _failure: BaseException | None = None
    _renewed_at: float = 0.0
    _looked_at: float = 0.0
    _waiting_since: float | None = None
    _said_waiting_at: float = 0.0
    _workers: Workers = field(default_factory=Workers)

    def __post_init__(self) -> None:
        fields = {"run_id": self.address.run_id, "thread_id": self.address.thread_id, "graph": self.address.graph}
        self._log = logging.LoggerAdapter(logger, fields)

    def emits(self, given: object) -> Iterator[Emit]:
        """Drive the run to its end.

        Raises:
            ThreadBusyError: another run drives the thread.
            StaleLeaseError: another run has taken it in the meantime.
            ClusterError: the cluster was closed in the meantime.
            Exception: what ended the run.
        """
        self._batches = BatchMaker(self.blueprint, self.context, self.address, self.keeping.refs)
        limit = self.context.config.get("max_concurrency")
        self._handout = HandOut(frozenset(self.blueprint.async_nodes), limit=limit)
        try:
            self._lease = self.keeping.store.acquire(self.address.run_id)
            yield from self._with_lease(given)
        except Exception as error:
            if error is self._failure:  # a node's own trouble, maybe with a Redis of its own
                raise
            self._refuse_if_closed(error)
            if isinstance(error, RedisError):
                raise ClusterUnreachableError("state server", self.connections.url, str(error)) from error
            raise

    def _refuse_if_closed(self, error: Exception | None = None) -> None:
        """Say that it was closed, rather than what a connection says that is closed while it is used."""
        if self.connections.closed.is_set() and type(error) is not ClusterError:
            raise ClusterError(
                f"the cluster was closed while run {self.address.run_id} was under way; "
                f"a thread keeps what finished, and input None goes on with it"
            ) from error

    def _with_lease(self, given: object) -> Iterator[Emit]:
        self._renewed_at = time.monotonic()
        try:
            self.run, _ = open_run(self.blueprint, self.settings, self.keeping.load(self._lease))
            self.keeping.opened(self.run.state, self.run.position.checkpoint_id)
            orders = self.run.start(given, stamp(self.run))
            self.keeping.refs.update(self.run.state, self.run.unsaved)  # commands change the state without a commit
            self.keeping.run_again(self._lease, self.run.position.checkpoint_id, self.run.disowned)
            while True:
                for order in orders:
                    yield from self._carry_out(order)
                if isinstance(orders[-1], Finish):
                    return
                orders = self.run.close_step(stamp(self.run))
        finally:
            self._end()

    def _end(self) -> None:
        """Give the thread back. If the server is gone, the lease runs out by itself, and what went wrong matters."""
        try:
            self.keeping.end(self._lease)
            self.connections.client.unlink(self.address.inbox)
        except Exception as error:
            self._log.warning("run %s could not give its thread back: %s", self.address.run_id, error)

    def _carry_out(self, order: Order) -> Iterator[Emit]:
        if isinstance(order, Emit):
            yield order
        elif isinstance(order, Commit):
            self.keeping.commit(order, self.run.state, self._lease)
            self._renewed_at = time.monotonic()
        elif isinstance(order, SaveWrites):
            self.keeping.save_writes(order, recorded=False)
        elif isinstance(order, Fail):
            self._failure = order.error
            raise order.error
        elif isinstance(order, Dispatch):
            yield from self._execute(order)
        elif isinstance(order, Launch):
            self._timers.add(order, time.monotonic())
        elif isinstance(order, WarnOfJoin):
            tell_of_join(self.observer, self.blueprint, order)

    # --- one superstep ------------------------------------------------------------------------------------------------

    def _execute(self, order: Dispatch) -> Iterator[Emit]:
        """Have the tasks of a superstep executed, until its barrier is full."""
        nodes = self.blueprint.nodes
        tell_of_step(self.observer, order)
        self._handout.clear()
        self._timers.begin(self.blueprint.step_timeout_s, time.monotonic())
        for task in order.tasks:
            if not nodes[task.name].runs_user_code:
                yield from self._tell(_execute_here(task, self.run), worker=None)
        self._handout.add(task for task in order.tasks if nodes[task.name].runs_user_code)
        while not self.run.barrier_full:
            if self.stopping.is_set():
                raise StoppedError
            self._refuse_if_closed()
            self._check_times(time.monotonic())
            self._send()
            yield from self._collect(self._rung())
            now = time.monotonic()
            if now - self._renewed_at >= RENEW_EVERY_S:
                self.keeping.renew(self._lease)
                self._renewed_at = now
            if now - self._looked_at >= LOOK_EVERY_S:
                self._looked_at = now
                self._watch_workers()
                yield from self._look_after_flights(now)
        if self.stopping.is_set():  # what its tasks did is kept, and the next run applies it
            raise StoppedError

    def _check_times(self, now: float) -> None:
        """Launch what is due.

        Raises:
            TimeoutError: the superstep has taken too long.
        """
        if self._timers.out_of_time(now):
            left = [task_id for task_id in self.run.tasks if self.run.awaits(task_id)]
            self.keeping.store.void_claims(self._lease, "", self.run.position.checkpoint_id, left)
            raise self.run.timed_out()
        for launch in self._timers.due(now):
            if self.run.awaits(launch.task.id):  # else an earlier attempt came to its end after all
                self._handout.launch(launch)

    def _send(self) -> None:
        """Hand out what the window has room for."""
        if not self._handout.waiting:
            return
        workers = self._watch_workers()
        if not workers.slots:
            return
        handed = self._handout.next_batches(workers.slots, time.monotonic())
        batches = [(self._batches.batch(each, self.run, self._lease.token), each.limit_s) for each in handed]
        blobs = self.keeping.refs.packer.take_blobs()
        if blobs:
            self.keeping.store.store_blobs(blobs)
        for batch, limit_s in batches:
            latest_s = None if limit_s is None else limit_s + BACKSTOP_S
            self.connections.broker.send(batch, self.address.queue, latest_s)

    def _watch_workers(self) -> Workers:
        """See who is alive, and say so when that changed or when nobody is."""
        workers = self.connections.roster.serving(self.address.queue)
        if workers.ids != self._workers.ids:
            self._workers = workers
            self.observer.workers_changed(self.address.queue, len(workers.alive), workers.hosts)
        if workers.slots:
            self._waiting_since = None
        else:
            self._say_waiting()
        return workers

    def _say_waiting(self) -> None:
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since, self._said_waiting_at = now, now - SAY_WAITING_EVERY_S + _SAY_WAITING_AFTER_S
        if now - self._said_waiting_at >= SAY_WAITING_EVERY_S:
            self._said_waiting_at = now
            self.observer.waiting_for_workers(self.address.queue, now - self._waiting_since)
            self._log.warning(
                "no live worker serves queue %r; run %s waits (start one: phalanx worker --url … --graph %s=…)",
                self.address.queue,
                self.address.run_id,
                self.address.graph,
            )

    # --- outcomes -----------------------------------------------------------------------------------------------------

    def _rung(self) -> list[str]:
        """Wait for a doorbell, a moment at most, and answer it and all others: the tasks they name."""
        client, inbox = self.connections.client, self.address.inbox
        wait_s = self._patience_s(time.monotonic())
        if wait_s <= 0.0:
            return []
        wait_s = max(wait_s, _SHORTEST_WAIT_S)
        first = cast("tuple[bytes, bytes] | None", client.blpop([inbox], timeout=wait_s))
        if first is None:
            return []
        rung = self._named(first[1])
        if len(rung) < len(self._handout.flights):  # else nobody is left who could ring
            more = cast("list[bytes] | None", client.lpop(inbox, _RINGS_AT_ONCE))
            rung += [task_id for data in more or () for task_id in self._named(data)]
        return rung

    def _patience_s(self, now: float) -> float:
        """How long to wait for a doorbell before there is something else to do."""
        longest_s = BLOCK_S if self._handout.flights else BLOCK_S / 4
        due_in_s = self._timers.next_in(now)
        return longest_s if due_in_s is None else min(longest_s, due_in_s)

    def _named(self, ring: bytes) -> list[str]:
        try:
            checkpoint_id, task_ids = read_ring(ring)
        except CorruptDataError as error:  # a bell is a hint; what it should have said is found without it
            self._log.warning("run %s heard %s", self.address.run_id, error)
            return []
        return task_ids if checkpoint_id == self.run.position.checkpoint_id else []

    def _collect(self, task_ids: Sequence[str]) -> Iterator[Emit]:
        """Read the outcomes of tasks in flight, and tell the run."""
        asked = [task_id for task_id in task_ids if task_id in self.run.tasks]
        if not asked:
            return
        found = self.keeping.store.outcomes("", self.run.position.checkpoint_id, asked)
        for task_id, data in found.items():
            outcome = Outcome.unpack(data)
            self._handout.ended(task_id, outcome.seconds)
            yield from self._tell(self._event(task_id, outcome), worker=outcome.worker, recorded=True)
        yield from self._collect_retries([task_id for task_id in asked if task_id not in found])

    def _collect_retries(self, task_ids: Sequence[str]) -> Iterator[Emit]:
        """Read how attempts ended that are to be followed by another, and tell the run."""
        flights = self._handout.flights
        asked = [task_id for task_id in task_ids if task_id in flights]
        if not asked:
            return
        found = self.keeping.store.retries("", self.run.position.checkpoint_id, asked)
        for task_id, data in found.items():
            outcome = Outcome.unpack(data)
            if outcome.attempt < flights[task_id].attempt:  # of an attempt that was heard of before
                continue
            self._handout.tried(task_id, outcome.seconds, outcome.attempt)
            yield from self._tell(self._event(task_id, outcome), worker=outcome.worker)

    def _event(self, task_id: str, outcome: Outcome) -> Event:
        loads = self.connections.serializer.loads
        if outcome.drain is not None and self.context.control is not None:
            self.context.control.request_drain(outcome.drain)
        if outcome.kind not in (OutcomeKind.WRITES, OutcomeKind.CACHED):
            again_s = outcome.retry_after_s if outcome.kind is OutcomeKind.RETRY else None
            error = decode_exception(loads(outcome.error))
            return TaskFailed(task_id, error, outcome.tries, again_s, outcome.first_try_at)
        writes: list[Update] = [
            (write.channel, loads(cast("bytes", write.value)))
            if write.node is None
            else (write.channel, Send(write.node, Packed(write.value), timeout=write.timeout))
            for write in outcome.writes
        ]
        return TaskFinished(task_id, writes, cached=outcome.kind is OutcomeKind.CACHED)

    def _tell(self, event: Event, *, worker: str | None, recorded: bool = False) -> Iterator[Emit]:
        """Take an event to the run, and carry out what it orders.

        Args:
            worker: the worker process that the task ran in.
            recorded: whether that process has recorded the outcome.
        """
        task = self.run.tasks[event.task_id]
        orders = self.run.handle(event)
        if not orders:
            return
        tell_of_task(self.observer, self.run.position.step, task, event, orders, worker=worker)
        for order in orders:
            if isinstance(order, SaveWrites):
                self.keeping.save_writes(order, recorded=recorded)
            else:
                yield from self._carry_out(order)

    # --- what went wrong ----------------------------------------------------------------------------------------------

    def _look_after_flights(self, now: float) -> Iterator[Emit]:
        """Find outcomes without a bell, tasks whose worker process is gone, and tasks whose message is gone."""
        old = [flight.task.id for flight in self._handout.older_than(LOOK_EVERY_S, now)]
        if not old:
            return
        yield from self._collect(old)
        left = [task_id for task_id in old if task_id in self._handout.flights]
        claims = self._claims(left)
        dead = self.connections.roster.dead(worker for _, worker in claims.values())
        lost = {task_id: claim for task_id, claim in claims.items() if claim[1] in dead}
        if lost:  # what they still recorded before they died counts
            yield from self._collect([*lost])
            yield from self._lost({task_id: lost[task_id] for task_id in lost if task_id in self._handout.flights})
        self._resend([task_id for task_id in left if task_id not in claims], now)

    def _claims(self, task_ids: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Attempt and worker process of those tasks whose present attempt is claimed, or one after it.

        The claim of an attempt before says nothing: its process was found dead already.
        """
        found = self.keeping.store.claims("", self.run.position.checkpoint_id, task_ids)
        return {
            task_id: claim for task_id, claim in found.items() if claim[0] >= self._handout.flights[task_id].attempt
        }

    def _lost(self, claims: Mapping[str, tuple[int, str]]) -> Iterator[Emit]:
        """Hand tasks out again whose worker process is gone, unless that happened too often."""
        for worker, number in Counter(worker for _, worker in claims.values()).items():
            self._log.warning(
                "worker process %s is gone; run %s hands its %d tasks out again", worker, self.address.run_id, number
            )
            self.observer.worker_lost(worker, number)
        for task_id, (attempt, worker) in claims.items():
            flight = self._handout.lost(task_id, worker, attempt)
            if len(flight.lost_on) >= MAX_LOST:
                self._handout.give_up(task_id)
                error = NodeLostError(flight.task.name, task_id, len(flight.lost_on), flight.lost_on)
                yield from self._tell(TaskFailed(task_id, note_task(error, flight.task.name, task_id)), worker=worker)

    def _resend(self, task_ids: Sequence[str], now: float) -> None:
        """Hand tasks out again that nobody claimed although nothing waits in the queue: their message is gone."""
        stale = [
            task_id
            for task_id in task_ids
            if task_id in self._handout.flights and now - self._handout.flights[task_id].since >= UNCLAIMED_AFTER_S
        ]
        if not stale or self.connections.broker.depth(self.address.queue):
            return
        self._log.warning(
            "run %s: %d tasks were never claimed; handing them out again", self.address.run_id, len(stale)
        )
        for task_id in stale:
            self._handout.unclaimed(task_id)


def _execute_here(task: Task, run: Run) -> Event:
    """Execute a task that runs no user code."""
    node = run.blueprint.nodes[task.name]
    view = StateView(run.state.channels)
    try:
        value = task.arg if task.is_push else view.read(node.reader)
        context = TaskContext(RunContext({}), task.name, task.id, task.path, task.triggers, run.position.step)
        return TaskFinished(task.id, run_to_end(run_task(node, value, view, call_here, context)))
    except Exception as error:
        return TaskFailed(task.id, note_task(error, task.name, task.id))
