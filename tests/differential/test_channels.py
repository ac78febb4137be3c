"""Every kind of channel beside the one of the installed ``langgraph``: the same events, the same answers.

The channels are compared event by event: what ``update``, ``consume`` and ``finish`` return or raise, and after each
what ``get``, ``is_available`` and ``checkpoint`` say. Where we differ on purpose, a test at the end says so.
"""

# pyright: reportMissingTypeStubs=false

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, TypeAlias, cast

import langgraph.channels as theirs
import langgraph.types as their_types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import phalanx.channels as ours
from phalanx.channels.base import MISSING
from phalanx.errors import EmptyChannelError, InvalidUpdateError
from phalanx.types import Overwrite

Ours: TypeAlias = ours.BaseChannel[Any, Any, Any]
Theirs: TypeAlias = theirs.BaseChannel[Any, Any, Any]

THEIR_MISSING: Final = cast("object", cast("Theirs", theirs.LastValue(int)).checkpoint())


def extended(value: list[int], writes: Sequence[list[int]]) -> list[int]:
    return [*value, *(item for write in writes for item in write)]


def extend_in_place(value: list[int], writes: Sequence[list[int]]) -> list[int]:
    for write in writes:
        value.extend(write)
    return value


def paired(value: object, write: object) -> object:
    """A reducer that takes everything, so that only the channels decide what is refused."""
    return value, write


def either(one: object, _other: object) -> object:
    return one


NEEDS_OBJECT: Final = cast("type[int]", int | None)

NUMBERS: Final = st.one_of(st.integers(), st.none())
LISTS: Final = st.lists(st.integers(), max_size=3)
ITEMS: Final = st.one_of(st.integers(), LISTS, st.tuples(st.integers()), st.text(max_size=2), st.just([[1], []]))
LIST_WRITES: Final = st.one_of(
    LISTS,
    LISTS.map(Overwrite),
    LISTS.map(lambda value: {"__overwrite__": value}),
    LISTS.map(lambda value: {"type": "__overwrite__", "value": value}),
)
DICT_WRITES: Final = st.one_of(
    st.dictionaries(st.sampled_from(["a", "type", "value"]), st.sampled_from([1, "__overwrite__"]), max_size=3),
    st.sampled_from(
        [
            {"__overwrite__": {"b": 1}},
            {"__overwrite__": {"b": 1}, "a": 2},
            {"type": "__overwrite__", "value": {"b": 2}},
            {"type": "__overwrite__", "value": {"b": 2}, "a": 2},
            {"type": "__overwrite__", "__overwrite__": {"b": 2}},
        ]
    ),
)
NAMES: Final = st.sampled_from(["a", "b", "c", "unknown"])
NAME_SET: Final = {"a", "b", "c"}


@dataclass(frozen=True)
class Pair:
    """One kind of channel here and there, and what to write to both."""

    name: str
    ours: Callable[[], Ours]
    theirs: Callable[[], Theirs]
    writes: st.SearchStrategy[Any]


