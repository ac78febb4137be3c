"""Whether and when a failed task is tried again. Pure: chance comes in as an argument."""

from collections.abc import Sequence
from typing import Final, cast

from phalanx.errors import GraphBubbleUp
from phalanx.types import RetryPolicy

LONGEST_WAIT_S: Final = 1e8
"""Three years: longer than anybody waits, and short enough for every clock."""


def retry_after(policies: Sequence[RetryPolicy], error: BaseException, attempt: int, jitter_s: float) -> float | None:
    """Seconds until the next attempt, or ``None`` when there is none.

    The first policy that matches the error decides. The wait grows by the policy's factor with each attempt.

    Args:
        policies: the node's, in order.
        error: what the attempt raised.
        attempt: which attempt that was, from 1.
        jitter_s: a random number below 1, for policies that ask for jitter.

    Raises:
        TypeError: a policy's ``retry_on`` is neither an exception class, nor a sequence of them, nor a predicate.
    """
    if isinstance(error, GraphBubbleUp) or not isinstance(error, Exception):
        return None
    policy = next((each for each in policies if _matches(each, error)), None)
    if policy is None or attempt >= policy.max_attempts:
        return None
    interval_s = min(policy.max_interval, _grown(policy, attempt), LONGEST_WAIT_S)
    return interval_s + (jitter_s if policy.jitter else 0.0)


def _grown(policy: RetryPolicy, attempt: int) -> float:
    if not policy.initial_interval:
        return 0.0
    try:
        return policy.initial_interval * policy.backoff_factor ** (attempt - 1)
    except OverflowError:
        return policy.max_interval


def _matches(policy: RetryPolicy, error: Exception) -> bool:
    wanted: object = policy.retry_on
    if isinstance(wanted, (list, tuple)):
        return isinstance(error, tuple(cast("Sequence[type[Exception]]", wanted)))
    if isinstance(wanted, type):
        if issubclass(cast("type[object]", wanted), BaseException):
            return isinstance(error, wanted)
    elif callable(wanted):
        return bool(wanted(error))
    raise TypeError(
        f"retry_on must be an Exception class, a list or tuple of them, or a callable that takes the exception; "
        f"got {wanted!r} of type {type(wanted).__name__}"
    )
