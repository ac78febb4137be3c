"""A store to be given to nodes: what a graph is compiled with as ``store`` is passed on as it is."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.behaviour.reference import ON_REFERENCE

if ON_REFERENCE and not TYPE_CHECKING:
    from phalanx.store.base import BaseStore
    from phalanx.store.memory import InMemoryStore
else:

    @dataclass
    class Item:
        """What a store keeps under a key."""

        value: dict[str, Any]

    class BaseStore:
        """A parameter that is annotated with a class of this name asks for the store."""

        def __init__(self) -> None:
            self.items: dict[tuple[tuple[str, ...], str], Item] = {}

        def put(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
            self.items[namespace, key] = Item(value)

        def get(self, namespace: tuple[str, ...], key: str) -> Item | None:
            return self.items.get((namespace, key))

    class InMemoryStore(BaseStore):
        """The one that tests use."""


__all__ = ["BaseStore", "InMemoryStore"]
