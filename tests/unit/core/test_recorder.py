"""From a run's orders to what a saver is given, and from what it gives back to a run."""

from tests.unit.blueprints import START, content, given, graph, node, state_after, task

from phalanx.checkpoint.base import Checkpoint, CheckpointTuple, PendingWrite
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.config import RunnableConfig
from phalanx.coordinator.apply import apply_writes
from phalanx.coordinator.messages import Commit, SaveWrites, Stamp
from phalanx.coordinator.plan import Task
from phalanx.coordinator.recorder import Recorder, open_run, pending_of
from phalanx.coordinator.state import count_up
from phalanx.coordinator.terms import Pending, RunSettings
from phalanx.protocol.names import ERROR, INTERRUPT, NO_WRITES, PUSH

CONFIG: RunnableConfig = {
    "configurable": {"thread_id": "t", "user": "ada", "__secret": 1, "object": object()},
    "metadata": {"label": "x\x00y", "step": 99},
}
SETTINGS = RunSettings(10, frozenset(), ("value",))


def recorder() -> Recorder:
    return Recorder(CheckpointAddress("t", "", None), CONFIG)


def test_a_commit_becomes_a_checkpoint_with_the_values_of_channels_that_hold_something() -> None:
    blueprint = graph(node("a"))
    state = state_after(blueprint, [given(("to:a", None), (START, 1))])
    made = recorder()
    made.put_arguments(Commit(Stamp("c1", "then"), None, "input", -1, frozenset({"to:a", START})), state)
    changed = apply_writes(blueprint, state, [task("a", writes=[("value", 5)])], count_up)

    config, checkpoint, metadata, versions = made.put_arguments(
        Commit(Stamp("c2", "now"), "c1", "loop", 0, changed), state
    )

    assert config == {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c1"}}
    assert checkpoint == {
        "v": 4,
        "id": "c2",
        "ts": "now",
        "channel_values": {"value": 5},
        "channel_versions": {"to:a": 2, START: 2, "value": 2},
        "versions_seen": {"__input__": {}, "a": {"to:a": 1}},
        "updated_channels": ["value"],
    }
    assert versions == {"to:a": 2, START: 2, "value": 2}
    assert metadata == {"source": "loop", "step": 0, "parents": {}, "user": "ada", "label": "xy"}


def test_what_was_given_to_a_saver_does_not_change_when_the_run_goes_on() -> None:
    blueprint = graph(node("a"))
    state = state_after(blueprint, [given(("to:a", None), ("value", 1))])
    made = recorder()
    _, checkpoint, _, _ = made.put_arguments(
        Commit(Stamp("c1", ""), None, "input", -1, frozenset(state.versions)), state
    )
    kept = repr(checkpoint)

    changed = apply_writes(blueprint, state, [task("a", writes=[("value", 2)])], count_up)
    made.put_arguments(Commit(Stamp("c2", ""), "c1", "loop", 0, changed), state)

    assert repr(checkpoint) == kept


def test_a_task_s_writes_go_to_the_checkpoint_it_started_from_under_the_task_s_id_and_path() -> None:
    def path(index: int) -> str:
        one = Task("id", "a", (PUSH, index), (PUSH,))
        return recorder().put_writes_arguments(SaveWrites("c1", one, [("value", 1)]))[3]

    config, writes, task_id, _ = recorder().put_writes_arguments(
        SaveWrites("c1", Task("id", "a", (PUSH, 2), (PUSH,)), [("value", 1)])
    )

    assert config == {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c1"}}
    assert (writes, task_id) == ([("value", 1)], "id")
    assert path(1) != path(2)


def found(*pending: PendingWrite, metadata_step: int = 3) -> CheckpointTuple:
    blueprint = graph(node("a"))
    state = state_after(blueprint, [given(("to:a", None), ("value", 1))])
    checkpoint: Checkpoint = {
        "v": 4,
        "id": "c1",
        "ts": "",
        "channel_values": {"value": 1, "to:a": None},
        "channel_versions": state.versions,
        "versions_seen": state.seen,
        "updated_channels": ["to:a", "value"],
    }
    return CheckpointTuple({}, checkpoint, {"source": "loop", "step": metadata_step, "parents": {}}, None, [*pending])


def test_a_run_goes_on_from_a_stored_checkpoint_as_it_was() -> None:
    blueprint = graph(node("a"))
    run, values = open_run(blueprint, SETTINGS, found(("task", "value", 2)))

    assert content(run.state) == content(state_after(blueprint, [given(("to:a", None), ("value", 1))]))
    assert (run.position.checkpoint_id, run.position.stored, run.position.step) == ("c1", True, 4)
    assert run.pending == Pending([], {"task": [("value", 2)]}, {})
    assert values == {"value": 1, "to:a": None}


def test_without_a_checkpoint_a_run_starts_a_thread() -> None:
    run, values = open_run(graph(node("a")), SETTINGS, None)

    assert (run.position.stored, run.position.step, values) == (False, -1, {})


def test_only_writes_of_tasks_that_finished_count_as_done() -> None:
    pending = pending_of(
        found(
            ("wrote", "value", 1),
            ("wrote", "to:a", None),
            ("wrote nothing", NO_WRITES, None),
            ("failed", ERROR, "ValueError('no')"),
            ("asked", INTERRUPT, ["?"]),
            ("failed, then wrote", ERROR, "ValueError('no')"),
            ("failed, then wrote", "value", 3),
        )
    )

    assert pending.handed_over == {}
    assert pending.finished == {
        "wrote": [("value", 1), ("to:a", None)],
        "wrote nothing": [(NO_WRITES, None)],
        "failed, then wrote": [("value", 3)],
    }
