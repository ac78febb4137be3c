"""Which namespaces there may be, and which match a pattern."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from phalanx.errors import PhalanxError

Namespace: TypeAlias = tuple[str, ...]
"""Where items lie, from the root: ``("users", "ada", "likes")``."""

RESERVED_ROOT: Final = "langgraph"
"""Nothing may be put under this label; it is the same in every library that offers these stores."""

ANY_LABEL: Final = "*"


class InvalidNamespaceError(PhalanxError, ValueError):
    """A namespace is empty or under the reserved root where something is to be put, or a label is no text, empty, or
    holds a period or a NUL."""


def check_labels(namespace: Iterable[str]) -> None:
    """Refuse labels that some store could not keep apart.

    Raises:
        InvalidNamespaceError: naming the label and the namespace.
    """
    for label in namespace:
        fault = _fault(label)
        if fault:
            raise InvalidNamespaceError(f"label {label!r} of namespace {namespace!r} {fault}")


def check_place(namespace: Namespace) -> None:
    """Refuse a namespace that nothing may be put in.

    Raises:
        InvalidNamespaceError: naming the namespace.
    """
    if not namespace:
        raise InvalidNamespaceError("an item cannot be put in the empty namespace; give it at least one label")
    check_labels(namespace)
    if namespace[0] == RESERVED_ROOT:
        raise InvalidNamespaceError(f"the root label {RESERVED_ROOT!r} is reserved, choose another for {namespace!r}")


def starts_with(namespace: Namespace, pattern: Iterable[str]) -> bool:
    """Whether the first labels are those of the pattern, in which ``*`` stands for any one label."""
    return _begins([*namespace], [*pattern])


def ends_with(namespace: Namespace, pattern: Iterable[str]) -> bool:
    """Whether the last labels are those of the pattern, in which ``*`` stands for any one label."""
    return _begins([*namespace][::-1], [*pattern][::-1])


def _begins(labels: list[str], pattern: list[str]) -> bool:
    return len(labels) >= len(pattern) and all(
        wanted in (ANY_LABEL, label) for wanted, label in zip(pattern, labels, strict=False)
    )


def _fault(label: object) -> str:
    if not isinstance(label, str):
        return f"must be a str, not a {type(label).__name__}"
    if not label:
        return "must not be empty"
    if "." in label:
        return "must not contain a period"
    return "must not contain a NUL" if "\x00" in label else ""


__all__ = ["InvalidNamespaceError", "Namespace"]
