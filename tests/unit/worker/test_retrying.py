"""Whether and when a failed task is tried again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.errors import GraphBubbleUp, GraphDrained, ParentCommand
from phalanx.types import Command, RetryPolicy
from phalanx.worker.retrying import retry_after


def policy(**fields: Any) -> RetryPolicy:
    """One that always matches, without jitter."""
    given_fields: dict[str, Any] = {"jitter": False, "retry_on": Exception, **fields}
    return RetryPolicy(**given_fields)


def refuses(error: Exception) -> bool:
    return False


# --- whether ----------------------------------------------------------------------------------------------------------


def test_without_a_policy_nothing_is_tried_again() -> None:
    assert retry_after((), ValueError(), 1, 0.0) is None


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_task_is_tried_as_often_as_its_policy_says_the_first_time_included(most: int) -> None:
    again = [retry_after([policy(max_attempts=most)], ValueError(), attempt, 0.0) for attempt in range(1, 8)]

    assert [wait is not None for wait in again] == [attempt < most for attempt in range(1, 8)]


@pytest.mark.parametrize(
    ("retry_on", "error", "again"),
    [
        (LookupError, KeyError(), True),
        (LookupError, LookupError(), True),
        (KeyError, LookupError(), False),
        ((ValueError, KeyError), KeyError(), True),
        ([ValueError, KeyError], KeyError(), True),
        ([ValueError, LookupError], KeyError(), True),
        ((ValueError, TypeError), KeyError(), False),
        ((), KeyError(), False),
        ([], KeyError(), False),
        (lambda error: isinstance(error, KeyError), KeyError(), True),  # pyright: ignore
        (lambda error: "yes", KeyError(), True),  # pyright: ignore
        (lambda error: "", KeyError(), False),  # pyright: ignore
        (refuses, KeyError(), False),
        (Exception, KeyError(), True),
        (BaseException, KeyError(), True),
    ],
)
def test_a_policy_matches_by_a_class_a_list_of_them_or_a_predicate(
    retry_on: Any, error: Exception, again: bool
) -> None:
    assert (retry_after([policy(retry_on=retry_on)], error, 1, 0.0) is not None) is again


def test_a_callable_object_is_a_predicate() -> None:
    class Asked:
        def __call__(self, error: Exception) -> bool:
            return error.args == ("again",)

    assert retry_after([policy(retry_on=Asked())], KeyError("again"), 1, 0.0) is not None
    assert retry_after([policy(retry_on=Asked())], KeyError("no"), 1, 0.0) is None


@pytest.mark.parametrize("retry_on", [None, 5, "ValueError", {ValueError}], ids=repr)
def test_what_is_neither_is_refused_with_its_type(retry_on: Any) -> None:
    with pytest.raises(TypeError, match=rf"retry_on must be an Exception class.* of type {type(retry_on).__name__}"):
        retry_after([policy(retry_on=retry_on)], ValueError(), 1, 0.0)


@pytest.mark.parametrize("retry_on", [(5,), ["ValueError"], [ValueError(), KeyError]], ids=repr)
def test_a_list_of_other_things_than_classes_is_refused(retry_on: Any) -> None:
    with pytest.raises(TypeError):
        retry_after([policy(retry_on=retry_on)], ValueError(), 1, 0.0)


def test_the_first_policy_that_matches_decides_even_if_a_later_one_would_go_on_trying() -> None:
    policies = [
        policy(retry_on=KeyError, max_attempts=1),
        policy(retry_on=LookupError, initial_interval=7.0),
        policy(initial_interval=9.0),
    ]

    assert retry_after(policies, KeyError(), 1, 0.0) is None
    assert retry_after(policies, IndexError(), 1, 0.0) == 7.0
    assert retry_after(policies, ValueError(), 1, 0.0) == 9.0


def test_a_policy_after_the_one_that_matches_is_not_asked() -> None:
    asked: list[Exception] = []

    retry_after([policy(retry_on=ValueError), policy(retry_on=asked.append)], ValueError(), 1, 0.0)

    assert asked == []


def test_what_a_predicate_raises_comes_out() -> None:
    def broken(error: Exception) -> bool:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        retry_after([policy(retry_on=broken)], ValueError(), 1, 0.0)


@pytest.mark.parametrize(
    "error",
    [
        GraphBubbleUp(),
        GraphDrained(),
        ParentCommand(Command[str]()),
        KeyboardInterrupt(),
        SystemExit(1),
        GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("retry_on", [Exception, BaseException, GraphBubbleUp, lambda error: True])  # pyright: ignore
def test_what_is_no_failure_is_never_tried_again_whatever_a_policy_says(error: BaseException, retry_on: Any) -> None:
    assert retry_after([policy(retry_on=retry_on)], error, 1, 0.0) is None


def test_a_predicate_is_not_asked_about_what_is_no_failure() -> None:
    asked: list[Exception] = []

    retry_after([policy(retry_on=asked.append)], GraphBubbleUp(), 1, 0.0)

    assert asked == []


# --- when -------------------------------------------------------------------------------------------------------------


def waits(made: RetryPolicy, jitter_s: float = 0.0) -> list[float | None]:
    return [retry_after([made], ValueError(), attempt, jitter_s) for attempt in range(1, 6)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, [0.5, 1.0, 2.0, 4.0, 8.0]),
        ({"initial_interval": 0.1, "backoff_factor": 3}, [0.1, 0.1 * 3, 0.1 * 9, 0.1 * 27, 0.1 * 81]),
        ({"backoff_factor": 1.0}, [0.5] * 5),
        ({"max_interval": 3.0}, [0.5, 1.0, 2.0, 3.0, 3.0]),
        ({"max_interval": 0.25}, [0.25] * 5),
        ({"initial_interval": 0.0}, [0.0] * 5),
        ({"initial_interval": 8.0, "backoff_factor": 0.5}, [8.0, 4.0, 2.0, 1.0, 0.5]),
    ],
    ids=repr,
)
def test_each_wait_is_longer_by_the_factor_up_to_the_longest(fields: Any, expected: list[float]) -> None:
    assert waits(policy(max_attempts=99, **fields)) == expected


def test_jitter_is_added_to_the_interval_even_to_the_longest() -> None:
    assert waits(policy(max_attempts=99, max_interval=2.0, jitter=True), 0.75) == [1.25, 1.75, 2.75, 2.75, 2.75]


def test_chance_plays_no_part_without_jitter() -> None:
    assert waits(policy(max_attempts=99), 0.75) == waits(policy(max_attempts=99), 0.0)


@pytest.mark.parametrize("factor", [2, 2.0, 1e300])
@pytest.mark.parametrize("attempt", [1026, 5_000])
def test_a_wait_that_no_number_can_hold_is_the_longest_interval(factor: float, attempt: int) -> None:
    made = policy(max_attempts=10**9, backoff_factor=factor, max_interval=60.0)

    assert retry_after([made], ValueError(), attempt, 0.0) == 60.0


@given(
    initial=st.floats(0, 1e6),
    factor=st.floats(0, 1e6),
    longest=st.floats(0, 1e6),
    attempt=st.integers(1, 10_000),
    jitter=st.one_of(st.none(), st.floats(0, 1, exclude_max=True)),
)
def test_a_wait_is_never_negative_nor_longer_than_the_longest_and_a_second(
    initial: float, factor: float, longest: float, attempt: int, jitter: float | None
) -> None:
    made = policy(
        initial_interval=initial,
        backoff_factor=factor,
        max_interval=longest,
        max_attempts=10**9,
        jitter=jitter is not None,
    )

    wait = retry_after([made], ValueError(), attempt, jitter or 0.0)

    assert wait is not None
    assert 0.0 <= wait <= longest + (jitter or 0.0)
