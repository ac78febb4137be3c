"""What holds for every kind of channel, checked over random histories."""

import doctest
import importlib
import operator
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phalanx.channels
from phalanx.channels import (
    AnyValue,
    BaseChannel,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from phalanx.channels.base import MISSING
from phalanx.errors import EmptyChannelError, InvalidUpdateError
from phalanx.types import Overwrite

Channel = BaseChannel[Any, Any, Any]


def extended(value: list[int], writes: Sequence[list[int]]) -> list[int]:
    return [*value, *(item for write in writes for item in write)]


@dataclass(frozen=True)
class Kind:
    """A kind of channel with what it can be written, and a superstep it refuses, if there is one."""

    name: str
    make: Callable[[], Channel]
    writes: st.SearchStrategy[Any]
    at_once: int = 4
    refused: Sequence[object] | None = None

    def steps(self) -> st.SearchStrategy[list[Any]]:
        return st.lists(self.writes, max_size=self.at_once)


NUMBERS: Final = st.one_of(st.integers(), st.none())
LISTS: Final = st.lists(st.integers(), max_size=3)
NAMES: Final = st.sampled_from(["a", "b"])
TWO_OVERWRITES: Final = (Overwrite([1]), Overwrite([2]))

KINDS: Final = [
    Kind("LastValue", lambda: LastValue(int), NUMBERS, 1, (1, 2)),
    Kind("LastValueAfterFinish", lambda: LastValueAfterFinish(int), NUMBERS),
    Kind("AnyValue", lambda: AnyValue(int), NUMBERS),
    Kind("EphemeralValue", lambda: EphemeralValue(int), NUMBERS, 1, (1, 2)),
    Kind("EphemeralValue unguarded", lambda: EphemeralValue(int, False), NUMBERS),
    Kind("UntrackedValue", lambda: UntrackedValue(int), NUMBERS, 1, (1, 2)),
    Kind("UntrackedValue unguarded", lambda: UntrackedValue(int, False), NUMBERS),
    Kind("Topic", lambda: Topic(int), st.one_of(NUMBERS, LISTS)),
    Kind("Topic accumulating", lambda: Topic(int, True), st.one_of(NUMBERS, LISTS)),
    Kind(
        "BinaryOperatorAggregate",
        lambda: BinaryOperatorAggregate(list[int], operator.add),
        LISTS,
        refused=TWO_OVERWRITES,
    ),
    Kind("NamedBarrierValue", lambda: NamedBarrierValue(str, {"a", "b"}), NAMES, refused=("a", "x")),
    Kind(
        "NamedBarrierValueAfterFinish",
        lambda: NamedBarrierValueAfterFinish(str, {"a", "b"}),
        NAMES,
        refused=("a", "b", "x"),
    ),
    Kind("DeltaChannel", lambda: DeltaChannel(extended), LISTS, refused=TWO_OVERWRITES),
    Kind("a reducer that raises", lambda: BinaryOperatorAggregate(list[int], operator.add), LISTS, refused=([1], 2)),
    Kind("a batch reducer that raises", lambda: DeltaChannel(extended), LISTS, refused=([1], 2)),
]

a_few_histories = settings(max_examples=25, deadline=None)
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def content(channel: Channel) -> tuple[object, ...]:
    """All that can be seen of a channel."""
    value = channel.get() if channel.is_available() else MISSING
    stored = channel.snapshot() if isinstance(channel, DeltaChannel) else channel.checkpoint()
    return value, stored, channel.key


def lived(kind: Kind, data: st.DataObject) -> Channel:
    """A channel of the kind after a random history."""
    channel = kind.make()
    channel.key = "k"
    for event in data.draw(st.lists(st.one_of(kind.steps(), st.sampled_from(["consume", "finish"])), max_size=6)):
        change(channel, event)
    return channel


def change(channel: Channel, event: "list[Any] | str") -> bool:
    match event:
        case "consume":
            return channel.consume()
        case "finish":
            return channel.finish()
        case _:
            return channel.update(event)


@every_kind
@a_few_histories
@given(data=st.data())
def test_a_copy_has_the_same_content_and_neither_reaches_the_other(kind: Kind, data: st.DataObject) -> None:
    channel = lived(kind, data)
    before = content(channel)
    twin = channel.copy()
    assert content(twin) == before

    for event in (data.draw(kind.steps()), "finish", "consume"):
        change(twin, event)
    assert content(channel) == before

    twin = channel.copy()
    for event in (data.draw(kind.steps()), "finish", "consume"):
        change(channel, event)
    assert content(twin) == before


@every_kind
@a_few_histories
@given(data=st.data())
def test_a_stored_channel_comes_back_with_the_same_content(kind: Kind, data: st.DataObject) -> None:
    channel = lived(kind, data)
    before = content(channel)

    restored = channel.from_checkpoint(before[1])

    if isinstance(channel, UntrackedValue):
        assert content(restored) == (MISSING, MISSING, "k")
    elif isinstance(channel, DeltaChannel) and not channel.is_available():
        assert restored.get() == []
    else:
        assert content(restored) == before
    assert restored == channel


@every_kind
@a_few_histories
@given(data=st.data())
def test_what_was_stored_is_out_of_reach_of_later_events(kind: Kind, data: st.DataObject) -> None:
    channel = lived(kind, data)
    _, stored, _ = content(channel)
    original = content(channel.from_checkpoint(stored))
    restored = channel.from_checkpoint(stored)

    for event in (data.draw(kind.steps()), "finish", "consume"):
        change(channel, event)
        change(restored, event)

    assert content(channel.from_checkpoint(stored)) == original


@every_kind
@a_few_histories
@given(data=st.data())
def test_an_event_that_reports_no_change_made_none(kind: Kind, data: st.DataObject) -> None:
    channel = lived(kind, data)
    for event in (data.draw(kind.steps()), "finish", "consume", []):
        before = content(channel)
        if not change(channel, event):
            assert content(channel) == before


@every_kind
@a_few_histories
@given(data=st.data())
def test_a_kind_that_does_not_expire_never_changes_by_an_empty_update(kind: Kind, data: st.DataObject) -> None:
    channel = lived(kind, data)
    if not channel.expires:
        before = content(channel)
        assert not channel.update([])
        assert content(channel) == before


@every_kind
@a_few_histories
@given(data=st.data())
def test_a_kind_without_finish_never_changes_by_it(kind: Kind, data: st.DataObject) -> None:
    channel = lived(kind, data)
    if not channel.finishes:
        before = content(channel)
        assert not channel.finish()
        assert content(channel) == before


@pytest.mark.parametrize(
    ("channel", "expires", "finishes"),
    [
        (AnyValue, True, False),
        (BinaryOperatorAggregate, False, False),
        (DeltaChannel, False, False),
        (EphemeralValue, True, False),
        (LastValue, False, False),
        (LastValueAfterFinish, False, True),
        (NamedBarrierValue, False, False),
        (NamedBarrierValueAfterFinish, False, True),
        (Topic, True, False),
        (UntrackedValue, False, False),
    ],
)
def test_each_kind_says_how_it_can_change_unwritten(channel: type[Channel], expires: bool, finishes: bool) -> None:
    assert channel.expires is expires
    assert channel.finishes is finishes


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.refused], ids=lambda kind: kind.name)
@a_few_histories
@given(data=st.data())
def test_a_failing_update_leaves_the_channel_as_it_was(kind: Kind, data: st.DataObject) -> None:
    channel = lived(kind, data)
    before = content(channel)

    with pytest.raises((InvalidUpdateError, TypeError)):
        channel.update(kind.refused or ())

    assert content(channel) == before


