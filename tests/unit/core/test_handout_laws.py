"""No task is ever lost or in two hands at once, whatever happens to workers and messages."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from phalanx.coordinator.handout import BATCHES_PER_SLOT, MAX_ASYNC_BATCH, MAX_BATCH, TARGET_BATCH_S, HandOut
from phalanx.coordinator.plan import Task
from phalanx.protocol.names import PUSH


class Coordinator(RuleBasedStateMachine):
    """Hands tasks out to workers that come, go, answer late and twice; keeps books of its own to compare."""

    def __init__(self) -> None:
        super().__init__()
        self.handout = HandOut(frozenset({"async"}))
        self.added = 0
        self.out: dict[str, int] = {}
        self.done: set[str] = set()
        self.attempts: dict[str, int] = {}
        self.open: list[set[str]] = []

    @initialize(limit=st.one_of(st.none(), st.integers(1, 20)))
    def limit(self, limit: int | None) -> None:
        self.handout.limit = limit

    @rule(count=st.integers(1, 40), node=st.sampled_from(["quick", "slow", "async", "new"]))
    def add(self, count: int, node: str) -> None:
        fresh = [Task(f"{node}-{self.added + k}", node, (PUSH, self.added + k), (PUSH,)) for k in range(count)]
        self.added += count
        self.attempts |= {task.id: 1 for task in fresh}
        self.handout.add(fresh)

    @rule(slots=st.integers(0, 5), now=st.floats(0, 1e6))
    def hand_out(self, slots: int, now: float) -> None:
        before = len(self.open)
        pace = dict(self.handout.pace)
        batches = self.handout.next_batches(slots, now)

        assert not batches or before + len(batches) <= slots * BATCHES_PER_SLOT
        for batch in batches:
            held = [task for task, _ in batch.tasks]
            assert held
            for task, attempt in batch.tasks:
                assert task.id not in self.out, "it is in someone's hands already"
                assert task.id not in self.done, "it has its outcome already"
                assert attempt == self.attempts[task.id]
                self.out[task.id] = attempt
            kinds = {task.name == "async" for task in held}
            assert len(kinds) == 1
            assert len(held) <= (MAX_ASYNC_BATCH if kinds == {True} else MAX_BATCH)
            if kinds == {False} and len(held) > 1:
                assert sum(pace[task.name] for task in held) <= TARGET_BATCH_S
            assert len(held) == 1 or max(attempt for _, attempt in batch.tasks) == 1
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
    @rule(data=st.data())
    def a_message_is_gone(self, data: st.DataObject) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.out)))
        self.handout.unclaimed(task_id)
        self.landed(task_id)

    @precondition(lambda self: self.attempts)
    @rule(data=st.data())
    def an_outcome_arrives_late_or_twice(self, data: st.DataObject) -> None:
        self.ended(data.draw(st.sampled_from(sorted(self.attempts))), 0.01)

    @invariant()
    def every_task_waits_is_out_or_is_done(self) -> None:
        self.handout.check_invariants()
        waiting = {item[0].id for item in self.handout.waiting}
        assert self.handout.flights.keys() == self.out.keys()
        assert waiting | self.out.keys() | self.done == self.attempts.keys()
        assert not waiting & self.done
        assert self.handout.limit is None or len(self.out) <= self.handout.limit

    def teardown(self) -> None:
        """Whatever has happened, in the end every task is done."""
        while self.handout.waiting or self.out:
            self.hand_out(2, 0.0)
            for task_id in list(self.out):
                self.ended(task_id, 0.01)
        assert self.done == self.attempts.keys()


TestCoordinator = Coordinator.TestCase
TestCoordinator.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
