"""Threads in the server stay small: blobs, retention and expiry, beside runs and other savers that write meanwhile."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import pytest
from tests.integration.keyspace import Keyspace, is_kept
from tests.support import wait_until

from phalanx.checkpoint.base import Checkpoint, CheckpointMetadata
from phalanx.checkpoint.ids import checkpoint_id
from phalanx.checkpoint.packing import Packer, digest_of
from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.redis.reader import ThreadReader
from phalanx.checkpoint.redis.record import CheckpointRecord
from phalanx.checkpoint.redis.thread_store import ThreadStore
from phalanx.checkpoint.retention import Link, Retention
from phalanx.checkpoint.serde import Serializer
from phalanx.config import RunnableConfig
from phalanx.errors import ThreadBusyError
from phalanx.protocol.keys import ThreadKeys, place
from phalanx.protocol.names import TASKS
from phalanx.protocol.outcome import Outcome, OutcomeKind, PackedWrite
from phalanx.types import Send

DAY_S = 24 * 3600


@pytest.fixture(params=["valkey", "redis", "redis cluster"])
def keyspace(request: pytest.FixtureRequest, keyspace: Keyspace) -> Iterator[Keyspace]:
    """The test's own keys, on each kind of server. None stays for ever that is not a thread's."""
    space = keyspace
    if request.param != "valkey":
        kind = "redis" if request.param == "redis" else "cluster"
        url, client = request.getfixturevalue(f"{kind}_url"), request.getfixturevalue(f"{kind}_client")
        space = Keyspace(url, client, keyspace.prefix)
    yield space
    assert all(is_kept(name) for name in space.lasting())


@pytest.fixture
def saver(keyspace: Keyspace) -> RedisSaver:
    return RedisSaver(keyspace.client, prefix=keyspace.prefix)


def at(thread: str = "t", checkpoint: str | None = None, namespace: str = "") -> RunnableConfig:
    named = {} if checkpoint is None else {"checkpoint_id": checkpoint}
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, **named}}


def put(
    saver: RedisSaver,
    where: RunnableConfig,
    step: int,
    *,
    changed: Sequence[str] | None = None,
    about: CheckpointMetadata | None = None,
    also: Mapping[str, Any] | None = None,
    **given: Any,
) -> RunnableConfig:
    """A checkpoint after another.

    Args:
        also: values of channels whose names are no words.
    """
    values = {**given, **(also or {})}
    made: Checkpoint = {
        "v": 4,
        "id": checkpoint_id(step),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, step + 1),
        "versions_seen": {},
        "updated_channels": None,
    }
    known: CheckpointMetadata = about or {"source": "loop", "step": step, "parents": {}}
    return saver.put(where, made, known, dict.fromkeys(values if changed is None else changed, step + 1))


def large(text: str) -> str:
    return text * 5_000


def digest(value: object) -> bytes:
    return digest_of(Serializer().dumps(value)).encode()


def blobs(saver: RedisSaver, keyspace: Keyspace, thread: str = "t") -> set[bytes]:
    return {*keyspace.fields(saver.keys(thread).blobs)}


def steps(saver: RedisSaver, where: RunnableConfig) -> list[int]:
    return [found.metadata.get("step", -99) for found in saver.list(where)]


def value_at(saver: RedisSaver, where: RunnableConfig, name: str) -> Any:
    found = saver.get(where)
    assert found is not None
    return found["channel_values"][name]


def id_of(config: RunnableConfig) -> str:
    return str(config.get("configurable", {})["checkpoint_id"])


# --- blobs ------------------------------------------------------------------------------------------------------------


def test_a_value_that_did_not_change_is_neither_serialized_nor_sent_again(keyspace: Keyspace) -> None:
    serialized: list[object] = []

    class Counting(Serializer):
        def dumps(self, value: object) -> bytes:
            serialized.append(value)
            return super().dumps(value)

    saver = RedisSaver(keyspace.client, prefix=keyspace.prefix, serde=Counting())
    document = [large("x")]
    where = put(saver, at(), 0, document=document, n=0)
    for step in range(1, 5):
        where = put(saver, where, step, document=document, n=step, changed=["n"])
    assert sum(each is document for each in serialized) == 1
    assert value_at(saver, where, "document") == document


def test_a_saver_that_read_a_thread_need_not_send_what_it_read(keyspace: Keyspace, saver: RedisSaver) -> None:
    first = put(saver, at(), 0, document=large("x"), n=0)
    other = RedisSaver(keyspace.client, prefix=keyspace.prefix)
    assert other.get_tuple(at()) is not None
    second = put(other, first, 1, document="not looked at", n=1, changed=["n"])
    assert value_at(saver, second, "document") == large("x")


def test_a_value_that_was_pruned_away_since_is_sent_again(keyspace: Keyspace, saver: RedisSaver) -> None:
    first = put(saver, at(), 0, document=large("x"), n=0)
    other = RedisSaver(keyspace.client, prefix=keyspace.prefix)
    put(other, at(), 1, n=1)
    other.prune(["t"])
    assert blobs(saver, keyspace) == set()
    second = put(saver, first, 2, document=large("x"), n=2, changed=["n"])
    assert value_at(other, second, "document") == large("x")


def test_packets_that_were_pruned_away_since_are_sent_again(keyspace: Keyspace, saver: RedisSaver) -> None:
    packets = [Send("node", large("x"))]
    first = put(saver, at(), 0, also={TASKS: packets})
    other = RedisSaver(keyspace.client, prefix=keyspace.prefix)
    put(other, at(), 1, n=1)
    other.prune(["t"])
    second = put(saver, first, 2, also={TASKS: packets}, changed=[])
    assert value_at(other, second, TASKS) == packets


def test_pruning_removes_the_blobs_that_nothing_refers_to_and_no_other(keyspace: Keyspace, saver: RedisSaver) -> None:
    first = put(saver, at(), 0, old=large("a"), stays=large("b"))
    saver.put_writes(first, [("old", large("c"))], "task")
    second = put(
        saver,
        first,
        1,
        stays=large("b"),
        also={TASKS: [Send("n", large("d")), Send("n", [large("e")])]},
        changed=[TASKS],
    )
    saver.put_writes(second, [("a", large("f")), (TASKS, Send("n", large("g")))], "task")
    saver.put_writes(at(checkpoint="not put yet"), [("a", large("h"))], "task")
    put(saver, at(namespace="sub"), 0, other=large("i"))
    saver.prune(["t"])
    kept = {digest(large(name)) for name in "bdfghi"} | {digest([large("e")])}
    assert blobs(saver, keyspace) == kept
    assert value_at(saver, second, TASKS) == [Send("n", large("d")), Send("n", [large("e")])]


def test_a_topic_that_is_itself_a_blob_keeps_what_its_packets_refer_to(keyspace: Keyspace, saver: RedisSaver) -> None:
    packets = [Send("node", [number, large("x")]) for number in range(60)]
    first = put(saver, at(), 0, n=0)
    second = put(saver, first, 1, also={TASKS: packets})
    saver.prune(["t"])
    assert len(blobs(saver, keyspace)) == 61
    assert value_at(RedisSaver(keyspace.client, prefix=keyspace.prefix), second, TASKS) == packets


def test_what_only_looks_like_a_reference_does_no_harm(keyspace: Keyspace, saver: RedisSaver) -> None:
    gone = digest(large("a"))
    first = put(saver, at(), 0, old=large("a"))
    hostile = {
        "text": gone.decode(),
        "bytes": b"\xd9\x28" + gone,
        "short": b"\xd9\x28abc",
        "odd": "__pregel_tasks\xd9(",
    }
    put(saver, first, 1, also=hostile)
    saver.prune(["t"])
    assert blobs(saver, keyspace) == {gone}  # kept for longer than needed
    put(saver, at(), 2, n=2)
    saver.prune(["t"])
    assert blobs(saver, keyspace) == set()


def test_the_outcomes_of_tasks_keep_their_packets_arguments(keyspace: Keyspace, saver: RedisSaver) -> None:
    where = put(saver, at(), 0, n=0)
    packer = Packer(Serializer())
    write = PackedWrite(TASKS, packer.ref(large("x")), "node")
    keyspace.write(saver.keys("t").blobs, packer.take_blobs())
    outcome = Outcome(OutcomeKind.WRITES, 1, "worker", 0.1, [write]).pack()
    keyspace.write(saver.keys("t").writes("", id_of(where)), {"task": outcome})
    put(saver, at(namespace="sub"), 0, n=0)
    saver.prune(["t"])
    found = saver.get_tuple(where)
    assert found is not None
    assert found.pending_writes == [("task", TASKS, Send("node", large("x")))]


def test_savers_that_put_and_prune_at_once_never_lose_a_value_that_is_referred_to(keyspace: Keyspace) -> None:
    savers = [RedisSaver(keyspace.client, prefix=keyspace.prefix) for _ in range(3)]
    values = [large("x"), large("y")]
    errors: list[BaseException] = []
    start = threading.Barrier(3)

    def write(saver: RedisSaver, namespace: str) -> None:
        where = at(namespace=namespace)
        for step in range(60):
            where = put(saver, where, step, value=values[step % 2], also={TASKS: [Send("n", values[step // 2 % 2])]})
            assert value_at(RedisSaver(saver.client, prefix=saver.prefix), where, "value") == values[step % 2]
            saver.put_writes(where, [("a", values[step // 3 % 2])], "task")
            found = saver.get_tuple(where)
            assert found is not None
            assert found.pending_writes == [("task", "a", values[step // 3 % 2])]

    def prune(saver: RedisSaver) -> None:
        for _ in range(60):
            saver.prune(["t"])

    def run(number: int) -> None:
        start.wait()
        try:
            write(savers[number], str(number)) if number < 2 else prune(savers[number])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# --- what others do between choosing and removing ---------------------------------------------------------------------


def prune_with_others(
    saver: RedisSaver, keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch, others: Callable[[RedisSaver], object]
) -> None:
    """Prune, and have another saver do something after the first choice was made."""
    did = list[object]()

    def survivors(self: Retention, links: Collection[Link]) -> set[str]:
        kept = choose(self, links)
        if not did:
            did.append(others(RedisSaver(keyspace.client, prefix=keyspace.prefix)))
        return kept

    choose = Retention.survivors
    monkeypatch.setattr(Retention, "survivors", survivors)
    saver.prune(["t"])
    assert did


def test_an_ancestor_stays_that_a_checkpoint_needs_which_comes_after_the_choice(
    keyspace: Keyspace, saver: RedisSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = put(saver, at(), 0, log=["whole"])
    saver.put_writes(first, [("log", "a")], "task")
    put(saver, first, 1, log=["whole", "a"])
    needs: CheckpointMetadata = {"source": "fork", "step": 2, "counters_since_delta_snapshot": {"log": (1, 1)}}
    prune_with_others(saver, keyspace, monkeypatch, lambda other: put(other, first, 2, n=2, about=needs))
    assert steps(saver, at()) == [2, 0]
    history = saver.get_delta_channel_history(config=at(), channels=["log"])
    assert history == {"log": {"seed": ["whole"], "writes": [("task", "log", "a")]}}


def test_a_blob_stays_that_writes_refer_to_which_come_after_the_choice(
    keyspace: Keyspace, saver: RedisSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(saver, put(saver, at(), 0, old=large("x")), 1, n=1)
    lone = at(checkpoint="not put yet", namespace="sub")
    prune_with_others(saver, keyspace, monkeypatch, lambda other: other.put_writes(lone, [("a", large("x"))], "task"))
    assert steps(saver, at()) == [1]
    assert blobs(saver, keyspace) == {digest(large("x"))}


def test_a_checkpoint_that_is_put_again_after_the_choice_is_what_it_is_then(
    keyspace: Keyspace, saver: RedisSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = put(saver, at(), 0, n=0)
    second = put(saver, first, 1, n=1)
    made = saver.get(second)
    assert made is not None
    again: Checkpoint = {**made, "channel_values": {"n": "again"}}
    about: CheckpointMetadata = {"source": "loop", "step": 1, "parents": {}}
    prune_with_others(saver, keyspace, monkeypatch, lambda other: other.put(first, again, about, {"n": 2}))
    found = saver.get_tuple(second)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"n": "again"}
    assert found.parent_config is None


def test_keys_that_come_while_a_deadline_is_moved_get_the_same(
    keyspace: Keyspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = RedisSaver(keyspace.client, prefix=keyspace.prefix, retention=Retention(ttl_s=DAY_S))
    where = put(saver, at(), 0, n=0)
    for name in keyspace.names():
        keyspace.client.pexpire(name, 1_000_000)
    did = list[object]()

    def places(self: ThreadReader) -> list[tuple[str, str]]:
        found = read(self)
        if not did:
            did.append(True)
            other = RedisSaver(keyspace.client, prefix=keyspace.prefix)
            other.put_writes(put(other, where, 1, n=1), [("a", 1)], "task")
        return found

    read = ThreadReader.places
    monkeypatch.setattr(ThreadReader, "places", places)
    saver.put_writes(where, [("a", 1)], "task")
    assert did
    assert together(keyspace)
    assert min(deadlines_ms(keyspace)) > 1_000_000


def test_a_deadline_that_could_not_be_given_to_all_keys_is_given_by_the_next_write(
    keyspace: Keyspace, saver: RedisSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = put(saver, at(), 0, n=0)
    saver.put_writes(where, [("a", 1)], "task")
    limited = RedisSaver(keyspace.client, prefix=keyspace.prefix, retention=Retention(ttl_s=DAY_S))
    with monkeypatch.context() as broken:
        broken.setattr(ThreadReader, "places", None)
        with pytest.raises(TypeError):
            put(limited, where, 1, n=1)
    assert not together(keyspace)
    put(limited, where, 2, n=2)
    assert together(keyspace)


# --- beside runs on a cluster -----------------------------------------------------------------------------------------


def commit(store: ThreadStore, lease: Any, before: RunnableConfig, after: str, values: dict[str, Any]) -> None:
    """A superstep's commit, as a coordinator makes it."""
    packer = Packer(Serializer())
    refs = {name: packer.ref(value) for name, value in values.items()}
    record = CheckpointRecord(4, "", id_of(before), {}, {}, None, {"source": "loop", "step": 9, "parents": {}}, refs)
    store.commit(
        lease=lease,
        blobs=packer.take_blobs(),
        namespace="",
        checkpoint_id=after,
        parent_id=id_of(before),
        record=record.pack(Serializer()),
    )


