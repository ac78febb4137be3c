"""What stays when a thread is pruned: the latest, what was chosen, and what those need; for any history."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.checkpoint.retention import LATEST_ONLY, Link, Retention, check_strategy, link_of, with_needed

CHANNELS = ("a", "b")


@st.composite
def histories(draw: st.DrawFn) -> list[Link]:
    """Checkpoints of a namespace: a tree, with delta channels that are stored whole now and then."""
    links: list[Link] = []
    for number in range(draw(st.integers(1, 25))):
        parent = draw(st.one_of(st.none(), st.sampled_from(links))) if links else None
        stored = draw(st.sets(st.sampled_from(CHANNELS)))
        needs = draw(st.sets(st.sampled_from(CHANNELS))) - stored
        links.append(Link(f"c{number:02}", parent.id if parent else None, number, stored, needs))
    return links


def chain(count: int, *, whole: Sequence[int] = (), channel: str = "a") -> list[Link]:
    """Checkpoints in a row, with a delta channel that some of them hold whole."""
    return [
        Link(
            f"c{number:02}",
            f"c{number - 1:02}" if number else None,
            number,
            {channel} if number in whole else set(),
            set() if number in whole else {channel},
        )
        for number in range(count)
    ]


def plain(count: int) -> list[Link]:
    return [Link(f"c{number:02}", f"c{number - 1:02}" if number else None, number, {"x"}) for number in range(count)]


def source_of(channel: str, start: Link, links: Sequence[Link]) -> list[str]:
    """The ancestors whose writes, and at the end whose value, a delta channel is made of."""
    by_id = {link.id: link for link in links}
    path: list[str] = []
    at = by_id.get(start.parent_id or "")
    while at is not None:
        path.append(at.id)
        if channel in at.stored:
            break
        at = by_id.get(at.parent_id or "")
    return path


@given(links=histories(), keep_last=st.integers(1, 8), keep_every=st.none() | st.integers(1, 5))
def test_whatever_is_pruned_the_latest_stay_and_every_chosen_one_has_what_its_delta_channels_are_made_of(
    links: list[Link], keep_last: int, keep_every: int | None
) -> None:
    kept = Retention(keep_last, keep_every).survivors(links)

    latest = sorted(link.id for link in links)[-keep_last:]
    assert kept >= {*latest}
    left = [link for link in links if link.id in kept]
    for link in left:
        if link.id in latest:
            for channel in link.needs:
                assert source_of(channel, link, left) == source_of(channel, link, links)


@given(links=histories(), keep_last=st.integers(1, 8), keep_every=st.none() | st.integers(1, 5))
def test_pruning_again_removes_nothing_more(links: list[Link], keep_last: int, keep_every: int | None) -> None:
    policy = Retention(keep_last, keep_every)
    kept = policy.survivors(links)
    assert policy.survivors([link for link in links if link.id in kept]) == kept


def test_everything_is_kept_without_a_number() -> None:
    assert Retention().survivors(plain(10)) == {link.id for link in plain(10)}
    assert Retention(ttl_s=1).survivors(plain(10)) == {link.id for link in plain(10)}


def test_the_last_are_kept_and_of_the_older_ones_every_so_many() -> None:
    assert Retention(keep_last=2).survivors(plain(10)) == {"c08", "c09"}
    assert Retention(keep_last=2, keep_every=4).survivors(plain(10)) == {"c00", "c04", "c08", "c09"}
    assert LATEST_ONLY.survivors(plain(10)) == {"c09"}
    assert Retention(keep_last=20).survivors(plain(3)) == {"c00", "c01", "c02"}


def test_ancestors_stay_back_to_the_nearest_whole_value_of_each_delta_channel() -> None:
    assert LATEST_ONLY.survivors(chain(6, whole=[0, 3])) == {"c03", "c04", "c05"}
    assert LATEST_ONLY.survivors(chain(6)) == {"c00", "c01", "c02", "c03", "c04", "c05"}
    assert LATEST_ONLY.survivors(chain(6, whole=[5])) == {"c05"}


def test_a_long_chain_of_which_all_is_needed_is_walked_once() -> None:
    class Counting(dict[str, None]):
        looked = 0

        def __iter__(self) -> Any:
            type(self).looked += 1
            return super().__iter__()

    stored = Counting()
    links = [Link(f"{n:06}", f"{n - 1:06}", n, stored, {"a"}) for n in range(3_000)]
    assert len(with_needed(links, [link.id for link in links])) == 3_000
    assert Counting.looked <= 2 * 3_000


def test_what_a_checkpoint_needs_is_in_its_metadata() -> None:
    metadata = {"step": 7, "counters_since_delta_snapshot": {"a": (1, 2), "b": (0, 1)}}
    assert link_of("c", "p", {"b", "x"}, metadata) == Link("c", "p", 7, {"b", "x"}, ["a"])
    assert link_of("c", None, (), {}) == Link("c", None, 0, (), ())


def test_pruning_waits_until_half_as_many_more_are_there() -> None:
    assert Retention(keep_last=100).sweep_at() == 150
    assert Retention(keep_last=1).sweep_at() == 2
    assert Retention(keep_last=10).sweep_at(kept=400) == 600


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_last": 0}, "keep_last must be greater than 0, not 0"),
        ({"keep_last": 1, "keep_every": 0}, "keep_every must be greater than 0"),
        ({"ttl_s": -1}, "ttl_s must be greater than 0, not -1"),
        ({"keep_every": 5}, "say how many with keep_last"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Retention(**options)


def test_a_strategy_that_there_is_not_is_refused_naming_those_there_are() -> None:
    check_strategy("delete")
    with pytest.raises(ValueError, match="'keep_all'; there are: 'keep_latest', 'delete'"):
        check_strategy("keep_all")
