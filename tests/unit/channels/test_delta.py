from collections.abc import Sequence
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.channels import DeltaChannel
from phalanx.channels.base import MISSING
from phalanx.channels.delta import DeltaSnapshot
from phalanx.errors import EmptyChannelError, InvalidUpdateError
from phalanx.types import Overwrite


def extended(value: list[int], writes: Sequence[list[int]]) -> list[int]:
    return [*value, *(item for write in writes for item in write)]


def extend_in_place(value: list[int], writes: Sequence[list[int]]) -> list[int]:
    for write in writes:
        value.extend(write)
    return value


def stored(*writes: object) -> list[tuple[str, str, object]]:
    return [(f"task-{index}", "log", write) for index, write in enumerate(writes)]


both_reducers = pytest.mark.parametrize("reducer", [extended, extend_in_place])


def test_a_declared_channel_is_empty() -> None:
    channel = DeltaChannel(extended)
    channel.key = "log"

    assert not channel.is_available()
    with pytest.raises(EmptyChannelError, match="'log'"):
        channel.get()


def test_a_channel_restored_from_nothing_starts_at_its_type() -> None:
    assert DeltaChannel(extended).from_checkpoint(MISSING).get() == []
    assert DeltaChannel(extended, cast("type[list[int]]", Sequence[int])).from_checkpoint(MISSING).get() == []


def test_all_writes_of_a_superstep_go_to_one_call_of_the_reducer() -> None:
    calls: list[list[str]] = []

    def reducer(value: str, writes: Sequence[str]) -> str:
        calls.append(list(writes))
        return value + "".join(writes)

    channel = DeltaChannel(reducer, str)

    assert channel.update(["a", "b"])
    assert channel.update(["c"])
    assert channel.get() == "abc"
    assert calls == [["a", "b"], ["c"]]


def test_an_empty_update_consume_and_finish_do_nothing() -> None:
    channel = DeltaChannel(extended)
    channel.update([[1]])

    assert not channel.update([])
    assert not channel.consume()
    assert not channel.finish()
    assert channel.get() == [1]


@pytest.mark.parametrize(
    "overwrite", [Overwrite([9]), {"__overwrite__": [9]}, {"type": "__overwrite__", "value": [9]}], ids=repr
)
def test_an_overwrite_replaces_the_value_and_drops_the_other_writes(overwrite: object) -> None:
    channel = DeltaChannel(extended)
    channel.update([[1]])

    assert channel.update([[2], overwrite, [3]])
    assert channel.get() == [9]


def test_an_overwrite_with_none_goes_back_to_the_start() -> None:
    channel = DeltaChannel(extended)
    channel.update([[1]])
    channel.update([Overwrite(None)])

    assert channel.get() == []


def test_two_overwrites_in_a_superstep_are_refused_and_the_value_stays() -> None:
    channel = DeltaChannel(extended)
    channel.update([[1]])

    with pytest.raises(InvalidUpdateError, match=r"^Can receive only one Overwrite value per super-step\."):
        channel.update([Overwrite([2]), Overwrite([3])])

    assert channel.get() == [1]


def test_a_reducer_that_raises_leaves_the_value() -> None:
    channel = DeltaChannel(extended)
    channel.update([[1]])

    with pytest.raises(TypeError):
        channel.update([[2], 3])

    assert channel.get() == [1]


def test_the_checkpoint_is_always_missing_and_the_snapshot_is_the_whole_value() -> None:
    channel = DeltaChannel(extended)

    assert channel.snapshot() is MISSING
    channel.update([[1], [2]])
    assert channel.checkpoint() is MISSING
    assert channel.snapshot() == DeltaSnapshot([1, 2])


@pytest.mark.parametrize("value", [DeltaSnapshot([1]), [1]], ids=["snapshot", "plain value of another kind"])
def test_it_is_restored_from_a_snapshot_or_a_plain_value(value: Any) -> None:
    assert DeltaChannel(extended).from_checkpoint(value).get() == [1]


def test_a_plain_stored_none_means_the_start_and_a_snapshot_of_none_means_none() -> None:
    channel: DeltaChannel[Any] = DeltaChannel(extended)

    assert channel.from_checkpoint(None).get() == []
    assert channel.from_checkpoint(DeltaSnapshot(None)).get() is None


