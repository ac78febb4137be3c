"""What every saver does, and that corrupt data in the server is never taken for a state."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pytest
from tests.integration.keyspace import Keyspace

from phalanx.checkpoint.base import BaseCheckpointSaver, Checkpoint, CheckpointMetadata, CheckpointTuple
from phalanx.checkpoint.ids import checkpoint_id
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.serde import Serializer
from phalanx.config import RunnableConfig
from phalanx.errors import CorruptDataError, SerializationError
from phalanx.protocol.names import ERROR, INTERRUPT, TASKS
from phalanx.protocol.outcome import Outcome, OutcomeKind, PackedWrite
from phalanx.protocol.plain import pack, unpack
from phalanx.types import Send

HOSTILE: Final = {
    "braces": "{}",
    "a hash tag inside": "a}{b",
    "a key of another thread": "a}:checkpoints",
    "NUL": "a\x00b",
    "a working thread": "a\x00working",
    "emoji": "🦉",
    "half a surrogate pair": "\ud83d",
    "10 kB": "x" * 10_000,
    "10 kB and one more": "x" * 10_000 + "y",
    "empty": "",
    "a pattern": "*",
    "a line": "a\r\nFLUSHALL\r\n",
    "a path": "../a",
    "a hash of our own": "~" + "0" * 32,
}


@pytest.fixture(params=["memory", "redis"])
def saver(request: pytest.FixtureRequest, keyspace: Keyspace) -> BaseCheckpointSaver:
    """Each saver there is."""
    return InMemorySaver() if request.param == "memory" else RedisSaver(keyspace.client, prefix=keyspace.prefix)


@pytest.fixture
def redis_saver(keyspace: Keyspace) -> RedisSaver:
    return RedisSaver(keyspace.client, prefix=keyspace.prefix)


def at(thread: str = "t", namespace: str | None = "", checkpoint: str | None = None) -> RunnableConfig:
    """The config that addresses a thread, or a checkpoint in it."""
    configurable: dict[str, Any] = {"thread_id": thread}
    if namespace is not None:
        configurable["checkpoint_ns"] = namespace
    if checkpoint is not None:
        configurable["checkpoint_id"] = checkpoint
    return {"configurable": configurable}


def made(values: Mapping[str, object], identity: str | None = None) -> Checkpoint:
    """A checkpoint of these values, each at its first version."""
    return {
        "v": 4,
        "id": identity or checkpoint_id(0),
        "ts": "2025-01-01T00:00:00+00:00",
        "channel_values": dict(values),
        "channel_versions": dict.fromkeys(values, 1),
        "versions_seen": {"node": dict.fromkeys(values, 1)},
        "updated_channels": sorted(values),
    }


def put(
    saver: BaseCheckpointSaver,
    where: RunnableConfig,
    values: Mapping[str, object],
    metadata: CheckpointMetadata | None = None,
    *,
    identity: str | None = None,
) -> RunnableConfig:
    """Store a checkpoint; its config."""
    about: CheckpointMetadata = metadata or {"source": "loop", "step": 0, "parents": {}}
    return saver.put(where, made(values, identity), about, dict.fromkeys(values, 1))


def chain(saver: BaseCheckpointSaver, count: int, where: RunnableConfig | None = None) -> list[RunnableConfig]:
    """Checkpoints of one thread, each the parent of the next."""
    configs = [where or at()]
    for number in range(count):
        about: CheckpointMetadata = {"source": "input" if number == 0 else "loop", "step": number, "parents": {}}
        configs.append(put(saver, configs[-1], {"number": number}, about))
    return configs[1:]


def loaded(saver: BaseCheckpointSaver, where: RunnableConfig) -> CheckpointTuple:
    found = saver.get_tuple(where)
    assert found is not None
    return found


def numbers(found: Iterator[CheckpointTuple]) -> list[int]:
    return [each.checkpoint["channel_values"]["number"] for each in found]


def identity(config: RunnableConfig) -> str:
    return str(config.get("configurable", {})["checkpoint_id"])


def pending(saver: BaseCheckpointSaver, where: RunnableConfig) -> list[tuple[str, str, Any]]:
    return sorted(loaded(saver, where).pending_writes or [], key=lambda write: write[:2])


# --- checkpoints ------------------------------------------------------------------------------------------------------


def test_a_thread_that_nobody_wrote_has_nothing(saver: BaseCheckpointSaver) -> None:
    assert saver.get_tuple(at("unknown")) is None
    assert saver.get_tuple(at("unknown", "", "c")) is None
    assert [*saver.list(at("unknown"))] == []
    saver.delete_thread("unknown")


def test_what_is_put_is_what_is_got(saver: BaseCheckpointSaver) -> None:
    values = {"small": (1, "a"), "large": ["text" * 1000], "none": None, "empty": []}
    checkpoint = made(values)
    about: CheckpointMetadata = {"source": "update", "step": 3, "parents": {"sub": "c"}}
    where = saver.put(at(), checkpoint, about, dict.fromkeys(values, 1))
    assert where == at(checkpoint=checkpoint["id"])
    for asked in (where, at()):
        found = loaded(saver, asked)
        assert found.config == where
        assert found.checkpoint == checkpoint
        assert found.metadata == about
        assert found.parent_config is None
        assert found.pending_writes == []


def test_a_checkpoint_knows_its_parent(saver: BaseCheckpointSaver) -> None:
    first, second = chain(saver, 2)
    assert loaded(saver, second).parent_config == first
    assert loaded(saver, first).parent_config is None


def test_without_an_id_the_latest_checkpoint_is_meant(saver: BaseCheckpointSaver) -> None:
    configs = chain(saver, 3)
    assert loaded(saver, at()).config == configs[-1]
    assert loaded(saver, configs[0]).checkpoint["channel_values"] == {"number": 0}


@pytest.mark.parametrize("odd", ["\x7f", "zzz", "é", "🦉"], ids=ascii)
def test_the_latest_checkpoint_is_the_one_with_the_greatest_id_whatever_it_is_made_of(
    saver: BaseCheckpointSaver, odd: str
) -> None:
    put(saver, at(), {"number": 0})
    put(saver, at(), {"number": 1}, identity=odd)
    assert loaded(saver, at()).checkpoint["id"] == odd
    assert numbers(saver.list(at())) == [1, 0]


def test_putting_the_same_checkpoint_again_changes_nothing(saver: BaseCheckpointSaver) -> None:
    where = put(saver, at(), {"number": 1}, identity="c")
    before = loaded(saver, where)
    put(saver, at(), {"number": 1}, identity="c")
    assert loaded(saver, where) == before
    assert len([*saver.list(at())]) == 1


def test_namespaces_are_apart(saver: BaseCheckpointSaver) -> None:
    for number, namespace in enumerate(["", "a", "a|b", "ab"]):
        put(saver, at(namespace=namespace), {"number": number}, identity="same id")
    for number, namespace in enumerate(["", "a", "a|b", "ab"]):
        found = loaded(saver, at(namespace=namespace))
        assert found.checkpoint["channel_values"] == {"number": number}
        assert found.config == at(namespace=namespace, checkpoint="same id")
        assert numbers(saver.list(at(namespace=namespace))) == [number]


def test_stored_data_does_not_change_with_the_values_it_was_made_of(saver: BaseCheckpointSaver) -> None:
    value, checkpoint = {"list": [1]}, made({})
    checkpoint["channel_values"]["value"] = value
    where = saver.put(at(), checkpoint, {"source": "loop", "step": 0, "parents": {}}, {"value": 1})
    value["list"].append(2)
    checkpoint["channel_values"]["other"] = 1
    checkpoint["channel_versions"]["other"] = 9
    assert loaded(saver, where).checkpoint["channel_values"] == {"value": {"list": [1]}}
    assert loaded(saver, where).checkpoint["channel_versions"] == {}


def test_stored_data_does_not_change_with_what_was_read(saver: BaseCheckpointSaver) -> None:
    where = put(saver, at(), {"value": {"list": [1]}})
    saver.put_writes(where, [("value", [1])], "task")
    for _ in range(2):
        found = loaded(saver, where)
        assert found.checkpoint == {**made({"value": {"list": [1]}}), "id": identity(where)}
        assert found.pending_writes == [("task", "value", [1])]
        found.checkpoint["channel_values"]["value"]["list"].append(2)
        found.checkpoint["channel_versions"]["value"] = 9
        found.checkpoint["versions_seen"]["node"]["value"] = 9
        for _, _, value in found.pending_writes or []:
            value.append(2)
        found.metadata["step"] = 9


def test_packets_come_back_with_their_arguments(saver: BaseCheckpointSaver) -> None:
    packets = [Send("node", {"page": number}) for number in range(3)]
    where = put(saver, at(), {TASKS: packets})
    assert loaded(saver, where).checkpoint["channel_values"] == {TASKS: packets}


def test_an_argument_that_packets_share_is_stored_once(redis_saver: RedisSaver, keyspace: Keyspace) -> None:
    shared = {"pages": ["text" * 1000]}
    where = put(redis_saver, at(), {TASKS: [Send("node", shared) for _ in range(20)]})
    assert loaded(redis_saver, where).checkpoint["channel_values"] == {TASKS: [Send("node", shared)] * 20}
    blobs = keyspace.fields(redis_saver.keys("t").blobs)
    assert sum(len(data) for data in blobs.values()) < 2 * len(Serializer().dumps(shared))


def test_a_value_that_stays_the_same_is_stored_once(redis_saver: RedisSaver, keyspace: Keyspace) -> None:
    where = at()
    for number in range(5):
        where = put(redis_saver, where, {"number": number, "large": "text" * 1000})
    assert len(keyspace.fields(redis_saver.keys("t").blobs)) == 1


# --- lists ------------------------------------------------------------------------------------------------------------


def test_checkpoints_are_listed_newest_first(saver: BaseCheckpointSaver) -> None:
    chain(saver, 4)
    assert numbers(saver.list(at())) == [3, 2, 1, 0]


def test_a_list_has_a_limit_a_bound_and_a_filter(saver: BaseCheckpointSaver) -> None:
    configs = chain(saver, 5)
    assert numbers(saver.list(at(), limit=2)) == [4, 3]
    assert numbers(saver.list(at(), limit=0)) == []
    assert numbers(saver.list(at(), before=configs[2])) == [1, 0]
    assert numbers(saver.list(at(), before=configs[0])) == []
    assert numbers(saver.list(at(), filter={"source": "input"})) == [0]
    assert numbers(saver.list(at(), filter={"source": "loop", "step": 3})) == [3]
    assert numbers(saver.list(at(), filter={"source": "loop"}, before=configs[4], limit=2)) == [3, 2]
    assert numbers(saver.list(at(), filter={"source": "input", "no such key": 1})) == []
    assert numbers(saver.list(at(), filter={})) == [4, 3, 2, 1, 0]
    assert numbers(saver.list(configs[1])) == [1]


def test_without_a_namespace_the_checkpoints_of_all_are_listed_newest_first(saver: BaseCheckpointSaver) -> None:
    for number in range(6):
        put(saver, at(namespace=["", "b", "a"][number % 3]), {"number": number})
    assert numbers(saver.list(at(namespace=None))) == [5, 4, 3, 2, 1, 0]
    assert numbers(saver.list(at(namespace=None), limit=2)) == [5, 4]
    assert numbers(saver.list(at(namespace="b"))) == [4, 1]


@pytest.mark.parametrize("count", [99, 100, 101, 200, 250])
def test_a_list_is_complete_however_long(saver: BaseCheckpointSaver, count: int) -> None:
    configs = chain(saver, count)
    assert numbers(saver.list(at())) == [*range(count)][::-1]
    assert numbers(saver.list(at(), before=configs[count - 1])) == [*range(count - 1)][::-1]


# --- writes -----------------------------------------------------------------------------------------------------------


def test_writes_come_back_in_order_with_their_task(saver: BaseCheckpointSaver) -> None:
    where = put(saver, at(), {})
    saver.put_writes(where, [("a", 1), ("b", [2]), ("a", 3)], "one")
    saver.put_writes(where, [("a", 4)], "two", "path")
    found = loaded(saver, where).pending_writes or []
    assert [write for write in found if write[0] == "one"] == [("one", "a", 1), ("one", "b", [2]), ("one", "a", 3)]
    assert [write for write in found if write[0] == "two"] == [("two", "a", 4)]


def test_more_writes_than_four_digits_count_stay_in_order(saver: BaseCheckpointSaver) -> None:
    where = put(saver, at(), {})
    saver.put_writes(where, [("a", number) for number in range(10_050)], "task")
    assert [value for _, _, value in loaded(saver, where).pending_writes or []] == [*range(10_050)]


def test_putting_writes_again_changes_nothing(saver: BaseCheckpointSaver) -> None:
    where = put(saver, at(), {})
    saver.put_writes(where, [("a", 1), ("b", 2)], "task")
    saver.put_writes(where, [("a", "other"), ("b", "other")], "task")
    assert pending(saver, where) == [("task", "a", 1), ("task", "b", 2)]


def test_a_later_write_about_a_task_replaces_the_one_before(saver: BaseCheckpointSaver) -> None:
    where = put(saver, at(), {})
    saver.put_writes(where, [("a", 1)], "task")
    for value in ("first", "second"):
        saver.put_writes(where, [(ERROR, value)], "task")
        saver.put_writes(where, [(INTERRUPT, value)], "task")
    assert pending(saver, where) == [("task", ERROR, "second"), ("task", INTERRUPT, "second"), ("task", "a", 1)]


def test_writes_belong_to_one_checkpoint_of_one_namespace(saver: BaseCheckpointSaver) -> None:
    named = [(namespace, name) for namespace in ("", "sub") for name in ("c1", "c2")]
    places = [put(saver, at(namespace=namespace), {}, identity=name) for namespace, name in named]
    for number, place in enumerate(places):
        saver.put_writes(place, [("a", number)], "task")
    assert [pending(saver, place) for place in places] == [[("task", "a", number)] for number in range(4)]


def test_no_writes_are_no_writes(saver: BaseCheckpointSaver) -> None:
    where = put(saver, at(), {})
    saver.put_writes(where, [], "task")
    assert pending(saver, where) == []


# --- threads ----------------------------------------------------------------------------------------------------------


def test_a_deleted_thread_is_gone_and_others_stay(saver: BaseCheckpointSaver) -> None:
    for thread in ("gone", "stays"):
        for where in chain(saver, 3, at(thread)):
            saver.put_writes(where, [("a", 1)], "task")
    saver.delete_thread("gone")
    assert saver.get_tuple(at("gone")) is None
    assert [*saver.list(at("gone", None))] == []
    assert numbers(saver.list(at("stays"))) == [2, 1, 0]
    assert pending(saver, at("stays")) == [("task", "a", 1)]


def test_a_deleted_thread_leaves_no_key(redis_saver: RedisSaver, keyspace: Keyspace) -> None:
    for namespace in ("", "sub", "🦉"):
        for where in chain(redis_saver, 3, at(namespace=namespace)):
            redis_saver.put_writes(where, [("a", "text" * 1000)], "task")
            put(redis_saver, where, {"large": "text" * 1000})
    store = keyspace.thread()
    store.acquire("run")
    keyspace.write(store.keys.claims("", identity(loaded(redis_saver, at()).config)), {"task": "1|worker|0|call"})
    redis_saver.delete_thread("t")
    assert not keyspace.names()


@pytest.mark.parametrize("odd", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_thread_of_any_name_keeps_what_is_its_own(saver: BaseCheckpointSaver, odd: str) -> None:
    others = ["a", "b", *(name for name in HOSTILE.values() if name != odd)]
    for number, thread in enumerate(others):
        where = put(saver, at(thread), {"number": number})
        saver.put_writes(where, [("a", number)], "task")
    assert saver.get_tuple(at(odd)) is None
    where = put(saver, at(odd), {"number": "odd"})
    saver.put_writes(where, [("a", "odd")], "task")
    assert loaded(saver, at(odd)).config == where
    assert pending(saver, where) == [("task", "a", "odd")]
    saver.delete_thread(odd)
    assert saver.get_tuple(at(odd)) is None
    for number, thread in enumerate(others):
        assert loaded(saver, at(thread)).checkpoint["channel_values"] == {"number": number}
        assert pending(saver, at(thread)) == [("task", "a", number)]


@pytest.mark.parametrize("odd", HOSTILE.values(), ids=HOSTILE.keys())
def test_the_keys_of_a_thread_share_one_hash_tag_whatever_its_name(
    redis_saver: RedisSaver, keyspace: Keyspace, odd: str
) -> None:
    redis_saver.put_writes(put(redis_saver, at(odd), {"large": "text" * 1000}), [("a", 1)], "task")
    names = keyspace.names()
    assert len({name[name.index("{") : name.index("}")] for name in names}) == 1
    assert all(name.count("{") == name.count("}") == 1 and len(name) < 300 for name in names)


# --- corrupt data -----------------------------------------------------------------------------------------------------

Spoil = Callable[[bytes], bytes]

DAMAGE: Final[Mapping[str, Spoil]] = {
    "empty": lambda data: b"",
    "cut short": lambda data: data[:-1],
    "longer": lambda data: data + b"\x00",
    "garbage": lambda data: b"\xc1" * len(data),
    "another value": lambda data: pack(7),
    "a list of another length": lambda data: pack([1, 2]),
    "text": lambda data: pack("text"),
    "a map": lambda data: pack({"v": 1}),
    "an extension that names a function": lambda data: b"\xc7\x0c\x05os.systemxyz",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_corrupt_record_is_an_error(redis_saver: RedisSaver, keyspace: Keyspace, damage: Spoil) -> None:
    put(redis_saver, at(), {"number": 1})
    key = redis_saver.keys("t").checkpoints
    keyspace.write(key, {name.decode(): damage(data) for name, data in keyspace.fields(key).items()})
    with pytest.raises(SerializationError):
        redis_saver.get_tuple(at())
    with pytest.raises(SerializationError):
        numbers(redis_saver.list(at()))


@pytest.mark.parametrize("part", range(9))
@pytest.mark.parametrize("value", [b"\xc0", [["a", 1]], 1.5, {"a": None}, {1: {"a": "b"}}], ids=repr)
def test_a_record_with_a_part_of_another_kind_is_an_error(
    redis_saver: RedisSaver, keyspace: Keyspace, part: int, value: object
) -> None:
    put(redis_saver, at(), {"number": 1})
    key = redis_saver.keys("t").checkpoints
    ((name, data),) = keyspace.fields(key).items()
    fields: list[Any] = unpack(data, "a record", list)
    fields[part] = value
    keyspace.write(key, {name.decode(): pack(fields)})
    with pytest.raises(SerializationError):
        redis_saver.get_tuple(at())


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_corrupt_blob_is_an_error(redis_saver: RedisSaver, keyspace: Keyspace, damage: Spoil) -> None:
    put(redis_saver, at(), {"large": "text" * 1000})
    key = redis_saver.keys("t").blobs
    keyspace.write(key, {name.decode(): damage(data) for name, data in keyspace.fields(key).items()})
    with pytest.raises(CorruptDataError, match="does not hold the bytes its name promises"):
        redis_saver.get_tuple(at())


def test_a_blob_of_another_value_is_an_error(redis_saver: RedisSaver, keyspace: Keyspace) -> None:
    put(redis_saver, at(), {"large": "text" * 1000, "other": "other" * 1000})
    key = redis_saver.keys("t").blobs
    (one, data), (other, more) = keyspace.fields(key).items()
    keyspace.write(key, {one.decode(): more, other.decode(): data})
    with pytest.raises(CorruptDataError, match="does not hold the bytes its name promises"):
        redis_saver.get_tuple(at())


def test_a_blob_that_is_gone_is_an_error_that_says_so(redis_saver: RedisSaver, keyspace: Keyspace) -> None:
    put(redis_saver, at(), {"large": "text" * 1000})
    keyspace.client.unlink(redis_saver.keys("t").blobs)
    with pytest.raises(CorruptDataError, match="is gone from the state server"):
        redis_saver.get_tuple(at())


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
@pytest.mark.parametrize("field", ["task", "task\x0000000000"], ids=["an outcome", "a write"])
def test_a_corrupt_outcome_or_write_is_an_error(
    redis_saver: RedisSaver, keyspace: Keyspace, field: str, damage: Spoil
) -> None:
    where = put(redis_saver, at(), {})
    outcome = Outcome(OutcomeKind.WRITES, 1, "worker", 0.1, [PackedWrite("a", Serializer().dumps(1))]).pack()
    good = outcome if field == "task" else pack(["a", Serializer().dumps(1)])
    key = redis_saver.keys("t").writes("", identity(where))
    keyspace.write(key, {field: good})
    assert pending(redis_saver, where) == [("task", "a", 1)]
    keyspace.write(key, {field: damage(good)})
    with pytest.raises(SerializationError):
        redis_saver.get_tuple(where)


def test_an_outcome_of_an_error_that_is_none_is_an_error(redis_saver: RedisSaver, keyspace: Keyspace) -> None:
    where = put(redis_saver, at(), {})
    key = redis_saver.keys("t").writes("", identity(where))
    for error in (b"", Serializer().dumps("no error"), b"\xc1"):
        keyspace.write(key, {"task": Outcome(OutcomeKind.ERROR, 1, "worker", 0.1, error=error).pack()})
        with pytest.raises(SerializationError):
            redis_saver.get_tuple(where)


def test_packets_that_are_none_are_an_error(redis_saver: RedisSaver, keyspace: Keyspace) -> None:
    put(redis_saver, at(), {TASKS: [Send("node", 1)]})
    key = redis_saver.keys("t").checkpoints
    ((name, data),) = keyspace.fields(key).items()
    for packets in (7, [7], [["node"]], [[1, b"\x01"]], [["node", 1]], {"node": b"\x01"}):
        fields: list[Any] = unpack(data, "a record", list)
        fields[8] = {TASKS: pack(packets)}
        keyspace.write(key, {name.decode(): pack(fields)})
        with pytest.raises(SerializationError):
            redis_saver.get_tuple(at())
