"""Classes of modules that a program may never need, found by name among the modules that are loaded."""

from typing import Final

from phalanx.checkpoint.serde.arrays import ARRAYS
from phalanx.checkpoint.serde.codecs import Codec
from phalanx.checkpoint.serde.containers import CONTAINERS
from phalanx.checkpoint.serde.frames import FRAMES
from phalanx.checkpoint.serde.libraries import loaded
from phalanx.checkpoint.serde.scalars import LATE_SCALARS, SCALARS

_LATE: Final[dict[str, tuple[str, Codec]]] = {**LATE_SCALARS, **ARRAYS, **FRAMES}

LATE_CODECS: Final = tuple(codec for _, codec in _LATE.values())


def late_codec(cls: type) -> Codec | None:
    """The codec of a class that this table describes, or ``None``. A class that only has such a name is no such one."""
    entry = _LATE.get(cls.__name__)
    return entry[1] if entry is not None and loaded(entry[0], cls.__name__) is cls else None


def is_standard(cls: type) -> bool:
    """Whether values of exactly this class travel without being registered."""
    return cls.__module__ == "builtins" or cls in SCALARS or cls in CONTAINERS or late_codec(cls) is not None
