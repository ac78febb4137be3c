"""What the saver in memory holds once, and what it forgets by itself."""

from typing import Any

import pytest

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.checkpoint.retention import Retention
from phalanx.checkpoint.serde import Serializer
from phalanx.config import RunnableConfig
from phalanx.protocol.names import TASKS
from phalanx.types import Send


def at(thread: str = "t", checkpoint: str | None = None, namespace: str = "") -> RunnableConfig:
    named = {} if checkpoint is None else {"checkpoint_id": checkpoint}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, **named}}


def put(saver: InMemorySaver, where: RunnableConfig, step: int, **values: Any) -> RunnableConfig:
    """A checkpoint after another, all of whose values are new."""
    return saver.put(
        where,
        {
            "v": 4,
            "id": f"c{step:04}",
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": values,
            "channel_versions": dict.fromkeys(values, step + 1),
            "versions_seen": {},
            "updated_channels": None,
        },
        {"source": "loop", "step": step, "parents": {}},
        dict.fromkeys(values, step + 1),
    )


def steps(saver: InMemorySaver, where: RunnableConfig) -> list[int]:
    return [found.metadata.get("step", -99) for found in saver.list(where)]


def held_bytes(saver: InMemorySaver) -> int:
    return saver._values.held_bytes  # pyright: ignore[reportPrivateUsage]


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


# --- values -----------------------------------------------------------------------------------------------------------


def test_equal_values_are_held_once_in_whichever_thread_channel_or_write() -> None:
    saver = InMemorySaver()
    size = len(Serializer().dumps("x" * 10_000))
    for thread in ("t", "u"):
        where = put(saver, at(thread), 0, a="x" * 10_000, b="x" * 10_000)
        where = put(saver, where, 1, a="x" * 10_000)
        saver.put_writes(where, [("a", "x" * 10_000)], "task")
    assert held_bytes(saver) == size


def test_a_document_in_two_hundred_packets_is_held_once_as_value_and_as_writes() -> None:
    saver = InMemorySaver()
    document = {"text": "x" * 100_000}
    packets = [Send("node", document) for _ in range(200)]
    first = put(saver, at(), 0)
    saver.put_writes(first, [(TASKS, packet) for packet in packets], "task")
    second = put(saver, first, 1, **{TASKS: packets})
    assert held_bytes(saver) < 1.1 * len(Serializer().dumps(document))
    found, before = saver.get_tuple(second), saver.get_tuple(first)
    assert found is not None
    assert before is not None
    assert found.checkpoint["channel_values"][TASKS] == packets
    assert [packet for _, _, packet in before.pending_writes or ()] == packets


def test_a_document_in_two_hundred_packets_is_serialized_once() -> None:
    serialized: list[object] = []

    class Counting(Serializer):
        def dumps_typed(self, obj: object) -> tuple[str, bytes]:
            serialized.append(obj)
            return super().dumps_typed(obj)

    document = {"text": "x"}
    put(InMemorySaver(serde=Counting()), at(), 0, **{TASKS: [Send("node", document) for _ in range(200)]})
    assert sum(each is document for each in serialized) == 1


@pytest.mark.parametrize("forget", ["delete_thread", "prune", "delete"])
def test_a_value_that_nothing_holds_any_more_is_gone(forget: str) -> None:
    saver = InMemorySaver()
    first = put(saver, at(), 0, a="x" * 10_000)
    saver.put_writes(first, [("a", "y" * 10_000)], "task")
    put(saver, first, 1, a="z" * 10_000)
    if forget == "delete_thread":
        saver.delete_thread("t")
    else:
        saver.prune(["t"], strategy="keep_latest" if forget == "prune" else forget)
    assert held_bytes(saver) == (len(Serializer().dumps("z" * 10_000)) if forget == "prune" else 0)


def test_a_list_of_packets_and_others_is_held_as_it_is() -> None:
    saver = InMemorySaver()
    for step, value in enumerate([[Send("node", 1), 2], [], None, "text"]):
        found = saver.get(put(saver, at(), step, **{TASKS: value}))
        assert found is not None
        assert found["channel_values"][TASKS] == value


# --- retention --------------------------------------------------------------------------------------------------------


def test_old_checkpoints_go_by_themselves_with_their_writes_and_at_most_half_more_than_wanted_stay() -> None:
    saver = InMemorySaver(retention=Retention(keep_last=10))
    where = at()
    for step in range(100):
        where = put(saver, where, step, a="x" * 200 + str(step))
        saver.put_writes(where, [("a", "y" * 200 + str(step))], "task")
        left = steps(saver, at())
        assert left == [*range(step, step - len(left), -1)]
        assert min(step + 1, 10) <= len(left) <= 15
    assert held_bytes(saver) <= 15 * 2 * 250


def test_of_the_older_ones_every_so_many_stay() -> None:
    saver = InMemorySaver(retention=Retention(keep_last=4, keep_every=25))
    where = at()
    for step in range(200):
        where = put(saver, where, step)
    left = steps(saver, at())
    assert {*range(0, 200, 25), 199, 198, 197, 196} <= {*left}
    assert len(left) <= 1.5 * 12


def test_each_namespace_has_its_last_ones() -> None:
    saver = InMemorySaver(retention=Retention(keep_last=1))
    for namespace in ("", "a", "b"):
        where = at(namespace=namespace)
        for step in range(5):
            where = put(saver, where, step)
    for namespace in ("", "a", "b"):
        assert steps(saver, at(namespace=namespace)) == [4]
        found = saver.get_tuple(at(namespace=namespace))
        assert found is not None
        assert found.parent_config is None


def test_a_thread_is_forgotten_some_time_after_it_was_last_written() -> None:
    clock = Clock()
    saver = InMemorySaver(retention=Retention(ttl_s=10), clock=clock)
    first = put(saver, at("t"), 0, a="x" * 1_000)
    put(saver, at("u"), 0)
    clock.now = 9
    saver.put_writes(first, [("a", 1)], "task")
    clock.now = 10
    assert saver.get_tuple(at("u")) is None
    assert [*saver.list(at("u"))] == []
    assert steps(saver, at("t")) == [0]
    assert len([*saver.list(None)]) == 1
    clock.now = 19
    assert [*saver.list(None)] == []
    assert held_bytes(saver) == 0


def test_writes_that_come_after_a_thread_was_forgotten_start_it_anew() -> None:
    clock = Clock()
    saver = InMemorySaver(retention=Retention(ttl_s=10), clock=clock)
    put(saver, at(), 0)
    clock.now = 100
    put(saver, at(checkpoint="c0000"), 1)
    assert steps(saver, at()) == [1]
