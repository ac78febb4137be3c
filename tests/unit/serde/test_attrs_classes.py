"""Classes of the real attrs library come back with what they held."""

import functools
from typing import cast

import attrs
import pytest

from phalanx.checkpoint.serde import Serializer, TypeRegistry
from phalanx.errors import CorruptDataError, UnserializableError


@attrs.define
class Plain:
    x: int
    _hidden: str = "h"
    later: list[int] = attrs.field(factory=list[int])

    @functools.cached_property
    def twice(self) -> int:
        return self.x * 2


@attrs.frozen
class Frozen:
    x: int
    y: int = attrs.field(default=attrs.Factory(lambda self: cast("Frozen", self).x, takes_self=True))

    def __attrs_post_init__(self) -> None:
        if self.x < 0:
            raise AssertionError("rebuilding ran code of the class")


@attrs.frozen(cache_hash=True)
class Key:
    x: int


@attrs.frozen(cache_hash=True, slots=False)
class LooseKey:
    x: int


@attrs.define(slots=False)
class Child(Plain):
    more: int = attrs.field(default=0, converter=int)


@pytest.fixture
def serializer() -> Serializer:
    registry = TypeRegistry()
    for cls in (Plain, Frozen, Key, LooseKey, Child):
        registry.register(cls)
    return Serializer(registry)


@pytest.mark.parametrize("value", [Plain(1, "s", [2]), Frozen(1, 5), Key(1), LooseKey(1), Child(1, more=7)], ids=repr)
def test_an_object_comes_back(serializer: Serializer, value: object) -> None:
    back = serializer.loads(serializer.dumps(value))

    assert type(back) is type(value)
    assert back == value
    assert serializer.dumps(back) == serializer.dumps(value)


def test_no_code_of_the_class_runs(serializer: Serializer) -> None:
    value = Frozen(1)
    object.__setattr__(value, "x", -1)

    assert cast("Frozen", serializer.loads(serializer.dumps(value))).x == -1


def test_what_a_cached_property_remembers_is_found_again(serializer: Serializer) -> None:
    value = Plain(2)
    assert value.twice == 4

    assert cast("Plain", serializer.loads(serializer.dumps(value))).twice == 4


@pytest.mark.parametrize("key", [Key(1), LooseKey(1)], ids=repr)
def test_a_class_that_remembers_its_hash_can_still_be_a_key(serializer: Serializer, key: object) -> None:
    hash(key)

    assert serializer.loads(serializer.dumps({key: "x"})) == {key: "x"}


def test_an_attribute_that_is_no_field_is_not_lost_silently(serializer: Serializer) -> None:
    value = Child(1)
    value.extra = 1  # type: ignore[attr-defined]  # pyright: ignore

    with pytest.raises(UnserializableError, match="its attribute 'extra' is no field"):
        serializer.dumps([value])


def test_a_field_that_is_missing_and_has_no_default_is_named(serializer: Serializer) -> None:
    data = serializer.dumps(Key(1)).replace(b"\xa1x", b"\xa1z")

    with pytest.raises(CorruptDataError, match="lacks the field 'x'"):
        serializer.loads(data)
