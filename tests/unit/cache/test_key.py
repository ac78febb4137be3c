"""What makes two inputs the same: everything that could make a difference, and nothing else."""

import enum
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from phalanx.cache.key import default_cache_key, task_cache_key
from phalanx.checkpoint.serde import DEFAULT_MAX_DEPTH, Serializer, register
from phalanx.errors import UnserializableError
from phalanx.types import CachePolicy, Send


@register(name="cache tests: Item")
@dataclass(frozen=True)
class Item:
    held: Any


@register
@dataclass(frozen=True)
class Other:
    held: Any


@register
class Model(BaseModel):
    held: Any = None
    more: int = 0


@register
class Pair(NamedTuple):
    left: Any
    right: Any


@register
class Colour(enum.Enum):
    RED = 1


@register
class Names(dict[str, Any]):
    """A dict of a class of its own."""


@register
class Tags(frozenset[Any]):
    """A set of a class of its own."""


# --- laws -------------------------------------------------------------------------------------------------------------

# Few values that look alike, so that two random ones are often equal and oftener nearly so.
HASHABLE_ATOMS = st.sampled_from(
    [None, True, False, 0, 1, -1, 2**64, 0.0, -0.0, 1.0, "", "0", "1", b"", b"1", Decimal(1), Decimal("1.0"), 1 + 0j]
)
HASHABLE = st.recursive(
    HASHABLE_ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2).map(tuple),
        st.frozensets(inner, max_size=2),
        inner.map(Item),
        inner.map(Other),
    ),
    max_leaves=3,
)
VALUES = st.recursive(
    st.one_of(HASHABLE, st.builds(bytearray, st.sampled_from([b"", b"1"]))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=2).map(tuple),
        st.lists(inner, max_size=2).map(deque),
        st.sets(HASHABLE, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
        st.dictionaries(HASHABLE, inner, max_size=2),
        st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2).map(OrderedDict),
        st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2).map(Names),
        inner.map(lambda value: Model(held=value)),
        inner.map(Item),
        inner.map(partial(Send, "node")),
    ),
    max_leaves=8,
)


MADE_OF_ONE: frozenset[Any] = frozenset((OrderedDict, dict, Names, set, frozenset, list, tuple, deque, Item, Other))


