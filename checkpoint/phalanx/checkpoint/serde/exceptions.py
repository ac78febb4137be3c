"""Exceptions as data: what is kept of one, and how it is rebuilt without running code that data has chosen.

Which class is rebuilt: a builtin, one of ``phalanx.errors``, a registered one, or one found by its name in a module
that is loaded already. Nothing is ever imported for it, and looking into a module does not run the module's
``__getattr__``.

How: by the ``__new__`` and ``__init__`` of the builtin exception the class is laid out as, whatever the class itself
defines, and by setting ``args`` and ``__dict__``. Only subclasses of ``Exception`` are rebuilt: an exception that would
end the process (``SystemExit``) or cancel a task is reported as a :class:`~phalanx.errors.RemoteNodeError`.
"""

import builtins
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol, cast

from phalanx import errors
from phalanx.checkpoint.serde.codecs import items_of, malformed, named
from phalanx.checkpoint.serde.kind import full_name
from phalanx.checkpoint.serde.libraries import loaded
from phalanx.checkpoint.serde.names import main_stem, stable_name
from phalanx.errors import RemoteNodeError, RemoteTraceback, SerializationError, UnknownTypeError

if TYPE_CHECKING:
    from phalanx.checkpoint.serde.registry import TypeRegistry
    from phalanx.checkpoint.serde.serializer import Serializer

MAX_TEXT_CHARS: Final = 65_536
"""The most that is kept of a traceback, a message or a representation."""

# What these builtins keep outside of args and __dict__.
_BUILTIN_STATE: Final[dict[type[BaseException], tuple[str, ...]]] = {
    OSError: ("filename", "filename2"),
    ImportError: ("name", "path"),
    NameError: ("name",),
    AttributeError: ("name",),
}


# --- finding the class -----------------------------------------------------------------------------------------------


def name_of_exception(cls: type, registry: "TypeRegistry") -> str:
    """How stored data calls an exception's class."""
    return registry.name_of(cls) or stable_name(cls)


def find_exception(name: str, registry: "TypeRegistry") -> type[Exception] | None:
    """The class stored data calls ``name``, or ``None`` if it may not be rebuilt here."""
    try:
        cls: object = registry.lookup(name)
    except UnknownTypeError:
        module, _, qualname = name.partition(":")
        cls = _in_loaded_module(module, qualname)
    return cast("type[Exception]", cls) if _is_exception_class(cls) else None


def _in_loaded_module(module: str, qualname: str) -> object:
    if module == "builtins":
        return vars(builtins).get(qualname)
    if module == errors.__name__:
        return vars(errors).get(qualname)
    found = loaded(module, qualname)
    if found is None and module == main_stem():
        found = loaded("__main__", qualname)
    return found


def _is_exception_class(value: object) -> bool:
    return issubclass(type(value), type) and issubclass(cast("type", value), Exception)


# --- taking apart and rebuilding -------------------------------------------------------------------------------------


def _builtin_base(cls: type[Exception]) -> type[Exception]:
    base: type = cls
    while base.__module__ != "builtins":
        # The base that decides the layout; with several bases it need not be the first builtin of the MRO.
        base = cast("type", base.__base__)
    return cast("type[Exception]", base)


def builtin_state(exc: BaseException) -> dict[str, object]:
    """The attributes that the builtin part of ``exc`` keeps outside of ``args`` and ``__dict__``."""
    state: dict[str, object] = {}
    for base, names in _BUILTIN_STATE.items():
        if isinstance(exc, base):
            held = {name: cast("_Slot", getattr(base, name)).__get__(exc) for name in names}
            state.update((name, value) for name, value in held.items() if value is not None)
    return state


class _Slot(Protocol):
    """An attribute that a builtin class keeps in its own memory."""

    def __get__(self, instance: object, /) -> object: ...
    def __set__(self, instance: object, value: object, /) -> None: ...


def _set(owner: type, name: str, exc: Exception, value: object) -> None:
    # By the builtin's own descriptor: the exception's class may hide it behind a property.
    cast("_Slot", getattr(owner, name)).__set__(exc, value)


def rebuild(
    cls: type[Exception],
    args: Sequence[object],
    attributes: Mapping[str, object],
    state: Mapping[str, object],
) -> Exception:
    """An exception of ``cls`` with exactly this state; no code of ``cls`` is run."""
    base = _builtin_base(cls)
    new = cast("Callable[..., Exception]", base.__new__)
    initialize = cast("Callable[..., None]", base.__init__)
    try:
        exc = new(cls, *args)
        initialize(exc, *args)
    except (TypeError, ValueError) as error:
        # The class gives its builtin base other arguments than it keeps as args.
        if ExceptionGroup in cls.__mro__:
            raise malformed(full_name(cls)) from error
        exc = new(cls)
    _set(BaseException, "args", exc, tuple(args))
    cast("dict[str, object]", object.__getattribute__(exc, "__dict__")).update(attributes)
    for owner, names in _BUILTIN_STATE.items():
        if issubclass(cls, owner):
            for name in names:
                if name in state:
                    _set(owner, name, exc, state[name])
    return exc


