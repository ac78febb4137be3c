"""Making a plan smaller while it still shows a difference."""

import time
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any, Final, TypeVar, cast

T = TypeVar("T")

_LONGEST_S: Final = 20.0


def shrunk(plan: T, differs: Callable[[T], object]) -> T:
    """The smallest plan found that still differs; stops looking after a while.

    Args:
        plan: one that differs; a frozen dataclass of tuples, dataclasses and plain values.
        differs: whether a plan does; one that cannot even be tried counts as one that does not.
    """
    deadline = time.monotonic() + _LONGEST_S
    again = True
    while again:
        again = False
        for smaller in _smaller(plan):
            if time.monotonic() > deadline:
                return plan
            if differs(cast("T", smaller)):
                plan, again = cast("T", smaller), True
                break
    return plan


def _smaller(value: object) -> Iterator[object]:
    """Values with one part less, the biggest steps first."""
    if isinstance(value, tuple):
        items = cast("tuple[object, ...]", value)
        if len(items) > 2:
            yield from (items[: len(items) // 2], items[len(items) // 2 :])
        for place in range(len(items)):
            yield items[:place] + items[place + 1 :]
        for place, item in enumerate(items):
            for smaller in _smaller(item):
                yield (*items[:place], smaller, *items[place + 1 :])
    elif is_dataclass(value) and not isinstance(value, (type, int)):
        for each in fields(value):
            now, least = getattr(value, each.name), _default(each)
            if least is not MISSING and now != least:
                yield replace(value, **{each.name: least})
        for each in fields(value):
            for smaller in _smaller(getattr(value, each.name)):
                yield replace(value, **{each.name: smaller})
    elif isinstance(value, int) and value > 0 and value is not True:
        yield from dict.fromkeys((0, value - 1))


def _default(each: Field[Any]) -> object:
    return each.default
