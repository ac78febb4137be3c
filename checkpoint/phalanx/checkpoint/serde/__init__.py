"""Values to bytes and back: what checkpoints store and what travels between processes.

msgpack with a fixed table of extensions and a registry of the user's classes. Bytes stay data: decoding imports nothing
and runs no code of the classes it rebuilds. Whatever is stored comes back as exactly what it was, or is refused when
it is written, with the way to it inside of the value.

========================  ===========================================================================
:class:`Serializer`       ``dumps`` and ``loads``, with limits
:class:`TypeRegistry`     the classes that may be stored; :func:`register` adds one to the process's
:func:`encode_exception`  a node's error on its way from a worker; :func:`decode_exception` on arrival
========================  ===========================================================================
"""

from phalanx.checkpoint.serde.base import SerializerProtocol
from phalanx.checkpoint.serde.exceptions import decode_exception, encode_exception
from phalanx.checkpoint.serde.libraries import MissingLibraryError
from phalanx.checkpoint.serde.registry import TypeRegistry, default_registry, register
from phalanx.checkpoint.serde.serializer import (
    DEFAULT_MAX_BYTES,
    DEFAULT_MAX_DEPTH,
    Serializer,
)

__all__ = [
    "DEFAULT_MAX_BYTES",
    "DEFAULT_MAX_DEPTH",
    "MissingLibraryError",
    "Serializer",
    "SerializerProtocol",
    "TypeRegistry",
    "decode_exception",
    "default_registry",
    "encode_exception",
    "register",
]
