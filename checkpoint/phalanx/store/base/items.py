"""What is stored, as a store hands it out. Items may lie in a state: checkpoints can store them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from phalanx.checkpoint.serde import register
from phalanx.store.base.namespaces import Namespace

Value: TypeAlias = dict[str, Any]


@register
@dataclass(kw_only=True, slots=True, eq=False, repr=False)
class Item:
    """A value and where it lies.

    Attributes:
        value: what was put.
        key: its name in the namespace.
        namespace: its place, from the root.
        created_at: when it was stored, with a timezone; a text in ISO form is read.
        updated_at: when it was stored the last time, likewise.
    """

    value: Value
    key: str
    namespace: Namespace
    created_at: datetime
    updated_at: datetime

    def __post_init__(self) -> None:
        self.namespace = tuple(self.namespace)
        self.created_at = _moment(self.created_at)
        self.updated_at = _moment(self.updated_at)

    def dict(self) -> Value:
        """The item as JSON has it: the namespace as a list, the times as texts."""
        return {
            "namespace": [*self.namespace],
            "key": self.key,
            "value": self.value,
            "created_at": self.created_at.isoformat(),
            "updated_at": self.updated_at.isoformat(),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash((self.namespace, self.key))

    def __repr__(self) -> str:
        content = ", ".join(f"{name}={value!r}" for name, value in self.dict().items())
        return f"{type(self).__name__}({content})"


@register
@dataclass(slots=True, init=False, eq=False, repr=False)
class SearchItem(Item):
    """An item that a search found. Equal to the item itself.

    Attributes:
        score: how near it is to the query; ``None`` if it was not compared with one.
    """

    score: float | None

    def __init__(
        self,
        namespace: Namespace,
        key: str,
        value: Value,
        created_at: datetime,
        updated_at: datetime,
        score: float | None = None,
    ) -> None:
        Item.__init__(self, namespace=namespace, key=key, value=value, created_at=created_at, updated_at=updated_at)
        self.score = score

    def dict(self) -> Value:
        """The item as JSON has it, with its score."""
        return {
            **Item.dict(self),
            "score": self.score,
        }  # a class with slots is made anew, and super() knows the old one


def _content(item: Item) -> tuple[object, ...]:
    return item.value, item.key, item.namespace, item.created_at, item.updated_at


def _moment(time: datetime | str) -> datetime:
    return datetime.fromisoformat(time) if isinstance(time, str) else time


__all__ = ["Item", "SearchItem"]