def test_while_a_run_holds_the_thread_its_blobs_stay_and_go_after_it(keyspace: Keyspace, saver: RedisSaver) -> None:
    first = put(saver, at(), 0, n=0)
    second = put(saver, first, 1, n=1)
    store = keyspace.thread()
    lease = store.acquire("run")
    third = checkpoint_id(2)
    commit(store, lease, second, third, {"n": 2})
    store.store_blobs({"0" * 40: b"the argument of a packet that was just handed out"})
    saver.prune(["t"])
    assert steps(saver, at()) == [9]
    assert blobs(saver, keyspace) == {b"0" * 40}
    store.release(lease, [("", third)])
    saver.prune(["t"])
    assert blobs(saver, keyspace) == set()


def test_while_a_step_has_claims_blobs_stay(keyspace: Keyspace, saver: RedisSaver) -> None:
    where = put(saver, at(), 0, n=0)
    claims = saver.keys("t").claims("", id_of(where))
    keyspace.write(claims, {"task": "1|worker|0|call"})
    keyspace.client.expire(claims, 60)
    keyspace.write(saver.keys("t").blobs, {"0" * 40: b"what the worker is about to fetch"})
    saver.prune(["t"])
    assert blobs(saver, keyspace) == {b"0" * 40}


def test_the_step_that_a_run_works_on_is_not_pruned_even_if_it_is_not_the_latest(
    keyspace: Keyspace, saver: RedisSaver
) -> None:
    first = put(saver, at(), 0, n=0)
    store = keyspace.thread()
    lease = store.acquire("run")
    worked_on = checkpoint_id(1)
    commit(store, lease, first, worked_on, {"n": 1})
    put(saver, at(checkpoint=worked_on), 2, n=2)
    with pytest.raises(ThreadBusyError, match="'t'"):
        saver.prune(["t"])
    assert len(steps(saver, at())) == 3
    store.release(lease, [("", worked_on)])
    saver.prune(["t"])
    assert steps(saver, at()) == [2]


