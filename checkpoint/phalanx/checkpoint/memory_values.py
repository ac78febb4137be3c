"""Values as the memory saver holds them: serialized, and equal ones once.

A value's bytes are looked up among those that are held. The table has weak references, so whatever the last checkpoint
or write lets go of is gone with it; nobody counts, and nothing has to be collected.

Packets are held as nodes and references to arguments, so that one argument sent two hundred times is held once.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias, cast
from weakref import WeakValueDictionary

from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.protocol.names import TASKS
from phalanx.types import Send, TimeoutPolicy

_SHARED_MIN_BYTES: Final = 128
"""Smaller values are held as often as they come: looking them up costs more than they do."""

Typed: TypeAlias = tuple[str, bytes]


class Blob:
    """A serialized value."""

    __slots__ = ("__weakref__", "typed")

    def __init__(self, typed: Typed) -> None:
        self.typed = typed


class Packet(NamedTuple):
    """A packet with its argument still serialized."""

    node: str
    arg: Blob
    timeout: TimeoutPolicy | None


Stored: TypeAlias = Blob | Packet | tuple[Packet, ...]


class Values:
    """Takes values in and gives them back. Whoever calls holds the saver's lock while storing."""

    def __init__(self) -> None:
        self._held: WeakValueDictionary[Typed, Blob] = WeakValueDictionary()

    def share(self, stored: Stored) -> Stored:
        """What :func:`dumped` gave, with equal values held once."""
        if isinstance(stored, Blob):
            return self._share(stored)
        if isinstance(stored, Packet):
            return stored._replace(arg=self._share(stored.arg))
        return tuple(packet._replace(arg=self._share(packet.arg)) for packet in stored)

    def _share(self, blob: Blob) -> Blob:
        return blob if len(blob.typed[1]) < _SHARED_MIN_BYTES else self._held.setdefault(blob.typed, blob)

    @property
    def held_bytes(self) -> int:
        """What the values take that are held once."""
        return sum(len(typed[1]) for typed in self._held)


def dumped(channel: str, value: object, serde: SerializerProtocol, seen: dict[int, Blob]) -> Stored:
    """A channel's value, or a write to it, serialized.

    Args:
        seen: the arguments of packets that were serialized just now, by identity; nothing may change meanwhile.
    """
    if channel == TASKS and type(value) is Send:
        return _dumped_packet(value, serde, seen)
    packets = _packets_of(value) if channel == TASKS else ()
    if packets:
        return tuple(_dumped_packet(packet, serde, seen) for packet in packets)
    return Blob(serde.dumps_typed(value))


def _packets_of(value: object) -> Sequence[Send]:
    """The packets that a topic is a list of; none, if there is anything else in it."""
    items = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else ()
    return cast("Sequence[Send]", items) if all(type(item) is Send for item in items) else ()


def _dumped_packet(packet: Send, serde: SerializerProtocol, seen: dict[int, Blob]) -> Packet:
    arg = seen.get(id(packet.arg))
    if arg is None:
        arg = seen[id(packet.arg)] = Blob(serde.dumps_typed(packet.arg))
    return Packet(packet.node, arg, packet.timeout)


def loaded(stored: Stored, serde: SerializerProtocol) -> object:
    """The value, as an object of its own."""
    if isinstance(stored, Blob):
        return serde.loads_typed(stored.typed)
    if isinstance(stored, Packet):
        return Send(stored.node, serde.loads_typed(stored.arg.typed), timeout=stored.timeout)
    return [Send(packet.node, serde.loads_typed(packet.arg.typed), timeout=packet.timeout) for packet in stored]
