"""The lines of the table of measurements, and how figures are written."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    phalanx: str
    other: str
    ratio: str
    goal: str


def timed(function: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def micro(time_s: float) -> str:
    """As microseconds."""
    return f"{time_s * 1e6:.0f} µs"


def milli(time_s: float) -> str:
    """As milliseconds."""
    return f"{time_s * 1e3:.1f} ms"


def seconds(time_s: float) -> str:
    """As seconds, or less than one as milliseconds."""
    return f"{time_s:.2f} s" if time_s >= 1 else milli(time_s)


def ratio(ours: float, other: float) -> str:
    """One figure over another."""
    return f"{ours / other:.3f}"
