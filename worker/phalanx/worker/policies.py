"""Policies as people give them, checked when they are given: a mistake should show before it hurts."""

from collections.abc import Sequence
from typing import Any, cast

from phalanx.types import CachePolicy, RetryPolicy, TimeoutPolicy


def retry_policies_of(given: object, where: str) -> tuple[RetryPolicy, ...]:
    """One policy, a sequence of them, or none, as a tuple. One alone is a policy, although it is a tuple too.

    Args:
        where: whose they are, for messages.

    Raises:
        TypeError: it is something else.
        ValueError: a number in it means nothing.
    """
    if given is None:
        return ()
    policies: tuple[object, ...] = (given,)
    if isinstance(given, (list, tuple)) and not isinstance(given, RetryPolicy):
        policies = tuple(cast("Sequence[object]", given))
    for policy in policies:
        if not isinstance(policy, RetryPolicy):
            raise TypeError(f"retry_policy of {where} must be a RetryPolicy or a sequence of them; got {policy!r}")
        policy.check(where)
    return cast("tuple[RetryPolicy, ...]", policies)


def cache_policy_of(given: object, where: str) -> CachePolicy | None:
    """The policy, checked.

    Args:
        where: whose it is, for the message.

    Raises:
        TypeError: it is none.
    """
    if given is None or isinstance(given, CachePolicy):
        return given
    raise TypeError(f"cache_policy of {where} must be a CachePolicy; got {given!r}")


def timeout_policy_of(given: Any, where: str) -> TimeoutPolicy | None:
    """The policy in seconds.

    Args:
        where: whose it is, for the message.

    Raises:
        ValueError, TypeError: it is no time, naming whose.
    """
    try:
        return TimeoutPolicy.coerce(given)
    except (ValueError, TypeError) as error:
        error.add_note(f"this is the timeout of {where}")
        raise
