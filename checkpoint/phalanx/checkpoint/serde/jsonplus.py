"""The serializer under the name that people move over with. The codec is the same; there is no other one inside.

What LangGraph's class of this name can be told, and what becomes of it:

===========================  ==========================================================================================
``allowed_msgpack_modules``  classes are registered in this process's registry; ``(module, name)`` pairs too, if the
                             module is loaded already: nothing is imported to find a class. ``True``, every class,
                             does not exist.
``pickle_fallback``          only ``False``: unpickling runs whatever the data says.
``allowed_json_modules``     only ``None``: there is no JSON encoding that could name a class.
``__unpack_ext_hook__``      only ``None``: what an ext means is a storage format and no option.
===========================  ==========================================================================================
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias, cast

from phalanx.checkpoint.serde.late import is_standard
from phalanx.checkpoint.serde.libraries import loaded
from phalanx.checkpoint.serde.serializer import DEFAULT_MAX_BYTES, DEFAULT_MAX_DEPTH, Serializer
from phalanx.errors import PhalanxError

AllowedMsgpackModules: TypeAlias = Iterable["tuple[str, ...] | type"]


class InvalidModuleError(PhalanxError, ValueError):
    """An allow-list names a class that no loaded module has."""


class JsonPlusSerializer(Serializer):
    """A :class:`~phalanx.checkpoint.serde.Serializer` that is told which classes to allow the way LangGraph's is.

    Args:
        pickle_fallback: must be ``False``.
        allowed_json_modules: must be ``None``.
        allowed_msgpack_modules: classes that may be stored, or ``(module, name)`` pairs of classes that are loaded.
            They are registered in the process's :func:`~phalanx.checkpoint.serde.default_registry`.
        __unpack_ext_hook__: must be ``None``.
        max_bytes, max_depth, compress_above: see :class:`~phalanx.checkpoint.serde.Serializer`.

    Raises:
        ValueError: an argument asks for what does not exist here.
        InvalidModuleError: a pair names a class that is not loaded.
        TypeError: a class is of a kind that cannot be stored.
    """

    def __init__(
        self,
        *,
        pickle_fallback: bool = False,
        allowed_json_modules: Iterable[tuple[str, ...]] | Literal[True] | None = None,
        allowed_msgpack_modules: AllowedMsgpackModules | Literal[True] | None = None,
        __unpack_ext_hook__: object = None,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_depth: int = DEFAULT_MAX_DEPTH,
        compress_above: int | None = None,
    ) -> None:
        super().__init__(max_bytes=max_bytes, max_depth=max_depth, compress_above=compress_above)
        if pickle_fallback:
            raise ValueError(
                f"pickle_fallback=True is refused: reading pickles runs code that the data names. {_ADVICE}"
            )
        if allowed_json_modules is not None:
            raise ValueError(f"allowed_json_modules has no meaning: there is no JSON encoding here. {_ADVICE}")
        if allowed_msgpack_modules is True:
            raise ValueError(f"allowed_msgpack_modules=True is refused: data may not name any class. {_ADVICE}")
        if __unpack_ext_hook__ is not None:
            raise ValueError(f"__unpack_ext_hook__ is refused: what an ext means is a storage format. {_ADVICE}")
        for entry in allowed_msgpack_modules or ():
            self._allow(entry)

    def with_msgpack_allowlist(self, extra_allowlist: AllowedMsgpackModules) -> "JsonPlusSerializer":
        """A serializer with the same limits, after these classes were registered too; see the class for the errors."""
        return type(self)(
            allowed_msgpack_modules=extra_allowlist,
            max_bytes=self.max_bytes,
            max_depth=self.max_depth,
            compress_above=self.compress_above,
        )

    def _allow(self, entry: "tuple[str, ...] | type") -> None:
        cls = entry if isinstance(entry, type) else _find(entry)
        if not is_standard(cls):
            self.registry.register(cls)


_ADVICE: Final = "Allow the classes you store with phalanx.checkpoint.serde.register(...)"


def _find(entry: tuple[str, ...]) -> type:
    match cast("object", entry):
        case (str() as module, str() as name):
            found = loaded(module, name)
        case _:
            raise InvalidModuleError(f"an allow-list holds classes or (module, name) pairs, not {entry!r}")
    if not isinstance(found, type):
        raise InvalidModuleError(
            f"{module}.{name} is no class of a loaded module; import it first, or give the class itself"
        )
    return found