def reduce_exception(exc: Exception) -> list[object]:
    """The payload of an exception inside of a value, without its class."""
    attributes = cast("dict[str, object]", object.__getattribute__(exc, "__dict__"))
    return [list(exc.args), dict(attributes), builtin_state(exc)]


def rebuild_exception(payload: list[object], registry: "TypeRegistry") -> Exception:
    """The exception of a payload ``[type, [arg, …], {attribute: value}, {builtin attribute: value}]``."""
    match payload:
        case [str() as name, args, attributes, state]:
            cls = find_exception(name, registry)
        case _:
            raise malformed("exception")
    if cls is None:
        raise UnknownTypeError(name)
    return rebuild(cls, items_of(args, name), named(attributes, name), named(state, name))


# --- from a worker to the coordinator --------------------------------------------------------------------------------


def encode_exception(exc: BaseException, serializer: "Serializer | None" = None) -> dict[str, object]:
    """What a worker reports of an exception a node raised: a dict of plain types, whatever the exception holds.

    An argument that cannot be serialized is kept as its ``repr``; an attribute that cannot is left out. Every
    argument and attribute is encoded by itself, so that one whose class the coordinator does not know does not take
    the others with it.

    Args:
        exc: the exception, with its traceback.
        serializer: encodes arguments and attributes; one with this process's registry if left out.
    """
    codec = _serializer(serializer)
    attributes: dict[str, object] = {}
    for name, value in cast("dict[str, object]", object.__getattribute__(exc, "__dict__")).items():
        with suppress(SerializationError):
            attributes[name] = _pack(value, codec)
    return {
        "type": name_of_exception(type(exc), codec.registry),
        "text": _shortened(_safe(str, exc)),
        "args": [_pack_or_repr(argument, codec) for argument in exc.args],
        "attributes": attributes,
        "state": {name: _pack_or_repr(value, codec) for name, value in builtin_state(exc).items()},
        "traceback": _traceback(exc),
    }


def decode_exception(data: object, serializer: "Serializer | None" = None) -> Exception:
    """The exception that :func:`encode_exception` described, with a :class:`RemoteTraceback` as its cause.

    Returns:
        An exception of the same class if this process may rebuild it, otherwise a :class:`RemoteNodeError`.

    Raises:
        CorruptDataError: ``data`` is no description of an exception.
    """
    what = "report of an exception"
    report = named(data, what)
    match report.get("type"), report.get("text"), report.get("traceback"):
        case str() as name, str() as text, str() as trace:
            pass
        case _:
            raise malformed(what)
    args = items_of(report.get("args"), what)
    attributes = named(report.get("attributes"), what)
    state = named(report.get("state"), what)
    exc = _rebuild_report(name, args, attributes, state, _serializer(serializer)) or RemoteNodeError(name, text)
    # Not by assignment: the class may define its own __setattr__.
    object.__setattr__(exc, "__cause__", RemoteTraceback(trace))
    return exc


def _rebuild_report(
    name: str,
    args: Sequence[object],
    attributes: Mapping[str, object],
    state: Mapping[str, object],
    codec: "Serializer",
) -> Exception | None:
    cls = find_exception(name, codec.registry)
    if cls is None:
        return None
    try:
        return rebuild(
            cls,
            [_unpack(argument, codec) for argument in args],
            {name: _unpack(value, codec) for name, value in attributes.items()},
            {name: _unpack(value, codec) for name, value in state.items()},
        )
    except (SerializationError, TypeError, ValueError):
        # The class may be laid out as something that is not made of its args; the text is still worth having.
        return None


_PLAIN: Final = frozenset((type(None), bool, int, float, str))


def _pack(value: object, codec: "Serializer") -> object:
    """A plain value as it is, any other as bytes."""
    return value if type(value) in _PLAIN else codec.dumps(value)


def _pack_or_repr(value: object, codec: "Serializer") -> object:
    try:
        return _pack(value, codec)
    except SerializationError:
        return _shortened(_safe(repr, value))


def _unpack(value: object, codec: "Serializer") -> object:
    if type(value) is not bytes:
        return value
    try:
        return codec.loads(value)
    except UnknownTypeError as error:
        return f"<{error.type_name}, which is not registered here>"


def _safe(render: Callable[[object], str], value: object) -> str:
    try:
        return str(render(value))
    except Exception as error:
        return f"<{full_name(type(value))} whose {render.__name__}() raises {type(error).__name__}>"


def _traceback(exc: BaseException) -> str:
    import traceback

    return _shortened("".join(traceback.format_exception(exc)))


def _shortened(text: str) -> str:
    if len(text) <= MAX_TEXT_CHARS:
        return text
    # The start says where it began, the end what went wrong.
    half = MAX_TEXT_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _serializer(given: "Serializer | None") -> "Serializer":
    if given is not None:
        return given
    from phalanx.checkpoint.serde.serializer import Serializer

    return Serializer()
