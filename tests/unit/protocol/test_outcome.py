"""A task's outcome and a doorbell as bytes: what goes in comes out, and whatever else comes in is refused."""

from typing import Any

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.errors import CorruptDataError
from phalanx.protocol.doorbell import read_ring, ring
from phalanx.protocol.outcome import Outcome, OutcomeKind, PackedWrite
from phalanx.protocol.plain import expect, pack, unpack
from phalanx.types import TimeoutPolicy

library: Any = msgpack
NO_WRITES: list[object] = []
text = st.text(max_size=8)
data = st.binary(max_size=8)
timeouts = st.builds(
    TimeoutPolicy,
    st.floats(1e-6, 1e9),
    st.one_of(st.none(), st.floats(1e-6, 1e9)),
    refresh_on=st.sampled_from(["auto", "heartbeat"]),
)
writes = st.one_of(
    st.builds(PackedWrite, text, data),
    st.builds(PackedWrite, text, st.one_of(text, data), text, st.one_of(st.none(), timeouts)),
)
usual: "dict[str, st.SearchStrategy[Any]]" = {
    "attempt": st.integers(0, 2**31),
    "worker": text,
    "seconds": st.floats(0, 1e9),
    "writes": st.lists(writes, max_size=3),
    "error": data,
}
times: "dict[str, st.SearchStrategy[Any]]" = {
    "retry_after_s": st.floats(0, 1e9),
    "first_try_at": st.floats(0, 1e10),
}
final = st.builds(Outcome, kind=st.sampled_from([kind for kind in OutcomeKind if kind != OutcomeKind.RETRY]), **usual)
draining = st.builds(Outcome, kind=st.sampled_from(OutcomeKind), **usual, **times, drain=text)
retried = st.builds(Outcome, kind=st.just(OutcomeKind.RETRY), **usual, **times, drain=st.one_of(st.none(), text))
outcomes = st.one_of(final, draining, retried)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(), text, data),
    lambda inner: st.one_of(st.lists(inner, max_size=6), st.dictionaries(text, inner, max_size=3)),
    max_leaves=12,
)


@given(outcome=outcomes)
def test_an_outcome_survives_being_stored(outcome: Outcome) -> None:
    assert Outcome.unpack(outcome.pack()) == outcome


def test_the_stored_form_is_pinned() -> None:
    made = Outcome(
        OutcomeKind.WRITES, 2, "w", 0.5, [PackedWrite("a", b"1"), PackedWrite("__pregel_tasks", "digest", "node")]
    )

    assert library.unpackb(made.pack()) == [0, 2, "w", 0.5, [["a", b"1"], ["__pregel_tasks", "digest", "node"]], b""]


@settings(max_examples=500)
@given(stored=st.binary(max_size=64))
def test_bytes_that_are_no_outcome_are_refused(stored: bytes) -> None:
    with pytest.raises(CorruptDataError, match=r"an outcome of .* bytes cannot be read"):
        Outcome.unpack(stored)


@settings(max_examples=500)
@given(where=st.integers(0, 8), value=anything, short=st.booleans())
def test_an_outcome_with_one_strange_field_is_refused_or_well_formed(where: int, value: object, short: bool) -> None:
    record: list[object] = [4, 1, "w", 0.1, [["a", b"1"]], b"", 0.5, 17.5, "why"]
    record[where] = value
    if short and where < 6:
        del record[6:]
    try:
        made = Outcome.unpack(library.packb(record))
    except CorruptDataError:
        return
    assert isinstance(made.kind, OutcomeKind)
    assert isinstance(made.attempt, int)
    assert isinstance(made.worker, str)
    assert 0 <= made.seconds < float("inf")
    assert isinstance(made.error, bytes)
    assert 0 <= made.retry_after_s < float("inf")
    assert 0 <= made.first_try_at < float("inf")
    assert made.drain is None or isinstance(made.drain, str)
    for write in made.writes:
        assert isinstance(write.channel, str)
        assert isinstance(write.value, bytes) if write.node is None else isinstance(write.value, (bytes, str))
        assert write.timeout is None or isinstance(write.timeout, TimeoutPolicy)


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -0.1])
@pytest.mark.parametrize("field", ["seconds", "retry_after_s", "first_try_at"])
def test_a_time_that_is_none_is_refused(field: str, seconds: float) -> None:
    times: dict[str, Any] = {"seconds": 0.5, field: seconds}
    made = Outcome(OutcomeKind.RETRY, 1, "w", **times)

    with pytest.raises(CorruptDataError, match="is no time"):
        Outcome.unpack(made.pack())


def test_the_stored_form_of_an_outcome_that_a_retry_follows_is_pinned() -> None:
    made = Outcome(OutcomeKind.RETRY, 2, "w", 0.5, error=b"error", retry_after_s=1.5, first_try_at=17.5, tries=2)

    assert library.unpackb(made.pack()) == [4, 2, "w", 0.5, [], b"error", 1.5, 17.5, 2, None]
    assert not made.is_final


def test_the_stored_form_of_an_outcome_whose_node_asked_to_stop_is_pinned() -> None:
    made = Outcome(OutcomeKind.CACHED, 1, "w", 0.5, drain="")

    assert library.unpackb(made.pack()) == [2, 1, "w", 0.5, [], b"", 0.0, 0.0, 1, ""]
    assert Outcome.unpack(made.pack()).drain == ""


