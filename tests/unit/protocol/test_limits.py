"""Time limits as plain values: what goes in comes out, and whatever else comes in is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.protocol.limits import timeout_from_plain, timeout_to_plain
from phalanx.protocol.plain import pack, unpack
from phalanx.types import TimeoutPolicy

seconds = st.one_of(st.none(), st.floats(min_value=0, exclude_min=True, allow_nan=False))
policies = st.builds(TimeoutPolicy, seconds, seconds, refresh_on=st.sampled_from(["auto", "heartbeat"]))
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.binary(max_size=4)),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=8,
)


def as_it_is(record: object) -> object:
    return record


@given(policy=policies)
def test_a_time_limit_survives_being_written_and_read(policy: TimeoutPolicy) -> None:
    given_policy = TimeoutPolicy.coerce(policy)
    wire = unpack(pack(timeout_to_plain(given_policy)), "a limit", as_it_is)

    assert timeout_from_plain(wire) == given_policy


def test_no_limit_is_nothing() -> None:
    assert timeout_to_plain(None) is None
    assert timeout_from_plain(None) is None


def test_the_form_is_pinned() -> None:
    assert timeout_to_plain(TimeoutPolicy(2, 0.5, "heartbeat")) == [2.0, 0.5, "heartbeat"]


def test_a_policy_that_limits_nothing_is_read_as_none() -> None:
    assert timeout_from_plain([None, None, "auto"]) is None


@given(value=anything)
def test_anything_else_is_refused_or_a_limit_that_a_user_could_have_given(value: Any) -> None:
    try:
        found = timeout_from_plain(value)
    except (TypeError, ValueError):
        return
    assert found == TimeoutPolicy.coerce(found)


@pytest.mark.parametrize(
    "value",
    [
        5.0,
        "5",
        [],
        [1.0],
        [1.0, None],
        [1.0, None, "auto", None],
        [1, None, "auto"],
        [True, None, "auto"],
        ["1", None, "auto"],
        [None, b"1", "auto"],
        [0.0, None, "auto"],
        [None, -1.0, "auto"],
        [float("nan"), None, "auto"],
        [1.0, None, "never"],
        [1.0, None, None],
        {"run_timeout": 1.0},
    ],
    ids=repr,
)
def test_a_limit_that_is_none_is_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        timeout_from_plain(value)