PAIRS: Final = [
    Pair("LastValue", lambda: ours.LastValue(int), lambda: theirs.LastValue(int), NUMBERS),
    Pair(
        "LastValueAfterFinish",
        lambda: ours.LastValueAfterFinish(int),
        lambda: theirs.LastValueAfterFinish(int),
        NUMBERS,
    ),
    Pair("AnyValue", lambda: ours.AnyValue(int), lambda: theirs.AnyValue(int), NUMBERS),
    Pair("EphemeralValue", lambda: ours.EphemeralValue(int), lambda: theirs.EphemeralValue(int), NUMBERS),
    Pair(
        "EphemeralValue unguarded",
        lambda: ours.EphemeralValue(int, guard=False),
        lambda: theirs.EphemeralValue(int, guard=False),
        NUMBERS,
    ),
    Pair("UntrackedValue", lambda: ours.UntrackedValue(int), lambda: theirs.UntrackedValue(int), NUMBERS),
    Pair(
        "UntrackedValue unguarded",
        lambda: ours.UntrackedValue(int, guard=False),
        lambda: theirs.UntrackedValue(int, guard=False),
        NUMBERS,
    ),
    Pair("Topic", lambda: ours.Topic(int), lambda: theirs.Topic(int), ITEMS),
    Pair("Topic accumulating", lambda: ours.Topic(int, True), lambda: theirs.Topic(int, True), ITEMS),
    Pair(
        "BinaryOperatorAggregate of lists",
        lambda: ours.BinaryOperatorAggregate(list, operator.add),
        lambda: theirs.BinaryOperatorAggregate(list, operator.add),
        LIST_WRITES,
    ),
    Pair(
        "BinaryOperatorAggregate of dicts",
        lambda: ours.BinaryOperatorAggregate(dict, paired),
        lambda: theirs.BinaryOperatorAggregate(dict, paired),
        DICT_WRITES,
    ),
    Pair(
        "BinaryOperatorAggregate without start",
        lambda: ours.BinaryOperatorAggregate(NEEDS_OBJECT, operator.add),
        lambda: theirs.BinaryOperatorAggregate(NEEDS_OBJECT, operator.add),
        NUMBERS,
    ),
    Pair(
        "NamedBarrierValue",
        lambda: ours.NamedBarrierValue(str, NAME_SET),
        lambda: theirs.NamedBarrierValue(str, NAME_SET),
        NAMES,
    ),
    Pair(
        "NamedBarrierValueAfterFinish",
        lambda: ours.NamedBarrierValueAfterFinish(str, NAME_SET),
        lambda: theirs.NamedBarrierValueAfterFinish(str, NAME_SET),
        NAMES,
    ),
    Pair(
        "DeltaChannel",
        lambda: ours.DeltaChannel(extended, list[int]),
        lambda: theirs.DeltaChannel(extended, list[int]),
        st.one_of(LIST_WRITES, st.just(Overwrite(None))),
    ),
    Pair(
        "DeltaChannel with a reducer that works in place",
        lambda: ours.DeltaChannel(extend_in_place, list[int]),
        lambda: theirs.DeltaChannel(extend_in_place, list[int]),
        LIST_WRITES,
    ),
]

every_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)


def translated(write: object) -> object:
    """The write as ``langgraph`` takes it."""
    return their_types.Overwrite(write.value) if isinstance(write, Overwrite) else write


def told(error: Exception) -> tuple[str, str]:
    """The kind of an error and the part of its text that both sides owe: the fact, without code, link and set order."""
    fact = str(error).split("\n")[0].split(" (code: ")[0].split(" not in {")[0]
    return type(error).__name__, "" if isinstance(error, EmptyChannelError) else fact


def outcome(action: Callable[[], object]) -> object:
    try:
        result = action()
    except Exception as error:
        return told(error)
    return MISSING if result is THEIR_MISSING else result


def seen(channel: "Ours | Theirs") -> tuple[object, ...]:
    return outcome(channel.get), channel.is_available(), outcome(channel.checkpoint)


@every_pair
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_the_same_events_give_the_same_answers(pair: Pair, data: st.DataObject) -> None:
    mine, other = pair.ours(), pair.theirs()
    mine.key = other.key = "k"
    events = st.lists(
        st.one_of(
            st.lists(pair.writes, max_size=3), st.sampled_from(["consume", "finish", "copy", "store and restore"])
        ),
        max_size=8,
    )
    assert seen(mine) == seen(other)

    for event in data.draw(events):
        match event:
            case "copy":
                mine, other = mine.copy(), other.copy()
            case "store and restore":
                mine, other = mine.from_checkpoint(mine.checkpoint()), other.from_checkpoint(other.checkpoint())
            case "consume" | "finish":
                assert getattr(mine, event)() == getattr(other, event)()
            case _:
                # Some of theirs keep half of a superstep they refuse; ours never do, so theirs gets its state back.
                before = other.copy()
                answer = outcome(partial(mine.update, event))
                assert answer == outcome(partial(other.update, [translated(write) for write in event]))
                if not isinstance(answer, bool):
                    other = before
        assert seen(mine) == seen(other), event


def replayed(channel: Any, writes: Sequence[object], make: Callable[[object], object]) -> object:
    channel.replay_writes([("task", "k", make(write)) for write in writes])
    return channel.get()


