"""The message to a worker: what goes in comes out, and whatever else comes in is refused."""

from contextlib import suppress
from typing import Any, Final

import msgpack  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phalanx.errors import CorruptDataError
from phalanx.protocol.batch import FORMAT, Batch, BatchTask, Ref

library: Any = msgpack
text = st.text(max_size=8)
without_nul = st.text(alphabet=st.characters(exclude_characters="\x00"), max_size=8)
numbers = st.integers(-(2**63), 2**63 - 1)
refs: "st.SearchStrategy[Ref]" = st.one_of(text, st.binary(max_size=8))
tasks = st.builds(
    BatchTask,
    id=text,
    node=text,
    attempt=numbers,
    path=st.lists(st.one_of(text, numbers), max_size=3).map(tuple),
    triggers=st.lists(text, max_size=3).map(tuple),
    arg=st.one_of(st.none(), refs),
)
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
    config=st.binary(max_size=8),
    ttl_s=numbers,
    tasks=st.lists(tasks, max_size=3),
)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.floats(), text, st.binary(max_size=4)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.one_of(text, numbers), inner, max_size=3)),
    max_leaves=12,
)
FIELDS: Final = 13


def example() -> list[Any]:
    one = BatchTask("id", "node", 1, ("__pregel_push", 3), ("__pregel_push",), "digest")
    return Batch("g", "f", "r", "t", "", "c", 2, 7, {"a": b"1"}, b"config", 0, [one]).to_wire()


def assert_well_formed(batch: Batch) -> None:
    """Every part is what its annotation says; the rest of the worker relies on it."""
    for name in ("graph", "fingerprint", "run_id", "thread_id", "namespace", "checkpoint_id"):
        assert isinstance(getattr(batch, name), str)
    for name in ("step", "token", "ttl_s"):
        assert isinstance(getattr(batch, name), int)
    assert isinstance(batch.config, bytes)
    assert all(isinstance(name, str) and isinstance(ref, (str, bytes)) for name, ref in batch.state.items())
    for task in batch.tasks:
        assert isinstance(task.id, str)
        assert isinstance(task.node, str)
        assert isinstance(task.attempt, int)
        assert all(isinstance(part, (str, int)) for part in task.path)
        assert all(isinstance(trigger, str) for trigger in task.triggers)
        assert task.arg is None or isinstance(task.arg, (str, bytes))


@given(batch=batches)
def test_a_batch_survives_the_wire(batch: Batch) -> None:
    wire = library.unpackb(library.packb(batch.to_wire()))

    assert Batch.from_wire(wire) == batch


def test_the_wire_form_is_pinned() -> None:
    assert example() == [
        FORMAT,
        *("g", "f", "r", "t", "", "c", 2, 7, {"a": b"1"}, b"config", 0),
        [["id", "node", 1, ["__pregel_push", 3], ["__pregel_push"], "digest"]],
    ]
    assert FORMAT == 1


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
@given(where=st.integers(0, 5), value=anything)
def test_a_task_with_one_strange_field_is_refused_or_well_formed(where: int, value: object) -> None:
    wire = example()
    wire[-1][0][where] = value
    with suppress(CorruptDataError):
        assert_well_formed(Batch.from_wire(wire))


@given(length=st.integers(0, FIELDS + 3).filter(lambda length: length != FIELDS))
def test_a_batch_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(CorruptDataError):
        Batch.from_wire((example() * 2)[:length])


def test_another_format_is_refused_by_its_number() -> None:
    with pytest.raises(CorruptDataError, match="format 2 instead of 1"):
        Batch.from_wire([2, *example()[1:]])
