"""What a cache is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

Value = TypeVar("Value")

Namespace: TypeAlias = tuple[str, ...]
"""Which node the entries belong to; see :func:`clear`."""

FullKey: TypeAlias = tuple[Namespace, str]
"""A namespace, and a key in it."""


class BaseCache(ABC, Generic[Value]):
    """Values by key, each for as long as its time to live. Safe to use from several threads."""

    @abstractmethod
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Value]:
        """The values of those keys that are there and still live."""

    @abstractmethod
    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Value]:
        """:meth:`get` without blocking the event loop."""

    @abstractmethod
    def set(self, pairs: Mapping[FullKey, tuple[Value, int | None]]) -> None:
        """Store values, each with its time to live in seconds; ``None`` for ever."""

    @abstractmethod
    async def aset(self, pairs: Mapping[FullKey, tuple[Value, int | None]]) -> None:
        """:meth:`set` without blocking the event loop."""

    @abstractmethod
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget everything in these namespaces; everything at all unless given."""

    @abstractmethod
    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """:meth:`clear` without blocking the event loop."""


__all__ = ["BaseCache", "FullKey", "Namespace"]