def test_a_thread_that_a_run_has_just_taken_is_not_pruned(keyspace: Keyspace, saver: RedisSaver) -> None:
    for step in range(3):
        put(saver, at(), step, n=step)
    store = keyspace.thread()
    lease = store.acquire("the run")
    with pytest.raises(ThreadBusyError, match="the run"):
        saver.prune(["t"])
    assert steps(saver, at()) == [2, 1, 0]
    store.release(lease, [])
    saver.prune(["t"])
    assert steps(saver, at()) == [2]


# --- retention --------------------------------------------------------------------------------------------------------


def test_old_checkpoints_go_by_themselves_with_their_keys(keyspace: Keyspace) -> None:
    saver = RedisSaver(keyspace.client, prefix=keyspace.prefix, retention=Retention(keep_last=4))
    for namespace in ("", "sub"):
        where = at(namespace=namespace)
        for step in range(30):
            where = put(saver, where, step, value=large(f"{namespace}{step}"))
            saver.put_writes(where, [("value", large(f"written {step}"))], "task")
            left = steps(saver, at(namespace=namespace))
            assert left == [*range(step, step - len(left), -1)]
            assert min(step + 1, 4) <= len(left) <= 6
    assert len(blobs(saver, keyspace)) <= 2 * 2 * 6
    assert len(keyspace.names()) <= 4 + 2 * 6
    oldest = [*saver.list(at())][-1]
    assert oldest.parent_config is None


