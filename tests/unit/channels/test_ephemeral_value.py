import pytest

from phalanx.channels import EphemeralValue
from phalanx.channels.base import MISSING
from phalanx.errors import EmptyChannelError, InvalidUpdateError


def test_a_new_channel_is_empty() -> None:
    channel: EphemeralValue[int] = EphemeralValue(int)
    channel.key = "hint"

    assert not channel.is_available()
    with pytest.raises(EmptyChannelError, match="'hint'"):
        channel.get()


def test_the_value_is_gone_after_a_superstep_without_writes() -> None:
    channel: EphemeralValue[int] = EphemeralValue(int)

    assert channel.update([1])
    assert channel.get() == 1
    assert channel.update([])
    assert not channel.is_available()
    assert channel.checkpoint() is MISSING
    assert not channel.update([])


def test_the_value_is_stored_while_it_lives() -> None:
    channel: EphemeralValue[int] = EphemeralValue(int)
    channel.update([1])

    assert channel.from_checkpoint(channel.checkpoint()).get() == 1


def test_a_guarded_channel_refuses_two_writes_and_keeps_its_value() -> None:
    channel: EphemeralValue[int] = EphemeralValue(int)
    channel.key = "hint"
    channel.update([1])

    with pytest.raises(InvalidUpdateError) as caught:
        channel.update([2, 3])

    assert str(caught.value) == (
        "At key 'hint': EphemeralValue(guard=True) can receive only one value per step. "
        "Use guard=False if you want to store any one of multiple values."
    )
    assert channel.get() == 1


def test_an_unguarded_channel_keeps_the_last_of_several_writes() -> None:
    channel: EphemeralValue[int] = EphemeralValue(int, guard=False)

    assert channel.update([1, 2])
    assert channel.get() == 2


@pytest.mark.parametrize("guard", [True, False])
def test_copies_and_restored_channels_keep_the_guard(guard: bool) -> None:
    channel: EphemeralValue[int] = EphemeralValue(int, guard)

    assert channel.copy().guard is guard
    assert channel.from_checkpoint(1).guard is guard


def test_consume_and_finish_do_nothing() -> None:
    channel: EphemeralValue[int] = EphemeralValue(int)
    channel.update([1])

    assert not channel.consume()
    assert not channel.finish()
    assert channel.get() == 1
