"""Values as references: what is stored once, what is kept in memory, and what is not believed."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.checkpoint.packing import (
    BLOB_MIN_BYTES,
    BlobCache,
    Packed,
    Packer,
    bytes_of,
    digest_of,
    digests_in,
    packets_of,
    resolve,
)
from phalanx.checkpoint.serde import Serializer
from phalanx.errors import CorruptDataError, UnserializableError
from phalanx.protocol.names import TASKS
from phalanx.protocol.plain import expect_list, pack, unpack
from phalanx.types import Send, TimeoutPolicy, Update


class CountingSerializer(Serializer):
    """Counts what it is given."""

    dumped = 0

    def dumps(self, value: object) -> bytes:
        self.dumped += 1
        return super().dumps(value)


def packer() -> tuple[Packer, CountingSerializer]:
    serializer = CountingSerializer()
    return Packer(serializer), serializer


def describe(write: Update) -> str:
    return f"write to {write[0]}"


# --- references -------------------------------------------------------------------------------------------------------


def test_a_small_value_travels_inside_its_reference_and_a_large_one_becomes_a_blob() -> None:
    made, serializer = packer()

    assert made.ref("small") == serializer.dumps("small")
    assert made.new_blobs == {}

    large = "x" * BLOB_MIN_BYTES
    digest = made.ref(large)
    assert isinstance(digest, str)
    assert made.new_blobs == {digest: serializer.dumps(large)}


@pytest.mark.parametrize(("size", "inside"), [(BLOB_MIN_BYTES - 1, True), (BLOB_MIN_BYTES, False)])
def test_the_limit_between_small_and_large_is_exact(size: int, inside: bool) -> None:
    assert isinstance(packer()[0].ref_to_bytes(b"x" * size), bytes) is inside


def test_a_blob_s_name_is_a_storage_format_and_stays_as_it_is() -> None:
    assert digest_of(b"phalanx") == "48a0d57a8126c23fd0f9e594981a67695f9a719d"


def test_blobs_are_to_be_stored_once_and_then_forgotten() -> None:
    made, _ = packer()
    digest = made.ref("x" * BLOB_MIN_BYTES)

    assert list(made.take_blobs()) == [digest]
    assert made.take_blobs() == {}


def test_two_hundred_packets_with_one_document_are_one_blob_that_was_serialized_once() -> None:
    made, serializer = packer()
    document = {"text": "x" * (1 << 20)}

    writes = made.pack_writes([(TASKS, Send("count", document)) for _ in range(200)], describe)

    assert len({write.value for write in writes}) == 1
    assert len(made.new_blobs) == 1
    assert serializer.dumped == 2  # its key, and it


def test_packets_that_differ_in_little_and_share_a_document_are_one_blob() -> None:
    made, serializer = packer()
    document = "x" * (1 << 20)
    arguments = [{"document": document, "number": number, "tags": ["a", number]} for number in range(200)]

    writes = made.pack_writes([(TASKS, Send("count", each)) for each in arguments], describe)
    blobs = made.take_blobs()

    assert [len(blob) for blob in blobs.values()] == [len(serializer.dumps(document))]
    assert [serializer.loads(bytes_of(write.value, blobs)) for write in writes] == arguments


@pytest.mark.parametrize(
    "argument",
    [
        {},
        {"a": 1, "b": None},
        {"a": "x" * BLOB_MIN_BYTES, "b": ["y" * BLOB_MIN_BYTES] * 3},
        {"a": "x" * 1200, "b": "y" * 1200},
        {f"key {number}": ["x" * 100] for number in range(20)},
        {f"key {number}": "x" * BLOB_MIN_BYTES for number in range(100)},
        {"\udc80": [(1, 2)], "": {"deep": b"x" * 5000}},
        {1: "x" * 5000},
        ["x" * 5000],
    ],
    ids=str,
)
def test_an_argument_comes_back_however_it_is_packed(argument: object) -> None:
    made, serializer = packer()

    ref = made.ref_to_parts(argument)
    blobs = resolve([ref], BlobCache(), lambda digests: {digest: made.new_blobs[digest] for digest in digests})

    assert serializer.loads(bytes_of(ref, blobs)) == argument
    assert {*digests_in(ref)} == blobs.keys()


@pytest.mark.parametrize("data", [b"\xc1P", b"\xc1P\x01", b"\xc1P\x91\x91\x01", b"\xc1P\x91\x92\x01\x02"])
def test_what_is_no_list_of_parts_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptDataError):
        bytes_of(data, {})


def test_equal_documents_are_one_blob_too() -> None:
    made, _ = packer()

    writes = made.pack_writes([(TASKS, Send("count", {"text": "x" * 100_000})) for _ in range(20)], describe)

    assert len({write.value for write in writes}) == 1
    assert len(made.new_blobs) == 1


def test_an_object_that_changed_between_two_tasks_is_serialized_anew() -> None:
    made, serializer = packer()
    document = ["first"]

    (first,) = made.pack_writes([(TASKS, Send("n", document))], describe)
    document[0] = "second"
    (second,) = made.pack_writes([(TASKS, Send("n", document))], describe)

    assert serializer.loads(bytes_of(first.value, {})) == ["first"]
    assert serializer.loads(bytes_of(second.value, {})) == ["second"]


def test_objects_that_live_one_after_the_other_are_not_taken_for_one() -> None:
    made, serializer = packer()

    refs = [made.ref_once([number]) for number in range(1000)]

    assert [serializer.loads(bytes_of(ref, {})) for ref in refs] == [[number] for number in range(1000)]


def test_what_a_write_to_a_state_key_holds_stays_in_the_outcome_however_large() -> None:
    made, _ = packer()

    (write,) = made.pack_writes([("log", "x" * 100_000)], describe)

    assert isinstance(write.value, bytes)
    assert write.node is None
    assert made.new_blobs == {}


def test_a_write_that_cannot_travel_is_named_with_the_place_inside_it() -> None:
    made, _ = packer()

    with pytest.raises(
        UnserializableError, match=r"^write to log: cannot serialize a value of type .*lock.* at \['a'\]\[1\]"
    ):
        made.pack_writes([("log", {"a": [1, threading.Lock()]})], describe)


def test_a_packet_that_cannot_travel_is_named_and_nothing_of_it_is_remembered() -> None:
    made, _ = packer()
    argument: list[object] = [threading.Lock()]
    with pytest.raises(UnserializableError, match=r"^write to __pregel_tasks"):
        made.pack_writes([(TASKS, Send("n", argument))], describe)

    argument[0] = "fine now"

    assert made.pack_writes([(TASKS, Send("n", argument))], describe)[0].node == "n"


def test_an_argument_that_is_still_packed_is_passed_on_as_it_is() -> None:
    made, serializer = packer()
    stored = made.pack_channel(TASKS, [Send("a", Packed("digest")), Send("b", 5)])

    assert packets_of(bytes_of(stored, {})) == [Send("a", Packed("digest")), Send("b", Packed(serializer.dumps(5)))]
    assert serializer.dumped == 2
    assert made.ref(Packed(b"x")) == b"x"


def test_a_packet_keeps_its_time_limit_on_its_way_and_one_without_takes_no_more_room() -> None:
    made, serializer = packer()
    limit = TimeoutPolicy(2.0, 0.5, "heartbeat")

    with_one, without = made.pack_writes([(TASKS, Send("a", 1, timeout=limit)), (TASKS, Send("b", 2))], describe)
    stored = bytes_of(made.pack_channel(TASKS, [Send("a", 1, timeout=limit), Send("b", Packed(b"x"))]), {})

    assert (with_one.timeout, without.timeout) == (limit, None)
    assert packets_of(stored) == [Send("a", Packed(serializer.dumps(1)), timeout=limit), Send("b", Packed(b"x"))]
    assert unpack(stored, "packets", expect_list) == [
        ["a", serializer.dumps(1), [2.0, 0.5, "heartbeat"]],
        ["b", b"x"],
    ]


@pytest.mark.parametrize(
    "packet",
    [
        ["a"],
        ["a", b"x", 5.0],
        ["a", b"x", [5.0, None]],
        ["a", b"x", [5, None, "auto"]],
        ["a", b"x", [0.0, None, "auto"]],
        ["a", b"x", [1.0, None, "never"]],
        ["a", b"x", None, None],
        ["a", 5],
        [b"a", b"x"],
    ],
    ids=repr,
)
def test_packets_that_are_none_or_have_no_time_limit_that_is_one_are_refused(packet: list[object]) -> None:
    with pytest.raises(CorruptDataError, match="a topic of packets"):
        packets_of(pack([packet]))


def test_many_packets_are_a_blob_themselves() -> None:
    made, _ = packer()
    stored = made.pack_channel(TASKS, [Send("node", number) for number in range(1000)])

    assert isinstance(stored, str)
    assert len(packets_of(made.new_blobs[stored])) == 1000


def test_another_channel_is_packed_as_a_value() -> None:
    made, serializer = packer()

    assert serializer.loads(bytes_of(made.pack_channel("log", ["a"]), {})) == ["a"]


@given(stored=st.binary(max_size=32))
def test_noise_is_no_topic_of_packets(stored: bytes) -> None:
    try:
        packets = packets_of(stored)
    except CorruptDataError:
        return
    for packet in packets:
        assert isinstance(packet.node, str)
        assert isinstance(packet.arg, Packed)
        assert isinstance(packet.arg.ref, (str, bytes))
        assert packet.timeout is None or isinstance(packet.timeout, TimeoutPolicy)


# --- the cache --------------------------------------------------------------------------------------------------------


def held(cache: BlobCache, names: str) -> str:
    """Which of the blobs it holds; looking changes their age, so this is for the end of a test."""
    return "".join(name for name in names if cache.get(name) is not None)


def test_the_cache_drops_the_blob_that_was_not_used_for_longest() -> None:
    cache = BlobCache(max_bytes=30)
    for name in "abc":
        cache.put(name, b"x" * 10)
    assert cache.get("a")

    cache.put("d", b"x" * 10)

    assert held(cache, "abcd") == "acd"


def test_the_cache_drops_as_many_as_it_must() -> None:
    cache = BlobCache(max_bytes=30)
    for name in "abc":
        cache.put(name, b"x" * 10)

    cache.put("d", b"x" * 21)

    assert held(cache, "abcd") == "d"


def test_a_blob_larger_than_the_cache_is_not_kept_and_drops_nothing() -> None:
    cache = BlobCache(max_bytes=10)
    cache.put("a", b"x" * 10)

    cache.put("b", b"x" * 11)

    assert held(cache, "ab") == "a"


def test_a_blob_put_twice_counts_once() -> None:
    cache = BlobCache(max_bytes=20)
    for _ in range(5):
        cache.put("a", b"x" * 10)
    cache.put("b", b"x" * 10)

    assert held(cache, "ab") == "ab"


@given(puts=st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=60))
def test_the_cache_never_holds_more_than_it_may(puts: list[tuple[int, bool]]) -> None:
    cache = BlobCache(max_bytes=50)
    for name, look in puts:
        if look:
            cache.get(str(name))
        else:
            cache.put(str(name), b"x" * (5 + name * 5))
        # what it holds, without looking at its inside: the sizes of all that can be had
    assert sum(5 + name * 5 for name in range(10) if cache.get(str(name)) is not None) <= 50


def test_the_cache_can_be_used_from_several_threads() -> None:
    cache = BlobCache(max_bytes=100)
    failed: list[BaseException] = []
    start = threading.Barrier(4)

    def use(offset: int) -> None:
        start.wait()
        try:
            for number in range(3000):
                name = str((number * 7 + offset) % 20)
                cache.put(name, b"x" * 10)
                found = cache.get(name)
                assert found is None or len(found) == 10
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=use, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    assert len([name for name in range(20) if cache.get(str(name))]) == 10


# --- resolving --------------------------------------------------------------------------------------------------------


@dataclass
class Server:
    """Holds blobs, and remembers what it was asked for."""

    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    asked: list[list[str]] = field(default_factory=list[list[str]])

    def store(self, data: bytes) -> str:
        self.blobs[digest_of(data)] = data
        return digest_of(data)

    def fetch(self, digests: Sequence[str]) -> Mapping[str, bytes]:
        self.asked.append([*digests])
        return {digest: self.blobs[digest] for digest in digests if digest in self.blobs}


def test_all_missing_blobs_are_fetched_at_once_each_once_and_then_never_again() -> None:
    server, cache = Server(), BlobCache()
    a, b = server.store(b"a"), server.store(b"b")

    assert resolve([a, b"inside", b, a], cache, server.fetch) == {a: b"a", b: b"b"}
    assert resolve([b], cache, server.fetch) == {b: b"b"}
    assert server.asked == [[a, b]]


def test_references_that_hold_their_value_need_no_server() -> None:
    server = Server()

    assert resolve([b"a", b"b"], BlobCache(), server.fetch) == {}
    assert server.asked == []


def test_a_blob_that_the_cache_cannot_keep_is_found_all_the_same() -> None:
    server = Server()
    large = server.store(b"x" * 100)

    assert resolve([large], BlobCache(max_bytes=10), server.fetch) == {large: b"x" * 100}


def test_a_blob_that_is_gone_is_named() -> None:
    server = Server()
    here = server.store(b"a")

    with pytest.raises(CorruptDataError, match=r"blob 123abc is gone from the state server"):
        resolve([here, "123abc"], BlobCache(), server.fetch)


def test_bytes_that_are_not_what_their_name_promises_are_refused_and_not_cached() -> None:
    server, cache = Server(), BlobCache()
    digest = server.store(b"a")
    server.blobs[digest] = b"something else"

    with pytest.raises(CorruptDataError, match=f"blob {digest} does not hold the bytes its name promises"):
        resolve([digest], cache, server.fetch)

    assert cache.get(digest) is None
