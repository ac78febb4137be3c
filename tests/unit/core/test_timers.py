"""Launches that wait for their time."""

import threading
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.coordinator.messages import Launch
from phalanx.coordinator.plan import Task
from phalanx.coordinator.timers import Timers
from phalanx.protocol.names import PUSH


def launch(name: str, after_s: float) -> Launch:
    return Launch(Task(name, "n", (PUSH, 0), (PUSH,)), after_s=after_s)


def due(timers: Timers, now: float) -> list[str]:
    return [each.task.id for each in timers.due(now)]


def test_without_a_launch_nothing_is_due_and_there_is_nothing_to_wait_for() -> None:
    timers = Timers()

    assert not timers
    assert timers.next_in(1e9) is None
    assert timers.due(1e9) == []


def test_a_launch_is_due_exactly_when_its_wait_is_over_and_then_waits_no_longer() -> None:
    timers = Timers()
    timers.add(launch("a", 2.0), 10.0)

    assert timers
    assert due(timers, 11.999) == []
    assert due(timers, 12.0) == ["a"]
    assert due(timers, 99.0) == []
    assert not timers


def test_a_launch_that_waits_for_nothing_is_due_at_once() -> None:
    timers = Timers()
    timers.add(launch("a", 0.0), 10.0)

    assert timers.next_in(10.0) == 0.0
    assert due(timers, 10.0) == ["a"]


def test_launches_are_due_by_their_time_and_not_in_the_order_they_were_added() -> None:
    timers = Timers()
    for name, after_s in (("late", 5.0), ("soon", 1.0), ("later", 9.0), ("soon after", 2.0)):
        timers.add(launch(name, after_s), 0.0)

    assert due(timers, 5.0) == ["soon", "soon after", "late"]
    assert due(timers, 9.0) == ["later"]


def test_the_wait_counts_from_when_a_launch_was_added() -> None:
    timers = Timers()
    timers.add(launch("first", 5.0), 0.0)
    timers.add(launch("second", 1.0), 3.0)

    assert due(timers, 4.0) == ["second"]
    assert timers.next_in(4.0) == 1.0


def test_launches_of_one_moment_go_in_the_order_they_were_added_without_being_compared() -> None:
    timers = Timers()
    for number in range(20):
        timers.add(launch(str(number), 1.0), 0.0)

    assert due(timers, 1.0) == [str(number) for number in range(20)]


def test_the_next_one_is_never_due_in_less_than_no_time() -> None:
    timers = Timers()
    timers.add(launch("a", 1.0), 0.0)

    assert timers.next_in(100.0) == 0.0


@pytest.mark.parametrize("limit_s", [1e12, inf])
def test_a_limit_beyond_what_can_be_waited_for_is_waited_for_in_parts(limit_s: float) -> None:
    timers = Timers()
    timers.begin(limit_s, 0.0)

    wait_s = timers.next_in(0.0)
    assert wait_s is not None
    assert 0.0 < wait_s <= threading.TIMEOUT_MAX
    assert not timers.out_of_time(wait_s)


def test_timers_are_forgotten_with_their_superstep() -> None:
    timers = Timers()
    timers.begin(None, 0.0)
    timers.add(launch("a", 1.0), 0.0)
    timers.begin(None, 0.0)

    assert not timers
    assert due(timers, 1e9) == []


def test_a_superstep_is_out_of_time_once_its_limit_is_over_and_there_is_something_to_do_then() -> None:
    timers = Timers()
    timers.begin(5.0, 10.0)

    assert not timers
    assert timers.next_in(11.0) == 4.0
    assert not timers.out_of_time(14.999)
    assert timers.out_of_time(15.0)
    assert timers.next_in(99.0) == 0.0

    timers.add(launch("a", 1.0), 10.0)
    assert timers.next_in(10.0) == 1.0
    timers.begin(None, 20.0)
    assert not timers.out_of_time(1e9)
    assert timers.next_in(20.0) is None


@given(waits=st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100))), looks=st.lists(st.floats(0, 300), max_size=6))
def test_every_launch_is_due_once_and_never_before_its_time(
    waits: list[tuple[float, float]], looks: list[float]
) -> None:
    timers = Timers()
    for number, (after_s, now) in enumerate(waits):
        timers.add(launch(str(number), after_s), now)
    found: list[str] = []
    for now in [*sorted(looks), 201.0 + max(looks, default=0.0)]:
        wait = timers.next_in(now)
        for name in due(timers, now):
            after_s, added = waits[int(name)]
            assert added + after_s <= now
            assert wait == 0.0
            found.append(name)
        assert not timers or (timers.next_in(now) or 0.0) > 0.0
    assert sorted(found, key=int) == [str(number) for number in range(len(waits))]
