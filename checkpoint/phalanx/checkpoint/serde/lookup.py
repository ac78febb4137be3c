"""The codec for a value of some type, and the words for why there is none."""

import io
import types
from datetime import tzinfo
from functools import partial
from typing import Final, cast

from phalanx.checkpoint.serde.codecs import EXCEPTION, Codec, Shape, items_of, malformed, not_alone
from phalanx.checkpoint.serde.containers import CONTAINERS
from phalanx.checkpoint.serde.exceptions import find_exception, name_of_exception, rebuild_exception, reduce_exception
from phalanx.checkpoint.serde.kind import Kind, full_name
from phalanx.checkpoint.serde.kinds import KINDS, kind_of
from phalanx.checkpoint.serde.late import LATE_CODECS, late_codec
from phalanx.checkpoint.serde.libraries import loaded
from phalanx.checkpoint.serde.registry import TypeRegistry
from phalanx.checkpoint.serde.scalars import SCALARS
from phalanx.errors import CorruptDataError, UnserializableError

_BUILTIN: Final[dict[type, Codec]] = {**SCALARS, **CONTAINERS}
_KINDS_BY_CODE: Final[dict[int, Kind]] = {kind.code: kind for kind in KINDS}

BY_CODE: Final[dict[int, Codec]] = {codec.code: codec for codec in (*_BUILTIN.values(), *LATE_CODECS)}
"""The codecs of the standard types, by ext code."""

OBJECT_CODES: Final = frozenset((EXCEPTION, *_KINDS_BY_CODE))
"""The ext codes of objects, whose payload names their class."""


def codec_for(value: object, registry: TypeRegistry) -> Codec:
    """The codec for ``value``.

    Raises:
        UnserializableError: there is none; the hint says what can be done.
    """
    cls = type(value)
    codec = _BUILTIN.get(cls)
    if codec is not None:
        return codec
    entry = registry.entry_of(cls)
    if entry is not None and entry.codec is not None:
        return entry.codec
    late = late_codec(cls)
    if late is not None:
        # Kept by type from now on; the class is a module's own and lives as long as the process.
        _BUILTIN[cls] = late
        return late
    if isinstance(value, Exception):
        name = name_of_exception(cls, registry)
        if find_exception(name, registry) is cls:
            return _exception_codec(name)
    raise UnserializableError(full_name(cls), hint=_hint(value))


def _exception_codec(name: str) -> Codec:
    def reduce(value: object) -> list[object]:
        return [name, *reduce_exception(value)] if isinstance(value, Exception) else []

    return Codec(EXCEPTION, Shape.ATTRIBUTES, reduce, not_alone)


def rebuild_object(code: int, payload: object, registry: TypeRegistry) -> object:
    """The object of a class that the payload names.

    Raises:
        UnknownTypeError: the class is not registered.
        CorruptDataError: the payload is not of the form the table says. Other exceptions mean the same.
    """
    if code == EXCEPTION:
        return rebuild_exception(items_of(payload, "exception"), registry)
    kind = _KINDS_BY_CODE[code]
    match items_of(payload, kind.noun):
        case [str() as name, *state]:
            cls = registry.lookup(name)
        case _:
            raise malformed(kind.noun)
    entry = registry.entry_of(cls)
    if entry is None or entry.kind is not kind:
        raise CorruptDataError(f"stored data holds {name!r} as a {kind.noun}, which {full_name(cls)} is not")
    return kind.rebuild(cls, state)


# --- hints -----------------------------------------------------------------------------------------------------------

_FUNCTIONS: Final = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    partial,
)
_RUNNING: Final = (
    types.GeneratorType,
    types.CoroutineType,
    types.AsyncGeneratorType,
    types.FrameType,
    types.TracebackType,
)
_LIVING: Final = frozenset(("_thread", "threading", "socket", "ssl", "multiprocessing.synchronize", "asyncio.locks"))


def _hint(value: object) -> str:
    """What the user can do about a value that cannot travel."""
    cls = type(value)
    if isinstance(value, _FUNCTIONS):
        return "functions cannot travel; let the node that needs it import it by name"
    if isinstance(value, type) or isinstance(value, types.ModuleType):  # noqa: SIM101
        return "classes and modules cannot travel; store a name and look it up in the node"
    if isinstance(value, _RUNNING):
        return "it is bound to the running process and cannot travel; store what it yields or returns"
    if isinstance(value, io.IOBase):
        return "open files cannot travel; store the path and open it in the node"
    if cls.__module__ in _LIVING:
        return "locks, threads and connections cannot travel; create it in the node that uses it"
    if cls is memoryview:
        return "store bytes(view)"
    if isinstance(value, BaseException):
        return "register its class: other processes cannot find it by its name"
    return _hint_by_class(cls)


def _hint_by_class(cls: type) -> str:
    kind = kind_of(cls)
    if kind is not None and cls.__module__ != "builtins":
        return f"register the {kind.noun} with phalanx.checkpoint.serde.register or use it in the graph's state schema"
    if tzinfo in cls.__mro__:
        return "use a zone of the standard library: datetime.timezone or zoneinfo.ZoneInfo"
    if loaded("numpy", "ndarray") in cast("tuple[object, ...]", cls.__mro__):
        return "only numpy.ndarray itself travels, no subclass; store what it is made of as plain arrays"
    if hasattr(cls, "tolist"):
        return "store value.tolist()"
    return "store plain values, or make the class a dataclass and register it"
