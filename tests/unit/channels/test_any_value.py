import pytest

from phalanx.channels import AnyValue
from phalanx.channels.base import MISSING
from phalanx.errors import EmptyChannelError


def test_a_new_channel_is_empty() -> None:
    channel: AnyValue[int] = AnyValue(int, "vote")

    assert not channel.is_available()
    assert channel.checkpoint() is MISSING
    with pytest.raises(EmptyChannelError, match="'vote'"):
        channel.get()


def test_of_several_writes_the_last_is_kept() -> None:
    channel: AnyValue[int] = AnyValue(int)

    assert channel.update([1, 2, 3])
    assert channel.get() == 3


def test_a_superstep_without_writes_empties_it_once() -> None:
    channel: AnyValue[int] = AnyValue(int)
    channel.update([1])

    assert channel.update([])
    assert not channel.is_available()
    assert not channel.update([])


def test_consume_and_finish_do_nothing() -> None:
    channel: AnyValue[int] = AnyValue(int)
    channel.update([1])

    assert not channel.consume()
    assert not channel.finish()
    assert channel.get() == 1


def test_a_stored_none_comes_back_as_a_value() -> None:
    channel: AnyValue[object] = AnyValue(object)
    channel.update([None])

    assert channel.from_checkpoint(channel.checkpoint()).is_available()
