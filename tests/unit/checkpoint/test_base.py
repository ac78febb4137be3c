"""What the interface of savers does by itself, and the helpers that savers and their tests use."""

import asyncio
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.channels import LastValue
from phalanx.checkpoint import base
from phalanx.checkpoint.base import (
    BaseCheckpointSaver,
    CheckpointTuple,
    copy_checkpoint,
    create_checkpoint,
    empty_checkpoint,
    get_checkpoint_id,
    get_checkpoint_metadata,
    get_serializable_checkpoint_metadata,
    writes_sort_key,
)
from phalanx.checkpoint.base.id import UUID, uuid6
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.ids import checkpoint_id
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.checkpoint.serde import Serializer
from phalanx.errors import EmptyChannelError

# --- the interface ----------------------------------------------------------------------------------------------------

METHODS: dict[str, tuple[Any, ...]] = {
    "get_tuple": ({},),
    "list": ({},),
    "put": ({}, {}, {}, {}),
    "put_writes": ({}, [], "task"),
    "delete_thread": ("t",),
    "delete_for_runs": (["r"],),
    "copy_thread": ("t", "u"),
    "prune": (["t"],),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_saver_says_what_it_lacks_in_both_forms(method: str) -> None:
    class Mine(BaseCheckpointSaver):
        pass

    async def asynchronously() -> None:
        called = getattr(Mine(), f"a{method}")(*METHODS[method])
        if method == "list":
            async for _ in called:
                pass
        else:
            await called

    with pytest.raises(NotImplementedError, match=f"Mine has no {method}"):
        getattr(Mine(), method)(*METHODS[method])
    with pytest.raises(NotImplementedError, match=f"Mine has no {method}"):
        asyncio.run(asynchronously())


def test_the_async_form_of_a_history_asks_the_saver_s_own_way_of_finding_it() -> None:
    class Mine(BaseCheckpointSaver):
        def get_delta_channel_history(self, *, config: Any, channels: Any) -> Any:
            return dict.fromkeys(channels, "found here")

    found: Any = asyncio.run(Mine().aget_delta_channel_history(config={}, channels=["a"]))
    assert found == {"a": "found here"}


def test_a_history_ends_at_a_parent_that_is_gone() -> None:
    class Mine(BaseCheckpointSaver):
        def get_tuple(self, config: Any) -> CheckpointTuple | None:
            address = CheckpointAddress.of(config)
            if address.checkpoint_id == "gone":
                return None
            parent = CheckpointAddress("t", "", "gone").config()
            return CheckpointTuple(config, empty_checkpoint(), {}, parent, [("task", "a", 1)])

    config = CheckpointAddress("t", "", "c").config()
    assert Mine().get_delta_channel_history(config=config, channels=["a"]) == {"a": {"writes": []}}
    assert asyncio.run(Mine().aget_delta_channel_history(config=config, channels=["a"])) == {"a": {"writes": []}}
    assert Mine().get_delta_channel_history(config=config, channels=[]) == {}
    assert asyncio.run(Mine().aget_delta_channel_history(config=config, channels=[])) == {}


def test_a_saver_has_nothing_to_configure_but_the_thread() -> None:
    assert [*InMemorySaver().config_specs] == []


def test_a_saver_s_versions_are_of_the_type_it_says() -> None:
    class Texts(BaseCheckpointSaver[str]):
        def get_next_version(self, current: str | None, channel: None = None) -> str:
            return f"{int(current or 0) + 1:05}"

    assert Texts().get_next_version(Texts().get_next_version(None)) == "00002"


def test_a_saver_with_a_wider_list_of_classes_is_a_clone_over_the_same_storage() -> None:
    class Listing(Serializer):
        allowed: tuple[Any, ...] = ()

        def with_msgpack_allowlist(self, extra: Any) -> "Listing":
            wider = Listing()
            wider.allowed = (*self.allowed, *extra)
            return wider

    saver = InMemorySaver(serde=Listing())
    wider = saver.with_allowlist([("module", "Class")])
    assert isinstance(wider.serde, Listing)
    assert wider.serde.allowed == (("module", "Class"),)
    assert isinstance(saver.serde, Listing)
    assert saver.serde.allowed == ()
    config = saver.put(CheckpointAddress("t", "", None).config(), empty_checkpoint(), {}, {})
    assert wider.get_tuple(config) == saver.get_tuple(config)
    assert saver.with_allowlist([]) is saver


# --- helpers ----------------------------------------------------------------------------------------------------------


def test_an_empty_checkpoint_holds_nothing_and_is_new() -> None:
    first, second = empty_checkpoint(), empty_checkpoint()
    assert first["id"] < second["id"]
    assert (first["v"], first["channel_values"], first["channel_versions"], first["versions_seen"]) == (4, {}, {}, {})
    assert first["ts"].endswith("+00:00")


def test_a_copied_checkpoint_can_change_without_the_first_one() -> None:
    first = empty_checkpoint()
    first["channel_versions"]["a"] = 1
    first["versions_seen"]["n"] = {"a": 1}
    first["updated_channels"] = ["a"]
    copied = copy_checkpoint(first)
    assert copied == first
    copied["channel_values"]["a"] = 1
    copied["channel_versions"]["a"] = 2
    copied["versions_seen"]["n"]["a"] = 2
    copied["updated_channels"] = None
    assert first["channel_values"] == {}
    assert first["channel_versions"] == {"a": 1}
    assert first["versions_seen"] == {"n": {"a": 1}}
    assert first["updated_channels"] == ["a"]


def test_the_checkpoint_after_another_has_what_channels_hold() -> None:
    full: LastValue[int] = LastValue(int, "full")
    empty: LastValue[int] = LastValue(int, "empty")
    unknown: LastValue[int] = LastValue(int, "unknown")
    full.update([7])
    unknown.update([7])
    first = empty_checkpoint()
    first["channel_versions"] |= {"full": 1, "empty": 1}
    second = create_checkpoint(first, {"full": full, "empty": empty, "unknown": unknown}, 3)
    assert second["channel_values"] == {"full": 7}
    assert second["id"] > first["id"]
    assert second["channel_versions"] == first["channel_versions"]
    assert create_checkpoint(second, None, 4, id="mine")["channel_values"] == {"full": 7}
    assert create_checkpoint(second, None, 4, id="mine")["id"] == "mine"


def test_a_config_names_a_checkpoint_or_none() -> None:
    assert get_checkpoint_id({"configurable": {"checkpoint_id": "c"}}) == "c"
    assert get_checkpoint_id({"configurable": {"checkpoint_id": ""}}) is None
    assert get_checkpoint_id({}) is None


def test_metadata_takes_scalars_from_the_config_and_loses_nul_characters() -> None:
    config: Any = {
        "configurable": {"thread_id": "t", "user": "a\x00da", "__private": 1, "list": [1]},
        "metadata": {"langgraph_node": "n", "tag": "x", "on": True},
    }
    metadata: Any = {"source": "loop", "step": 1, "note": "\x00", "writes": {"n": object}}
    merged = {"user": "ada", "tag": "x", "on": True, "source": "loop", "step": 1, "note": ""}
    assert get_checkpoint_metadata(config, metadata) == {**merged, "writes": {"n": object}}
    assert get_serializable_checkpoint_metadata(config, metadata) == merged


def test_writes_sort_by_path_then_task_then_place() -> None:
    keys = [
        writes_sort_key("b"),
        writes_sort_key("a", "u", 0),
        writes_sort_key("a", "t", 10),
        writes_sort_key("a", "t", 9),
    ]
    assert sorted(keys) == [("a", "t", 9), ("a", "t", 10), ("a", "u", 0), ("b", "", 0)]


def test_what_code_for_other_libraries_looks_for_is_here() -> None:
    assert base.EmptyChannelError is EmptyChannelError
    assert base.WRITES_IDX_MAP == {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}
    assert {"thread_id", "checkpoint_id", "checkpoint_ns", "checkpoint_map"} <= base.EXCLUDED_METADATA_KEYS
    assert all(hasattr(base, name) for name in base.__all__)


# --- UUIDs ------------------------------------------------------------------------------------------------------------


def test_a_uuid_of_version_6_sorts_by_time_and_carries_what_it_is_given() -> None:
    made = [uuid6(clock_seq=step) for step in range(100)]
    assert [str(each) for each in made] == sorted(str(each) for each in made)
    assert made == sorted(made)
    assert {(each.version, each.variant) for each in made} == {(6, uuid.RFC_4122)}
    assert [each.clock_seq for each in made] == [*range(100)]
    assert uuid6(node=7).node == 7
    assert checkpoint_id(1, after=str(made[-1])) > str(made[-1])
    before = checkpoint_id(1)
    assert str(uuid6()) > before


@given(ticks=st.integers(0, (1 << 60) - 1))
def test_the_time_of_a_uuid_of_version_6_can_be_read(ticks: int) -> None:
    made = UUID(int=(ticks >> 12) << 80 | (ticks & 0x0FFF) << 64, version=6)
    assert made.time == ticks
    assert made.subsec == ticks % 10_000_000
    assert UUID(str(made)) == made


@pytest.mark.parametrize("version", [1, 3, 4, 5, 7, 8])
def test_a_uuid_may_have_any_version(version: int) -> None:
    made = UUID(int=0x123456789ABCDEF0123456789ABCDEF0, version=version)
    assert made.version == version
    assert made.variant == uuid.RFC_4122
    assert UUID(bytes=made.bytes) == made
    if version == 1:
        assert made.time == uuid.UUID(str(made)).time


@pytest.mark.parametrize("version", [0, 9])
def test_a_uuid_of_a_version_that_there_is_not_is_refused(version: int) -> None:
    with pytest.raises(ValueError, match="from 1 to 8"):
        UUID(int=0, version=version)
