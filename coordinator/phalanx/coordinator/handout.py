"""Handing tasks out: how many, in batches of which size, and what is handed out again. Pure.

A coordinator keeps most of a superstep's tasks to itself and hands out only a *window*: a few batches for each slot
that is alive. So the queue stays short, a cancelled run leaves nothing behind, and a worker that comes late finds
work.

Batches adapt to how long a node takes: quick tasks go many to a message, since a message costs as much as many of
them; slow ones one to a message, since a batch is done by one slot. Until a node's pace is known its tasks go one by
one. Towards the end batches shrink, so that all slots end together.

Tasks of coroutine nodes spend their time waiting, and one slot runs a whole batch of them side by side; their batches
are large whatever their pace.

A task that lost its worker process travels alone: should it be what kills them, it takes no other task down with it.
So does a task that runs in a thread and has a time limit: the limit is the batch's, and ends the process.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Final, NamedTuple

from phalanx.coordinator.messages import Launch
from phalanx.coordinator.plan import Task

BATCHES_PER_SLOT: Final = 2
"""The window: one batch to run, and one to go on with at once."""

TARGET_BATCH_S: Final = 0.05
"""How much work a batch holds: a message's price is little beside it, and a slot's last batch is soon done."""

MAX_BATCH: Final = 256
"""The most tasks of a batch that runs in a thread."""

MAX_ASYNC_BATCH: Final = 64
"""The most tasks of a batch that runs side by side on a slot's event loop."""

_NEWEST_WEIGHT: Final = 0.3  # of the moving average of a node's pace


@dataclass(frozen=True, slots=True)
class Lane:
    """What tasks of one run have in common. A batch holds tasks of one lane.

    Attributes:
        async_nodes: the nodes that only run on an event loop.
        namespace: the run's graph's place in the thread.
        graph: which graph, to tell the nodes of one from those of another.
    """

    async_nodes: frozenset[str] = frozenset()
    namespace: str = ""
    graph: str = ""


class Waiting(NamedTuple):
    """A task that is to be handed out, for the first time or again.

    Attributes:
        lane: whose it is.
        attempt: how often it was handed out, this time included.
        lost_on: the worker processes it was lost with.
        tries: how often its node was tried, this time included; being lost is no try.
        first_try_at: when it was first tried, in seconds since the epoch; 0 if this is the first time.
    """

    task: Task
    lane: Lane
    attempt: int = 1
    lost_on: tuple[str, ...] = ()
    tries: int = 1
    first_try_at: float = 0.0

    @property
    def on_loop(self) -> bool:
        """Whether it only runs on an event loop."""
        return self.task.name in self.lane.async_nodes

    @property
    def kind(self) -> tuple[str, str]:
        """Whose pace is its own: the node's."""
        return (self.lane.graph, self.task.name)


@dataclass(slots=True)
class Flight:
    """A task that was handed out and has no outcome yet.

    Attributes:
        batch: the number of the batch it went with.
        since: when that was, in seconds of the driver's clock.
        lost_on: the worker processes it was lost with.
    """

    task: Task
    lane: Lane
    attempt: int
    batch: int
    since: float
    lost_on: tuple[str, ...] = ()
    tries: int = 1
    first_try_at: float = 0.0

    def waiting(self, attempt: int) -> Waiting:
        """The same task, to be handed out as the given attempt."""
        return Waiting(self.task, self.lane, attempt, self.lost_on, self.tries, self.first_try_at)


@dataclass(frozen=True, slots=True)
class HandedOut:
    """A batch to send.

    Attributes:
        limit_s: how long it may keep a worker process; for ever unless given.
    """

    tasks: Sequence[Waiting]
    limit_s: float | None = None

    @property
    def lane(self) -> Lane:
        """Whose they are."""
        return self.tasks[0].lane


