"""Libraries that nobody has to have. None is imported before a value needs it, and each by a name written here."""

import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Final, cast

from phalanx.errors import UnknownTypeError

_EXTRAS: Final = {"zstandard": "phalanx[zstd]", "cryptography": "phalanx[crypto]"}


class MissingLibraryError(UnknownTypeError):
    """Something needs a library that is not installed in this process: ``type_name`` is what, ``library`` which."""

    def __init__(self, type_name: str, library: str) -> None:
        super().__init__(type_name)
        self.args = (type_name, library)
        self.library = library

    def __str__(self) -> str:
        package = _EXTRAS.get(self.library, self.library)
        return f"{self.type_name} needs {self.library}, which is not installed here: pip install '{package}'"


def loaded(module: str, qualname: str) -> object:
    """What a module that is loaded calls ``qualname``, or ``None``. Imports nothing, runs no code of the module's."""
    found: object = sys.modules.get(module)
    for part in qualname.split("."):
        found = _namespace(found).get(part)
    return found


def _namespace(value: object) -> Mapping[str, object]:
    # Not getattr: a module or a metaclass can answer that with code of its own, and a lazy module would load itself.
    if issubclass(type(value), ModuleType):
        return cast("Mapping[str, object]", object.__getattribute__(value, "__dict__"))
    if issubclass(type(value), type):
        return cast("Mapping[str, object]", type.__getattribute__(cast("type", value), "__dict__"))
    return {}


@contextmanager
def needed_for(what: str, library: str) -> Generator[None, None, None]:
    """Around an import of ``library``: its absence becomes a :class:`MissingLibraryError` that says what needs it."""
    try:
        yield
    except ImportError as error:
        raise MissingLibraryError(what, library) from error
