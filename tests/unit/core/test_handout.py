"""Handing tasks out: windows, batch sizes, and tasks that must be handed out again."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from phalanx.coordinator.handout import (
    BATCHES_PER_SLOT,
    MAX_ASYNC_BATCH,
    MAX_BATCH,
    TARGET_BATCH_S,
    HandedOut,
    HandOut,
    Lane,
    Waiting,
)
from phalanx.coordinator.messages import Launch
from phalanx.coordinator.plan import Task
from phalanx.protocol.names import PUSH
from phalanx.types import TimeoutPolicy


def tasks(count: int, node: str = "n") -> list[Task]:
    return [Task(f"{node}{index}", node, (PUSH, index), (PUSH,)) for index in range(count)]


LANE = Lane(graph="g")
"""Of most tasks here."""


def lane(*asynchronous: str) -> Lane:
    return Lane(frozenset(asynchronous), graph="g")


def handout(limit: int | None = None, **pace: float) -> HandOut:
    return HandOut(limit, {("g", node): seconds for node, seconds in pace.items()})


def sizes(batches: Iterable[HandedOut]) -> list[int]:
    return [len(batch.tasks) for batch in batches]


def ids(batches: Iterable[HandedOut]) -> list[str]:
    return [each.task.id for batch in batches for each in batch.tasks]


def until_the_end(made: HandOut, slots: int) -> list[int]:
    """The sizes of all batches from here on, when one batch after the other ends."""
    found: list[int] = []
    running: list[Sequence[Waiting]] = []
    while made.waiting or running:
        batches = made.next_batches(slots, 0.0)
        found += sizes(batches)
        running += [batch.tasks for batch in batches]
        for task, *_ in running.pop(0):
            made.ended(task.id, made.pace["g", task.name])
        made.check_invariants()
    return found


# --- the window -------------------------------------------------------------------------------------------------------


def test_a_window_of_a_few_batches_a_slot_is_handed_out_and_the_rest_kept() -> None:
    made = handout()
    made.add(tasks(100), LANE)

    assert len(made.next_batches(3, 0.0)) == 3 * BATCHES_PER_SLOT
    assert made.next_batches(3, 0.0) == []
    assert len(made.waiting) == 100 - 3 * BATCHES_PER_SLOT


def test_the_window_moves_on_when_a_whole_batch_has_ended() -> None:
    made = handout(n=0.02)
    made.add(tasks(100), LANE)
    first, *_ = made.next_batches(1, 0.0)
    assert len(first.tasks) == 2

    made.ended(first.tasks[0][0].id, 0.02)
    assert made.next_batches(1, 0.0) == []

    made.ended(first.tasks[1][0].id, 0.02)
    assert len(made.next_batches(1, 0.0)) == 1


def test_without_slots_nothing_is_handed_out() -> None:
    made = handout()
    made.add(tasks(3), LANE)

    assert made.next_batches(0, 0.0) == []
    assert len(made.waiting) == 3


def test_when_slots_disappear_nothing_is_handed_out_until_the_window_is_small_again() -> None:
    made = handout()
    made.add(tasks(100), LANE)
    batches = made.next_batches(10, 0.0)

    assert made.next_batches(1, 0.0) == []
    for task_id in ids(batches)[:-1]:
        made.ended(task_id, 1.0)
    assert len(made.next_batches(1, 0.0)) == 1


def test_tasks_are_handed_out_in_the_order_they_came() -> None:
    made = handout(n=0.001)
    made.add(tasks(50), LANE)

    out = ids(made.next_batches(4, 0.0))

    assert len(out) > 30
    assert out == [f"n{index}" for index in range(len(out))]


def test_no_more_tasks_are_out_than_the_limit_allows_however_large_batches_are() -> None:
    made = handout(limit=3, n=0.0001)
    made.add(tasks(1000), LANE)

    assert sizes(made.next_batches(8, 0.0)) == [3]
    assert made.next_batches(8, 0.0) == []
    made.ended("n1", 0.0001)
    assert sizes(made.next_batches(8, 0.0)) == [1]


# --- the size of batches ----------------------------------------------------------------------------------------------


def test_tasks_of_a_node_whose_pace_is_unknown_go_one_by_one() -> None:
    made = handout()
    made.add(tasks(1000), LANE)

    assert sizes(made.next_batches(2, 0.0)) == [1, 1, 1, 1]


@pytest.mark.parametrize("seconds", [TARGET_BATCH_S, 1.0, 3600.0])
def test_slow_tasks_go_one_by_one(seconds: float) -> None:
    made = handout(n=seconds)
    made.add(tasks(1000), LANE)

    assert sizes(made.next_batches(2, 0.0)) == [1, 1, 1, 1]


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 0.0001])
def test_quick_tasks_go_many_to_a_batch(seconds: float) -> None:
    made = handout(n=seconds)
    made.add(tasks(5_000), LANE)

    assert sizes(made.next_batches(2, 0.0)) == [MAX_BATCH] * 4


def test_a_batch_takes_about_as_long_as_it_should() -> None:
    made = handout(n=0.004)
    made.add(tasks(1000), LANE)

    assert all(10 <= size <= 13 for size in sizes(made.next_batches(2, 0.0)))


def test_slow_tasks_behind_a_quick_one_do_not_go_with_it() -> None:
    made = handout(quick=0.0001, slow=10.0)
    made.add([*tasks(1, "quick"), *tasks(40, "slow"), *tasks(40, "new")], LANE)

    assert sizes(made.next_batches(20, 0.0)) == [1] * 40


def test_quick_tasks_of_several_nodes_share_a_batch() -> None:
    made = handout(a=0.001, b=0.002)
    made.add([task for pair in zip(tasks(1000, "a"), tasks(1000, "b"), strict=True) for task in pair], LANE)

    assert all(30 <= size <= 34 for size in sizes(made.next_batches(2, 0.0)))


def test_tasks_of_coroutine_nodes_are_spread_over_the_idle_slots_at_once() -> None:
    made = handout()
    made.add(tasks(100), lane("n"))

    assert sizes(made.next_batches(4, 0.0)) == [25, 25, 25, 25]


def test_batches_of_coroutine_nodes_are_large_whatever_their_pace_but_not_endless() -> None:
    made = handout(n=60.0)
    made.add(tasks(10_000), lane("n"))

    assert sizes(made.next_batches(2, 0.0)) == [MAX_ASYNC_BATCH] * 4


def test_tasks_that_wait_and_tasks_that_compute_do_not_share_a_batch() -> None:
    made = handout(computes=0.0001)
    made.add([*tasks(10, "waits"), *tasks(10, "computes"), *tasks(10, "waits2")], lane("waits"))

    for batch in made.next_batches(2, 0.0):
        assert len({each.task.name == "waits" for each in batch.tasks}) == 1


def test_batches_shrink_towards_the_end_so_that_all_slots_end_together() -> None:
    made = handout(n=0.0001)
    made.add(tasks(1000), LANE)

    found = until_the_end(made, 4)

    assert sum(found) == 1000
    assert found[0] > 100
    assert found[-4:] == [1, 1, 1, 1]
    assert found == sorted(found, reverse=True)


def test_the_pace_of_a_node_follows_what_its_tasks_take() -> None:
    made = handout()
    made.add(tasks(40), LANE)
    for task_id in ids(made.next_batches(10, 0.0)):
        made.ended(task_id, 1.0)
    assert made.pace == {("g", "n"): 1.0}

    for task_id in ids(made.next_batches(10, 0.0)):
        made.ended(task_id, 0.0)

    assert made.pace["g", "n"] < 0.001


def test_the_pace_outlives_the_superstep_and_nothing_else_does() -> None:
    made = handout()
    made.add(tasks(10), LANE)
    (first, *_) = ids(made.next_batches(2, 0.0))
    made.ended(first, 0.001)

    made.drop(f"n{number}" for number in range(10))
    made.check_invariants()

    assert (len(made.waiting), made.flights, made.pace) == (0, {}, {("g", "n"): 0.001})
    made.add(tasks(10), LANE)
    assert sizes(made.next_batches(1, 0.0)) == [5, 3]


# --- again ------------------------------------------------------------------------------------------------------------


def test_a_lost_task_is_handed_out_next_as_its_next_attempt_and_remembers_where_it_was() -> None:
    made = handout()
    made.add(tasks(5), LANE)
    made.next_batches(1, 0.0)

    flight = made.lost("n1", "worker-7")

    assert (flight.attempt, flight.lost_on) == (1, ("worker-7",))
    (batch,) = made.next_batches(1, 1.0)
    assert [(each.task.id, each.attempt) for each in batch.tasks] == [("n1", 2)]
    assert made.lost("n1", "worker-8").lost_on == ("worker-7", "worker-8")


def test_an_attempt_is_later_than_any_that_an_earlier_run_made() -> None:
    made = handout()
    made.add(tasks(1), LANE)
    made.next_batches(1, 0.0)

    made.lost("n0", "worker-7", 3)

    (batch,) = made.next_batches(1, 1.0)
    assert [(each.task.id, each.attempt) for each in batch.tasks] == [("n0", 4)]


def test_tasks_that_lost_their_worker_travel_alone() -> None:
    made = handout(n=0.0001)
    made.add(tasks(20), LANE)
    (batch, *_) = made.next_batches(1, 0.0)
    for each in batch.tasks:
        made.lost(each.task.id, "worker")

    for batch in made.next_batches(1, 0.0):
        assert [each.attempt for each in batch.tasks] == [2]


def test_a_task_whose_message_got_lost_is_handed_out_again_as_the_same_attempt() -> None:
    made = handout()
    made.add(tasks(2), LANE)
    made.next_batches(1, 0.0)

    made.unclaimed("n0")

    (batch,) = made.next_batches(1, 1.0)
    assert [(each.task.id, each.attempt) for each in batch.tasks] == [("n0", 1)]


def test_a_task_that_is_given_up_is_not_handed_out_again() -> None:
    made = handout()
    made.add(tasks(2), LANE)
    made.next_batches(1, 0.0)
    made.lost("n0", "worker")

    made.give_up("n0")

    assert made.next_batches(1, 1.0) == []
    made.check_invariants()


def test_a_task_taken_for_lost_whose_outcome_then_arrives_is_not_handed_out_again() -> None:
    made = handout()
    made.add(tasks(2), LANE)
    made.next_batches(1, 0.0)
    made.lost("n0", "worker")

    made.ended("n0", 0.5)

    assert made.next_batches(1, 1.0) == []
    made.check_invariants()


def test_an_outcome_that_arrives_twice_or_from_a_stranger_changes_nothing() -> None:
    made = handout()
    made.add(tasks(2), LANE)
    made.next_batches(1, 0.0)
    made.ended("n0", 0.5)

    made.ended("n0", 99.0)
    made.ended("stranger", 99.0)

    assert made.pace == {("g", "n"): 0.5}
    made.check_invariants()


def test_flights_are_found_by_their_age() -> None:
    made = handout()
    made.add(tasks(4), LANE)
    made.next_batches(1, 10.0)
    made.ended("n0", 0.1)
    made.next_batches(1, 12.0)

    assert [flight.task.id for flight in made.older_than(3.0, 13.0)] == ["n1"]
    assert [flight.task.id for flight in made.older_than(1.0, 13.0)] == ["n1", "n2"]
    assert made.older_than(4.0, 13.0) == []


# --- tried again ------------------------------------------------------------------------------------------------------


def launch(task: Task, attempt: int = 2, first_try_at: float = 17.5) -> Launch:
    return Launch(task, attempt, 0.0, first_try_at)


def test_a_task_that_was_tried_is_no_longer_out_and_waits_for_nobody_until_it_is_launched_again() -> None:
    made = handout()
    made.add(tasks(1), LANE)
    made.next_batches(1, 0.0)

    made.tried("n0", 0.5)

    assert (made.flights, len(made.waiting), made.next_batches(5, 1.0)) == ({}, 0, [])
    assert made.pace == {("g", "n"): 0.5}
    made.check_invariants()


def test_a_task_that_is_launched_again_is_handed_out_as_its_next_attempt_and_counts_its_tries() -> None:
    made = handout()
    (one,) = tasks(1)
    made.add([one], LANE)
    made.next_batches(1, 0.0)
    made.tried("n0", 0.5)

    made.launch(launch(one), LANE)

    (batch,) = made.next_batches(1, 1.0)
    assert batch.tasks == [Waiting(one, LANE, attempt=2, lost_on=(), tries=2, first_try_at=17.5)]


def test_a_launch_waits_behind_those_that_waited_before() -> None:
    made = handout()
    first, *rest = tasks(4)
    made.add([first, *rest], LANE)
    made.next_batches(1, 0.0)
    made.tried("n0", 0.5)
    made.launch(launch(first), LANE)

    assert [each.task.id for each in made.waiting] == ["n2", "n3", "n0"]


def test_being_lost_is_no_try_and_neither_count_forgets_the_other() -> None:
    made = handout()
    (one,) = tasks(1)
    made.add([one], LANE)
    made.next_batches(1, 0.0)
    made.lost("n0", "worker-7")
    made.next_batches(1, 1.0)
    made.tried("n0", 0.5)
    made.launch(launch(one, 2), LANE)
    (batch,) = made.next_batches(1, 2.0)
    assert batch.tasks == [Waiting(one, LANE, attempt=3, lost_on=(), tries=2, first_try_at=17.5)]

    flight = made.lost("n0", "worker-8")

    assert flight.lost_on == ("worker-8",)
    (batch,) = made.next_batches(1, 3.0)
    assert batch.tasks == [Waiting(one, LANE, attempt=4, lost_on=("worker-8",), tries=2, first_try_at=17.5)]
    made.unclaimed("n0")
    (batch,) = made.next_batches(1, 4.0)
    assert batch.tasks == [Waiting(one, LANE, attempt=4, lost_on=("worker-8",), tries=2, first_try_at=17.5)]


def test_an_error_handler_joins_the_superstep_as_a_first_try() -> None:
    made = handout()
    (handler,) = tasks(1, "handler")

    made.launch(Launch(handler), LANE)

    (batch,) = made.next_batches(1, 0.0)
    assert batch.tasks == [Waiting(handler, LANE)]


def test_that_a_task_was_tried_is_heard_once_and_not_of_strangers() -> None:
    made = handout()
    (one,) = tasks(1)
    made.add([one], LANE)
    made.next_batches(1, 0.0)
    made.tried("n0", 0.5)

    made.tried("n0", 99.0)
    made.tried("stranger", 99.0)

    assert made.pace == {("g", "n"): 0.5}
    made.launch(launch(one), LANE)
    assert made.waiting[0].attempt == 2


def test_the_outcome_of_an_attempt_that_was_taken_for_lost_makes_a_launch_needless() -> None:
    made = handout()
    (one,) = tasks(1)
    made.add([one], LANE)
    made.next_batches(1, 0.0)
    made.tried("n0", 0.5)
    made.launch(launch(one), LANE)

    made.ended("n0", 0.5)

    assert made.next_batches(1, 1.0) == []
    made.check_invariants()


def test_attempts_are_counted_anew_in_each_superstep() -> None:
    made = handout()
    (one,) = tasks(1)
    made.add([one], LANE)
    made.next_batches(1, 0.0)
    made.tried("n0", 0.5)
    made.drop(f"n{number}" for number in range(10))

    made.launch(Launch(one), LANE)

    assert made.waiting[0].attempt == 1


# --- time limits ------------------------------------------------------------------------------------------------------


def limited(count: int, timeout: TimeoutPolicy, node: str = "n") -> list[Task]:
    return [replace(task, timeout=timeout) for task in tasks(count, node)]


def test_a_task_with_a_time_limit_travels_alone_and_its_batch_has_its_limit() -> None:
    made = handout(n=0.0001)
    made.add([*tasks(3), *limited(2, TimeoutPolicy(5.0), "n_limited")], LANE)
    made.pace["g", "n_limited"] = 0.0001

    found = made.next_batches(4, 0.0)

    assert [(len(batch.tasks), batch.limit_s) for batch in found if batch.limit_s] == [(1, 5.0), (1, 5.0)]
    assert all(len({each.task.timeout for each in batch.tasks}) == 1 for batch in found)


def test_a_task_without_a_limit_does_not_ride_behind_one_that_has_it() -> None:
    made = handout(a=0.0001, b=0.0001)
    made.add([*limited(1, TimeoutPolicy(5.0), "a"), *tasks(6, "b")], LANE)

    first, second, *_ = made.next_batches(1, 0.0)

    assert ([each.task.id for each in first.tasks], first.limit_s) == (["a0"], 5.0)
    assert len(second.tasks) > 1
    assert second.limit_s is None


def test_an_idle_limit_is_no_limit_of_the_process() -> None:
    made = handout(n=0.0001)
    made.add(limited(8, TimeoutPolicy(None, 5.0)), LANE)

    first, *_ = made.next_batches(1, 0.0)

    assert (len(first.tasks), first.limit_s) == (4, None)


def test_coroutines_with_time_limits_run_side_by_side_and_keep_no_process() -> None:
    made = handout()
    made.add(limited(10, TimeoutPolicy(5.0)), lane("n"))

    assert [(len(batch.tasks), batch.limit_s) for batch in made.next_batches(2, 0.0)] == [(5, None), (5, None)]


def test_a_task_that_is_tried_again_keeps_its_time_limit() -> None:
    made = handout(n=0.0001)
    (one,) = limited(1, TimeoutPolicy(5.0))
    made.add([one], LANE)
    made.next_batches(1, 0.0)
    made.tried("n0", 0.5)
    made.launch(launch(one), LANE)
    made.add(tasks(3, "other"), LANE)

    (batch,) = [batch for batch in made.next_batches(2, 1.0) if batch.tasks[0].task is one]

    assert (len(batch.tasks), batch.limit_s) == (1, 5.0)


# --- lanes ------------------------------------------------------------------------------------------------------------


def test_tasks_of_different_runs_do_not_share_a_batch() -> None:
    made = handout(n=0.0001)
    inner = Lane(namespace="a:1", graph="g")
    made.add(tasks(10), LANE)
    made.add([replace(task, id=f"inner {task.id}") for task in tasks(10)], inner)

    batches = made.next_batches(2, 0.0)

    assert {batch.lane for batch in batches} == {LANE, inner}
    for batch in batches:
        assert {each.lane for each in batch.tasks} == {batch.lane}


def test_two_runs_of_one_graph_share_what_is_known_of_its_pace_and_other_graphs_do_not() -> None:
    made = handout()
    made.add(tasks(1), Lane(namespace="a:1", graph="inner"))
    made.next_batches(1, 0.0)
    made.ended("n0", 0.25)

    assert made.pace == {("inner", "n"): 0.25}


def test_whether_a_node_runs_on_a_loop_is_said_by_the_lane() -> None:
    made = handout()
    made.add(tasks(4), lane("n"))
    made.add([replace(task, id=f"inner {task.id}") for task in tasks(4)], Lane(graph="inner"))

    assert [each.on_loop for each in made.waiting] == [True] * 4 + [False] * 4


def test_a_lost_task_is_handed_out_again_in_its_lane() -> None:
    made = handout()
    inner = Lane(namespace="a:1", graph="inner")
    made.add(tasks(1), inner)
    made.next_batches(1, 0.0)
    made.lost("n0", "worker")

    (batch,) = made.next_batches(1, 1.0)
    assert batch.lane is inner


def test_dropping_the_tasks_of_one_run_leaves_those_of_others() -> None:
    made = handout()
    made.add(tasks(3, "a"), Lane(namespace="a:1", graph="inner"))
    made.add(tasks(3, "b"), LANE)
    made.next_batches(2, 0.0)

    made.drop(["a0", "a1", "a2"])
    made.check_invariants()

    assert {*made.flights, *(each.task.id for each in made.waiting)} == {"b0", "b1", "b2"}
