from collections.abc import Sequence

import pytest

from phalanx.channels import Topic
from phalanx.errors import EmptyChannelError


def test_an_empty_topic_has_nothing_to_get_but_an_empty_list_to_store() -> None:
    channel = Topic(int)
    channel.key = "mail"

    assert not channel.is_available()
    assert channel.checkpoint() == []
    with pytest.raises(EmptyChannelError, match="'mail'"):
        channel.get()


def test_lists_are_flattened_one_level_and_nothing_else_is() -> None:
    channel: Topic[object] = Topic(object)

    assert channel.update([1, [2, [3]], (4, 5), "ab", {6}])
    assert channel.get() == [1, 2, [3], (4, 5), "ab", {6}]


def test_repeated_items_are_all_kept() -> None:
    channel = Topic(int)
    channel.update([1, 1, [1]])

    assert channel.get() == [1, 1, 1]


def test_a_plain_topic_holds_the_last_superstep_only() -> None:
    channel = Topic(int)
    channel.update([1])

    assert channel.update([2])
    assert channel.get() == [2]
    assert channel.update([])
    assert not channel.is_available()
    assert not channel.update([])


def test_an_empty_list_written_empties_a_plain_topic() -> None:
    channel = Topic(int)
    channel.update([1])

    assert channel.update([[]])
    assert not channel.is_available()
    assert not channel.update([[]])


def test_an_accumulating_topic_keeps_everything() -> None:
    channel = Topic(int, accumulate=True)
    channel.update([1])

    assert channel.update([[2, 3]])
    assert not channel.update([])
    assert not channel.update([[]])
    assert channel.get() == [1, 2, 3]


def test_every_get_is_a_fresh_list() -> None:
    channel = Topic(int, accumulate=True)
    channel.update([1])

    channel.get().append(2)

    assert channel.get() == [1]


def test_what_was_stored_does_not_change_with_the_channel() -> None:
    channel = Topic(int, accumulate=True)
    channel.update([1])
    stored = channel.checkpoint()
    restored = channel.from_checkpoint(stored)

    channel.update([2])
    restored.update([3])

    assert stored == [1]


@pytest.mark.parametrize("accumulate", [True, False])
def test_copies_and_restored_channels_accumulate_alike(accumulate: bool) -> None:
    channel = Topic(int, accumulate)

    assert channel.copy().accumulate is accumulate
    assert channel.from_checkpoint([1]).accumulate is accumulate


def test_consume_and_finish_do_nothing() -> None:
    channel = Topic(int)
    channel.update([1])

    assert not channel.consume()
    assert not channel.finish()
    assert channel.get() == [1]


def test_it_is_read_as_a_sequence_and_written_with_items_or_lists() -> None:
    channel = Topic(int)

    assert channel.ValueType == Sequence[int]
    assert channel.UpdateType == int | list[int]
