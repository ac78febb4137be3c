"""What a cache is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, ParamSpec, TypeAlias, TypeVar

from phalanx.checkpoint.serde import Serializer, SerializerProtocol

P = ParamSpec("P")
T = TypeVar("T")
Value = TypeVar("Value")

Namespace: TypeAlias = tuple[str, ...]
"""Which node the entries belong to; what :meth:`BaseCache.clear` forgets as a whole. Any text."""

FullKey: TypeAlias = tuple[Namespace, str]
"""A namespace, and a key in it."""


async def _in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    import asyncio  # not needed, and not quick to import, where nothing is asynchronous

    return await asyncio.to_thread(function, *args, **kwargs)


class BaseCache(ABC, Generic[Value]):
    """Values by key, each for as long as its time to live. Safe to use from several threads.

    A cache only saves time: what it cannot read counts as missing, with a warning in the log. Subclasses write the
    blocking methods; the async forms run them in a thread unless overridden.

    Args:
        serde: turns values into bytes and back.
    """

    serde: SerializerProtocol

    def __init__(self, *, serde: SerializerProtocol | None = None) -> None:
        self.serde = serde or Serializer()

    @abstractmethod
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Value]:
        """The values of those keys that are there and still live.

        Raises:
            CacheUnavailableError: the cache's server or file cannot be used.
        """

    @abstractmethod
    def set(self, pairs: Mapping[FullKey, tuple[Value, int | None]]) -> None:
        """Store values, each with its time to live in seconds; ``None`` for ever, 0 or less not at all.

        Raises:
            UnserializableError: a value cannot be stored; none of them was.
            CacheUnavailableError: the cache's server or file cannot be used.
        """

    @abstractmethod
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget everything in these namespaces; everything at all unless given.

        Raises:
            CacheUnavailableError: the cache's server or file cannot be used.
        """

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Value]:
        """:meth:`get` without blocking the event loop."""
        return await _in_thread(self.get, keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[Value, int | None]]) -> None:
        """:meth:`set` without blocking the event loop."""
        await _in_thread(self.set, pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """:meth:`clear` without blocking the event loop."""
        await _in_thread(self.clear, namespaces)


def check_cache(cache: object) -> None:
    """Refuse what is no cache. One of another library will do, if it has the same methods.

    Raises:
        TypeError: it lacks some.
    """
    if cache is not None and not all(hasattr(cache, name) for name in ("get", "aget", "set", "aset", "clear")):
        raise TypeError(f"cache must be a cache, such as InMemoryCache(); got {cache!r} of type {type(cache).__name__}")


__all__ = ["BaseCache", "FullKey", "Namespace"]
