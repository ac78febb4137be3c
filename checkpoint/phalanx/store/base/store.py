"""The interface of all stores.

A store carries out operations, several at a time. What its users call makes one operation each, checked and with its
defaults filled in, so that the blocking and the asynchronous form of a method cannot come apart.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from phalanx.store.base.items import Item, SearchItem
from phalanx.store.base.namespaces import Namespace, check_labels, check_place
from phalanx.store.base.ops import (
    NOT_PROVIDED,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    NamespacePath,
    NotProvided,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
)


class BaseStore(ABC):
    """Values by namespace and key, for nodes of all threads. Safe to use from several threads.

    A graph compiled with ``store=`` gives it to the nodes that ask for it. On a cluster each worker process gives its
    nodes the store of its own graph object, so there it takes one that keeps its items outside of the process.

    Attributes:
        supports_ttl: whether items can end by themselves. Subclasses say so.
        ttl_config: how they do.
    """

    supports_ttl: bool = False
    ttl_config: TTLConfig | None = None

    __slots__ = ("__weakref__",)

    @abstractmethod
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations. Those that read see what was there before the batch.

        Returns:
            What came of each, in their order.
        """

    @abstractmethod
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """:meth:`batch` without blocking the event loop."""

    def get(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """One item, or ``None`` if there is none.

        Args:
            namespace: where it lies.
            key: its name there.
            refresh_ttl: whether its time starts anew; as the store was set up unless given.

        Raises:
            InvalidNamespaceError: a label is no text, empty, or holds a period or a NUL.
        """
        return cast("Item | None", self.batch([_get(self, namespace, key, refresh_ttl)])[0])

    def search(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name on the public surface
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """Items whose namespace starts with these labels.

        Args:
            namespace_prefix: the labels; ``()`` for all items.
            query: a text; what is nearest to it in meaning comes first. Ignored by a store without an index.
            filter: what the values must hold: ``{"kind": "note", "stars": {"$gte": 3}}``. See
                :mod:`phalanx.store.filters`.
            limit: how many at most.
            offset: how many to leave out first.
            refresh_ttl: whether their time starts anew; as the store was set up unless given.

        Raises:
            InvalidNamespaceError: a label is no text, empty, or holds a period or a NUL.
            ValueError: the filter has an unknown operator, or compares something that is no number.
        """
        op = _search(self, namespace_prefix, filter, limit, offset, query, refresh_ttl)
        return cast("list[SearchItem]", self.batch([op])[0])

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """Store an item in place of what was there.

        Args:
            namespace: where to; at least one label.
            key: its name there.
            value: what to store. Texts as keys and values that JSON knows can go to any store.
            index: the fields that a search by meaning sees, such as ``["title", "chapters[*].text"]``; ``False`` for
                none, ``None`` for those that the store was made with. Ignored by a store without an index.
            ttl: minutes to live; ``None`` for ever; as the store was set up unless given.

        Raises:
            InvalidNamespaceError: the namespace is empty or under the root ``"langgraph"``, or a label is no text,
                empty, or holds a period or a NUL.
            NotImplementedError: there is a ``ttl``, and items of this store cannot end by themselves.
        """
        self.batch([_put(self, namespace, key, value, index, ttl)])

    def delete(self, namespace: Namespace, key: str) -> None:
        """Delete an item, if it is there.

        Raises:
            InvalidNamespaceError: a label is no text, empty, or holds a period or a NUL.
        """
        self.batch([_delete(namespace, key)])

    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """Namespaces that hold items, in order.

        Args:
            prefix: their first labels; ``"*"`` stands for any one label.
            suffix: their last labels, likewise.
            max_depth: how many labels to show; namespaces that look the same then are one.
            limit: how many at most.
            offset: how many to leave out first.

        Raises:
            InvalidNamespaceError: a label is no text, empty, or holds a period or a NUL.
        """
        op = _list_namespaces(prefix, suffix, max_depth, limit, offset)
        return cast("list[Namespace]", self.batch([op])[0])

    async def aget(self, namespace: Namespace, key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """:meth:`get` without blocking the event loop."""
        return cast("Item | None", (await self.abatch([_get(self, namespace, key, refresh_ttl)]))[0])

    async def asearch(
        self,
        namespace_prefix: Namespace,
        /,
        *,
        query: str | None = None,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name on the public surface
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
    ) -> list[SearchItem]:
        """:meth:`search` without blocking the event loop."""
        op = _search(self, namespace_prefix, filter, limit, offset, query, refresh_ttl)
        return cast("list[SearchItem]", (await self.abatch([op]))[0])

    async def aput(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
    ) -> None:
        """:meth:`put` without blocking the event loop."""
        await self.abatch([_put(self, namespace, key, value, index, ttl)])

    async def adelete(self, namespace: Namespace, key: str) -> None:
        """:meth:`delete` without blocking the event loop."""
        await self.abatch([_delete(namespace, key)])

    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Namespace]:
        """:meth:`list_namespaces` without blocking the event loop."""
        op = _list_namespaces(prefix, suffix, max_depth, limit, offset)
        return cast("list[Namespace]", (await self.abatch([op]))[0])


def _get(store: BaseStore, namespace: Namespace, key: str, refresh_ttl: bool | None) -> GetOp:
    check_labels(namespace)
    return GetOp(namespace, str(key), _refreshes(store, refresh_ttl))


def _search(
    store: BaseStore,
    prefix: Namespace,
    conditions: dict[str, Any] | None,
    limit: int,
    offset: int,
    query: str | None,
    refresh_ttl: bool | None,
) -> SearchOp:
    check_labels(prefix)
    return SearchOp(prefix, conditions, limit, offset, query, _refreshes(store, refresh_ttl))


def _put(
    store: BaseStore,
    namespace: Namespace,
    key: str,
    value: Mapping[str, Any],
    index: Literal[False] | list[str] | None,
    ttl: float | NotProvided | None,
) -> PutOp:
    check_place(namespace)
    if isinstance(ttl, NotProvided):
        ttl = (store.ttl_config or {}).get("default_ttl")
    elif ttl is not None and not store.supports_ttl:
        raise NotImplementedError(
            f"items of a {type(store).__name__} cannot end by themselves: leave out ttl={ttl!r} for key {key!r}, "
            f"or take a store with supports_ttl"
        )
    return PutOp(namespace, str(key), value, index, ttl)


def _delete(namespace: Namespace, key: str) -> PutOp:
    check_labels(namespace)
    return PutOp(namespace, str(key), None)


def _list_namespaces(
    prefix: NamespacePath | None, suffix: NamespacePath | None, max_depth: int | None, limit: int, offset: int
) -> ListNamespacesOp:
    conditions: list[MatchCondition] = []
    if prefix:
        conditions.append(MatchCondition("prefix", prefix))
    if suffix:
        conditions.append(MatchCondition("suffix", suffix))
    for condition in conditions:
        check_labels(condition.path)
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)


def _refreshes(store: BaseStore, refresh_ttl: bool | None) -> bool:
    if refresh_ttl is not None:
        return refresh_ttl
    return (store.ttl_config or {}).get("refresh_on_read", True)


__all__ = ["BaseStore"]
