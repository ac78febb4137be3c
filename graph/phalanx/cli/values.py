"""Any value as JSON: what JSON knows as it is, the rest in a form that says what it was.

Dates are written in ISO form, sets as lists, bytes in base64, dataclasses and pydantic models as objects. Numbers that
JSON has no word for are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``. Anything else becomes
``{"type": "package.Class", "repr": "…"}``.
"""

import base64
import dataclasses
import datetime
import json
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Final, cast
from uuid import UUID

from pydantic import BaseModel

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_DEEPEST: Final = 100
_MAX_REPR_CHARS: Final = 2_000
_AS_TEXT: Final = (UUID, Decimal, PurePath)
_DATES: Final = (datetime.date, datetime.time)  # a datetime is a date


def as_json(value: object) -> Json:
    """``value`` made of nothing but JSON's types."""
    return _convert(value, ())


def dump(value: object) -> str:
    """``value`` as one line of JSON."""
    return json.dumps(as_json(value), ensure_ascii=False)


def _convert(value: object, around: tuple[int, ...]) -> Json:
    kind = type(value)
    if value is None or kind in (bool, str):
        return cast("bool | str | None", value)
    if kind is int:
        return _whole(cast("int", value))
    if kind is float:
        return _number(cast("float", value))
    if len(around) > _DEEPEST or id(value) in around:
        return _described(value)
    return _composite(value, (*around, id(value)))


def _composite(value: object, around: tuple[int, ...]) -> Json:
    if isinstance(value, Enum):
        return _convert(value.value, around)
    if isinstance(value, Mapping):
        return {_key(key): _convert(item, around) for key, item in cast("Mapping[object, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [_convert(item, around) for item in cast("list[object]", value)]
    if isinstance(value, AbstractSet):
        items = [_convert(item, around) for item in cast("AbstractSet[object]", value)]
        return sorted(items, key=lambda item: json.dumps(item))
    if isinstance(value, BaseModel):
        return {name: _convert(item, around) for name, item in value}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _convert(getattr(value, field.name, None), around) for field in fields}
    return _scalar(value)


def _scalar(value: object) -> Json:
    if isinstance(value, _DATES):
        return value.isoformat()
    if isinstance(value, _AS_TEXT):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return _whole(int(value))
    if isinstance(value, float):
        return _number(float(value))
    return _described(value)


def _whole(value: int) -> Json:
    try:
        str(value)
    except ValueError:  # more digits than Python writes
        return hex(value)
    return value


def _number(value: float) -> Json:
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _key(key: object) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    converted = _convert(key, ())
    return converted if isinstance(converted, str) else json.dumps(converted, ensure_ascii=False)


def _described(value: object) -> Json:
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        text = repr(value)
    except Exception as error:  # a user's __repr__ or a structure too deep
        text = f"<its repr() raises {type(error).__name__}>"
    return {"type": name, "repr": text if len(text) <= _MAX_REPR_CHARS else f"{text[:_MAX_REPR_CHARS]}…"}
