"""What the reducer channels share: the value they start from, and writes that replace it instead of being reduced."""

import collections.abc
from collections.abc import Callable, Sequence
from typing import Annotated, Final, NotRequired, Required, cast, get_args, get_origin

from phalanx.channels.base import MISSING
from phalanx.errors import ErrorCode, InvalidUpdateError, create_error_message
from phalanx.types import OVERWRITE_KEY, Overwrite

_QUALIFIERS: Final = (Annotated, Required, NotRequired)

_CONCRETE: Final[dict[object, Callable[[], object]]] = {
    collections.abc.Sequence: list,
    collections.abc.MutableSequence: list,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    collections.abc.Mapping: dict,
    collections.abc.MutableMapping: dict,
}


def starting_value(typ: object) -> object:
    """What ``typ`` makes when called with nothing: ``[]`` for ``list[str]`` or ``Sequence``, ``0`` for ``int``.

    Returns ``MISSING`` when it cannot be called so: a union, a class whose constructor needs arguments or fails.
    """
    while get_origin(typ) in _QUALIFIERS:
        typ = get_args(typ)[0]
    kind: object = get_origin(typ) or typ
    if not callable(kind):
        return MISSING
    try:
        return _CONCRETE.get(kind, kind)()
    except Exception:  # whatever a user's constructor raises means the same: it makes nothing of nothing
        return MISSING


def as_overwrite(write: object) -> Overwrite | None:
    """The write as an ``Overwrite`` if it is one in any of its forms, else ``None``.

    The forms are the object itself, ``{"__overwrite__": value}`` with no other key, and the object as JSON writes it:
    ``{"type": "__overwrite__", "value": value}``, where further keys do not matter.
    """
    if isinstance(write, Overwrite):
        return write
    if not isinstance(write, dict):
        return None
    fields = cast("dict[object, object]", write)
    if len(fields) == 1 and OVERWRITE_KEY in fields:
        return Overwrite(fields[OVERWRITE_KEY])
    kind = fields.get("type")
    # The type is tested first because a user's dict may hold an array here, whose == is no bool.
    if isinstance(kind, str) and kind == OVERWRITE_KEY and "value" in fields:
        return Overwrite(fields["value"])
    return None


def sole_overwrite(writes: Sequence[object]) -> Overwrite | None:
    """The ``Overwrite`` among the writes of one superstep, if there is one.

    Raises:
        InvalidUpdateError: there are two.
    """
    found: Overwrite | None = None
    for write in writes:
        overwrite = as_overwrite(write)
        if overwrite is None:
            continue
        if found is not None:
            raise InvalidUpdateError(
                create_error_message(
                    message="Can receive only one Overwrite value per super-step.",
                    error_code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE,
                )
            )
        found = overwrite
    return found


def same_reducer(one: Callable[..., object], other: Callable[..., object]) -> bool:
    """Whether two declarations of a key mean the same reducer.

    A lambda written out at both places makes two functions that nobody can compare, so any two lambdas pass as the
    same.
    """
    return one == other or (_is_lambda(one) and _is_lambda(other))


def _is_lambda(function: Callable[..., object]) -> bool:
    return getattr(function, "__name__", "") == "<lambda>"


__all__ = ["as_overwrite", "same_reducer", "sole_overwrite", "starting_value"]