def test_savers_in_several_processes_prune_a_thread_together(keyspace: Keyspace) -> None:
    where = at()
    for step in range(40):
        saver = RedisSaver(keyspace.client, prefix=keyspace.prefix, retention=Retention(keep_last=4, keep_every=10))
        where = put(saver, where, step, n=step)
    left = steps(RedisSaver(keyspace.client, prefix=keyspace.prefix), at())
    assert {39, 38, 37, 36, 30, 20, 10, 0} <= {*left}
    assert len(left) <= 12


def test_who_commits_past_the_saver_can_have_it_tend_the_thread(keyspace: Keyspace) -> None:
    saver = RedisSaver(keyspace.client, prefix=keyspace.prefix, retention=Retention(keep_last=1, ttl_s=DAY_S))
    first = put(RedisSaver(keyspace.client, prefix=keyspace.prefix), at(), 0, n=0)
    store = keyspace.thread()
    lease = store.acquire("run")
    commit(store, lease, first, checkpoint_id(1), {"n": 1})
    saver.tend(at())
    assert steps(saver, at()) == [9]
    assert keyspace.lasting() == []


# --- expiry -----------------------------------------------------------------------------------------------------------


def deadlines_ms(keyspace: Keyspace) -> list[int]:
    return [keyspace.ttl_ms(name) for name in keyspace.names()]


