"""No task is ever lost or in two hands at once, whatever happens to workers and messages, however often it is tried."""

from typing import Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from phalanx.coordinator.handout import BATCHES_PER_SLOT, MAX_ASYNC_BATCH, MAX_BATCH, TARGET_BATCH_S, HandOut, Lane
from phalanx.coordinator.messages import Launch
from phalanx.coordinator.plan import Task
from phalanx.protocol.names import PUSH
from phalanx.types import TimeoutPolicy

LIMIT_S: Final = 5.0

LANES: Final = [
    Lane(frozenset({"async"}), namespace, graph) for namespace, graph in [("", ""), ("a:1", "i"), ("a:2", "i")]
]
"""Those of a run, and of two runs of a graph inside of it."""

lanes = st.sampled_from(LANES)


class Coordinator(RuleBasedStateMachine):
    """Hands tasks out to workers that come, go, answer late and twice; keeps books of its own to compare."""

    def __init__(self) -> None:
        super().__init__()
        self.handout = HandOut()
        self.added = 0
        self.out: dict[str, int] = {}
        self.done: set[str] = set()
        self.attempts: dict[str, int] = {}
        self.tries: dict[str, int] = {}
        self.resting: dict[str, Task] = {}
        self.known: dict[str, Task] = {}
        self.open: list[set[str]] = []
        self.lanes: dict[str, Lane] = {}

    @initialize(limit=st.one_of(st.none(), st.integers(1, 20)))
    def limit(self, limit: int | None) -> None:
        self.handout.limit = limit

    @rule(
        count=st.integers(1, 40),
        node=st.sampled_from(["quick", "slow", "async", "new"]),
        limited=st.booleans(),
        lane=lanes,
    )
    def add(self, count: int, node: str, limited: bool, lane: Lane) -> None:
        self.handout.add(self.fresh(count, node, limited, lane), lane)

    @rule(node=st.sampled_from(["quick", "slow", "async", "new"]), limited=st.booleans(), lane=lanes)
    def an_error_handler_joins(self, node: str, limited: bool, lane: Lane) -> None:
        (handler,) = self.fresh(1, node, limited, lane)
        self.handout.launch(Launch(handler), lane)

    def fresh(self, count: int, node: str, limited: bool, lane: Lane) -> list[Task]:
        timeout = TimeoutPolicy(LIMIT_S) if limited else None
        numbers = range(self.added, self.added + count)
        made = [Task(f"{node}-{number}", node, (PUSH, number), (PUSH,), timeout=timeout) for number in numbers]
        self.added += count
        self.attempts |= {task.id: 1 for task in made}
        self.tries |= {task.id: 1 for task in made}
        self.known |= {task.id: task for task in made}
        self.lanes |= {task.id: lane for task in made}
        return made

    @rule(slots=st.integers(0, 5), now=st.floats(0, 1e6))
    def hand_out(self, slots: int, now: float) -> None:
        before = len(self.open)
        pace = dict(self.handout.pace)
        batches = self.handout.next_batches(slots, now)

        assert not batches or before + len(batches) <= slots * BATCHES_PER_SLOT
        for batch in batches:
            held = [each.task for each in batch.tasks]
            assert held
            for task, lane, attempt, lost_on, tries, first_try_at in batch.tasks:
                assert lane is batch.lane is self.lanes[task.id]
                assert task.id not in self.out, "it is in someone's hands already"
                assert task.id not in self.done, "it has its outcome already"
                assert task.id not in self.resting, "nobody has launched it again"
                assert attempt == self.attempts[task.id]
                assert tries == self.tries[task.id]
                assert first_try_at == (0.0 if tries == 1 else self.first_try_at(task.id))
                assert len(held) == 1 or not lost_on
                self.out[task.id] = attempt
            kinds = {task.name == "async" for task in held}
            assert len(kinds) == 1
            assert len(held) <= (MAX_ASYNC_BATCH if kinds == {True} else MAX_BATCH)
            if kinds == {False} and len(held) > 1:
                assert sum(pace[batch.lane.graph, task.name] for task in held) <= TARGET_BATCH_S
            alone = held[0].timeout is not None and kinds == {False}
            assert batch.limit_s == (LIMIT_S if alone else None)
            assert len(held) == 1 or kinds == {True} or not any(task.timeout for task in held)
            self.open.append({task.id for task in held})
        full = self.handout.limit is not None and len(self.out) >= self.handout.limit
        assert not self.handout.waiting or full or len(self.open) >= slots * BATCHES_PER_SLOT

    @precondition(lambda self: self.out)
    @rule(data=st.data(), seconds=st.one_of(st.just(0.0), st.floats(0, 0.01), st.floats(0, 100)))
    def ends(self, data: st.DataObject, seconds: float) -> None:
        self.ended(data.draw(st.sampled_from(sorted(self.out))), seconds)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def a_batch_ends(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.open))
        for task_id in data.draw(st.permutations(sorted(batch))):
            self.ended(task_id, {"quick": 0.0005, "slow": 2.0}.get(task_id.split("-")[0], 0.01))

    def ended(self, task_id: str, seconds: float) -> None:
        self.handout.ended(task_id, seconds)
        self.done.add(task_id)
        self.landed(task_id)

    def landed(self, task_id: str) -> None:
        self.out.pop(task_id, None)
        for batch in self.open:
            batch.discard(task_id)
        self.open = [batch for batch in self.open if batch]

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def a_worker_dies(self, data: st.DataObject) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.out)))
        self.handout.lost(task_id, "worker")
        self.attempts[task_id] += 1
        self.landed(task_id)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), seconds=st.floats(0, 1))
    def an_attempt_fails_and_is_to_be_followed_by_another(self, data: st.DataObject, seconds: float) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.out)))
        self.handout.tried(task_id, seconds)
        self.resting[task_id] = self.known[task_id]
        self.landed(task_id)

    @precondition(lambda self: self.resting)
    @rule(data=st.data())
    def its_time_has_come(self, data: st.DataObject) -> None:
        self.again(data.draw(st.sampled_from(sorted(self.resting))))

    def again(self, task_id: str) -> None:
        self.attempts[task_id] += 1
        self.tries[task_id] += 1
        task = self.resting.pop(task_id)
        self.handout.launch(
            Launch(task, self.tries[task_id], first_try_at=self.first_try_at(task_id)), self.lanes[task_id]
        )

    def first_try_at(self, task_id: str) -> float:
        return 1000.0 + self.known[task_id].path[-1]  # type: ignore[operator]

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def news_of_a_try_arrives_late_or_twice(self, data: st.DataObject) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.attempts)))
        if task_id not in self.out:
            self.handout.tried(task_id, 0.01)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def a_message_is_gone(self, data: st.DataObject) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.out)))
        self.handout.unclaimed(task_id)
        self.landed(task_id)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def an_outcome_arrives_late_or_twice(self, data: st.DataObject) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.attempts)))
        if task_id not in self.resting:
            self.ended(task_id, 0.01)

    @invariant()
    def every_task_waits_is_out_or_is_done(self) -> None:
        self.handout.check_invariants()
        waiting = {item[0].id for item in self.handout.waiting}
        assert self.handout.flights.keys() == self.out.keys()
        assert waiting | self.out.keys() | self.done | self.resting.keys() == self.attempts.keys()
        assert not waiting & self.resting.keys()
        assert not waiting & self.done
        assert self.handout.limit is None or len(self.out) <= self.handout.limit

    def teardown(self) -> None:
        """Whatever has happened, in the end every task is done."""
        while self.handout.waiting or self.out or self.resting:
            for task_id in list(self.resting):
                self.again(task_id)
            self.hand_out(2, 0.0)
            for task_id in list(self.out):
                self.ended(task_id, 0.01)
        assert self.done == self.attempts.keys()


TestCoordinator = Coordinator.TestCase
TestCoordinator.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
