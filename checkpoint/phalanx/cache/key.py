"""What makes two inputs of a node the same.

The default key is the input itself in a canonical form: the bytes the serializer would store, but with dicts and sets
in an order that their content decides. So it keeps apart whatever the serializer keeps apart (``1``, ``1.0``, ``True``
and ``"1"``; ``[1]`` and ``(1,)``; two classes with equal fields), and nothing else: equal dicts are one input, however
they were filled. The form is never stored or read, only hashed.

The hash is a cryptographic one. Hits cross threads and runs, so whoever could make two inputs collide could choose what
a node answers to somebody else.
"""

import hashlib
from collections.abc import Callable
from itertools import chain
from typing import Final, cast

from phalanx.cache.base import FullKey, Namespace
from phalanx.cache.entries import text_bytes
from phalanx.checkpoint.serde import DEFAULT_MAX_DEPTH, Serializer, TypeRegistry, default_registry
from phalanx.checkpoint.serde.codecs import FROZENSET, ORDERED_DICT, SET, Shape
from phalanx.checkpoint.serde.kind import full_name
from phalanx.checkpoint.serde.lookup import codec_for
from phalanx.checkpoint.serde.wire import PACK_BUFFER_BYTES, TIMESTAMP_TYPE, ExtType, Packer
from phalanx.errors import UnserializableError
from phalanx.types import CachePolicy

_HINT: Final = "or say what identifies the input: CachePolicy(key_func=...)"


def default_cache_key(*args: object, **kwargs: object) -> bytes:
    """What identifies an input: every part of it, whatever the order of its dicts and sets.

    Args:
        args: the input; several, and named ones, for the arguments of a function.

    Returns:
        Bytes that are the same in every process with the same classes, and as long as the input.

    Raises:
        UnserializableError: the input holds something without a safe encoding.
    """
    try:
        return _Canonical(default_registry()).encode([[*args], kwargs])
    except (UnserializableError, RecursionError) as error:
        raise _refused(args[0] if len(args) == 1 and not kwargs else [*args, kwargs]) from error


def task_cache_key(
    policy: CachePolicy, namespace: Namespace, /, *args: object, **kwargs: object
) -> tuple[FullKey, int | None]:
    """Where the writes of a task are remembered, and for how long.

    Args:
        policy: its ``key_func`` is called with the rest.
        namespace: names the node.
        args: the node's input, or a function's arguments.

    Returns:
        A key of fixed length, and the time to live in seconds.

    Raises:
        TypeError: ``key_func`` returns neither text nor bytes.
        UnserializableError: there is no ``key_func``, and the input holds something without a safe encoding.
    """
    identify: Callable[..., object] = policy.key_func or default_cache_key
    digest = hashlib.blake2b(_identity(identify(*args, **kwargs), identify), digest_size=16).hexdigest()
    return (namespace, digest), policy.ttl


def _identity(found: object, key_func: Callable[..., object]) -> bytes:
    if isinstance(found, str):
        return text_bytes(found)
    if isinstance(found, bytes):
        return found
    kind = type(found).__name__
    raise TypeError(f"key_func of a cache policy must return str or bytes; {_called(key_func)} returned a {kind}")


def _called(function: Callable[..., object]) -> str:
    return cast("str", getattr(function, "__qualname__", None) or repr(function))


def _refused(value: object) -> UnserializableError:
    """The error for a value that has no canonical form. The serializer says where in the value the reason is."""
    try:
        Serializer().dumps(value)
    except UnserializableError as error:
        return UnserializableError(error.type_name, error.path, f"{error.hint}; {_HINT}", "cache key")
    return UnserializableError(full_name(type(value)), hint=f"it is nested too deeply; {_HINT}", where="cache key")


_ATOMS: Final = frozenset((type(None), bool, float, str, bytes, TIMESTAMP_TYPE))
_INT64: Final = range(-(2**63), 2**64)
_CONTAINERS: Final = (list, dict)
_SETS: Final = (SET, FROZENSET)
_MIXED_DICT: Final = 127
"""The ext of a dict with keys that are not all texts. No codec has this code."""


class _Canonical:
    """Encodes one value."""

    __slots__ = ("_pack", "_registry")

    def __init__(self, registry: TypeRegistry) -> None:
        self._registry = registry
        self._pack = Packer(strict_types=True, unicode_errors="surrogatepass", buf_size=PACK_BUFFER_BYTES).pack

    def encode(self, value: object) -> bytes:
        return self._pack(self._plain(value, 0))

    def _plain(self, value: object, depth: int) -> object:
        """``value`` with everything in its canonical order, and with everything msgpack does not know as an ext."""
        cls = type(value)
        if cls in _ATOMS or (cls is int and value in _INT64):
            return value
        if depth > DEFAULT_MAX_DEPTH + 1:  # the level that holds the arguments is ours
            raise RecursionError
        if cls in _CONTAINERS:
            return self._contents(value, depth)
        codec = codec_for(value, self._registry)
        try:
            payload = codec.reduce(value)
        except UnserializableError:
            raise
        except Exception as error:
            raise UnserializableError(full_name(cls), hint="reading it failed") from error
        if codec.shape is Shape.RAW:
            return ExtType(codec.code, cast("bytes", payload))
        return ExtType(codec.code, self._payload(codec.code, codec.shape, payload, depth))

    def _payload(self, code: int, shape: Shape, payload: object, depth: int) -> bytes:
        if code in _SETS:
            items = cast("list[object]", payload)
            return b"".join(sorted(self._pack(self._plain(item, depth + 1)) for item in items))
        if code == ORDERED_DICT:
            pairs = cast("dict[object, object]", payload).items()
            return self._pack(self._contents([*chain.from_iterable(pairs)], depth))
        if shape is Shape.ITEMS:
            return self._pack(self._contents(payload, depth))
        parts: list[object] = []
        for part in cast("list[object]", payload):
            inside = type(part) in _CONTAINERS  # then it holds the value's items and is no level of its own
            parts.append(self._contents(part, depth) if inside else self._plain(part, depth + 1))
        return self._pack(parts)

    def _contents(self, container: object, depth: int) -> object:
        if type(container) is list:
            items = cast("list[object]", container)
            kinds = set(map(type, items))
            if kinds <= _ATOMS or (kinds == {int} and _all_fit(cast("list[int]", items))):
                return items  # nothing in it to arrange, however long it is
            arranged: list[object] = []
            for item in items:
                arranged.append(self._plain(item, depth + 1))  # noqa: PERF401 - a comprehension needs one more frame
            return arranged
        mapping = cast("dict[object, object]", container)
        if {*map(type, mapping)} <= {str}:
            plain: dict[str, object] = {}
            for name in sorted(cast("dict[str, object]", mapping)):
                plain[name] = self._plain(mapping[name], depth + 1)
            return plain
        pairs: list[bytes] = []
        for key, item in mapping.items():
            packed_key = self._pack(self._plain(key, depth + 1))
            pairs.append(packed_key + self._pack(self._plain(item, depth + 1)))
        return ExtType(_MIXED_DICT, b"".join(sorted(pairs)))


def _all_fit(numbers: list[int]) -> bool:
    return min(numbers) in _INT64 and max(numbers) in _INT64


__all__ = ["default_cache_key", "task_cache_key"]
