import pytest

from phalanx.channels import UntrackedValue
from phalanx.channels.base import MISSING
from phalanx.errors import EmptyChannelError, InvalidUpdateError


def test_a_new_channel_is_empty() -> None:
    channel = UntrackedValue(int)
    channel.key = "token"

    assert not channel.is_available()
    with pytest.raises(EmptyChannelError, match="'token'"):
        channel.get()


def test_the_value_stays_for_the_run() -> None:
    channel = UntrackedValue(int)

    assert channel.update([1])
    assert not channel.update([])
    assert channel.get() == 1


def test_the_value_is_never_stored_and_never_restored() -> None:
    channel = UntrackedValue(int)
    channel.update([1])

    assert channel.checkpoint() is MISSING
    assert not channel.from_checkpoint(channel.checkpoint()).is_available()
    assert not channel.from_checkpoint(5).is_available()


def test_a_copy_within_the_run_has_the_value() -> None:
    channel = UntrackedValue(int)
    channel.update([1])

    assert channel.copy().get() == 1


def test_a_guarded_channel_refuses_two_writes_and_keeps_its_value() -> None:
    channel = UntrackedValue(int)
    channel.key = "token"
    channel.update([1])

    with pytest.raises(InvalidUpdateError) as caught:
        channel.update([2, 3])

    assert str(caught.value) == (
        "At key 'token': UntrackedValue(guard=True) can receive only one value per step. "
        "Use guard=False if you want to store any one of multiple values."
    )
    assert channel.get() == 1


def test_an_unguarded_channel_keeps_the_last_of_several_writes() -> None:
    channel = UntrackedValue(int, guard=False)

    assert channel.update([1, 2])
    assert channel.get() == 2


@pytest.mark.parametrize("guard", [True, False])
def test_copies_and_restored_channels_keep_the_guard(guard: bool) -> None:
    channel = UntrackedValue(int, guard)

    assert channel.copy().guard is guard
    assert channel.from_checkpoint(MISSING).guard is guard


def test_consume_and_finish_do_nothing() -> None:
    channel = UntrackedValue(int)
    channel.update([1])

    assert not channel.consume()
    assert not channel.finish()
    assert channel.get() == 1
