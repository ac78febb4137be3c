"""Checkpoint ids sort by time, and a config says which checkpoint is meant."""

import threading
import time
import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from phalanx.checkpoint import ids
from phalanx.checkpoint.configs import CheckpointAddress, matches, with_config_metadata
from phalanx.checkpoint.ids import checkpoint_id


def test_ids_strictly_increase() -> None:
    made = [checkpoint_id(step) for step in range(2_000)]

    assert made == sorted(set(made))


def test_ids_of_several_threads_differ_and_increase_in_each() -> None:
    made: list[list[str]] = [[] for _ in range(4)]
    start = threading.Barrier(4)

    def make(own: list[str]) -> None:
        start.wait()
        own.extend(checkpoint_id(0) for _ in range(500))

    threads = [threading.Thread(target=make, args=(own,)) for own in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(own == sorted(own) for own in made)
    assert len({one for own in made for one in own}) == 2_000


@pytest.mark.parametrize("clock", [0, 1_600_000_000 * 10**9])
def test_ids_increase_when_the_clock_stands_still_or_is_set_back(monkeypatch: pytest.MonkeyPatch, clock: int) -> None:
    before = checkpoint_id(0)
    monkeypatch.setattr(time, "time_ns", lambda: clock)

    made = [before, *(checkpoint_id(step) for step in range(100))]

    assert made == sorted(set(made))


@pytest.mark.parametrize(
    ("step", "shown"), [(2, "8002"), (0, "8000"), (-1, "bfff"), (-2, "bffe"), (16_384 + 3, "8003")]
)
def test_an_id_shows_its_step(step: int, shown: str) -> None:
    assert checkpoint_id(step).split("-")[3] == shown


def test_an_id_is_a_uuid_of_version_6_with_its_time_in_it() -> None:
    made = uuid.UUID(checkpoint_id(7))

    assert made.variant == uuid.RFC_4122
    assert made.version == 6
    high, middle, low = str(made).split("-")[:3]
    ticks = int(high + middle + low[1:], 16) - 0x01B21DD213814000
    assert abs(ticks / 1e7 - datetime.now(UTC).timestamp()) < 3600


def test_a_forked_process_makes_ids_of_its_own_and_does_not_wait_for_its_parent_s_threads() -> None:
    node, lock, reset = ids._node, ids._lock, ids._forget_node  # pyright: ignore[reportPrivateUsage]
    try:
        lock.acquire()  # as if another thread of the parent had been at it
        reset()
        first = checkpoint_id(0)
        assert not first.endswith(f"{node:012x}")
    finally:
        lock.release()


# --- configs ----------------------------------------------------------------------------------------------------------


def test_an_address_is_read_from_a_config_and_given_back_as_one() -> None:
    config = {"thread_id": "t", "checkpoint_ns": "n", "checkpoint_id": "c"}

    address = CheckpointAddress.of({"configurable": config})

    assert address == CheckpointAddress("t", "n", "c")
    assert address.config() == {"configurable": config}


@pytest.mark.parametrize(
    "configurable", [{"thread_id": 42}, {"thread_id": 42, "checkpoint_ns": "", "checkpoint_id": ""}]
)
def test_ids_become_text_and_what_is_left_out_is_empty(configurable: dict[str, Any]) -> None:
    address = CheckpointAddress.of({"configurable": configurable})

    assert address == CheckpointAddress("42", "", None)
    assert address.config() == {"configurable": {"thread_id": "42", "checkpoint_ns": ""}}


def test_without_a_thread_the_error_says_what_to_pass_and_what_was_there() -> None:
    with pytest.raises(ValueError, match=r"'configurable': |\"configurable\": .*thread_id.*got no thread_id"):
        CheckpointAddress.of({"configurable": {"user": 1}})
    with pytest.raises(ValueError, match="got no thread_id"):
        CheckpointAddress.of({})


def test_scalars_of_a_config_become_metadata_that_does_not_hide_the_run_s_own() -> None:
    metadata = with_config_metadata(
        {"source": "loop", "step": 3, "parents": {}},
        {
            "configurable": {"thread_id": "t", "user": "ada", "on": True, "x": 1.5, "list": [], "__p": 1, "step": 9},
            "metadata": {"user": "lin\x00", "langgraph_node": "n"},
        },
    )

    assert metadata == {"source": "loop", "step": 3, "parents": {}, "user": "lin", "on": True, "x": 1.5}


def test_metadata_matches_when_every_wanted_entry_is_equal() -> None:
    assert matches({"a": 1, "b": None}, {"a": 1})
    assert matches({"a": 1}, {})
    assert matches({"a": 1}, {"b": None})
    assert not matches({"a": 1}, {"a": 2})


def test_an_id_is_greater_than_the_one_before_it_even_if_that_came_from_a_clock_ahead() -> None:
    now = checkpoint_id(1)
    ahead = f"{int(now[:8], 16) + 1:08x}{now[8:]}"
    assert ahead > now
    assert checkpoint_id(2, after=ahead) > ahead


@pytest.mark.parametrize("before", ["", "not an id", "ffffffff-ffff-6fff-8000-000000000000"])
def test_an_id_after_what_is_no_id_is_an_id(before: str) -> None:
    made = checkpoint_id(3, after=before)
    assert made[14] == "6"
    assert len(made) == 36
