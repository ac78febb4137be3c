"""Policies: which errors are worth another try, and what a time limit may be."""

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from tests.retry_cases import CASES, NOT_A_SYSTEM_S_TIMEOUT, OURS, shown

from phalanx.types import RetryPolicy, Send, TimeoutPolicy, default_retry_on

# --- what is tried again ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("error", "again"), [*CASES, *OURS], ids=shown)
def test_lost_connections_servers_in_trouble_and_unknown_errors_are_worth_another_try(
    error: Exception, again: bool
) -> None:
    assert default_retry_on(error) is again


def test_a_task_that_took_too_long_is_worth_another_try() -> None:
    assert default_retry_on(NOT_A_SYSTEM_S_TIMEOUT)


@pytest.mark.parametrize(
    ("status", "again"), [(503, True), (404, False), (None, True), ("503", True)], ids=["503", "404", "none", "text"]
)
def test_a_kind_derived_from_a_client_library_s_error_counts_as_that(status: object, again: bool) -> None:
    class Response:
        status_code = status

    library = type("HTTPError", (OSError,), {"__module__": "requests.exceptions"})
    error = type("MyError", (library,), {"response": Response()})()

    assert default_retry_on(error) is again


def test_an_error_of_that_name_from_elsewhere_is_an_error_like_any_other() -> None:
    elsewhere = type("HTTPError", (OSError,), {"__module__": "urllib.error"})()

    assert not default_retry_on(elsewhere)


def test_no_client_library_is_imported_to_find_out() -> None:
    asked = (
        "import sys; from phalanx.types import default_retry_on; default_retry_on(ValueError());"
        "print({'httpx', 'requests'} & {*sys.modules})"
    )

    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "set()"


def test_a_retry_policy_tries_three_times_with_jitter_unless_told_otherwise() -> None:
    assert tuple(RetryPolicy()) == (0.5, 2.0, 128.0, 3, True, default_retry_on)


# --- time limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (5, TimeoutPolicy(5.0)),
        (0.25, TimeoutPolicy(0.25)),
        (timedelta(minutes=2), TimeoutPolicy(120.0)),
        (TimeoutPolicy(), None),
        (TimeoutPolicy(refresh_on="heartbeat"), None),
        (TimeoutPolicy(3), TimeoutPolicy(3.0)),
        (TimeoutPolicy(idle_timeout=timedelta(seconds=1)), TimeoutPolicy(None, 1.0)),
        (
            TimeoutPolicy(timedelta(hours=1), 5, "heartbeat"),
            TimeoutPolicy(3600.0, 5.0, "heartbeat"),
        ),
        (float("inf"), TimeoutPolicy(float("inf"))),
    ],
    ids=repr,
)
def test_a_time_limit_is_a_policy_in_seconds(given: Any, expected: TimeoutPolicy | None) -> None:
    found = TimeoutPolicy.coerce(given)

    assert found == expected
    if found is not None:
        assert all(value is None or type(value) is float for value in (found.run_timeout, found.idle_timeout))
        assert (found.run_s, found.idle_s) == (found.run_timeout, found.idle_timeout)
        assert TimeoutPolicy.coerce(found) == found


@pytest.mark.parametrize("value", [0, 0.0, -1, -0.001, timedelta(0), timedelta(seconds=-1), float("nan")])
@pytest.mark.parametrize("field", ["run_timeout", "idle_timeout"])
def test_a_time_that_is_not_greater_than_zero_is_refused_by_its_name(field: str, value: Any) -> None:
    fields: dict[str, Any] = {field: value}

    with pytest.raises(ValueError, match=f"{field} must be greater than 0"):
        TimeoutPolicy.coerce(TimeoutPolicy(**fields))
    if field == "run_timeout":
        with pytest.raises(ValueError, match="run_timeout must be greater than 0"):
            TimeoutPolicy.coerce(value)


@pytest.mark.parametrize("value", ["5", b"5", [5], {"run_timeout": 5}, object(), 1j], ids=repr)
def test_what_is_no_time_is_refused_with_its_type(value: Any) -> None:
    with pytest.raises(TypeError, match=rf"run_timeout must be a number of seconds .*\({type(value).__name__}\)"):
        TimeoutPolicy.coerce(value)
    with pytest.raises(TypeError, match="idle_timeout must be a number of seconds"):
        TimeoutPolicy.coerce(TimeoutPolicy(idle_timeout=value))


@pytest.mark.parametrize("value", ["always", "", None, 1])
@pytest.mark.parametrize("run_timeout", [None, 5.0])
def test_what_refreshes_an_idle_timeout_is_one_of_two_things(run_timeout: float | None, value: Any) -> None:
    with pytest.raises(ValueError, match="refresh_on must be 'auto' or 'heartbeat'"):
        TimeoutPolicy.coerce(TimeoutPolicy(run_timeout, refresh_on=value))


def test_a_packet_has_the_time_limit_it_was_given_in_seconds_and_is_another_packet_with_another_one() -> None:
    limited = Send("node", 1, timeout=timedelta(seconds=2))

    assert limited.timeout == TimeoutPolicy(2.0)
    assert limited == Send("node", 1, timeout=2)
    assert hash(limited) == hash(Send("node", 1, timeout=2))
    assert limited != Send("node", 1)
    assert limited != Send("node", 1, timeout=3)
    assert repr(Send("node", 1)) == "Send(node='node', arg=1)"
    assert "run_timeout=2.0" in repr(limited)


def test_a_packet_without_a_limit_to_speak_of_has_none() -> None:
    assert Send("node", 1, timeout=TimeoutPolicy()).timeout is None


def test_a_packet_s_wrong_time_limit_is_refused_where_the_packet_is_made() -> None:
    with pytest.raises(ValueError, match="greater than 0"):
        Send("node", 1, timeout=0)