@dataclass(slots=True)
class HandOut:
    """The tasks of the running supersteps, from the coordinator's hands to their outcomes.

    Attributes:
        limit: the most tasks that may be handed out at once; none unless given.
        pace: seconds a task of a node takes, a moving average; it outlives the superstep.
    """

    limit: int | None = None
    pace: dict[tuple[str, str], float] = field(default_factory=dict[tuple[str, str], float])
    waiting: deque[Waiting] = field(default_factory=lambda: deque[Waiting]())
    flights: dict[str, Flight] = field(default_factory=dict[str, Flight])
    _tried: dict[str, int] = field(default_factory=dict[str, int])
    _open: dict[int, int] = field(default_factory=dict[int, int])
    _batches: int = 0

    def add(self, tasks: Iterable[Task], lane: Lane) -> None:
        """Take the tasks of a superstep."""
        self.waiting.extend(Waiting(task, lane) for task in tasks)

    def launch(self, order: Launch, lane: Lane) -> None:
        """Take a task that joins the superstep: an error handler's, or one that was tried and is tried again."""
        handed_out = self._tried.pop(order.task.id, 0)
        self.waiting.append(Waiting(order.task, lane, handed_out + 1, (), order.attempt, order.first_try_at))

    def next_batches(self, slots: int, now: float) -> list[HandedOut]:
        """The batches to send now, given how many slots are alive."""
        batches: list[HandedOut] = []
        while self.waiting and len(self._open) < slots * BATCHES_PER_SLOT and self._room():
            batches.append(self._next_batch(slots, now))
        return batches

    def _next_batch(self, slots: int, now: float) -> HandedOut:
        self._batches += 1
        most, spent_s = min(self._most(slots), self._room()), 0.0
        first = self.waiting[0]
        tasks: list[Waiting] = []
        while self.waiting and len(tasks) < most:
            next_one = self.waiting[0]
            task = next_one.task
            spent_s += self._cost_s(next_one)
            other = next_one.lane is not first.lane or next_one.on_loop != first.on_loop
            if tasks and (spent_s > TARGET_BATCH_S or other):
                break
            self.waiting.popleft()
            self.flights[task.id] = Flight(task, next_one.lane, next_one.attempt, self._batches, now, *next_one[3:])
            tasks.append(next_one)
        self._open[self._batches] = len(tasks)
        return HandedOut(tasks, self._limit_s(first))

    def _limit_s(self, waiting: Waiting) -> float | None:
        """How long a task may keep the process that runs it; on an event loop it keeps none."""
        timeout = waiting.task.timeout
        return None if timeout is None or waiting.on_loop else timeout.run_s

    def _room(self) -> int:
        """How many more tasks may be handed out now."""
        return len(self.waiting) if self.limit is None else max(0, self.limit - len(self.flights))

    def _most(self, slots: int) -> int:
        """The most tasks of the next batch, so that there is something for every slot."""
        if self.waiting[0].on_loop:
            idle = slots - len(self._open)
            return min(ceil(len(self.waiting) / (idle if idle > 0 else slots)), MAX_ASYNC_BATCH)
        return min(ceil(len(self.waiting) / (slots * BATCHES_PER_SLOT)), MAX_BATCH)

    def _cost_s(self, waiting: Waiting) -> float:
        """How much of a batch's time a task takes; what must travel alone takes more than there is."""
        if waiting.lost_on or self._limit_s(waiting) is not None:
            return inf
        return 0.0 if waiting.on_loop else self.pace.get(waiting.kind, inf)

    def ended(self, task_id: str, seconds: float) -> None:
        """A task has its outcome; its node took ``seconds``.

        The outcome may be from an attempt that was taken for lost; then the task is not handed out again.
        """
        flight = self.flights.pop(task_id, None)
        if flight is None:
            self.give_up(task_id)
            return
        self._close(flight)
        kind = flight.waiting(0).kind
        before = self.pace.get(kind)
        self.pace[kind] = seconds if before is None else before + _NEWEST_WEIGHT * (seconds - before)

    def tried(self, task_id: str, seconds: float, attempt: int = 1) -> None:
        """An attempt of a task in flight has failed and is to be followed by another, once :meth:`launch` says so.

        Args:
            attempt: which one that was. It is later than ours if an earlier run had come further.
        """
        flight = self.flights.get(task_id)
        if flight is not None:
            self._tried[task_id] = max(flight.attempt, attempt)
            self.ended(task_id, seconds)

    def lost(self, task_id: str, worker: str, claimed: int = 1) -> Flight:
        """The worker process that claimed a task is gone: hand it out again, first of all, as the next attempt.

        Args:
            claimed: the attempt that was claimed. It is later than ours if an earlier run had come further.
        """
        flight = self.flights.pop(task_id)
        self._close(flight)
        flight.lost_on = (*flight.lost_on, worker)
        self.waiting.appendleft(flight.waiting(max(flight.attempt, claimed) + 1))
        return flight

    def unclaimed(self, task_id: str) -> None:
        """No worker took a task and its message is gone: hand it out again. It is still the same attempt."""
        flight = self.flights.pop(task_id)
        self._close(flight)
        self.waiting.appendleft(flight.waiting(flight.attempt))

    def give_up(self, task_id: str) -> None:
        """A task that was about to be handed out is not."""
        if any(item.task.id == task_id for item in self.waiting):
            self.waiting = deque(item for item in self.waiting if item.task.id != task_id)

    def older_than(self, age_s: float, now: float) -> list[Flight]:
        """The tasks that were handed out at least ``age_s`` ago."""
        return [flight for flight in self.flights.values() if now - flight.since >= age_s]

    def drop(self, task_ids: Iterable[str]) -> None:
        """Forget tasks whose outcome is of no interest any more."""
        gone = frozenset(task_ids)
        self.waiting = deque(item for item in self.waiting if item.task.id not in gone)
        for task_id in gone:
            self._tried.pop(task_id, None)
            flight = self.flights.pop(task_id, None)
            if flight is not None:
                self._close(flight)

    def check_invariants(self) -> None:
        """Every open batch counts its tasks in flight; no task waits twice, or waits while it is in flight."""
        counted: dict[int, int] = {}
        for flight in self.flights.values():
            counted[flight.batch] = counted.get(flight.batch, 0) + 1
        assert counted == self._open, f"open batches {self._open}, tasks in flight {counted}"
        waiting = {item.task.id for item in self.waiting}
        assert len(waiting) == len(self.waiting), f"waiting twice: {[item.task.id for item in self.waiting]}"
        both = waiting & self.flights.keys()
        assert not both, f"waiting and in flight at once: {both}"

    def _close(self, flight: Flight) -> None:
        left = self._open[flight.batch] - 1
        if left:
            self._open[flight.batch] = left
        else:
            del self._open[flight.batch]
