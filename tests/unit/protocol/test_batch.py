"""The message to a worker: what goes in comes out, and whatever else comes in is refused."""

from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.errors import CorruptDataError
from phalanx.protocol.batch import FORMAT, Batch, BatchTask, Ref
from phalanx.types import TimeoutPolicy

library: Any = msgpack
text = st.text(max_size=8)
without_nul = st.text(alphabet=st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(-(2**63), 2**63 - 1)
refs: "st.SearchStrategy[Ref]" = st.one_of(text, st.binary(max_size=8))
usual: "dict[str, st.SearchStrategy[Any]]" = {
    "id": text,
    "node": text,
    "attempt": numbers,
    "path": st.lists(st.one_of(text, numbers), max_size=3).map(tuple),
    "triggers": st.lists(text, max_size=3).map(tuple),
    "arg": st.one_of(st.none(), refs),
}
seconds = st.floats(1e-6, 1e9)
timeouts = st.builds(
    TimeoutPolicy, st.one_of(st.none(), seconds), seconds, refresh_on=st.sampled_from(["auto", "heartbeat"])
)
times = st.floats(0, 1e10)
first_tries = st.builds(BatchTask, **usual)
retries = st.builds(
    BatchTask, **usual, tries=st.integers(2, 99), first_try_at=times, timeout=st.one_of(st.none(), timeouts)
)
limited = st.builds(BatchTask, **usual, timeout=timeouts)
handlers = st.builds(
    BatchTask,
    **usual,
    tries=st.integers(1, 99),
    first_try_at=times,
    timeout=st.one_of(st.none(), timeouts),
    error=st.binary(max_size=8),
    failed=st.text(min_size=1, max_size=8),
)
tasks = st.one_of(first_tries, retries, limited, handlers)
batches = st.builds(
    Batch,
    graph=text,
    fingerprint=text,
    run_id=text,
    thread_id=text,
    namespace=without_nul,
    checkpoint_id=without_nul,
    step=numbers,
    token=numbers,
    state=st.dictionaries(text, refs, max_size=3),
    around=st.binary(max_size=8),
    stop=numbers,
    ttl_s=numbers,
    tasks=st.lists(tasks, max_size=3),
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.floats(), text, st.binary(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(text, numbers), inner, max_size=3)),
    max_leaves=12,
)
FIELDS: Final = 14


def example() -> list[Any]:
    one = BatchTask("id", "node", 1, ("__pregel_push", 3), ("__pregel_push",), "digest")
    return Batch("g", "f", "r", "t", "", "c", 2, 7, {"a": b"1"}, b"around", 9, 0, [one]).to_wire()


def assert_well_formed(batch: Batch) -> None:
    """Every part is what its annotation says; the rest of the worker relies on it."""
    for name in ("graph", "fingerprint", "run_id", "thread_id", "namespace", "checkpoint_id"):
        assert isinstance(getattr(batch, name), str)
    for name in ("step", "token", "stop", "ttl_s"):
        assert isinstance(getattr(batch, name), int)
    assert isinstance(batch.around, bytes)
    assert all(isinstance(name, str) and isinstance(ref, (str, bytes)) for name, ref in batch.state.items())
    for task in batch.tasks:
        assert isinstance(task.id, str)
        assert isinstance(task.node, str)
        assert isinstance(task.attempt, int)
        assert all(isinstance(part, (str, int)) for part in task.path)
        assert all(isinstance(trigger, str) for trigger in task.triggers)
        assert task.arg is None or isinstance(task.arg, (str, bytes))
        assert isinstance(task.tries, int)
        assert isinstance(task.first_try_at, float)
        assert task.timeout is None or isinstance(task.timeout, TimeoutPolicy)
        assert isinstance(task.error, bytes)
        assert isinstance(task.failed, str)


@given(batch=batches)
def test_a_batch_survives_the_wire(batch: Batch) -> None:
    wire = library.unpackb(library.packb(batch.to_wire()))

    assert Batch.from_wire(wire) == batch


def test_the_wire_form_is_pinned() -> None:
    assert example() == [
        FORMAT,
        *("g", "f", "r", "t", "", "c", 2, 7, {"a": b"1"}, b"around", 9, 0),
        [["id", "node", 1, ["__pregel_push", 3], ["__pregel_push"], "digest"]],
    ]
    assert FORMAT == 3


