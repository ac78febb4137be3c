"""Any value as JSON."""

import dataclasses
import datetime
import json
import math
import uuid
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from phalanx.cli.values import as_json, dump


class Colour(Enum):
    RED = "red"


class Model(BaseModel):
    a: int
    tags: set[str]


@dataclasses.dataclass
class Point:
    x: float
    y: "Point | None" = None


class Odd:
    def __repr__(self) -> str:
        return "Odd()"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ((1, "a"), [1, "a"]),
        ({3, 1, 2}, [1, 2, 3]),
        (b"\x00\xff", "AP8="),
        (Colour.RED, "red"),
        (Decimal("1.10"), "1.10"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (datetime.datetime(2024, 5, 6, 7, 8, tzinfo=datetime.UTC), "2024-05-06T07:08:00+00:00"),
        (datetime.date(2024, 5, 6), "2024-05-06"),
        (Point(1.5, Point(math.nan)), {"x": 1.5, "y": {"x": "NaN", "y": None}}),
        (Model(a=1, tags={"b", "a"}), {"a": 1, "tags": ["a", "b"]}),
        ({1: "a", None: "b", False: "c", (1, 2): "d"}, {"1": "a", "null": "b", "false": "c", "[1, 2]": "d"}),
        (Odd(), {"type": f"{__name__}.Odd", "repr": "Odd()"}),
        (Broken(), {"type": f"{__name__}.Broken", "repr": "<its repr() raises RuntimeError>"}),
        (1j, {"type": "complex", "repr": "1j"}),
    ],
)
def test_a_value_that_json_has_no_word_for_says_what_it_was(value: object, expected: object) -> None:
    assert as_json(value) == expected


def test_a_value_that_holds_itself_ends_where_it_does() -> None:
    loop: list[object] = [1]
    loop.append(loop)
    assert as_json(loop) == [1, {"type": "list", "repr": "[1, [...]]"}]


def test_a_value_nested_very_deep_is_cut() -> None:
    deep: object = "bottom"
    for _ in range(10_000):
        deep = [deep]
    assert '"type": "list"' in dump(deep)


def test_a_number_with_more_digits_than_python_writes_is_hexadecimal() -> None:
    assert as_json(1 << 100_000) == hex(1 << 100_000)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_what_json_knows_comes_back_as_it_was(value: object) -> None:
    assert json.loads(dump(value)) == value
