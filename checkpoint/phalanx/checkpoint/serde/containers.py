"""The standard library's containers, and the engine's own values: ``Send``, ``Command``, ``Overwrite``,
``Interrupt``, ``DeltaSnapshot``.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Final, TypeVar, cast

from phalanx.channels.delta import DeltaSnapshot
from phalanx.checkpoint.serde.codecs import (
    COMMAND,
    COUNTER,
    DEFAULTDICT,
    DELTA_SNAPSHOT,
    DEQUE,
    FROZENSET,
    INTERRUPT,
    ORDERED_DICT,
    OVERWRITE,
    SEND,
    SET,
    TUPLE,
    Codec,
    Shape,
    codec,
    items_of,
    malformed,
    mapping_of,
)
from phalanx.errors import UnserializableError
from phalanx.protocol.limits import timeout_from_plain, timeout_to_plain
from phalanx.types import Command, Interrupt, Overwrite, Send

T = TypeVar("T")


def _rebuild_tuple(payload: object) -> tuple[object, ...]:
    return tuple(items_of(payload, "tuple"))


def _rebuild_set(payload: object) -> set[object]:
    return set(items_of(payload, "set"))


def _rebuild_frozenset(payload: object) -> frozenset[object]:
    return frozenset(items_of(payload, "frozenset"))


def _reduce_deque(value: deque[object]) -> list[object]:
    return [value.maxlen, list(value)]


def _rebuild_deque(payload: object) -> deque[object]:
    match items_of(payload, "deque"):
        case [None | int() as maxlen, items]:
            return deque(items_of(items, "deque"), maxlen)
        case _:
            raise malformed("deque")


_PLAIN_FACTORIES: Final[tuple[type, ...]] = (
    *(list, int, dict, set, float, str, bool, tuple, bytes, frozenset),
    *(deque, Counter, OrderedDict, defaultdict),
)
_FACTORIES: Final[dict[str | None, Callable[[], object] | None]] = {
    None: None,
    **{factory.__name__: factory for factory in _PLAIN_FACTORIES},
}


def _reduce_defaultdict(value: defaultdict[object, object]) -> list[object]:
    factory = value.default_factory
    for name, known in _FACTORIES.items():
        if factory is known:
            return [name, dict(value)]
    names = ", ".join(str(name) for name in _FACTORIES)
    raise UnserializableError("collections.defaultdict", hint=f"its factory must be one of: {names}")


def _rebuild_defaultdict(payload: object) -> defaultdict[object, object]:
    match items_of(payload, "defaultdict"):
        case [None | str() as factory, items] if factory in _FACTORIES:
            return defaultdict(_FACTORIES[factory], mapping_of(items, "defaultdict"))
        case _:
            raise malformed("defaultdict")


def _rebuild_counter(payload: object) -> Counter[object]:
    counter: Counter[object] = Counter()
    # Counter's own update adds and so wants numbers; a Counter may hold anything.
    update = cast("Callable[[object, object], None]", getattr(dict, "update"))  # noqa: B009
    update(counter, mapping_of(payload, "Counter"))
    return counter


def _rebuild_ordered_dict(payload: object) -> OrderedDict[object, object]:
    return OrderedDict(mapping_of(payload, "OrderedDict"))


def _rebuild_send(payload: object) -> Send:
    match items_of(payload, "Send"):
        case [str() as node, arg]:
            return Send(node, arg)
        case [str() as node, arg, timeout]:
            try:
                return Send(node, arg, timeout=timeout_from_plain(timeout))
            except (TypeError, ValueError) as error:
                raise malformed("Send") from error
        case _:
            raise malformed("Send")


def _reduce_send(packet: Send) -> list[object]:
    timeout = timeout_to_plain(packet.timeout)
    return [packet.node, packet.arg] if timeout is None else [packet.node, packet.arg, timeout]


def _rebuild_command(payload: object) -> "Command[str]":
    match items_of(payload, "Command"):
        case [None | str() as graph, update, resume, goto]:
            return Command(graph=graph, update=update, resume=resume, goto=cast("str", goto))
        case _:
            raise malformed("Command")


def _rebuild_overwrite(payload: object) -> Overwrite:
    match items_of(payload, "Overwrite"):
        case [value]:
            return Overwrite(value)
        case _:
            raise malformed("Overwrite")


def _rebuild_interrupt(payload: object) -> Interrupt:
    match items_of(payload, "Interrupt"):
        case [value, str() as id]:
            return Interrupt(value, id)
        case [value, str() as id, schema]:
            return Interrupt(value, id, response_schema=schema)
        case _:
            raise malformed("Interrupt")


def _rebuild_snapshot(payload: object) -> DeltaSnapshot[object]:
    match items_of(payload, "DeltaSnapshot"):
        case [value]:
            return DeltaSnapshot(value)
        case _:
            raise malformed("DeltaSnapshot")


def _reduce_interrupt(question: Interrupt) -> list[object]:
    plain: list[object] = [question.value, question.id]
    return plain if question.response_schema is None else [*plain, question.response_schema]


def _record(code: int, cls: type[T], rebuild: Callable[[object], T], *fields: str) -> Codec:
    def reduce(value: T) -> list[object]:
        return [getattr(value, field) for field in fields]

    return codec(code, Shape.FIELDS, reduce, rebuild, fields)


def _as_list(value: object) -> list[object]:
    return list(cast("list[object]", value))


def _as_dict(value: object) -> dict[object, object]:
    return dict(cast("dict[object, object]", value))


CONTAINERS: Final[dict[type, Codec]] = {
    tuple: codec(TUPLE, Shape.ITEMS, _as_list, _rebuild_tuple),
    set: codec(SET, Shape.ITEMS, _as_list, _rebuild_set),
    frozenset: codec(FROZENSET, Shape.ITEMS, _as_list, _rebuild_frozenset),
    deque: codec(DEQUE, Shape.PARTS, _reduce_deque, _rebuild_deque),
    defaultdict: codec(DEFAULTDICT, Shape.PARTS, _reduce_defaultdict, _rebuild_defaultdict),
    Counter: codec(COUNTER, Shape.ITEMS, _as_dict, _rebuild_counter),
    OrderedDict: codec(ORDERED_DICT, Shape.ITEMS, _as_dict, _rebuild_ordered_dict),
    Send: codec(SEND, Shape.FIELDS, _reduce_send, _rebuild_send, ("node", "arg", "timeout")),
    Command: _record(COMMAND, Command, _rebuild_command, "graph", "update", "resume", "goto"),
    Overwrite: _record(OVERWRITE, Overwrite, _rebuild_overwrite, "value"),
    DeltaSnapshot: _record(DELTA_SNAPSHOT, DeltaSnapshot[object], _rebuild_snapshot, "value"),
    Interrupt: codec(
        INTERRUPT, Shape.FIELDS, _reduce_interrupt, _rebuild_interrupt, ("value", "id", "response_schema")
    ),
}
"""By exact type."""
