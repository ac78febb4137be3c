"""From a value to bytes, in two ways that give the same bytes.

:class:`FastEncoder` lets msgpack walk the value in C and is called back for what msgpack does not know. It keeps no
track of where in the value it is, and gives up on whatever is unusual. :class:`CarefulEncoder` is then asked to do it
again. It walks in Python, one level of the value in two frames, knows the path, and either succeeds, for values that
are only rare (strings with lone surrogates, bytearrays, deep nesting), or raises the error with the path.

The nesting is limited for two reasons. What is written must be readable, and reading must not overflow a stack either.
And C code that recurses has no guard: msgpack allows 1024 levels for each call, and each ext is another call. So the
fast encoder allows few exts inside of exts, and leaves the rest to the careful one, which packs them from the inside
out.
"""

from typing import Final, cast

from phalanx.checkpoint.serde.codecs import Codec, Shape
from phalanx.checkpoint.serde.kind import full_name
from phalanx.checkpoint.serde.lookup import codec_for
from phalanx.checkpoint.serde.registry import TypeRegistry
from phalanx.checkpoint.serde.wire import DEGRADED, PACK_BUFFER_BYTES, TIMESTAMP_TYPE, ExtType, Packer, marks, survey
from phalanx.errors import UnserializableError

MAX_FAST_NESTING: Final = 8


class TooUnusualError(Exception):
    """The fast encoder leaves this value to the careful one."""


class FastEncoder:
    """Encodes the common values; raises an exception of any kind for those that it cannot vouch for."""

    __slots__ = ("_deepest", "_max_depth", "_nesting", "_registry")

    def __init__(self, registry: TypeRegistry, max_depth: int) -> None:
        self._registry = registry
        self._max_depth = max_depth
        self._nesting = 0
        self._deepest = 0

    def encode(self, value: object) -> bytes:
        packed = self._pack(value)
        seen = marks(packed)
        if len(seen) > self._max_depth or not seen.isascii():
            self._admit(self._plain_depth(value) + self._deepest)
        return packed

    def _pack(self, value: object) -> bytes:
        return Packer(default=self._ext, strict_types=True, buf_size=PACK_BUFFER_BYTES).pack(value)

    def _ext(self, value: object) -> object:
        codec = codec_for(value, self._registry)
        payload = codec.reduce(value)
        if codec.shape is Shape.RAW:
            return ExtType(codec.code, cast("bytes", payload))
        if self._nesting == MAX_FAST_NESTING:
            raise TooUnusualError
        # Before packing, not after: it bounds how deep C may recurse.
        depth = self._plain_depth(payload)
        outer, self._deepest = self._deepest, 0
        self._nesting += 1
        packed = self._pack(payload)
        self._nesting -= 1
        depth += self._deepest
        self._admit(depth)
        self._deepest = max(outer, depth)
        return ExtType(codec.code, packed)

    def _plain_depth(self, value: object) -> int:
        depth = survey(value, self._max_depth, DEGRADED)
        if depth is None:
            raise TooUnusualError
        self._admit(depth)
        return depth

    def _admit(self, depth: int) -> None:
        if depth > self._max_depth:
            raise TooUnusualError


class _Place:
    """A place in a value, as a chain from the inside to the top, so that walking on costs one small object."""

    __slots__ = ("key", "parent", "style")

    def __init__(self, parent: "_Place | None", style: str, key: object) -> None:
        self.parent = parent
        self.style = style
        self.key = key


_MAX_STEPS: Final = 12


