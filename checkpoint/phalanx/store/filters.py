"""The conditions of a search, all of which must hold.

=========================================  ======================================================================
``{"kind": "note"}``                       the field is equal
``{"stars": {"$gte": 3, "$lt": 5}}``       ``$gt``, ``$gte``, ``$lt``, ``$lte``: both sides as numbers
``{"kind": {"$ne": "note"}}``              ``$eq``, ``$ne``
``{"author": {"name": "ada"}}``            a dict holds these fields, and perhaps others
``{"tags": ["new", {"$ne": "old"}]}``      a list or tuple of this length whose entries fit, one by one
=========================================  ======================================================================

A field that is missing counts as ``None``; ``None`` is neither greater nor less than anything.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

_ORDER: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def fits(value: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    """Whether a value meets all conditions.

    Raises:
        ValueError: an operator is unknown, or a text that is compared as a number is none.
        TypeError: something that is compared as a number cannot be one.
    """
    return all(_fits(value.get(name), wanted) for name, wanted in conditions.items())


def _fits(found: object, wanted: object) -> bool:
    if isinstance(wanted, dict):
        wishes = cast("dict[object, object]", wanted)
        if any(isinstance(name, str) and name.startswith("$") for name in wishes):
            return all(_compares(found, str(name), operand) for name, operand in wishes.items())
        if not isinstance(found, dict):
            return False
        fields = cast("dict[object, object]", found)
        return all(_fits(fields.get(name), wish) for name, wish in wishes.items())
    if isinstance(wanted, list | tuple):
        if not isinstance(found, list | tuple):
            return False
        entries, wishes_of = cast("list[object]", found), cast("list[object]", wanted)
        return len(entries) == len(wishes_of) and all(map(_fits, entries, wishes_of))
    return bool(found == wanted)


def _compares(found: object, name: str, operand: object) -> bool:
    if name == "$eq":
        return bool(found == operand)
    if name == "$ne":
        return bool(found != operand)
    if name not in _ORDER:
        raise ValueError(f"unknown operator {name!r} in a filter; there are $eq, $ne, {', '.join(_ORDER)}")
    return found is not None and _ORDER[name](_number(found, name), _number(operand, name))


def _number(value: object, name: str) -> float:
    try:
        return float(cast("float", value))
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"the operator {name} of a filter compares numbers, and {value!r} is none") from error


__all__ = ["fits"]
