"""Which classes stored data may name, and under which names."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from phalanx.checkpoint.serde.codecs import Codec, Shape, not_alone
from phalanx.checkpoint.serde.kind import Kind, full_name
from phalanx.checkpoint.serde.kinds import kind_of
from phalanx.checkpoint.serde.names import stable_name
from phalanx.errors import UnknownTypeError

C = TypeVar("C", bound=type)


@dataclass(frozen=True, slots=True)
class Entry:
    """How objects of a registered class are stored.

    ``kind`` and ``codec`` are ``None`` for exceptions, which are all stored alike. Holds no reference to the class.
    """

    name: str
    kind: Kind | None
    codec: Codec | None


def _entry(name: str, kind: Kind | None) -> Entry:
    if kind is None:
        return Entry(name, None, None)

    def reduce(value: object) -> list[object]:
        return [name, *kind.reduce(value)]

    return Entry(name, kind, Codec(kind.code, Shape.ATTRIBUTES if kind.attributes else Shape.PARTS, reduce, not_alone))


class TypeRegistry:
    """The classes that may be stored and rebuilt.

    A dataclass, pydantic model, ``Enum``, ``NamedTuple``, attrs class, exception or subclass of a builtin such as
    ``str`` or ``dict`` travels only if it is registered here, in the process that writes and in the one that reads.
    Classes that a graph's state schema mentions are registered by the graph.

    Example:
        >>> registry = TypeRegistry()
        >>> registry.register(Invoice)
        >>> Serializer(registry).dumps(Invoice(...))
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._classes: dict[str, type] = {}
        # Weak, because a program may define the same local class again for every graph it builds.
        self._entries: WeakKeyDictionary[type, Entry] = WeakKeyDictionary()

    def register(self, cls: C, name: str | None = None) -> C:
        """Allow ``cls`` in stored data.

        A class registered again stays as it is. A new definition of a class, with the same module and qualified name,
        takes the old one's place: new data is rebuilt as the new class.

        Args:
            cls: the class.
            name: how stored data calls it; its ``module:qualname`` if left out. Give a name of your own if the class
                may move to another module, and register it under the old one as well to read older data.

        Returns:
            ``cls``.

        Raises:
            TypeError: a class of this kind cannot be stored.
            ValueError: another class has this name.
        """
        kind = _checked_kind(cls)
        with self._lock:
            known = self._entries.get(cls)
            if name is None and known is not None:
                name = known.name
            name = stable_name(cls) if name is None else name
            holder = self._classes.get(name)
            if holder is not None and holder is not cls and stable_name(holder) != stable_name(cls):
                raise ValueError(
                    f"two classes want the name {name!r} in stored data: {full_name(holder)} and {full_name(cls)}; "
                    f"register one of them under another name"
                )
            self._classes[name] = cls
            self._entries[cls] = _entry(name, kind)
        return cls

    def register_schema(self, annotation: object) -> None:
        """Register every class that values of ``annotation`` may consist of.

        Looks into type hints of any form (``Annotated``, unions, generics, nested classes) and into the fields of
        ``TypedDict``, dataclasses, pydantic models, ``NamedTuple`` and attrs classes. Hints that cannot be resolved are
        passed over.
        """
        from phalanx.checkpoint.serde.schema import classes_in

        for cls in classes_in(annotation):
            self.register(cls)

    def name_of(self, cls: type) -> str | None:
        """The name of ``cls`` in stored data, or ``None`` if it is not registered."""
        entry = self._entries.get(cls)
        return entry.name if entry else None

    def lookup(self, name: str) -> type:
        """The class registered under ``name``.

        Raises:
            UnknownTypeError: there is none.
        """
        cls = self._classes.get(name)
        if cls is None:
            raise UnknownTypeError(name)
        return cls

    def entry_of(self, cls: type) -> Entry | None:
        """How objects of ``cls`` are stored, or ``None`` if it is not registered."""
        return self._entries.get(cls)


def _checked_kind(cls: type) -> Kind | None:
    if not isinstance(cast("object", cls), type):
        raise TypeError(f"register(...) takes a class, not {cls!r}")
    if Exception in cls.__mro__:
        return None
    kind = kind_of(cls)
    if kind is None:
        raise TypeError(
            f"{full_name(cls)} cannot be registered: it is no dataclass, pydantic model, Enum, NamedTuple, "
            f"attrs class, exception or subclass of a builtin value; make it a dataclass"
        )
    return kind


_DEFAULT: Final = TypeRegistry()


def default_registry() -> TypeRegistry:
    """The registry of this process, which is used where none is given."""
    return _DEFAULT


@overload
def register(cls: C, /, *, name: str | None = None) -> C: ...
@overload
def register(*, name: str) -> Callable[[C], C]: ...
def register(cls: C | None = None, /, *, name: str | None = None) -> C | Callable[[C], C]:
    """Allow a class in stored data, in the registry of this process; see :meth:`TypeRegistry.register`.

    Example:
        >>> @register
        ... @dataclass
        ... class Invoice:
        ...     number: int

        >>> @register(name="billing.Invoice")
        ... @dataclass
        ... class Invoice:
        ...     number: int
    """
    if cls is not None:
        return _DEFAULT.register(cls, name)
    return lambda decorated: _DEFAULT.register(decorated, name)
