"""What tests of several rings share."""

import time
from collections.abc import Callable
from typing import Final

_LOOK_EVERY_S: Final = 0.005


def wait_until(condition: Callable[[], object], what: str, *, timeout_s: float = 20.0) -> None:
    """Return as soon as ``condition()`` is true.

    Args:
        condition: looked at again and again.
        what: what we wait for, for the message.
        timeout_s: how long at most.

    Raises:
        AssertionError: it did not become true in time.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s in vain for: {what}"
        time.sleep(_LOOK_EVERY_S)
