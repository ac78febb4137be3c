"""The checkpoints that runs leave behind: what is in them, and how to look for them."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportTypedDictNotRequiredAccess=false

from typing import Any

import pytest
from tests.behaviour.asking import Ran, identity, in_a_row, resume, side_by_side, steps
from tests.behaviour.drivers import Drive, Graph, thread
from tests.behaviour.states import chain, fan_out

from phalanx.checkpoint.base import Checkpoint, CheckpointTuple
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.config import RunnableConfig
from phalanx.types import StateSnapshot


def stored(drive: Drive, graph: Graph, config: RunnableConfig) -> list[CheckpointTuple]:
    """The checkpoints of a thread's outermost graph, newest first."""
    saver: Any = graph.checkpointer
    if not isinstance(saver, InMemorySaver):
        saver = drive.cluster.saver  # type: ignore[attr-defined]
    where: RunnableConfig = {"configurable": {"checkpoint_ns": "", **config["configurable"]}}
    return [*saver.list(where)]


def shown(checkpoint: Checkpoint) -> dict[str, Any]:
    """The values of a checkpoint, without the packets, of which there are none."""
    return {name: value for name, value in checkpoint["channel_values"].items() if name != "__pregel_tasks"}


@pytest.mark.rule("history-1")
def test_an_input_and_every_superstep_make_a_checkpoint_and_steps_are_counted_on(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("steps counted on")
    drive_kept.invoke(graph, {}, config)
    drive_kept.update(graph, config, {"words": ["u"]})
    drive_kept.invoke(graph, {}, config)

    assert steps(drive_kept.history(graph, config)) == [
        *(("loop", 5), ("loop", 4), ("input", 3)),
        ("update", 2),
        *(("loop", 1), ("loop", 0), ("input", -1)),
    ]


@pytest.mark.rule("history-1")
def test_metadata_tells_source_step_and_the_checkpoints_around(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("metadata of a history")
    drive_kept.invoke(graph, {}, config)

    assert [each.metadata for each in drive_kept.history(graph, config)] == [
        {"source": "loop", "step": 1, "parents": {}},
        {"source": "loop", "step": 0, "parents": {}},
        {"source": "input", "step": -1, "parents": {}},
    ]


@pytest.mark.rule("history-1")
def test_the_input_is_the_result_of_the_first_task(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("the first task")
    drive_kept.invoke(graph, {"words": ["x"], "last": "l"}, config)
    first = drive_kept.history(graph, config)[-1]

    assert first.next == ("__start__",)
    assert [(task.name, task.result) for task in first.tasks] == [("__start__", {"words": ["x"], "last": "l"})]


@pytest.mark.rule("history-1")
def test_states_of_the_past_show_what_their_tasks_came_to(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(fan_out("a", "b")), thread("results of the past")
    drive_kept.invoke(graph, {"last": "l"}, config)
    _, old, _ = drive_kept.history(graph, config)

    assert old.next == ("a", "b")
    assert [(task.name, task.path, task.result) for task in old.tasks] == [
        ("a", ("__pregel_pull", "a"), {"words": ["a"]}),
        ("b", ("__pregel_pull", "b"), {"words": ["b"]}),
    ]


@pytest.mark.rule("history-1")
def test_several_writes_of_a_task_to_one_key_are_shown_together(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=_writes_twice)), thread("several writes")
    drive_kept.invoke(graph, {}, config)
    old = drive_kept.history(graph, config)[1]

    assert old.tasks[0].result == {"words": {"$writes": [["1"], ["2"]]}}


def _writes_twice(_: object) -> list[Any]:
    from phalanx.types import Command

    return [{"words": ["1"]}, Command(update={"words": ["2"]})]


@pytest.mark.rule("history-2")
def test_a_checkpoint_holds_what_is_there_versions_and_what_nodes_have_seen(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("content")
    drive_kept.invoke(graph, {"last": "l", "count": 1}, config)
    newest, after_a, *_ = [each.checkpoint for each in stored(drive_kept, graph, config)]

    assert after_a["v"] == newest["v"] == 4
    assert shown(after_a) == {"words": ["a"], "count": 1, "last": "l", "branch:to:b": None}
    assert shown(newest) == {"words": ["a", "b"], "count": 1, "last": "l"}
    assert set(newest["versions_seen"]) == {"__input__", "__start__", "a", "b"}
    assert newest["updated_channels"] == ["words"]
    assert after_a["updated_channels"] == ["branch:to:b", "words"]
    assert newest["ts"] > after_a["ts"]
    assert newest["id"] > after_a["id"]


@pytest.mark.rule("history-2")
def test_a_run_that_goes_on_notes_what_it_has_seen(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b="name?")), thread("what it has seen")
    drive_kept.invoke(graph, {"last": "l"}, config)
    resume(drive_kept, graph, config, "Ann")
    newest, after_a, *_ = [each.checkpoint for each in stored(drive_kept, graph, config)]

    assert "__interrupt__" not in after_a["versions_seen"]
    seen = newest["versions_seen"]["__interrupt__"]
    assert seen == {name: version for name, version in after_a["channel_versions"].items() if name in seen}
    assert {"words", "last", "branch:to:b"} <= set(seen)


# --- looking for states -----------------------------------------------------------------------------------------------


def turns(drive: Drive, name: str) -> tuple[Graph, RunnableConfig, list[StateSnapshot]]:
    """A thread of two turns, and its history."""
    graph, config = drive.keeping(chain("a")), thread(name)
    drive.invoke(graph, {"last": "1"}, config)
    drive.invoke(graph, {"last": "2"}, config)
    return graph, config, drive.history(graph, config)


@pytest.mark.rule("history-3")
def test_a_history_can_be_cut_short(drive_kept: Drive) -> None:
    graph, config, history = turns(drive_kept, "cut short")

    for limit in (1, 2, 6, 100):
        assert drive_kept.history(graph, config, limit=limit) == history[:limit]


@pytest.mark.rule("history-3")
def test_a_history_can_be_asked_for_before_one_of_its_states(drive_kept: Drive) -> None:
    graph, config, history = turns(drive_kept, "before one")

    for number, each in enumerate(history):
        assert drive_kept.history(graph, config, before=each.config) == history[number + 1 :]
    assert drive_kept.history(graph, config, before=history[1].config, limit=2) == history[2:4]


@pytest.mark.rule("history-3")
def test_a_history_can_be_filtered_by_what_is_told_of_its_states(drive_kept: Drive) -> None:
    graph, config, history = turns(drive_kept, "filtered")

    assert drive_kept.history(graph, config, filter={"source": "input"}) == [history[2], history[5]]
    assert drive_kept.history(graph, config, filter={"source": "loop", "step": 3}) == [history[1]]
    assert drive_kept.history(graph, config, filter={"source": "nobody"}) == []
    assert drive_kept.history(graph, config, filter={}) == history


@pytest.mark.rule("history-3")
def test_all_branches_are_in_the_history(drive_kept: Drive) -> None:
    graph, config, history = turns(drive_kept, "all branches")
    drive_kept.update(graph, history[3].config, {"last": "u"})
    drive_kept.invoke(graph, None, history[4].config)
    again = drive_kept.history(graph, config)

    assert again[-len(history) :] == history
    assert [source for source, _ in steps(again[: -len(history)])] == ["loop", "fork", "update"]
    assert [identity(each) for each in again] == sorted(map(identity, again), reverse=True)


@pytest.mark.rule("history-4")
def test_the_latest_state_shows_what_has_finished_and_by_its_id_what_is_stored(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(side_by_side(ran, a="name?", b=None)), thread("finished and stored")
    drive_kept.invoke(graph, {"last": "l"}, config)
    latest = drive_kept.get_state(graph, config)
    by_id = drive_kept.get_state(graph, latest.config)

    assert (latest.values["words"], latest.next) == (["b"], ("a",))
    assert (by_id.values["words"], by_id.next) == ([], ("a", "b"))
    assert [task.result for task in by_id.tasks] == [task.result for task in latest.tasks] == [None, {"words": ["b"]}]
    assert [len(task.interrupts) for task in by_id.tasks] == [1, 0]


@pytest.mark.rule("history-4")
def test_a_state_that_the_thread_does_not_have_is_empty(drive_kept: Drive) -> None:
    graph, config, history = turns(drive_kept, "not this one")
    elsewhere: RunnableConfig = {"configurable": {**history[0].config["configurable"], "thread_id": "nobody's"}}

    assert drive_kept.get_state(graph, elsewhere).values == {}
    assert drive_kept.get_state(graph, config).values["last"] == "2"