def together(keyspace: Keyspace) -> bool:
    """Whether all keys expire at the same time, but for what it takes to ask."""
    left = deadlines_ms(keyspace)
    return min(left) > 0 and max(left) - min(left) < 2_000


def test_all_keys_of_a_thread_expire_together(keyspace: Keyspace) -> None:
    saver = RedisSaver(keyspace.client, prefix=keyspace.prefix, retention=Retention(ttl_s=DAY_S))
    lone = at(checkpoint="not put yet", namespace="sub")
    saver.put_writes(lone, [("a", large("x"))], "task")
    where = at()
    for step in range(4):
        where = put(saver, where, step, value=large(str(step)))
        saver.put_writes(where, [("a", 1)], "task")
    put(saver, at(namespace="🦉"), 0, n=0)
    assert together(keyspace)
    assert len(keyspace.names()) == 4 + 1 + 4


def test_a_write_prolongs_the_life_of_the_whole_thread(keyspace: Keyspace) -> None:
    saver = RedisSaver(keyspace.client, prefix=keyspace.prefix, retention=Retention(ttl_s=DAY_S))
    first = put(saver, at(), 0, value=large("x"))
    saver.put_writes(first, [("a", 1)], "task")
    for name in keyspace.names():
        keyspace.client.pexpire(name, 1_000_000)
    saver.put_writes(first, [("a", 1)], "other task")
    assert together(keyspace)
    assert min(deadlines_ms(keyspace)) > 1_000_000


def test_a_thread_that_was_kept_for_ever_gets_an_end_when_a_saver_with_a_limit_writes_it(
    keyspace: Keyspace, saver: RedisSaver
) -> None:
    where = put(saver, at(), 0, value=large("x"))
    saver.put_writes(where, [("a", 1)], "task")
    keyspace.thread().acquire("run")
    limited = RedisSaver(keyspace.client, prefix=keyspace.prefix, retention=Retention(ttl_s=DAY_S))
    limited.put_writes(where, [("a", 1)], "other task")
    assert together(keyspace)


