"""What a store is asked to do: its methods make these, and :meth:`BaseStore.batch` takes several at once."""

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict

from phalanx.store.base.items import Item, SearchItem
from phalanx.store.base.namespaces import Namespace, check_labels, ends_with, starts_with

NamespacePath: TypeAlias = tuple[str | Literal["*"], ...]
"""Labels to compare with those of a namespace; ``*`` stands for any one label."""

NamespaceMatchType: TypeAlias = Literal["prefix", "suffix"]
"""Which end of a namespace is compared."""


class NotProvided:
    """The class of :data:`NOT_PROVIDED`."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "NOT_PROVIDED"


NOT_PROVIDED: Final = NotProvided()
"""An argument that was left out, where ``None`` means something."""


class TTLConfig(TypedDict, total=False):
    """How items of a store with time limits end.

    Attributes:
        refresh_on_read: whether reading an item starts its time anew. Default: true.
        omit_expired: whether items that are over are hidden before they are deleted. Default: false.
        default_ttl: minutes to live of an item that is put without a ``ttl``. Default: for ever.
        sweep_interval_minutes: minutes between two deletions of what is over. Default: never.
    """

    refresh_on_read: bool
    omit_expired: bool
    default_ttl: float | None
    sweep_interval_minutes: int | None


class GetOp(NamedTuple):
    """Get one item.

    Attributes:
        namespace: where it lies.
        key: its name there.
        refresh_ttl: whether its time starts anew.
    """

    namespace: Namespace
    key: str
    refresh_ttl: bool = True


class SearchOp(NamedTuple):
    """Find items.

    Attributes:
        namespace_prefix: the first labels of where they lie; ``()`` for everywhere.
        filter: conditions on their values; see :mod:`phalanx.store.filters`.
        limit: how many at most.
        offset: how many to leave out first.
        query: a text; what is nearest to it in meaning comes first, if the store has an index.
        refresh_ttl: whether the time of what was found starts anew.
    """

    namespace_prefix: Namespace
    filter: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0
    query: str | None = None
    refresh_ttl: bool = True


class MatchCondition(NamedTuple):
    """What namespaces to list.

    Attributes:
        match_type: which end of the namespace is compared.
        path: labels to compare with, of which ``*`` stands for any one.
    """

    match_type: NamespaceMatchType
    path: NamespacePath

    def holds_for(self, namespace: Namespace) -> bool:
        """Whether ``namespace`` matches.

        Raises:
            ValueError: ``match_type`` is unknown.
        """
        match self.match_type:
            case "prefix":
                return starts_with(namespace, self.path)
            case "suffix":
                return ends_with(namespace, self.path)
            case unknown:  # pyright: ignore[reportUnnecessaryComparison]
                raise ValueError(f"match_type must be 'prefix' or 'suffix', not {unknown!r}")


class ListNamespacesOp(NamedTuple):
    """List namespaces, in order.

    Attributes:
        match_conditions: all of them must hold.
        max_depth: how many labels to show; namespaces that look the same then are one.
        limit: how many at most.
        offset: how many to leave out first.
    """

    match_conditions: tuple[MatchCondition, ...] | None = None
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


class PutOp(NamedTuple):
    """Store an item in place of what was there, or delete it.

    Attributes:
        namespace: where to.
        key: its name there.
        value: what to store; ``None`` deletes.
        index: which fields a search by meaning sees (:mod:`phalanx.store.base.fields`); ``False`` for none, ``None``
            for those that the store was made with.
        ttl: minutes to live; ``None`` for ever.
    """

    namespace: Namespace
    key: str
    value: Mapping[str, Any] | None
    # mypy sees an override of tuple.index; the field has this name on the public surface.
    index: Literal[False] | list[str] | None = None  # type: ignore[assignment]
    ttl: float | None = None


Op: TypeAlias = GetOp | SearchOp | PutOp | ListNamespacesOp

Result: TypeAlias = Item | list[Item] | list[SearchItem] | list[Namespace] | None
"""What comes of an operation: an item or none, items that were found, namespaces; none for what is put."""


def validate_op_namespace(op: Op) -> None:
    """Check the labels of an operation. Operations in a batch were not checked by the methods that make them.

    Raises:
        InvalidNamespaceError: a label is no text, empty, or holds a period or a NUL.
    """
    match op:
        case GetOp() | PutOp():
            check_labels(op.namespace)
        case SearchOp():
            check_labels(op.namespace_prefix)
        case ListNamespacesOp():
            for condition in op.match_conditions or ():
                check_labels(condition.path)


__all__ = [
    "NOT_PROVIDED",
    "GetOp",
    "ListNamespacesOp",
    "MatchCondition",
    "NamespaceMatchType",
    "NamespacePath",
    "NotProvided",
    "Op",
    "PutOp",
    "Result",
    "SearchOp",
    "TTLConfig",
    "validate_op_namespace",
]