def type_of(value: object) -> Any:
    return type(value)


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal in every part and of the same types throughout."""
    kind = type_of(left)
    if kind is not type_of(right):
        return False
    if kind is float:
        return struct.pack("d", left) == struct.pack("d", right)
    if kind is Decimal:
        return str(left) == str(right)
    if kind is OrderedDict:
        return same([*left.items()], [*right.items()])
    if kind in (dict, Names):
        return same_bag([*left.items()], [*right.items()])
    if kind in (set, frozenset):
        return same_bag([*left], [*right])
    if kind in (list, tuple, deque):
        return len(left) == len(right) and all(map(same, left, right))
    if kind in (Item, Other, Model):
        return same(left.held, right.held)
    if kind is Send:
        return same([left.node, left.arg], [right.node, right.arg])
    return bool(left == right)


def same_bag(left: list[Any], right: list[Any]) -> bool:
    """Whether two lists hold the same, in whatever order."""
    for item in left:
        found = next((index for index, each in enumerate(right) if same(item, each)), None)
        if found is None:
            return False
        del right[found]
    return not right


def filled_otherwise(value: Any) -> Any:
    """An equal value, its dicts and sets filled in the other order."""
    kind = type_of(value)
    if kind is Model:
        return Model(held=filled_otherwise(value.held))
    if kind is Send:
        return Send(value.node, filled_otherwise(value.arg))
    return kind(_filled_otherwise(value)) if kind in MADE_OF_ONE else value


def _filled_otherwise(value: Any) -> Any:
    """What to make the value of."""
    kind = type_of(value)
    if kind in (Item, Other):
        return filled_otherwise(value.held)
    items: list[Any] = [*value.items()] if hasattr(value, "items") else [*value]
    in_order = kind in (OrderedDict, list, tuple, deque)
    return [filled_otherwise(item) for item in (items if in_order else reversed(items))]


@given(VALUES, VALUES)
def test_keys_are_equal_if_and_only_if_the_inputs_are(left: object, right: object) -> None:
    assert (default_cache_key(left) == default_cache_key(right)) == same(left, right)


@given(VALUES)
def test_the_order_in_which_dicts_and_sets_were_filled_makes_no_difference(value: object) -> None:
    assert default_cache_key(value) == default_cache_key(filled_otherwise(value))


@given(VALUES)
def test_an_input_that_was_stored_has_the_same_key(value: object) -> None:
    serializer = Serializer()
    assert default_cache_key(serializer.loads(serializer.dumps(value))) == default_cache_key(value)


@given(st.lists(VALUES, max_size=2), st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2), VALUES)
def test_arguments_are_kept_apart_from_a_value_that_looks_like_them(
    args: list[object], kwargs: dict[str, object], value: object
) -> None:
    assert default_cache_key(*args, **kwargs) == default_cache_key(*args, **filled_otherwise(kwargs))
    if not (kwargs == {} and len(args) == 1):
        assert default_cache_key(*args, **kwargs) != default_cache_key(value)


# --- examples ---------------------------------------------------------------------------------------------------------

LOOK_ALIKE: list[Any] = [
    *(1, 1.0, True, "1", b"1", Decimal(1), 1 + 0j, Colour.RED, [1], (1,), {1}, frozenset({1}), deque([1]), {1: 1}),
    *(Tags({1}), deque([1], 5), range(1), slice(1), bytearray(b"1"), 2**64, -(2**64), str(2**64), float(2**64)),
    *({"a": 1}, {b"a": 1}, {"a": 1.0}, {"a": True}, Names(a=1), OrderedDict(a=1), Counter({"a": 1})),
    *(defaultdict(None, {"a": 1}), defaultdict(int, {"a": 1}), [("a", 1)], [["a", 1]], ["a", 1], ("a", 1)),
    *(Item(1), Other(1), Model(held=1), Model(held=1, more=1), Pair(1, None), (1, None), [1, None], Item([1])),
    *(None, "", b"", [], (), {}, set[object](), frozenset[object](), OrderedDict[str, object](), False, 0, 0.0, -0.0),
    *([[]], [[], []], [[[]]], ["", ""], [""], ["a", "bc"], ["ab", "c"], ["abc"]),
    *(UUID(int=1), PurePosixPath("1"), timedelta(1), datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 1)),  # noqa: DTZ001
    *(Send("a", 1), Send("b", 1), ("a", 1.0), "\ud83d\ude42", "🙂", "\u00e9", "e\u0301", float("nan"), float("inf")),
]


def test_values_that_look_alike_have_different_keys() -> None:
    keys = {default_cache_key(value): value for value in LOOK_ALIKE}
    assert len(keys) == len(LOOK_ALIKE)
    nested = {default_cache_key({"in": [Item(Model(held=value))]}) for value in LOOK_ALIKE}
    assert len(nested) == len(LOOK_ALIKE)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({1: "a", "1": "b", None: "c"}, {None: "c", "1": "b", 1: "a"}),
        ({(1, 2): 1, (2, 1): 2}, {(2, 1): 2, (1, 2): 1}),
        ([Item({"a": 1, "b": 2})], [Item({"b": 2, "a": 1})]),
        (Model(held={"a": {1, 2}, "b": 2}), Model(held={"b": 2, "a": {2, 1}})),
        (Counter("aab"), Counter("baa")),
        (defaultdict(int, {"a": 1, "b": 2}), defaultdict(int, {"b": 2, "a": 1})),
        (Names(a=1, b=2), Names(b=2, a=1)),
        (OrderedDict[str, Any](a={"x": 1, "y": 2}), OrderedDict[str, Any](a={"y": 2, "x": 1})),
        (float("nan"), float("nan")),
    ],
)
def test_equal_inputs_have_the_same_key(left: object, right: object) -> None:
    assert default_cache_key(left) == default_cache_key(right)


def test_the_order_of_an_ordered_dict_is_part_of_it() -> None:
    first, second = OrderedDict[str, int](a=1, b=2), OrderedDict[str, int](b=2, a=1)
    assert default_cache_key(first) != default_cache_key(second)


def test_a_key_is_the_same_in_every_process_and_every_release() -> None:
    value = {"texts": {"a", "b", "c"}, "items": [Item(1.5), (None, b"x"), 2**70], "mixed": {1: "a", "1": "b"}}
    full_key, _ = task_cache_key(CachePolicy(), ("graph", "node"), value)
    assert full_key == (("graph", "node"), "3fe8d3d5d4af6297b1bef13bd21b92e1")


def in_list(value: object) -> object:
    return [value]


def in_dict(value: object) -> object:
    return {"a": value}


def in_deque(value: object) -> object:
    return deque([value])


def in_tuple(value: object) -> object:
    return (value,)


def deep(wrap: Callable[[object], object], levels: int) -> object:
    value: object = None
    for _ in range(levels):
        value = wrap(value)
    return value


@pytest.mark.parametrize("wrap", [in_list, in_dict, in_tuple, Item, in_deque])
def test_an_input_may_be_as_deep_as_what_can_be_stored(wrap: Callable[[object], object]) -> None:
    assert default_cache_key(deep(wrap, DEFAULT_MAX_DEPTH))
    with pytest.raises(UnserializableError, match="nested deeper than 256 levels"):
        default_cache_key(deep(wrap, DEFAULT_MAX_DEPTH + 1))


# --- inputs without a key ---------------------------------------------------------------------------------------------


class Unknown:
    """A class without a safe encoding."""


def test_an_input_that_cannot_be_encoded_is_refused_with_its_place_and_the_way_out() -> None:
    with pytest.raises(UnserializableError) as raised:
        default_cache_key({"a": [1, Item(Unknown())]})
    assert raised.value.path == "['a'][1].held"
    assert "Unknown" in raised.value.type_name
    assert "CachePolicy(key_func=...)" in raised.value.hint
    assert str(raised.value).startswith("cache key: ")


@pytest.mark.parametrize(
    "value", [memoryview(b"1"), len, Unknown, object(), {1: [Unknown()]}, {Unknown()}, {Unknown(): 1}]
)
def test_what_cannot_be_stored_has_no_key(value: object) -> None:
    with pytest.raises(UnserializableError, match="key_func"):
        default_cache_key(value)
    with pytest.raises(UnserializableError, match="key_func"):
        default_cache_key(1, b=value)


def test_an_input_that_contains_itself_is_refused() -> None:
    value: list[object] = []
    value.append({"again": value})
    with pytest.raises(UnserializableError, match="contains itself"):
        default_cache_key(value)


# --- the key of a task ------------------------------------------------------------------------------------------------


def test_a_task_is_remembered_under_its_namespace_for_as_long_as_the_policy_says() -> None:
    full_key, ttl = task_cache_key(CachePolicy(ttl=30), ("graph", "node"), {"a": 1})
    assert full_key[0] == ("graph", "node")
    assert ttl == 30
    assert task_cache_key(CachePolicy(), ("graph", "node"), {"a": 1}) == (full_key, None)
    assert task_cache_key(CachePolicy(), ("graph", "node"), {"a": 2})[0] != full_key
    assert task_cache_key(CachePolicy(), ("graph", "other"), {"a": 1})[0] != full_key


def test_a_key_is_short_however_large_the_input() -> None:
    (_, key), _ = task_cache_key(CachePolicy(), (), "a" * 1_000_000)
    assert len(key) == 32


def test_key_func_alone_says_what_identifies_an_input() -> None:
    def key(state: dict[str, Any]) -> str | bytes:
        found: str | bytes = state["a"]
        return found

    policy = CachePolicy(key_func=key)
    assert task_cache_key(policy, (), {"a": "x", "b": Unknown()}) == task_cache_key(policy, (), {"a": "x"})
    assert task_cache_key(policy, (), {"a": "x"}) != task_cache_key(policy, (), {"a": "y"})
    assert task_cache_key(policy, (), {"a": "é\ud83d"}) != task_cache_key(policy, (), {"a": b"\xff"})


def test_key_func_of_a_function_gets_its_arguments() -> None:
    def key(a: int, *, b: int) -> str:
        return f"{a} {b}"

    assert task_cache_key(CachePolicy(key_func=key), (), 1, b=2) == task_cache_key(
        CachePolicy(key_func=lambda: "1 2"), ()
    )


@pytest.mark.parametrize("found", [None, 1, ["a"], bytearray(b"a")])
def test_a_key_that_is_neither_text_nor_bytes_is_an_error_that_names_its_type(found: object) -> None:
    def wrong(_: object) -> Any:
        return found

    with pytest.raises(TypeError, match=rf"str or bytes; .*wrong returned a {type(found).__name__}"):
        task_cache_key(CachePolicy(key_func=wrong), (), 1)