@settings(max_examples=100, deadline=None)
@given(start=st.one_of(st.none(), LISTS), writes=st.lists(st.one_of(LIST_WRITES, st.just(Overwrite(None))), max_size=6))
def test_a_replayed_delta_channel_has_the_same_value(start: list[int] | None, writes: list[object]) -> None:
    mine = ours.DeltaChannel(extended, list[int]).from_checkpoint(MISSING if start is None else start)
    other = theirs.DeltaChannel(extended, list[int]).from_checkpoint(THEIR_MISSING if start is None else start)

    assert replayed(mine, writes, lambda write: write) == replayed(other, writes, translated)


TYPES: Final[list[object]] = [
    *(
        int,
        str,
        list,
        dict,
        tuple,
        frozenset,
        list[int],
        Sequence[int],
        Annotated[list[int], "x"],
        int | None,
        Any,
        None,
    ),
    *(cast("list[object]", [EmptyChannelError, InvalidUpdateError, Callable[[], int], "list"])),
]


@pytest.mark.parametrize("typ", TYPES, ids=repr)
def test_a_reducer_starts_from_the_same_value(typ: Any) -> None:
    mine: Ours = ours.BinaryOperatorAggregate(typ, either)
    other: Theirs = theirs.BinaryOperatorAggregate(typ, either)

    assert mine.is_available() == other.is_available()
    if mine.is_available() and not isinstance(mine.get(), Exception):
        assert mine.get() == other.get()


@every_pair
def test_the_same_kinds_are_equal(pair: Pair) -> None:
    for another in PAIRS:
        assert (pair.ours() == another.ours()) == (pair.theirs() == another.theirs())


@every_pair
def test_the_types_to_read_and_write_are_the_same(pair: Pair) -> None:
    if "DeltaChannel" not in pair.name:
        assert pair.ours().ValueType == pair.theirs().ValueType
        assert pair.ours().UpdateType == pair.theirs().UpdateType


def test_difference_a_first_write_that_is_an_overwrite_is_unwrapped() -> None:
    mine = ours.BinaryOperatorAggregate(NEEDS_OBJECT, operator.add)
    other: Theirs = theirs.BinaryOperatorAggregate(NEEDS_OBJECT, operator.add)
    mine.update([Overwrite(1)])
    other.update([their_types.Overwrite(1)])

    assert mine.get() == 1
    assert other.get() == their_types.Overwrite(1)


def test_difference_a_write_that_an_overwrite_drops_is_not_reduced_first() -> None:
    mine = ours.BinaryOperatorAggregate(int, operator.add)
    other: Theirs = theirs.BinaryOperatorAggregate(int, operator.add)
    unfit = cast("int", "text")

    assert mine.update([unfit, Overwrite(1)])
    with pytest.raises(TypeError):
        other.update([unfit, their_types.Overwrite(1)])


def test_difference_a_barrier_counts_nothing_of_a_superstep_it_refuses() -> None:
    mine = ours.NamedBarrierValue(str, NAME_SET)
    other = theirs.NamedBarrierValue(str, NAME_SET)
    assert outcome(lambda: mine.update(["a", "unknown"])) == outcome(lambda: other.update(["a", "unknown"]))

    assert mine.checkpoint() == set()
    assert other.checkpoint() == {"a"}


def test_difference_a_lambda_does_not_pass_for_a_named_reducer() -> None:
    def here(reducer: Callable[[int, int], int]) -> Ours:
        return ours.BinaryOperatorAggregate(int, reducer)

    def there(reducer: Callable[[int, int], int]) -> Theirs:
        return theirs.BinaryOperatorAggregate(int, reducer)

    assert here(lambda a, _: a) == here(lambda _, b: b)
    assert there(lambda a, _: a) == there(lambda _, b: b)
    assert here(lambda a, _: a) != here(operator.add)
    assert there(lambda a, _: a) == there(operator.add)


def test_difference_what_was_stored_is_out_of_reach_of_the_channel() -> None:
    mine = ours.DeltaChannel(extend_in_place, list[int])
    other = theirs.DeltaChannel(extend_in_place, list[int])
    stored_here, stored_there = [0], [0]
    mine.from_checkpoint(stored_here).update([[1]])
    other.from_checkpoint(stored_there).update([[1]])

    assert stored_here == [0]
    assert stored_there == [0, 1]
