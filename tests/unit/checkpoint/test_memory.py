"""The saver that keeps everything in this process."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from phalanx.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple
from phalanx.checkpoint.memory import InMemorySaver, MemorySaver
from phalanx.checkpoint.serde import Serializer
from phalanx.config import RunnableConfig
from phalanx.errors import UnserializableError
from phalanx.protocol.names import ERROR, INTERRUPT


def at(thread: str = "t", checkpoint: str | None = None, namespace: str | None = "") -> RunnableConfig:
    configurable: dict[str, Any] = {"thread_id": thread}
    if namespace is not None:
        configurable["checkpoint_ns"] = namespace
    if checkpoint is not None:
        configurable["checkpoint_id"] = checkpoint
    return {"configurable": configurable}


def checkpoint(name: str, values: dict[str, Any], versions: dict[str, Any] | None = None) -> Checkpoint:
    return {
        "v": 4,
        "id": name,
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, 1) if versions is None else versions,
        "versions_seen": {"node": {"a": 1}},
        "updated_channels": sorted(values),
    }


def put(
    saver: InMemorySaver,
    made: Checkpoint,
    parent: RunnableConfig | None = None,
    *,
    new: set[str] | None = None,
    **metadata: Any,
) -> RunnableConfig:
    versions = made["channel_versions"]
    changed = {name: versions[name] for name in (versions if new is None else new)}
    known: CheckpointMetadata = {"source": "loop", "step": 1, "parents": {}}
    return saver.put(parent or at(), made, {**known, **metadata}, changed)  # type: ignore[typeddict-item]


def loaded(saver: InMemorySaver, config: RunnableConfig) -> CheckpointTuple:
    found = saver.get_tuple(config)
    assert found is not None
    return found


def listed(saver: InMemorySaver, config: RunnableConfig | None, **options: Any) -> list[str]:
    return [found.checkpoint["id"] for found in saver.list(config, **options)]


# --- put and get ------------------------------------------------------------------------------------------------------


def test_a_checkpoint_comes_back_as_it_was_put_with_its_address_and_its_parent_s() -> None:
    saver = InMemorySaver()
    first = put(saver, checkpoint("c1", {"a": [1], "b": (2,)}))
    second = put(saver, checkpoint("c2", {"a": [1, 2], "b": (2,)}, {"a": 2, "b": 1}), first, new={"a"}, step=2)

    found = loaded(saver, second)

    assert first == at(checkpoint="c1")
    assert found.config == second == at(checkpoint="c2")
    assert found.parent_config == first
    assert found.metadata == {"source": "loop", "step": 2, "parents": {}}
    assert found.checkpoint == checkpoint("c2", {"a": [1, 2], "b": (2,)}, {"a": 2, "b": 1})
    assert found.pending_writes == []
    assert loaded(saver, first).parent_config is None


def test_without_an_id_the_newest_checkpoint_is_meant() -> None:
    saver = InMemorySaver()
    put(saver, checkpoint("c2", {"a": 2}))
    put(saver, checkpoint("c1", {"a": 1}))

    assert loaded(saver, at()).checkpoint["id"] == "c2"
    assert saver.get(at()) == loaded(saver, at()).checkpoint


def test_what_does_not_exist_is_none() -> None:
    saver = InMemorySaver()
    put(saver, checkpoint("c1", {}))

    for config in (at("other"), at(checkpoint="c9"), at(namespace="n")):
        assert saver.get_tuple(config) is None
        assert saver.get(config) is None


def test_asking_for_a_thread_does_not_make_one() -> None:
    saver = InMemorySaver()
    saver.get_tuple(at("ghost"))

    assert listed(saver, None) == []


def test_a_channel_that_lost_its_value_has_none_in_the_next_checkpoint() -> None:
    saver = InMemorySaver()
    first = put(saver, checkpoint("c1", {"a": 1, "b": 2}))
    second = put(saver, checkpoint("c2", {"b": 2}, {"a": 2, "b": 1}), first, new={"a"})

    assert loaded(saver, second).checkpoint["channel_values"] == {"b": 2}
    assert loaded(saver, first).checkpoint["channel_values"] == {"a": 1, "b": 2}


def test_two_branches_from_one_checkpoint_keep_their_own_values_although_they_count_the_same_versions() -> None:
    saver = InMemorySaver()
    root = put(saver, checkpoint("c1", {"a": "root"}))
    one = put(saver, checkpoint("c2", {"a": "one"}, {"a": 2}), root, new={"a"})
    other = put(saver, checkpoint("c3", {"a": "other"}, {"a": 2}), root, new={"a"})

    for config, value in ((root, "root"), (one, "one"), (other, "other")):
        assert loaded(saver, config).checkpoint["channel_values"] == {"a": value}


def test_a_checkpoint_whose_parent_is_not_here_is_stored_whole() -> None:
    saver = InMemorySaver()

    config = put(saver, checkpoint("c2", {"a": 1, "b": 2}), at(checkpoint="c1"), new={"b"})

    assert loaded(saver, config).checkpoint["channel_values"] == {"a": 1, "b": 2}


def test_a_value_that_does_not_change_is_kept_once() -> None:
    serialized: list[object] = []

    class Counting(Serializer):
        def dumps_typed(self, obj: object) -> tuple[str, bytes]:
            serialized.append(obj)
            return super().dumps_typed(obj)

    saver = InMemorySaver(serde=Counting())
    large = ["x" * 1000]
    config = put(saver, checkpoint("c0", {"large": large, "n": 0}))
    for step in range(1, 10):
        made = checkpoint(f"c{step}", {"large": large, "n": step}, {"large": 1, "n": step + 1})
        config = put(saver, made, config, new={"n"})

    assert sum(one is large for one in serialized) == 1
    assert loaded(saver, config).checkpoint["channel_values"] == {"large": large, "n": 9}


def test_values_that_cannot_be_stored_are_refused_and_leave_nothing_behind() -> None:
    saver = InMemorySaver()

    with pytest.raises(UnserializableError):
        put(saver, checkpoint("c1", {"a": threading.Lock()}))

    assert saver.get_tuple(at()) is None


# --- nothing that is stored can change --------------------------------------------------------------------------------


def test_what_was_passed_in_can_be_changed_without_changing_what_is_stored() -> None:
    saver = InMemorySaver()
    values: dict[str, Any] = {"a": [1]}
    made = checkpoint("c1", values)
    parents = {"": "p"}
    metadata: CheckpointMetadata = {"source": "loop", "step": 1, "parents": parents}
    config = saver.put(at(), made, metadata, {"a": 1})

    values["a"].append(2)
    values["b"] = 1
    made["channel_versions"]["a"] = 99
    made["versions_seen"]["other"] = {}
    (made["updated_channels"] or []).append("z")
    made["id"] = "changed"
    parents["x"] = "y"

    found = loaded(saver, config)
    assert found.checkpoint == checkpoint("c1", {"a": [1]})
    assert found.metadata == {"source": "loop", "step": 1, "parents": {"": "p"}}


def test_what_was_handed_out_can_be_changed_without_changing_what_is_stored() -> None:
    saver = InMemorySaver()
    config = put(saver, checkpoint("c1", {"a": [1]}))
    saver.put_writes(config, [("a", [2])], "task")

    found = loaded(saver, config)
    found.checkpoint["channel_values"]["a"].append(2)
    found.checkpoint["channel_versions"]["a"] = 99
    found.checkpoint["versions_seen"]["node"]["a"] = 99
    found.checkpoint["versions_seen"]["other"] = {}
    (found.checkpoint["updated_channels"] or []).append("z")
    found.metadata["step"] = 99
    found.config.get("configurable", {})["checkpoint_id"] = "changed"
    (found.pending_writes or [])[0][2].append(3)

    again = loaded(saver, config)
    assert again.checkpoint == checkpoint("c1", {"a": [1]})
    assert again.metadata.get("step") == 1
    assert again.pending_writes == [("task", "a", [2])]


# --- writes -----------------------------------------------------------------------------------------------------------


def test_writes_of_tasks_come_back_with_their_checkpoint_in_order() -> None:
    saver = InMemorySaver()
    config = put(saver, checkpoint("c1", {}))
    saver.put_writes(config, [("b", 1), ("a", 2), ("b", 3)], "t2")
    saver.put_writes(config, [("c", 4)], "t1")

    assert loaded(saver, config).pending_writes == [("t1", "c", 4), ("t2", "b", 1), ("t2", "a", 2), ("t2", "b", 3)]


def test_storing_a_task_s_writes_again_changes_nothing_and_the_first_count() -> None:
    saver = InMemorySaver()
    config = put(saver, checkpoint("c1", {}))
    for value in (1, 1, 2):
        saver.put_writes(config, [("a", value), ("b", value)], "task")

    assert loaded(saver, config).pending_writes == [("task", "a", 1), ("task", "b", 1)]


@pytest.mark.parametrize("channel", [ERROR, INTERRUPT, "__resume__", "__scheduled__"])
def test_a_write_about_a_task_replaces_the_one_before(channel: str) -> None:
    saver = InMemorySaver()
    config = put(saver, checkpoint("c1", {}))
    saver.put_writes(config, [(channel, "first")], "task")
    saver.put_writes(config, [("a", 1)], "task")
    saver.put_writes(config, [(channel, "second")], "task")

    assert sorted(loaded(saver, config).pending_writes or []) == [("task", channel, "second"), ("task", "a", 1)]


def test_writes_belong_to_one_checkpoint_of_one_namespace_of_one_thread() -> None:
    saver = InMemorySaver()
    for config in (at(), at("other"), at(namespace="n")):
        put(saver, checkpoint("c1", {}), config)
    put(saver, checkpoint("c2", {}))
    saver.put_writes(at(checkpoint="c1"), [("a", 1)], "task")

    assert loaded(saver, at(checkpoint="c1")).pending_writes == [("task", "a", 1)]
    for config in (at(checkpoint="c2"), at("other"), at(namespace="n")):
        assert loaded(saver, config).pending_writes == []


# --- lists ------------------------------------------------------------------------------------------------------------


def history() -> InMemorySaver:
    saver = InMemorySaver()
    for step, source in enumerate(["input", "loop", "loop", "update"]):
        put(saver, checkpoint(f"c{step}", {"a": step}), step=step, source=source)
    put(saver, checkpoint("c9", {}), at(namespace="inner"), step=9)
    put(saver, checkpoint("c5", {}), at("other"), step=5)
    return saver


def test_checkpoints_are_listed_newest_first() -> None:
    assert listed(history(), at()) == ["c3", "c2", "c1", "c0"]


@pytest.mark.parametrize(
    ("config", "options", "expected"),
    [
        (at(), {"limit": 2}, ["c3", "c2"]),
        (at(), {"limit": 0}, []),
        (at(), {"limit": 99}, ["c3", "c2", "c1", "c0"]),
        (at(), {"before": at(checkpoint="c2")}, ["c1", "c0"]),
        (at(), {"before": at(checkpoint="c0")}, []),
        (at(), {"before": at()}, ["c3", "c2", "c1", "c0"]),
        (at(), {"filter": {"source": "loop"}}, ["c2", "c1"]),
        (at(), {"filter": {"source": "loop", "step": 1}}, ["c1"]),
        (at(), {"filter": {"source": "fork"}}, []),
        (at(), {"filter": {"source": "loop"}, "limit": 1}, ["c2"]),
        (at(), {"filter": {"source": "loop"}, "before": at(checkpoint="c2")}, ["c1"]),
        (at(checkpoint="c1"), {}, ["c1"]),
        (at(namespace="inner"), {}, ["c9"]),
        (at(namespace=None), {}, ["c9", "c3", "c2", "c1", "c0"]),
        (None, {}, ["c9", "c5", "c3", "c2", "c1", "c0"]),
        (None, {"filter": {"step": 5}}, ["c5"]),
        (at("nobody"), {}, []),
    ],
)
def test_lists_are_narrowed_by_thread_namespace_filter_before_and_limit(
    config: RunnableConfig | None, options: dict[str, Any], expected: list[str]
) -> None:
    assert listed(history(), config, **options) == expected


def test_a_list_holds_whole_checkpoints() -> None:
    saver = history()
    saver.put_writes(at(checkpoint="c3"), [("a", 1)], "task")

    assert next(saver.list(at())) == loaded(saver, at())


def test_a_list_that_is_being_read_is_not_disturbed_by_what_happens_meanwhile() -> None:
    saver = history()
    reading = saver.list(at())
    seen = [next(reading).checkpoint["id"]]

    put(saver, checkpoint("c4", {}))
    saver.delete_thread("t")

    assert [*seen, *(found.checkpoint["id"] for found in reading)] == ["c3", "c2", "c1", "c0"]


# --- threads ----------------------------------------------------------------------------------------------------------


def test_a_deleted_thread_is_gone_with_its_namespaces_and_writes_and_others_stay() -> None:
    saver = history()
    saver.put_writes(at(checkpoint="c3"), [("a", 1)], "task")

    saver.delete_thread("t")
    saver.delete_thread("never existed")

    assert listed(saver, None) == ["c5"]
    put(saver, checkpoint("c3", {}))
    assert loaded(saver, at()).pending_writes == []


def test_threads_and_namespaces_do_not_see_one_another() -> None:
    saver = InMemorySaver()
    put(saver, checkpoint("c1", {"a": "t"}), at("t"))
    put(saver, checkpoint("c1", {"a": "t, n"}), at("t", namespace="n"))
    put(saver, checkpoint("c1", {"a": "u"}), at("u"))

    assert loaded(saver, at("t")).checkpoint["channel_values"] == {"a": "t"}
    assert loaded(saver, at("t", namespace="n")).checkpoint["channel_values"] == {"a": "t, n"}
    assert loaded(saver, at("u")).checkpoint["channel_values"] == {"a": "u"}


def test_thread_ids_that_are_not_text_are_the_same_thread_as_their_text() -> None:
    saver = InMemorySaver()
    put(saver, checkpoint("c1", {}), {"configurable": {"thread_id": 7}})

    assert loaded(saver, at("7")).checkpoint["id"] == "c1"


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run ``work`` in several threads at once, and raise what any of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_several_threads_at_once_lose_nothing() -> None:
    saver = InMemorySaver()

    def use(number: int) -> None:
        config = at(str(number % 2))
        for step in range(50):
            name = f"c{step:02}-{number}"
            stored = put(saver, checkpoint(name, {"a": name}), config)
            saver.put_writes(stored, [("a", name)], "task")
            found = loaded(saver, stored)
            assert found.checkpoint["channel_values"] == {"a": name}
            assert found.pending_writes == [("task", "a", name)]
            assert name in listed(saver, config)
            if step % 10 == 0:
                saver.delete_thread(f"unused {number}")

    in_threads(4, use)

    assert len(listed(saver, None)) == 200


def test_the_async_methods_do_the_same() -> None:
    async def use() -> None:
        async with InMemorySaver() as saver:
            made = checkpoint("c1", {"a": 1})
            config = await saver.aput(at(), made, {"source": "loop", "step": 1, "parents": {}}, {"a": 1})
            await saver.aput_writes(config, [("a", 2)], "task")
            found = await saver.aget_tuple(config)
            assert found == saver.get_tuple(config)
            assert await saver.aget(at()) == made
            assert [one.config async for one in saver.alist(at(), limit=1)] == [config]
            await saver.adelete_thread("t")
            assert await saver.aget(at()) is None

    asyncio.run(use())


def test_it_counts_versions_as_numbers_and_refuses_others() -> None:
    saver = InMemorySaver()

    assert saver.get_next_version(None) == 1
    assert saver.get_next_version(7) == 8
    with pytest.raises(TypeError, match="cannot follow '0007'"):
        saver.get_next_version("0007")


def test_it_is_a_context_manager_and_has_its_older_name() -> None:
    with MemorySaver() as saver:
        assert isinstance(saver, InMemorySaver)