def _path_to(place: _Place | None) -> str:
    steps: list[str] = []
    while place is not None:
        steps.append(_step(place))
        place = place.parent
    steps.reverse()
    if len(steps) > _MAX_STEPS:
        steps[_MAX_STEPS // 2 : -_MAX_STEPS // 2] = ["…"]
    return "".join(steps)


def _step(place: _Place) -> str:
    if place.style == "attribute":
        return f".{place.key}"
    if place.style == "key":
        return f".keys()[{_brief(place.key)}]"
    return f"[{_brief(place.key)}]"


def _brief(key: object) -> str:
    """A key as a path shows it; only plain ones are shown, because other classes' ``repr`` may be long or fail."""
    if type(key) in (str, int, bool, bytes, float, type(None)):
        text = ascii(key)
        return text if len(text) <= 60 else f"{text[:40]}…{text[-10:]}"
    return f"<{full_name(type(key))}>"


_ATOMS: Final = frozenset((type(None), bool, float, str, bytes, TIMESTAMP_TYPE))
_PLAIN_CONTAINERS: Final = frozenset((list, dict))
_INT64: Final = range(-(2**63), 2**64)


class CarefulEncoder:
    """Encodes every value that can be encoded, and says where the first one is that cannot."""

    def __init__(self, registry: TypeRegistry, max_depth: int) -> None:
        self._registry = registry
        self._max_depth = max_depth
        self._entered: set[int] = set()

    def encode(self, value: object) -> bytes:
        try:
            return self._pack(self._plain(value, None, 1))
        except RecursionError as error:
            raise UnserializableError(
                full_name(type(value)), hint="it is nested too deeply for what is left of the stack"
            ) from error

    @staticmethod
    def _pack(value: object) -> bytes:
        return Packer(strict_types=True, unicode_errors="surrogatepass", buf_size=PACK_BUFFER_BYTES).pack(value)

    def _plain(self, value: object, place: _Place | None, depth: int) -> object:
        """``value`` with everything msgpack does not know packed into an ext."""
        cls = type(value)
        if cls in _ATOMS or (cls is int and value in _INT64):
            return value
        if cls is list or cls is dict:
            self._enter(value, place, depth)
            plain = self._contents(value, place, depth)
            self._entered.remove(id(value))
            return plain
        try:
            codec = codec_for(value, self._registry)
            payload = codec.reduce(value)
        except UnserializableError as error:
            raise UnserializableError(error.type_name, _path_to(place), error.hint) from None
        except Exception as error:
            hint = f"reading it raised {type(error).__name__}: {error}"
            raise UnserializableError(full_name(cls), _path_to(place), hint) from error
        if codec.shape is Shape.RAW:
            return ExtType(codec.code, cast("bytes", payload))
        self._enter(value, place, depth)
        items = codec.shape is Shape.ITEMS
        parts = self._contents(payload, place, depth) if items else self._parts(codec, payload, place, depth)
        packed = self._pack(parts)
        self._entered.remove(id(value))
        return ExtType(codec.code, packed)

    def _enter(self, value: object, place: _Place | None, depth: int) -> None:
        if id(value) in self._entered:
            raise UnserializableError(full_name(type(value)), _path_to(place), "it contains itself (a cycle)")
        if depth > self._max_depth:
            hint = f"it is nested deeper than {self._max_depth} levels"
            raise UnserializableError(full_name(type(value)), _path_to(place), hint)
        self._entered.add(id(value))

    def _parts(self, codec: Codec, payload: object, place: _Place | None, depth: int) -> object:
        parts: list[object] = []
        for index, part in enumerate(cast("list[object]", payload)):
            if codec.shape is Shape.FIELDS:
                parts.append(self._plain(part, _Place(place, "attribute", codec.fields[index]), depth + 1))
            elif type(part) in _PLAIN_CONTAINERS:
                parts.append(self._contents(part, place, depth, codec.shape is Shape.ATTRIBUTES))
            else:
                parts.append(self._plain(part, place, depth + 1))
        return parts

    def _contents(self, container: object, place: _Place | None, depth: int, attributes: bool = False) -> object:
        if type(container) is list:
            items: list[object] = []
            for index, item in enumerate(cast("list[object]", container)):
                items.append(self._plain(item, _Place(place, "item", index), depth + 1))
            return items
        plain: dict[object, object] = {}
        style = "attribute" if attributes else "item"
        # A copy, so that a thread that still writes into the dict cannot break the loop.
        for key, item in dict(cast("dict[object, object]", container)).items():
            plain_key = key if type(key) is str else self._plain(key, _Place(place, "key", key), depth + 1)
            if plain_key in plain:
                raise UnserializableError("dict", _path_to(place), f"two of its keys are stored alike: {_brief(key)}")
            plain[plain_key] = self._plain(item, _Place(place, style, key), depth + 1)
        return plain
