import pytest

from phalanx.channels import NamedBarrierValue, NamedBarrierValueAfterFinish
from phalanx.errors import EmptyChannelError, InvalidUpdateError

Barrier = NamedBarrierValue[str] | NamedBarrierValueAfterFinish[str]


def barrier() -> NamedBarrierValue[str]:
    channel = NamedBarrierValue(str, {"a", "b"})
    channel.key = "join:a+b:c"
    return channel


def deferred() -> NamedBarrierValueAfterFinish[str]:
    channel = NamedBarrierValueAfterFinish(str, {"a", "b"})
    channel.key = "join:a+b:c"
    return channel


both_kinds = pytest.mark.parametrize("channel", [barrier(), deferred()], ids=["plain", "deferred"])


def test_a_barrier_opens_when_every_name_was_written_in_whichever_supersteps() -> None:
    channel = barrier()

    assert channel.update(["b"])
    assert not channel.update([])
    assert not channel.is_available()
    assert channel.update(["a"])
    assert channel.is_available()
    assert channel.get() is None  # type: ignore[func-returns-value]


@both_kinds
def test_a_closed_barrier_has_nothing_to_get(channel: Barrier) -> None:
    with pytest.raises(EmptyChannelError, match=r"join:a\+b:c"):
        channel.copy().get()


@both_kinds
def test_a_name_written_again_changes_nothing(channel: Barrier) -> None:
    waiting = channel.copy()

    assert waiting.update(["a", "a"])
    assert not waiting.update(["a"])


@both_kinds
def test_an_unknown_name_is_refused_and_none_of_the_superstep_counts(channel: Barrier) -> None:
    waiting = channel.copy()

    with pytest.raises(InvalidUpdateError, match=r"At key 'join:a\+b:c': Value x not in {'a', 'b'}"):
        waiting.update(["a", "x"])

    assert waiting.seen == set()


def test_consuming_an_open_barrier_closes_it_again() -> None:
    channel = barrier()
    channel.update(["a"])

    assert not channel.consume()
    channel.update(["b"])
    assert channel.consume()
    assert not channel.is_available()
    assert channel.checkpoint() == set()
    assert not channel.consume()


def test_finish_does_nothing_to_a_plain_barrier() -> None:
    channel = barrier()
    channel.update(["a", "b"])

    assert not channel.finish()
    assert channel.is_available()


def test_a_deferred_barrier_needs_both_every_name_and_finish() -> None:
    channel = deferred()
    channel.update(["a"])

    assert not channel.finish()
    channel.update(["b"])
    assert not channel.is_available()
    assert channel.finish()
    assert channel.is_available()
    assert channel.get() is None  # type: ignore[func-returns-value]
    assert not channel.finish()


def test_consuming_a_deferred_barrier_closes_it_again() -> None:
    channel = deferred()
    channel.update(["a", "b"])

    assert not channel.consume()
    channel.finish()
    assert channel.consume()
    assert channel.checkpoint() == (set(), False)
    assert not channel.finish()


def test_a_name_written_again_leaves_an_open_deferred_barrier_open() -> None:
    channel = deferred()
    channel.update(["a", "b"])
    channel.finish()

    assert not channel.update(["a"])
    assert channel.is_available()


def test_what_was_stored_does_not_change_with_the_channel() -> None:
    channel = barrier()
    channel.update(["a"])
    stored = channel.checkpoint()
    restored = channel.from_checkpoint(stored)

    channel.update(["b"])
    restored.update(["b"])

    assert stored == {"a"}


def test_what_a_deferred_barrier_stored_does_not_change_with_it() -> None:
    channel = deferred()
    channel.update(["a"])
    stored = channel.checkpoint()
    restored = channel.from_checkpoint(stored)

    channel.update(["b"])
    restored.update(["b"])

    assert stored == ({"a"}, False)


def test_a_stored_open_deferred_barrier_comes_back_open() -> None:
    channel = deferred()
    channel.update(["a", "b"])
    channel.finish()

    assert channel.from_checkpoint(channel.checkpoint()).is_available()