def test_a_pruned_and_a_copied_thread_have_an_end_too(keyspace: Keyspace) -> None:
    saver = RedisSaver(keyspace.client, prefix=keyspace.prefix, retention=Retention(keep_last=1, ttl_s=DAY_S))
    where = at()
    for step in range(4):
        where = put(saver, where, step, value=large(str(step)))
        saver.put_writes(where, [("a", 1)], "task")
    saver.copy_thread("t", "copy")
    assert together(keyspace)


def test_an_expired_thread_is_gone_to_the_last_key(keyspace: Keyspace) -> None:
    saver = RedisSaver(keyspace.client, prefix=keyspace.prefix, retention=Retention(ttl_s=0.2))
    where = put(saver, at(), 0, value=large("x"))
    saver.put_writes(where, [("a", 1)], "task")
    wait_until(lambda: not keyspace.names(), "the thread expires")
    assert saver.get_tuple(at()) is None


# --- threads ----------------------------------------------------------------------------------------------------------


def test_deleting_a_thread_removes_writes_whose_checkpoint_never_came(keyspace: Keyspace, saver: RedisSaver) -> None:
    put(saver, at(), 0, n=0)
    for namespace in ("", "sub", "🦉"):
        saver.put_writes(at(checkpoint="never put", namespace=namespace), [("a", large("x"))], "task")
    saver.delete_thread("t")
    assert keyspace.names() == []


def test_writes_whose_checkpoint_came_later_are_remembered_as_its_own(keyspace: Keyspace, saver: RedisSaver) -> None:
    lone = checkpoint_id(5)
    saver.put_writes(at(checkpoint=lone), [("a", 1)], "task")
    assert b"step\x00" + place("", lone).encode() in keyspace.fields(saver.keys("t").about)
    made: Checkpoint = {
        "v": 4,
        "id": lone,
        "ts": "",
        "channel_values": {},
        "channel_versions": {},
        "versions_seen": {},
        "updated_channels": None,
    }
    saver.put(at(), made, {"source": "loop", "step": 5, "parents": {}}, {})
    assert keyspace.fields(saver.keys("t").about) == {}


def test_threads_of_another_prefix_are_not_listed(keyspace: Keyspace) -> None:
    for prefix in ("[ab]*?", "a", "[ab]*?more:", "\\[ab]"):
        put(RedisSaver(keyspace.client, prefix=f"{keyspace.prefix}{prefix}"), at(prefix), 0, n=0)
    found = [*RedisSaver(keyspace.client, prefix=f"{keyspace.prefix}[ab]*?").list(None)]
    assert [each.config.get("configurable", {})["thread_id"] for each in found] == ["[ab]*?"]


def test_the_threads_of_all_are_listed_newest_first_with_bound_and_filter(saver: RedisSaver) -> None:
    configs = [put(saver, at(thread), step, n=step) for step, thread in enumerate(["a", "🦉", "", "a"])]
    assert [found.metadata.get("step") for found in saver.list(None)] == [3, 2, 1, 0]
    assert [found.config for found in saver.list(None)] == configs[::-1]
    assert [found.metadata.get("step") for found in saver.list(None, before=configs[2], limit=1)] == [1]


def test_a_thread_whose_name_was_not_noted_is_left_out_with_a_warning(
    keyspace: Keyspace, saver: RedisSaver, caplog: pytest.LogCaptureFixture
) -> None:
    put(saver, at("🦉"), 0, n=0)
    keyspace.client.unlink(ThreadKeys("🦉", keyspace.prefix).about)
    assert [*saver.list(None)] == []
    assert "its id was not noted" in caplog.text


def test_a_saver_closes_the_connections_that_it_made_itself(keyspace: Keyspace) -> None:
    with RedisSaver(keyspace.url, prefix=keyspace.prefix) as saver:
        put(saver, at(), 0, n=0)
    with RedisSaver.from_conn_string(keyspace.url) as saver:
        saver.setup()
        assert saver.get_tuple(at("no such thread")) is None
    with RedisSaver(keyspace.client, prefix=keyspace.prefix) as saver:
        assert steps(saver, at()) == [0]
    assert keyspace.client.ping()  # pyright: ignore[reportUnknownMemberType]
