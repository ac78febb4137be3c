import pytest

from phalanx.channels import LastValue, LastValueAfterFinish
from phalanx.channels.base import MISSING
from phalanx.errors import EmptyChannelError, InvalidUpdateError


def test_a_new_channel_is_empty_and_its_get_names_the_key() -> None:
    channel: LastValue[int] = LastValue(int, "total")

    assert not channel.is_available()
    assert channel.checkpoint() is MISSING
    with pytest.raises(EmptyChannelError, match="'total'"):
        channel.get()


def test_the_value_stays_until_the_next_write() -> None:
    channel: LastValue[int] = LastValue(int)

    assert channel.update([1])
    assert not channel.update([])
    assert channel.get() == 1
    assert channel.update([2])
    assert channel.get() == 2


def test_writing_an_equal_value_counts_as_a_change() -> None:
    channel: LastValue[int] = LastValue(int)
    channel.update([1])

    assert channel.update([1])


@pytest.mark.parametrize("falsy", [None, 0, "", False])
def test_a_falsy_value_is_a_value(falsy: object) -> None:
    channel: LastValue[object] = LastValue(object)
    channel.update([falsy])

    assert channel.is_available()
    assert channel.get() == falsy
    assert channel.from_checkpoint(channel.checkpoint()).is_available()


def test_two_writes_in_a_superstep_are_refused_and_the_value_stays() -> None:
    channel: LastValue[int] = LastValue(int)
    channel.key = "total"
    channel.update([1])

    with pytest.raises(InvalidUpdateError) as caught:
        channel.update([2, 3])

    assert str(caught.value).startswith(
        "At key 'total': Can receive only one value per step. Use an Annotated key to handle multiple values."
    )
    assert str(caught.value).endswith("(code: INVALID_CONCURRENT_GRAPH_UPDATE)")
    assert channel.get() == 1


def test_consume_and_finish_do_nothing() -> None:
    channel: LastValue[int] = LastValue(int)
    channel.update([1])

    assert not channel.consume()
    assert not channel.finish()
    assert channel.get() == 1


def test_a_copy_shares_the_value_itself() -> None:
    channel: LastValue[list[int]] = LastValue(list)
    value = [1, 2]
    channel.update([value])

    assert channel.copy().get() is value


def test_a_deferred_value_shows_only_after_finish() -> None:
    channel: LastValueAfterFinish[int] = LastValueAfterFinish(int)

    assert channel.update([1])
    assert not channel.is_available()
    with pytest.raises(EmptyChannelError):
        channel.get()
    assert channel.finish()
    assert channel.get() == 1
    assert not channel.finish()


def test_finish_does_nothing_to_an_empty_deferred_value() -> None:
    channel: LastValueAfterFinish[int] = LastValueAfterFinish(int)

    assert not channel.finish()
    assert not channel.is_available()


def test_a_deferred_value_is_consumed_only_once_it_shows() -> None:
    channel: LastValueAfterFinish[int] = LastValueAfterFinish(int)
    channel.update([1])

    assert not channel.consume()
    channel.finish()
    assert channel.consume()
    assert not channel.is_available()
    assert channel.checkpoint() is MISSING
    assert not channel.consume()
    assert not channel.finish()


def test_a_write_hides_a_deferred_value_again() -> None:
    channel: LastValueAfterFinish[int] = LastValueAfterFinish(int)
    channel.update([1])
    channel.finish()

    assert channel.update([2])
    assert not channel.is_available()
    channel.finish()
    assert channel.get() == 2


def test_a_deferred_value_takes_several_writes_and_keeps_the_last() -> None:
    channel: LastValueAfterFinish[int] = LastValueAfterFinish(int)

    assert channel.update([1, 2])
    channel.finish()
    assert channel.get() == 2


def test_an_empty_update_leaves_a_shown_deferred_value() -> None:
    channel: LastValueAfterFinish[int] = LastValueAfterFinish(int)
    channel.update([1])
    channel.finish()

    assert not channel.update([])
    assert channel.get() == 1


@pytest.mark.parametrize("finished", [False, True])
def test_whether_a_deferred_value_shows_is_stored(finished: bool) -> None:
    channel: LastValueAfterFinish[int] = LastValueAfterFinish(int)
    channel.update([1])
    if finished:
        channel.finish()

    stored = channel.checkpoint()

    assert stored == (1, finished)
    assert channel.from_checkpoint(stored).is_available() is finished
