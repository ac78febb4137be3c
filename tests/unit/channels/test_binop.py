import collections
import operator
from collections.abc import Collection, Mapping, MutableMapping, MutableSequence, MutableSet, Sequence, Set
from typing import Annotated, Any, Final, Literal, Required, cast

import pytest

from phalanx.channels import BinaryOperatorAggregate
from phalanx.channels.base import MISSING
from phalanx.channels.reducing import starting_value
from phalanx.errors import EmptyChannelError, InvalidUpdateError
from phalanx.types import Overwrite

STARTS: Final[list[tuple[object, object]]] = [
    (list, []),
    (list[int], []),
    (str, ""),
    (int, 0),
    (dict[str, int], {}),
    (tuple[int, ...], ()),
    (collections.deque[int], collections.deque()),
    (collections.Counter[str], collections.Counter()),
    (Sequence, []),
    (Sequence[int], []),
    (MutableSequence[int], []),
    (Set[int], set()),
    (MutableSet[int], set()),
    (Mapping[str, int], {}),
    (MutableMapping[str, int], {}),
    (Annotated[Sequence[int], "documented"], []),
    (Required[list[int]], []),
]


class NeedsAnArgument:
    def __init__(self, size: int) -> None:
        self.size = size


class RefusesToStart:
    def __init__(self) -> None:
        raise ValueError("not today")


class Total(BinaryOperatorAggregate[int]):
    """A user's own kind."""

    __slots__ = ()


def merged(value: dict[str, object], write: dict[str, object]) -> dict[str, object]:
    return {**value, **write}


def lists() -> BinaryOperatorAggregate[list[int]]:
    return BinaryOperatorAggregate(list[int], operator.add)


def unstarted() -> BinaryOperatorAggregate[int]:
    return BinaryOperatorAggregate(cast("type[int]", NeedsAnArgument), operator.add)


@pytest.mark.parametrize(("typ", "start"), STARTS)
def test_it_starts_at_what_its_type_makes_of_nothing(typ: Any, start: object) -> None:
    channel: BinaryOperatorAggregate[object] = BinaryOperatorAggregate(typ, lambda _, write: write)

    assert type(channel.get()) is type(start)
    assert channel.get() == start
    assert channel.typ is typ


@pytest.mark.parametrize(
    "typ",
    [int | None, Any, None, 5, [], "list", Literal["a"], Collection[int], NeedsAnArgument, RefusesToStart],
    ids=repr,
)
def test_a_type_that_cannot_be_called_with_nothing_gives_no_start(typ: object) -> None:
    assert starting_value(typ) is MISSING


def test_a_channel_without_start_is_empty_and_takes_its_first_write_as_it_is() -> None:
    channel = unstarted()
    channel.key = "sum"

    assert channel.checkpoint() is MISSING
    with pytest.raises(EmptyChannelError, match="'sum'"):
        channel.get()
    assert channel.update([1, 2])
    assert channel.get() == 3


def test_writes_are_folded_in_order() -> None:
    channel = BinaryOperatorAggregate(str, operator.add)

    assert channel.update(["a", "b"])
    assert channel.update(["c"])
    assert channel.get() == "abc"


def test_an_empty_update_consume_and_finish_do_nothing() -> None:
    channel = lists()
    channel.update([[1]])

    assert not channel.update([])
    assert not channel.consume()
    assert not channel.finish()
    assert channel.get() == [1]


@pytest.mark.parametrize(
    "overwrite",
    [Overwrite([9]), {"__overwrite__": [9]}, {"type": "__overwrite__", "value": [9]}],
    ids=["object", "sentinel dict", "JSON form"],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_overwrite_replaces_the_value_and_drops_the_other_writes(overwrite: Any, place: int) -> None:
    channel = lists()
    channel.update([[1]])
    writes: list[Any] = [[2], [3]]
    writes.insert(place, overwrite)

    assert channel.update(writes)
    assert channel.get() == [9]


def test_none_can_be_the_value_of_an_overwrite() -> None:
    channel = lists()
    channel.update([Overwrite(None)])

    assert channel.is_available()
    assert channel.get() is None


@pytest.mark.parametrize(
    "write",
    [
        {"__overwrite__": 1, "x": 2},
        {"type": "__overwrite__"},
        {"type": "other", "value": 1},
        {"type": ["__overwrite__"], "value": 1},
        {},
    ],
    ids=repr,
)
def test_a_dict_that_only_resembles_an_overwrite_is_reduced(write: dict[str, object]) -> None:
    channel: BinaryOperatorAggregate[dict[str, object]] = BinaryOperatorAggregate(dict[str, object], merged)
    channel.update([{"kept": True}])

    channel.update([write])

    assert channel.get() == {"kept": True, **write}


@pytest.mark.parametrize("second", [Overwrite([2]), {"__overwrite__": [2]}], ids=["object", "dict"])
def test_two_overwrites_in_a_superstep_are_refused_and_the_value_stays(second: Any) -> None:
    channel = lists()
    channel.update([[1]])

    with pytest.raises(InvalidUpdateError) as caught:
        channel.update([Overwrite([2]), [3], second])

    assert str(caught.value).startswith("Can receive only one Overwrite value per super-step.")
    assert str(caught.value).endswith("(code: INVALID_CONCURRENT_GRAPH_UPDATE)")
    assert channel.get() == [1]


def test_an_overwrite_as_the_first_write_of_a_channel_without_start_is_unwrapped() -> None:
    channel = unstarted()

    channel.update([Overwrite(3), 4])

    assert channel.get() == 3


def test_a_reducer_that_raises_half_way_leaves_the_value() -> None:
    channel = lists()
    channel.update([[1]])

    with pytest.raises(TypeError):
        channel.update([[2], cast("list[int]", 3)])

    assert channel.get() == [1]


def test_each_channel_restored_from_nothing_has_a_start_of_its_own() -> None:
    channel = lists()

    channel.from_checkpoint(MISSING).get().append(1)

    assert channel.get() == []
    assert channel.from_checkpoint(MISSING).get() == []


def test_copying_and_restoring_share_the_value_itself() -> None:
    channel = lists()
    value = [1, 2]
    channel.update([Overwrite(value)])

    assert channel.copy().get() is value
    assert channel.from_checkpoint(value).get() is value


def test_a_subclass_stays_itself_when_copied_and_restored() -> None:
    channel = Total(int, operator.add)

    assert type(channel.copy()) is Total
    assert type(channel.from_checkpoint(MISSING)) is Total


def test_reducers_are_compared_by_identity_except_that_lambdas_pass_as_the_same() -> None:
    added = BinaryOperatorAggregate(int, operator.add)

    assert added == BinaryOperatorAggregate(int, operator.add)
    assert added != BinaryOperatorAggregate(int, operator.mul)
    assert BinaryOperatorAggregate(int, lambda a, b: a + b) == BinaryOperatorAggregate(int, lambda a, b: a | b)
    assert added != BinaryOperatorAggregate(int, lambda a, b: a + b)