@every_kind
@a_few_histories
@given(data=st.data())
def test_a_channel_is_available_exactly_when_it_can_be_read(kind: Kind, data: st.DataObject) -> None:
    channel = lived(kind, data)
    if channel.is_available():
        channel.get()
    else:
        with pytest.raises(EmptyChannelError, match="'k'"):
            channel.get()


@every_kind
def test_channels_are_equal_by_kind_and_parameters_and_not_by_content_or_key(kind: Kind) -> None:
    channel = kind.make()
    channel.key = "k"

    assert channel == kind.make()
    assert channel != object()
    for other in KINDS:
        if type(other.make()) is not type(channel):
            assert channel != other.make()


UNEQUAL: Final[list[tuple[Channel, Channel]]] = [
    (EphemeralValue(int), EphemeralValue(int, False)),
    (UntrackedValue(int), UntrackedValue(int, False)),
    (Topic(int), Topic(int, True)),
    (NamedBarrierValue(str, {"a"}), NamedBarrierValue(str, {"b"})),
    (NamedBarrierValueAfterFinish(str, {"a"}), NamedBarrierValueAfterFinish(str, {"b"})),
]


@pytest.mark.parametrize(("one", "other"), UNEQUAL, ids=lambda channel: type(channel).__name__)
def test_channels_with_other_parameters_are_not_equal(one: Channel, other: Channel) -> None:
    assert one != other


@every_kind
def test_a_channel_has_no_dict_and_cannot_be_hashed(kind: Kind) -> None:
    channel = kind.make()

    assert not hasattr(channel, "__dict__")
    with pytest.raises(TypeError, match="unhashable"):
        hash(channel)


@every_kind
def test_key_and_type_survive_copying_and_restoring(kind: Kind) -> None:
    channel = kind.make()
    channel.key = "k"

    for other in (channel.copy(), channel.from_checkpoint(MISSING)):
        assert type(other) is type(channel)
        assert other.key == "k"
        assert other.typ == channel.typ
        assert other.ValueType == channel.ValueType
        assert other.UpdateType == channel.UpdateType


def test_every_kind_is_exported_and_under_these_laws() -> None:
    kinds = {type(kind.make()).__name__ for kind in KINDS}

    assert set(phalanx.channels.__all__) == kinds | {"BaseChannel"}


class Constant(BaseChannel[int, int, int]):
    """A user's own kind that implements only what it must."""

    __slots__ = ("value",)

    def __init__(self, value: int | None) -> None:
        super().__init__(int, "constant")
        self.value = value

    def copy(self) -> "Constant":
        return Constant(self.value)

    def checkpoint(self) -> int:
        return self.value or 0

    def from_checkpoint(self, checkpoint: object) -> "Constant":
        return Constant(self.value)

    def get(self) -> int:
        if self.value is None:
            raise EmptyChannelError
        return self.value

    def update(self, values: Sequence[int]) -> bool:
        return False


def test_a_users_kind_starts_with_answers_that_are_safe() -> None:
    channel = Constant(1)

    assert channel.expires
    assert channel.finishes
    assert channel.is_available()
    assert not Constant(None).is_available()
    assert not channel.consume()
    assert not channel.finish()


MODULES: Final = [
    importlib.import_module(f"phalanx.channels.{info.name}") for info in pkgutil.iter_modules(phalanx.channels.__path__)
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_examples_in_the_docstrings_are_true(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0