@given(wire=anything)
def test_anything_else_is_refused(wire: object) -> None:
    with pytest.raises(CorruptDataError, match="not a batch of tasks"):
        Batch.from_wire(wire)


@settings(max_examples=300)
@given(where=st.integers(0, FIELDS - 1), value=anything)
def test_a_batch_with_one_strange_field_is_refused_or_well_formed(where: int, value: object) -> None:
    wire = example()
    wire[where] = value
    with suppress(CorruptDataError):
        assert_well_formed(Batch.from_wire(wire))


@settings(max_examples=300)
@given(where=st.integers(0, 10), value=anything)
def test_a_task_with_one_strange_field_is_refused_or_well_formed(where: int, value: object) -> None:
    wire = example()
    wire[-1][0] += [2, 0.5, [1.0, None, "auto"], b"error", "failed"]
    wire[-1][0][where] = value
    with suppress(CorruptDataError):
        assert_well_formed(Batch.from_wire(wire))


@given(length=st.integers(0, FIELDS + 3).filter(lambda length: length != FIELDS))
def test_a_batch_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(CorruptDataError):
        Batch.from_wire((example() * 2)[:length])


def test_another_format_is_refused_by_its_number() -> None:
    with pytest.raises(CorruptDataError, match="format 1 instead of 3"):
        Batch.from_wire([1, *example()[1:]])


def only_task(*fields: object) -> BatchTask:
    """What is read of a task with these fields behind the usual ones."""
    wire = example()
    wire[-1][0] += fields
    (task,) = Batch.from_wire(wire).tasks
    return task


def test_the_wire_form_of_a_task_that_is_not_as_usual_is_pinned() -> None:
    usual_fields = ["id", "node", 3, ["__pregel_pull", "node"], ["t"], None]
    again = BatchTask("id", "node", 3, ("__pregel_pull", "node"), ("t",), None, 2, 17.5)
    limited = replace(again, tries=1, first_try_at=0.0, timeout=TimeoutPolicy(0.5, refresh_on="heartbeat"))
    handler = replace(again, tries=1, first_try_at=0.0, error=b"error", failed="other")

    assert again.to_plain() == [*usual_fields, 2, 17.5, None, b"", ""]
    assert limited.to_plain() == [*usual_fields, 1, 0.0, [0.5, None, "heartbeat"], b"", ""]
    assert handler.to_plain() == [*usual_fields, 1, 0.0, None, b"error", "other"]


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_a_first_try_takes_six_fields_however_often_its_worker_was_lost(lost: int) -> None:
    assert len(BatchTask("id", "node", 1 + lost, (), (), None).to_plain()) == 6


def test_a_task_without_further_fields_is_a_first_try_without_limits_and_no_handler() -> None:
    task = only_task()

    assert (task.tries, task.first_try_at, task.timeout, task.error, task.failed) == (1, 0.0, None, b"", "")


@pytest.mark.parametrize(
    "fields",
    [
        ("2",),
        (2.0,),
        (2, 1),
        (2, None),
        (2, 1.0, 5.0),
        (2, 1.0, []),
        (2, 1.0, [1.0, None]),
        (2, 1.0, [1, None, "auto"]),
        (2, 1.0, ["1", None, "auto"]),
        (2, 1.0, [-1.0, None, "auto"]),
        (2, 1.0, [None, 0.0, "auto"]),
        (2, 1.0, [float("nan"), None, "auto"]),
        (2, 1.0, [1.0, None, "sometimes"]),
        (2, 1.0, [1.0, None, None]),
        (2, 1.0, [1.0, None, "auto", 4]),
        (2, 1.0, None, "error"),
        (2, 1.0, None, b"", b"failed"),
        (2, 1.0, None, b"", "failed", "more"),
    ],
    ids=repr,
)
def test_a_task_with_corrupt_fields_about_its_attempts_is_refused(fields: tuple[object, ...]) -> None:
    with pytest.raises(CorruptDataError, match="not a batch of tasks"):
        only_task(*fields)
