"""What all kinds of registered classes have in common."""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Final, cast

from phalanx.errors import CorruptDataError

MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Kind:
    """How classes of one kind travel.

    ``reduce`` gives the payload without the type's name, ``rebuild`` takes the class and that payload. If
    ``attributes`` is set, the keys of a dict in the payload are attributes of the value.
    """

    code: int
    noun: str
    accepts: Callable[[type], bool]
    reduce: Callable[[object], list[object]]
    rebuild: Callable[[type, list[object]], object]
    attributes: bool = True


def empty(cls: type) -> object:
    """An object of ``cls`` without any state; no code of the class is run."""
    return cast("Callable[[type], object]", object.__new__)(cls)


def full_name(cls: type) -> str:
    """How an error calls a class."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def laid_out_as(cls: type) -> type:
    """The builtin that decides what an object of ``cls`` is in memory."""
    heap_type = 1 << 9
    return next(base for base in cls.__mro__ if not base.__flags__ & heap_type)


def refuse_undeclared(cls: type, names: Iterable[str], declared: Container[str]) -> None:
    """Refuse stored data with a field that the class does not have, or no longer has: it would be lost silently."""
    for name in names:
        if name not in declared:
            raise CorruptDataError(f"stored data holds a field {name!r} that {full_name(cls)} does not have")