def test_replay_reduces_the_writes_of_all_supersteps_in_one_call() -> None:
    calls: list[int] = []

    def reducer(value: list[int], writes: Sequence[list[int]]) -> list[int]:
        calls.append(len(writes))
        return extended(value, writes)

    channel = DeltaChannel(reducer).from_checkpoint(DeltaSnapshot([0]))
    channel.replay_writes(stored([1], [2], [3]))

    assert channel.get() == [0, 1, 2, 3]
    assert calls == [3]


def test_replay_starts_from_the_last_overwrite() -> None:
    channel = DeltaChannel(extended).from_checkpoint(DeltaSnapshot([0]))
    channel.replay_writes(stored([1], Overwrite([7]), [2], {"__overwrite__": [9]}, [3]))

    assert channel.get() == [9, 3]


def test_replay_of_nothing_leaves_the_value_and_asks_no_reducer() -> None:
    channel = DeltaChannel(extended).from_checkpoint(DeltaSnapshot([0]))
    channel.replay_writes([])

    assert channel.get() == [0]


def test_replay_on_a_declared_channel_starts_at_its_type() -> None:
    channel = DeltaChannel(extended)
    channel.replay_writes(stored([1]))

    assert channel.get() == [1]


@both_reducers
@given(steps=st.lists(st.lists(st.lists(st.integers(), max_size=3), min_size=1, max_size=3), max_size=5))
def test_replay_gives_what_the_supersteps_gave(reducer: Any, steps: list[list[list[int]]]) -> None:
    declared: DeltaChannel[list[int]] = DeltaChannel(reducer)
    lived = declared.from_checkpoint(MISSING)
    for step in steps:
        lived.update(step)
    replayed = declared.from_checkpoint(MISSING)
    replayed.replay_writes(stored(*(write for step in steps for write in step)))

    assert replayed.get() == lived.get()


@both_reducers
def test_neither_side_of_a_copy_reaches_the_other_even_when_the_reducer_works_in_place(reducer: Any) -> None:
    channel: DeltaChannel[list[int]] = DeltaChannel(reducer)
    channel.update([[1]])
    twin = channel.copy()

    channel.update([[2]])
    twin.update([[3]])

    assert channel.get() == [1, 2]
    assert twin.get() == [1, 3]


@both_reducers
def test_no_reducer_reaches_what_was_stored_or_overwritten(reducer: Any) -> None:
    channel: DeltaChannel[list[int]] = DeltaChannel(reducer)
    channel.update([[1]])
    snapshot = channel.snapshot()
    replacement = [5]

    channel.update([[2]])
    channel.from_checkpoint(snapshot).update([[3]])
    channel.update([Overwrite(replacement)])
    channel.update([[6]])

    assert snapshot == DeltaSnapshot([1])
    assert replacement == [5]
    assert channel.get() == [5, 6]


def test_a_value_that_nobody_else_holds_is_not_copied_for_the_reducer() -> None:
    channel = DeltaChannel(extend_in_place).from_checkpoint(DeltaSnapshot([0]))
    channel.update([[1]])
    value = channel.get()

    channel.update([[2]])

    assert channel.get() is value


@pytest.mark.parametrize("frequency", [0, -1])
def test_a_snapshot_frequency_below_one_is_refused(frequency: int) -> None:
    with pytest.raises(ValueError, match=f"snapshot_frequency must be a positive int, got {frequency}"):
        DeltaChannel(extended, snapshot_frequency=frequency)


def test_a_type_that_gives_no_start_is_refused() -> None:
    with pytest.raises(TypeError, match=r"int \| None"):
        DeltaChannel(extended, cast("type[list[int]]", int | None))


def test_reducer_and_frequency_survive_copying_and_restoring() -> None:
    channel = DeltaChannel(extended, list, snapshot_frequency=7)

    assert DeltaChannel(extended).snapshot_frequency == 100
    assert channel.copy() == channel
    assert channel.from_checkpoint(MISSING) == channel
    assert channel != DeltaChannel(extended)
    assert channel != DeltaChannel(extend_in_place, snapshot_frequency=7)
