"""The cluster loop: carries the orders of a run, and of the runs inside of it, out over workers.

The loop is synchronous and decides nothing that matters to the result. It hands tasks out, waits at its inbox for
doorbells, reads the outcomes they point at, and brings them to the run they belong to. Doorbells are hints: once a
second it also looks for outcomes whose bell it did not hear, for tasks whose worker process is gone, and for messages
that got lost.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, cast

from redis import Redis
from redis.exceptions import RedisError

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.checkpoint.packing import Packed, bytes_of
from phalanx.checkpoint.redis.client import BLOCK_S
from phalanx.checkpoint.redis.thread_store import RENEW_EVERY_S, Lease
from phalanx.checkpoint.serde import Serializer, decode_exception
from phalanx.coordinator.batches import Address, BatchMaker
from phalanx.coordinator.broker import Broker
from phalanx.coordinator.handout import HandOut, Lane
from phalanx.coordinator.inline import event_of, lineage_below
from phalanx.coordinator.keeping import Keeping
from phalanx.coordinator.lost_tasks import LOOK_EVERY_S, LostTasks
from phalanx.coordinator.members import Above, InsideGraph, Member
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
    TaskInterrupted,
    WarnOfJoin,
)
from phalanx.coordinator.observe import SILENT, RunObserver, tell_of_join, tell_of_step, tell_of_task
from phalanx.coordinator.opening import Opened, Place, opened_anew
from phalanx.coordinator.plan import Task
from phalanx.coordinator.recorder import open_run, stamp
from phalanx.coordinator.roster import Roster, Workers
from phalanx.coordinator.run import Run
from phalanx.coordinator.terms import RunSettings
from phalanx.errors import (
    ClusterError,
    ClusterUnreachableError,
    CorruptDataError,
    ParentCommand,
    ThreadBusyError,
    mark_invalid_resume,
)
from phalanx.protocol.batch import Batch
from phalanx.protocol.doorbell import read_ring
from phalanx.protocol.names import RESUME
from phalanx.protocol.outcome import Outcome, OutcomeKind
from phalanx.types import Command, Send, Update
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.lineage import LooseAnswer, levels
from phalanx.worker.run_task import StateView, call_here, run_task, run_to_end
from phalanx.worker.task_context import RunContext, TaskContext, note_task

if TYPE_CHECKING:
    from phalanx.types import Interrupt

BACKSTOP_S: Final = 5.0
"""How much longer than its task may take a worker process lives, if it does not end itself when the time is up. Less
than the deadline of a heartbeat: what holds the interpreter holds that up too, and is a timeout rather than a death."""

SAY_WAITING_EVERY_S: Final = 3.0
_SAY_WAITING_AFTER_S: Final = 1.0
_SHORTEST_TURN_S, _LONGEST_TURN_S = 0.02, 0.5  # how often a run asks for a thread that another drives
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


MakeKeeping = Callable[[Blueprint, RunContext, "Place | None", "BaseCheckpointSaver | None"], Keeping]
"""Where a run inside keeps its checkpoints, in the thread of the outermost."""


class StoppedError(BaseException):
    """The reader of a stream has left."""


@dataclass(slots=True)
class ClusterLoop:
    """The loop; see the module's header.

    Attributes:
        keeping: where the outermost run keeps its checkpoints.
        keep_inside: where those inside do.
        run: the outermost run, once the loop has begun.
        stopping: set from another thread to leave the run where it is.
        waits: whether to wait for the thread when another run drives it.
    """

    blueprint: Blueprint
    settings: RunSettings
    context: RunContext
    address: Address
    connections: Connections
    keeping: Keeping
    keep_inside: MakeKeeping
    observer: RunObserver
    stopping: threading.Event = field(default_factory=threading.Event)
    waits: bool = False
    run: Run = field(init=False)
    _root: Member = field(init=False)
    _owners: dict[str, Member] = field(default_factory=dict[str, Member])
    _timed: dict[Member, None] = field(default_factory=dict[Member, None])  # those that may wait for a moment
    _log: logging.LoggerAdapter[logging.Logger] = field(init=False)
    _lease: Lease = field(init=False)
    _handout: HandOut = field(init=False)
    _lost: LostTasks = field(init=False)
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
        batches = BatchMaker(self.blueprint, self.context, self.address, self.keeping.refs, self.keeping.namespace)
        self._handout = HandOut(self.context.config.get("max_concurrency"))
        self._lost = LostTasks(self._handout, self.connections.roster, self.connections.broker, self.address, self._log)
        try:
            self._lease = self._acquire()
            yield from self._with_lease(given, batches)
        except Exception as error:
            if error is self._failure:  # a node's own trouble, maybe with a Redis of its own
                raise
            self._refuse_if_closed(error)
            if isinstance(error, RedisError):
                raise ClusterUnreachableError("state server", self.connections.url, str(error)) from error
            raise

    def _acquire(self) -> Lease:
        wait_s = _SHORTEST_TURN_S
        while True:
            try:
                return self.keeping.store.acquire(self.address.run_id)
            except ThreadBusyError:
                if not self.waits:
                    raise
            if self.stopping.wait(wait_s):
                raise StoppedError
            self._refuse_if_closed()
            wait_s = min(2 * wait_s, _LONGEST_TURN_S)

    def _refuse_if_closed(self, error: Exception | None = None) -> None:
        """Say that it was closed, rather than what a connection says that is closed while it is used."""
        if self.connections.closed.is_set() and type(error) is not ClusterError:
            raise ClusterError(
                f"the cluster was closed while run {self.address.run_id} was under way; "
                f"a thread keeps what finished, and input None goes on with it"
            ) from error

    def _with_lease(self, given: object, batches: BatchMaker) -> Iterator[Emit]:
        self._renewed_at = time.monotonic()
        try:
            opened = self.keeping.load(self._lease, self.blueprint, given)
            root = self._root = self._member(opened, self.settings, self.context, self.keeping, batches)
        except Exception:  # nothing has begun: there is only the lease to give back
            self.keeping.end(self._lease, ())
            raise
        self.run = root.run
        try:
            yield from self._advance(root, self._begin(root, given))
            while not root.ended:
                yield from self._wait()
            if self.stopping.is_set():  # what its tasks did is kept, and the next run applies it
                raise StoppedError
        finally:
            self._end()

    def _member(
        self,
        opened: Opened,
        settings: RunSettings,
        context: RunContext,
        keeping: Keeping,
        batches: BatchMaker,
        above: Above | None = None,
    ) -> Member:
        blueprint = batches.blueprint
        where = context.lineage.namespace
        run, _ = open_run(blueprint, settings, opened.found, where, opened.beginning, opened.histories)
        keeping.opened(run.state, run.position.checkpoint_id)
        graph = "" if above is None else f"{above.member.lane.graph}|{above.task.name}"
        lane = Lane(frozenset(blueprint.async_nodes), where, graph)
        return Member(run, blueprint, context, keeping, batches, lane, above)

    def _begin(self, member: Member, given: object) -> list[Order]:
        """Start a run, and tell what is inside of it what that has to know."""
        run = member.run
        opened_at = run.position
        orders = run.start(given, stamp(run))
        lineage = lineage_below(run, opened_at, member.context.lineage)
        if lineage is not member.context.lineage:
            member.context = member.batches.context = replace(member.context, lineage=lineage)
            member.batches.pack_again()
        member.keeping.refs.update(run.state, run.unsaved)  # commands change the state without a commit
        member.keeping.run_again(self._lease, run)
        return orders

    def _end(self) -> None:
        """Give the thread back. If the server is gone, the lease runs out by itself, and what went wrong matters."""
        try:
            for member in [*self._root.family()]:
                if member is not self._root and member.keeping.passing:
                    member.keeping.end_inside(self._lease)
            self.keeping.end(self._lease, [each.keeping.step for each in self._root.family() if each is not self._root])
            self.connections.client.unlink(self.address.inbox)
        except Exception as error:
            self._log.warning("run %s could not give its thread back: %s", self.address.run_id, error)

    # --- orders -------------------------------------------------------------------------------------------------------

    def _advance(self, member: Member, orders: Sequence[Order]) -> Iterator[Emit]:
        """Carry orders out, and what follows from them, until the run waits for tasks or has come to its end."""
        while True:
            for order in orders:
                if isinstance(order, Fail):
                    yield from self._failed(member, order.error)
                    return
                yield from self._carry_out(member, order)
            if isinstance(orders[-1], Finish):
                yield from self._finished(member)
                return
            if not member.run.barrier_full:
                return
            if self.stopping.is_set():
                raise StoppedError
            orders = member.run.close_step(stamp(member.run))

    def _carry_out(self, member: Member, order: Order) -> Iterator[Emit]:
        if isinstance(order, Emit):
            yield order if member is self._root else replace(order, namespace=levels(member.lane.namespace))
        elif isinstance(order, Commit):
            member.keeping.commit(order, member.run.state, self._lease)
            self._stay_alive(time.monotonic())
        elif isinstance(order, SaveWrites):
            member.keeping.save_writes(order, self._lease, recorded=False)
        elif isinstance(order, Dispatch):
            yield from self._dispatch(member, order)
        elif isinstance(order, Launch):
            self._owners[order.task.id] = member
            member.timers.add(order, time.monotonic())
            self._timed[member] = None
        elif isinstance(order, WarnOfJoin):
            tell_of_join(self._observer_of(member), member.blueprint, order)

    def _observer_of(self, member: Member) -> RunObserver:
        """Who is told of a run; what graphs inside do is their nodes' affair."""
        return self.observer if member is self._root else SILENT

    def _dispatch(self, member: Member, order: Dispatch) -> Iterator[Emit]:
        """Give the tasks of a superstep out: to workers, to runs of their own, or to be executed here."""
        nodes = member.blueprint.nodes
        tell_of_step(self._observer_of(member), order)
        member.timers.begin(member.blueprint.step_timeout_s, time.monotonic())
        self._timed[member] = None
        member.dispatching = True
        loose = member.context.lineage.loose.take()
        for task in order.tasks:
            self._owners[task.id] = member
            if not nodes[task.name].runs_user_code:
                yield from self._tell(member, _execute_here(task, member), worker=None)
            elif task.name in member.graphs:
                yield from self._begin_inside(member, Launch(task), loose)
                loose = []
            else:
                if loose:
                    member.batches.loose[task.id], loose = loose, []
                self._handout.add([task], member.lane)
        member.dispatching = False

    # --- graphs inside ------------------------------------------------------------------------------------------------

    def _begin_inside(self, member: Member, launch: Launch, loose: Sequence[object] = ()) -> Iterator[Emit]:
        """Begin the run of a graph that a task's node is."""
        graph = member.graphs[launch.task.name]
        launch = replace(launch, first_try_at=launch.first_try_at or time.time())
        try:
            inside, orders = self._open_inside(member, graph, launch, loose)
        except RedisError:
            raise
        except Exception as error:  # the input does not fit, or what was stored cannot be read
            yield from self._tell(member, _failed_attempt(member, launch, error), worker=None)
            return
        member.inside[inside] = None
        yield from self._advance(inside, orders)

    def _open_inside(
        self, member: Member, graph: InsideGraph, launch: Launch, loose: Sequence[object]
    ) -> tuple[Member, list[Order]]:
        attempt = member.attempt(launch)
        call = graph.called_in(attempt.context)
        task = launch.task
        node = member.blueprint.nodes[task.name]
        value = self._argument(member, task) if task.is_push else attempt.view.read(node.reader)
        context = call.context
        if loose:
            context = replace(context, lineage=replace(context.lineage, loose=LooseAnswer(*loose)))
        keeping = self.keep_inside(graph.blueprint, context, call.place, call.saver)
        batches = BatchMaker(graph.blueprint, context, self.address, keeping.refs, keeping.namespace)
        place = call.place
        known = not member.fresh or (place is not None and (place.lasts or place.checkpoint_id is not None))
        opened = keeping.load(self._lease, graph.blueprint, value) if known else opened_anew(context.lineage)
        inside = self._member(opened, call.settings, context, keeping, batches, Above(member, launch))
        return inside, self._begin(inside, value)

    def _argument(self, member: Member, task: Task) -> object:
        """A packet's argument, which may still be serialized."""
        if not isinstance(task.arg, Packed):
            return task.arg
        blobs = member.keeping.resolve([task.arg.ref])
        return self.connections.serializer.loads(bytes_of(task.arg.ref, blobs))

    def _finished(self, member: Member) -> Iterator[Emit]:
        """A run has come to its end, or to a question: tell the one that it belongs to."""
        member.ended = True
        if member.above is None:
            return
        run, above = member.run, member.above
        if run.interrupted:
            self._leave_if_not_kept(member)
            event: Event = TaskInterrupted(above.task.id, run.questions)
            yield from self._tell(above.member, event, worker=None)
        else:
            self._leave(member)
            yield from self._came_to(above, run.output())
        yield from self._settle(above.member)

    def _failed(self, member: Member, error: BaseException) -> Iterator[Emit]:
        """A run has failed: that ends the outermost; a task of another run deals with it as its policies say."""
        member.ended = True
        if member.above is None:
            self._failure = error
            raise error
        above = member.above
        if isinstance(error, ParentCommand):  # as if the node had returned it
            self._leave(member)
            yield from self._came_to(above, replace(cast("Command[str]", error.args[0]), graph=None))
        else:
            self._leave_if_not_kept(member)
            yield from self._tell(above.member, _failed_attempt(above.member, above.launch, error), worker=None)
        yield from self._settle(above.member)

    def _leave_if_not_kept(self, member: Member) -> None:
        """A run inside has ended early: when its task is begun again, so is the run, if nothing of it is kept."""
        if member.keeping.passing:
            self._leave(member)

    def _leave(self, member: Member) -> None:
        """A run inside has come to its end, and nothing of it is needed."""
        for each in member.family():
            each.keeping.end_inside(self._lease)
        assert member.above is not None
        del member.above.member.inside[member]

    def _came_to(self, above: Above, output: object) -> Iterator[Emit]:
        """A node's graph has run: make writes of what it came to. Paths are the user's code, and follow in a worker."""
        member, task = above.member, above.task
        node = member.blueprint.nodes[task.name]
        if node.branches:
            member.batches.outputs[task.id] = output
            self._handout.add([replace(task, timeout=None)], member.lane)
            return
        try:
            node_without = replace(node, actions=())
            attempt = member.attempt(above.launch)
            writes = run_to_end(run_task(node_without, output, attempt.view, call_here, attempt.context))
            event: Event = TaskFinished(task.id, writes)
        except Exception as error:
            event = _failed_attempt(member, above.launch, error)
        yield from self._tell(member, event, worker=None)

    def _settle(self, member: Member) -> Iterator[Emit]:
        """Go on with a run whose superstep may be over."""
        if not member.dispatching and not member.ended and member.run.barrier_full:
            if self.stopping.is_set():
                raise StoppedError
            yield from self._advance(member, member.run.close_step(stamp(member.run)))

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self) -> Iterator[Emit]:
        """Wait for something to happen, and deal with it."""
        if self.stopping.is_set():
            raise StoppedError
        self._refuse_if_closed()
        yield from self._check_times(time.monotonic())
        if self._root.ended:
            return
        self._send()
        yield from self._collect(self._rung())
        now = time.monotonic()
        if self._root.ended:
            return
        self._stay_alive(now)
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._watch_workers()
            yield from self._look_after_flights(now)

    def _stay_alive(self, now: float) -> None:
        """Renew the lease when it is time, also while there is much to do: a commit by itself renews nothing."""
        if now - self._renewed_at >= RENEW_EVERY_S:
            root = self._root
            inside = [member.keeping.step for member in root.family() if member is not root]
            self.keeping.store.renew(self._lease, root.keeping.step[1], inside)
            self._renewed_at = now

    def _check_times(self, now: float) -> Iterator[Emit]:
        """Launch what is due, and end what has taken too long."""
        self._timed = {each: None for each in self._timed if each.timers.running and not each.ended}
        for member in [*self._timed]:
            if member.ended:  # with one before it
                continue
            if member.timers.out_of_time(now):
                yield from self._out_of_time(member)
                continue
            for launch in member.timers.due(now):
                if not member.run.awaits(launch.task.id):  # an earlier attempt came to its end after all
                    continue
                if launch.task.name in member.graphs:
                    yield from self._begin_inside(member, launch)
                    yield from self._settle(member)
                else:
                    self._handout.launch(launch, member.lane)

    def _out_of_time(self, member: Member) -> Iterator[Emit]:
        error = member.run.timed_out()
        for each in [*member.family()]:
            left = [task_id for task_id in each.run.tasks if each.run.awaits(task_id)]
            each.keeping.store.void_claims(self._lease, *each.keeping.step, left)
            self._handout.drop(left)
            each.ended = True
        yield from self._failed(member, error)

    def _send(self) -> None:
        """Hand out what the window has room for."""
        if not self._handout.waiting:
            return
        workers = self._watch_workers()
        if not workers.slots:
            return
        handed = self._handout.next_batches(workers.slots, time.monotonic())
        blobs: dict[str, bytes] = {}
        batches: list[tuple[Batch, float | None]] = []
        for each in handed:
            member = self._owners[each.tasks[0].task.id]
            batches.append((member.batches.batch(each, member.run, self._lease.token), each.limit_s))
            blobs |= member.keeping.refs.packer.take_blobs()
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
        due = [member.timers.next_in(now) for member in self._timed if not member.ended]
        return min([longest_s, *(each for each in due if each is not None)])

    def _named(self, ring: bytes) -> list[str]:
        try:
            checkpoint_id, task_ids = read_ring(ring)
        except CorruptDataError as error:  # a bell is a hint; what it should have said is found without it
            self._log.warning("run %s heard %s", self.address.run_id, error)
            return []
        known = [task_id for task_id in task_ids if task_id in self._owners]
        return [each for each in known if self._owners[each].run.position.checkpoint_id == checkpoint_id]

    def _by_member(self, task_ids: Iterable[str]) -> Mapping[Member, list[str]]:
        found: dict[Member, list[str]] = {}
        for task_id in task_ids:
            found.setdefault(self._owners[task_id], []).append(task_id)
        return found

    def _collect(self, task_ids: Sequence[str]) -> Iterator[Emit]:
        """Read the outcomes of tasks, and tell the runs they belong to."""
        for member, asked in self._by_member(each for each in task_ids if each in self._owners).items():
            found = self.keeping.store.outcomes(*member.keeping.step, asked)
            for task_id, data in found.items():
                outcome = Outcome.unpack(data)
                self._stay_alive(time.monotonic())
                self._handout.ended(task_id, outcome.seconds)
                yield from self._tell(member, self._event(task_id, outcome), worker=outcome.worker, recorded=True)
            yield from self._collect_retries(member, [task_id for task_id in asked if task_id not in found])
            yield from self._settle(member)

    def _collect_retries(self, member: Member, task_ids: Sequence[str]) -> Iterator[Emit]:
        """Read how attempts ended that are to be followed by another, and tell the run."""
        flights = self._handout.flights
        asked = [task_id for task_id in task_ids if task_id in flights]
        if not asked:
            return
        found = self.keeping.store.retries(*member.keeping.step, asked)
        for task_id, data in found.items():
            outcome = Outcome.unpack(data)
            if outcome.attempt < flights[task_id].attempt:  # of an attempt that was heard of before
                continue
            self._handout.tried(task_id, outcome.seconds, outcome.attempt)
            yield from self._tell(member, self._event(task_id, outcome), worker=outcome.worker)

    def _event(self, task_id: str, outcome: Outcome) -> Event:
        loads = self.connections.serializer.loads
        if outcome.drain is not None and self.context.control is not None:
            self.context.control.request_drain(outcome.drain)
        answers = cast("list[object]", loads(outcome.answers)) if outcome.answers else ()
        if outcome.kind is OutcomeKind.INTERRUPTED:
            return TaskInterrupted(task_id, cast("list[Interrupt]", loads(outcome.error)), answers=answers)
        if outcome.kind not in (OutcomeKind.WRITES, OutcomeKind.CACHED):
            again_s = outcome.retry_after_s if outcome.kind is OutcomeKind.RETRY else None
            error = decode_exception(loads(outcome.error))
            if outcome.kind is OutcomeKind.INVALID_ANSWER:
                mark_invalid_resume(error)
            return TaskFailed(task_id, error, outcome.tries, again_s, outcome.first_try_at, answers=answers)
        writes: list[Update] = [
            (write.channel, loads(cast("bytes", write.value)))
            if write.node is None
            else (write.channel, Send(write.node, Packed(write.value), timeout=write.timeout))
            for write in outcome.writes
        ]
        return TaskFinished(task_id, writes, cached=outcome.kind is OutcomeKind.CACHED)

    def _tell(self, member: Member, event: Event, *, worker: str | None, recorded: bool = False) -> Iterator[Emit]:
        """Take an event to the run it belongs to, and carry out what that orders.

        Args:
            worker: the worker process that the task ran in.
            recorded: whether that process has recorded the outcome.
        """
        task = member.run.tasks.get(event.task_id)
        orders = member.run.handle(event)
        if not orders or task is None:
            return
        if not member.run.awaits(task.id):
            self._owners.pop(task.id, None)
            member.batches.outputs.pop(task.id, None)
        tell_of_task(self._observer_of(member), member.run.position.step, task, event, orders, worker=worker)
        for order in orders:
            if isinstance(order, SaveWrites):
                about_answers = any(channel == RESUME for channel, _ in order.writes)
                member.keeping.save_writes(order, self._lease, recorded=recorded and not about_answers)
            else:
                yield from self._carry_out(member, order)

    # --- what went wrong ----------------------------------------------------------------------------------------------

    def _look_after_flights(self, now: float) -> Iterator[Emit]:
        """Find outcomes without a bell, tasks whose worker process is gone, and tasks whose message is gone."""
        old = self._lost.old(now)
        if not old:
            return
        yield from self._collect(old)
        if self._root.ended:
            return
        claims: dict[str, tuple[int, str]] = {}
        left = [task_id for task_id in old if task_id in self._handout.flights]
        for member, asked in self._by_member(left).items():
            claims |= self._lost.standing(self.keeping.store.claims(*member.keeping.step, asked))
        lost = self._lost.dead(claims)
        if lost:  # what they still recorded before they died counts
            yield from self._collect([*lost])
            for task_id, error in self._lost.hand_out_again(lost, self.observer):
                member = self._owners[task_id]
                event = TaskFailed(task_id, note_task(error, error.node, task_id))
                yield from self._tell(member, event, worker=lost[task_id][1])
                yield from self._settle(member)
        self._lost.resend([task_id for task_id in left if task_id not in claims], now)


def _failed_attempt(member: Member, launch: Launch, error: BaseException) -> Event:
    """What an error of a task that ran here means, by its node's policies."""
    return event_of(launch, member.attempt(launch).raised(error))


def _execute_here(task: Task, member: Member) -> Event:
    """Execute a task that runs no user code."""
    run = member.run
    node = member.blueprint.nodes[task.name]
    view = StateView(run.state.channels)
    try:
        value = task.arg if task.is_push else view.read(node.reader)
        context = TaskContext(RunContext({}), task.name, task.id, task.path, task.triggers, run.position.step)
        return TaskFinished(task.id, run_to_end(run_task(node, value, view, call_here, context)))
    except Exception as error:
        return TaskFailed(task.id, note_task(error, task.name, task.id))
