"""What a node sees of its run, and the switch that stops one."""

import threading

import pytest

from phalanx.errors import GraphDrained
from phalanx.managed import IsLastStep, RemainingSteps, StepLimits
from phalanx.managed.is_last_step import IsLastStepManager, RemainingStepsManager
from phalanx.runtime import (
    DEFAULT_RUNTIME,
    ExecutionInfo,
    RunControl,
    Runtime,
    ServerInfo,
    beat_nothing,
    get_runtime,
    write_nothing,
)

INFO = ExecutionInfo(checkpoint_id="c", checkpoint_ns="node:id", task_id="id")


def other_writer(data: object) -> None:
    """Somebody's writer."""


def other_beat() -> None:
    """Somebody's heartbeat."""


FULL: Runtime[object] = Runtime(
    context="context",
    store="store",
    stream_writer=other_writer,
    heartbeat=other_beat,
    previous="previous",
    execution_info=INFO,
    server_info=ServerInfo(assistant_id="a", graph_id="g"),
    control=RunControl(),
)


# --- merging ----------------------------------------------------------------------------------------------------------


def test_merging_with_a_runtime_in_which_nothing_is_set_changes_nothing() -> None:
    assert FULL.merge(DEFAULT_RUNTIME) == FULL
    assert FULL.merge(Runtime()) == FULL


def test_what_the_other_runtime_sets_goes_over_ours() -> None:
    assert Runtime[object]().merge(FULL) == FULL
    other: Runtime[object] = Runtime(context="other", previous=0)
    assert FULL.merge(other) == FULL.override(context="other", previous=0)


@pytest.mark.parametrize("value", [0, "", False, {}, ()], ids=repr)
def test_a_value_that_is_false_is_a_value(value: object) -> None:
    other: Runtime[object] = Runtime(context=value, store=value, previous=value)
    merged = FULL.merge(other)

    assert (merged.context, merged.store, merged.previous) == (value, value, value)


def test_the_functions_of_a_runtime_that_nobody_set_do_not_replace_ours() -> None:
    other: Runtime[object] = Runtime(stream_writer=write_nothing, heartbeat=beat_nothing)

    assert FULL.merge(other).stream_writer is other_writer
    assert FULL.merge(other).heartbeat is other_beat


def test_merging_and_overriding_make_copies() -> None:
    before = FULL.override()

    FULL.merge(Runtime(context="other"))
    changed = FULL.override(context=None, store=None)

    assert before == FULL
    assert (changed.context, changed.store, changed.previous) == (None, None, "previous")


def test_overriding_what_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="no_such_field"):
        FULL.override(no_such_field=1)


def test_execution_info_is_changed_in_a_copy() -> None:
    patched = FULL.patch_execution_info(node_attempt=3)

    assert patched.execution_info is not None
    assert patched.execution_info == INFO.patch(node_attempt=3)
    assert (INFO.node_attempt, patched.execution_info.task_id) == (1, "id")


def test_a_runtime_of_no_task_has_no_key_and_no_info_to_change() -> None:
    with pytest.raises(RuntimeError, match="belongs to no task"):
        _ = DEFAULT_RUNTIME.idempotency_key
    with pytest.raises(RuntimeError, match="no execution_info to patch"):
        DEFAULT_RUNTIME.patch_execution_info(node_attempt=2)


def test_the_key_for_calls_that_must_not_happen_twice_is_the_task_s_id_whatever_the_attempt() -> None:
    assert FULL.idempotency_key == "id" == FULL.patch_execution_info(node_attempt=7).idempotency_key


def test_outside_of_a_task_there_is_no_runtime() -> None:
    with pytest.raises(RuntimeError, match="Called get_runtime outside of a runnable context"):
        get_runtime()


def test_a_runtime_can_be_made_with_its_type_said() -> None:
    assert Runtime[int](context=5) == Runtime(context=5)


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_a_run_is_not_asked_to_stop_until_someone_does_and_then_for_the_first_reason() -> None:
    control = RunControl()
    runtime = Runtime[None](control=control)
    assert (runtime.drain_requested, runtime.drain_reason) == (False, None)
    assert repr(control) == "<RunControl running>"

    control.request_drain("first")
    control.request_drain("second")

    assert (control.drain_requested, control.drain_reason) == (True, "first")
    assert (runtime.drain_requested, runtime.drain_reason) == (True, "first")
    assert repr(control) == "<RunControl drain: first>"


def test_an_empty_reason_is_one() -> None:
    control = RunControl()
    control.request_drain("")
    control.request_drain("later")

    assert (control.drain_requested, control.drain_reason) == (True, "")


def test_a_runtime_without_a_switch_is_never_asked_to_stop() -> None:
    assert (DEFAULT_RUNTIME.drain_requested, DEFAULT_RUNTIME.drain_reason) == (False, None)


def test_of_many_who_ask_at_once_one_gives_the_reason() -> None:
    control, line, seen = RunControl(), threading.Barrier(8), set[str | None]()

    def ask(number: int) -> None:
        line.wait()
        control.request_drain(str(number))
        seen.add(control.drain_reason)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(seen) == 1


def test_a_drained_run_says_why() -> None:
    assert str(GraphDrained("deploy")) == "Graph drained: deploy"
    assert str(GraphDrained()) == "Graph drained: shutdown"


# --- managed values ---------------------------------------------------------------------------------------------------


def test_the_last_step_is_the_one_after_which_none_may_follow_and_the_rest_is_counted_with_it() -> None:
    limits = [StepLimits(step, 4) for step in range(5)]

    assert [IsLastStepManager.get(each) for each in limits] == [False, False, False, True, False]
    assert [RemainingStepsManager.get(each) for each in limits] == [4, 3, 2, 1, 0]
    assert IsLastStep.__metadata__ == (IsLastStepManager,)  # type: ignore[attr-defined]  # pyright: ignore
    assert RemainingSteps.__metadata__ == (RemainingStepsManager,)  # type: ignore[attr-defined]  # pyright: ignore
