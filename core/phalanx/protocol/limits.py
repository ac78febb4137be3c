"""A time limit as plain values, for messages and records."""

from typing import Literal, TypeAlias, cast

from phalanx.protocol.plain import expect_list
from phalanx.types import TimeoutPolicy

PlainTimeout: TypeAlias = list[float | str | None]


def timeout_to_plain(policy: TimeoutPolicy | None) -> PlainTimeout | None:
    """The policy's seconds and what refreshes it; ``None`` for none."""
    return None if policy is None else [policy.run_s, policy.idle_s, policy.refresh_on]


def timeout_from_plain(value: object) -> TimeoutPolicy | None:
    """The policy that :func:`timeout_to_plain` made this of.

    Raises:
        TypeError, ValueError: it made no such thing.
    """
    if value is None:
        return None
    run_s, idle_s, refresh_on = cast("list[object]", expect_list(value))
    for seconds in (run_s, idle_s):
        if seconds is not None and not isinstance(seconds, float):
            raise TypeError(f"{seconds!r} is no number of seconds")
    policy = TimeoutPolicy(
        cast("float | None", run_s), cast("float | None", idle_s), cast("Literal['auto', 'heartbeat']", refresh_on)
    )
    return TimeoutPolicy.coerce(policy)