def test_the_numbers_of_the_kinds_are_a_storage_format() -> None:
    assert {kind.name: int(kind) for kind in OutcomeKind} == {
        "WRITES": 0,
        "ERROR": 1,
        "CACHED": 2,
        "HANDED_OVER": 3,
        "RETRY": 4,
        "INTERRUPTED": 5,
        "INVALID_ANSWER": 6,
    }


@pytest.mark.parametrize("kind", OutcomeKind)
def test_every_outcome_but_that_of_an_attempt_to_be_followed_by_another_is_final(kind: OutcomeKind) -> None:
    assert Outcome(kind, 1, "w", 0.5).is_final is (kind is not OutcomeKind.RETRY)


def test_a_packet_s_timeout_is_stored_only_if_it_has_one() -> None:
    with_one = PackedWrite("__pregel_tasks", "digest", "node", TimeoutPolicy(2.0, 0.5, "heartbeat"))
    without = PackedWrite("__pregel_tasks", "digest", "node")

    assert with_one.to_plain() == ["__pregel_tasks", "digest", "node", [2.0, 0.5, "heartbeat"]]
    assert without.to_plain() == ["__pregel_tasks", "digest", "node"]


@pytest.mark.parametrize(
    "more",
    [
        [1.0],
        [1.0, 2.0],
        [1.0, 2.0, None, None],
        ["1", 2.0, None],
        [None, 2.0, None],
        [1.0, [], None],
        [1.0, 2.0, b"why"],
        [1.0, 2.0, 5],
    ],
    ids=repr,
)
def test_an_outcome_with_corrupt_fields_about_its_retry_is_refused(more: list[object]) -> None:
    with pytest.raises(CorruptDataError):
        Outcome.unpack(pack([4, 1, "w", 0.1, NO_WRITES, b"", *more]))


@pytest.mark.parametrize("kind", [7, -1, "0", None, 1.5])
def test_a_kind_of_outcome_that_there_is_not_is_refused(kind: object) -> None:
    with pytest.raises(CorruptDataError):
        Outcome.unpack(pack([kind, 1, "w", 0.1, NO_WRITES, b""]))


@pytest.mark.parametrize(
    "write",
    [
        ["c", b"1", "node", 5.0],
        ["c", b"1", "node", [5.0, None]],
        ["c", b"1", "node", [5, None, "auto"]],
        ["c", b"1", "node", [-5.0, None, "auto"]],
        ["c", b"1", "node", [5.0, None, "never"]],
        ["c", b"1", "node", [5.0, None, "auto"], "more"],
    ],
    ids=repr,
)
def test_a_packet_with_a_corrupt_timeout_is_refused(write: list[object]) -> None:
    with pytest.raises(CorruptDataError):
        Outcome.unpack(pack([0, 1, "w", 0.1, [write], b""]))


@given(outcome=outcomes, cut=st.integers(1, 50))
def test_a_truncated_outcome_is_refused(outcome: Outcome, cut: int) -> None:
    stored = outcome.pack()
    with pytest.raises(CorruptDataError):
        Outcome.unpack(stored[: max(0, len(stored) - cut)])


# --- doorbells --------------------------------------------------------------------------------------------------------


@given(checkpoint_id=text, task_ids=st.lists(text, max_size=4))
def test_a_doorbell_says_what_was_rung(checkpoint_id: str, task_ids: list[str]) -> None:
    assert read_ring(ring(checkpoint_id, task_ids)) == (checkpoint_id, task_ids)


@settings(max_examples=300)
@given(stored=st.one_of(st.binary(max_size=32), anything.map(pack)))
def test_noise_at_the_door_is_refused_or_names_tasks(stored: bytes) -> None:
    try:
        checkpoint_id, task_ids = read_ring(stored)
    except CorruptDataError:
        return
    assert isinstance(checkpoint_id, str)
    assert all(isinstance(task_id, str) for task_id in task_ids)


# --- plain records ----------------------------------------------------------------------------------------------------


def test_a_record_is_taken_apart_by_its_reader_and_what_it_cannot_read_is_corrupt() -> None:
    def first(record: list[object]) -> object:
        return record[0]

    assert unpack(pack([1, "a"]), "a pair", first) == 1
    with pytest.raises(CorruptDataError, match="a number of 2 bytes cannot be read: a str where a int belongs"):
        unpack(pack("a"), "a number", lambda record: expect(int, record))


@pytest.mark.parametrize(
    "hostile",
    [
        b"\xdd\xff\xff\xff\xff",  # a list of four billion
        b"\xdf\xff\xff\xff\xff",  # a dict of four billion
        b"\xc6\xff\xff\xff\xff",  # four gigabytes
        b"\x91" * 100_000,  # very deep
        b"\x81\x90\x01",  # a dict with a list for a key
        b"\xa1\xff",  # text that is not UTF-8
        b"\xd6\xff\x00",  # half a timestamp
        b"\xc7\x0c\xff" + b"\xff" * 12,  # a timestamp with too many nanoseconds
        b"",
    ],
)
def test_hostile_bytes_are_corrupt_data_and_nothing_worse(hostile: bytes) -> None:
    with pytest.raises(CorruptDataError):
        unpack(hostile, "a record", lambda record: expect(complex, record))
