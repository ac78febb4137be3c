"""Going back to an older state of a thread, and on from there."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportTypedDictNotRequiredAccess=false

from typing import Any

import pytest
from tests.behaviour.asking import Ran, asked, asks, identity, ids, in_a_row, resume, side_by_side, steps
from tests.behaviour.drivers import Drive, Graph, thread
from tests.behaviour.states import alone

from phalanx.config import RunnableConfig
from phalanx.types import Command, StateSnapshot


def before(drive: Drive, graph: Graph, config: RunnableConfig, *names: str) -> StateSnapshot:
    """The newest state of a thread at which those nodes are next."""
    return next(each for each in drive.history(graph, config) if each.next == names)


@pytest.mark.rule("travel-1")
def test_a_run_from_an_older_state_runs_everything_after_it_again(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(in_a_row(ran, a=None, b=None, c=None)), thread("run again")
    drive_kept.invoke(graph, {}, config)
    old = before(drive_kept, graph, config, "b")

    assert drive_kept.invoke(graph, None, old.config)["words"] == ["a", "b", "c"]
    assert ran == {"a": 1, "b": 2, "c": 2}


@pytest.mark.rule("travel-1")
def test_the_new_branch_begins_with_a_copy_and_is_the_thread_s_latest(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=None)), thread("a copy first")
    drive_kept.invoke(graph, {}, config)
    old = before(drive_kept, graph, config, "b")
    drive_kept.invoke(graph, None, old.config)
    history = drive_kept.history(graph, config)

    assert steps(history) == [("loop", 3), ("fork", 2), ("loop", 2), ("loop", 1), ("loop", 0), ("input", -1)]
    assert history[1].parent_config == old.config
    assert (history[1].values, history[1].next) == (old.values, old.next)
    assert drive_kept.get_state(graph, config).config == history[0].config


@pytest.mark.rule("travel-1")
def test_old_states_stay_as_they_are(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(side_by_side(a=None, b=asks("1?", "2?"))), thread("old states stay")
    drive_kept.invoke(graph, {}, config)
    resume(drive_kept, graph, config, "one")
    resume(drive_kept, graph, config, "two")
    history = drive_kept.history(graph, config)
    for old in history:
        drive_kept.invoke(graph, None, old.config)
        drive_kept.invoke(graph, {"words": ["x"]}, old.config)

    assert drive_kept.history(graph, config)[-len(history) :] == history


@pytest.mark.rule("travel-1")
def test_what_had_finished_beside_what_failed_runs_again_too(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(side_by_side(ran, a="name?", b=None)), thread("finished runs again")
    drive_kept.invoke(graph, {}, config)
    old = drive_kept.history(graph, config)[0]
    resume(drive_kept, graph, config, "Ann")
    result = drive_kept.invoke(graph, None, old.config)

    assert (result["words"], asked(result)) == (["b"], ["name?"])
    assert ran == {"a": 3, "b": 2}


@pytest.mark.rule("travel-1")
def test_a_run_from_the_latest_state_by_its_id_runs_again_too_what_is_due_there(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(side_by_side(ran, a="name?", b=None)), thread("the latest by its id")
    first = ids(drive_kept.invoke(graph, {}, config))
    latest = drive_kept.get_state(graph, config)
    again = drive_kept.invoke(graph, None, latest.config)

    assert ran == {"a": 2, "b": 2}
    assert ids(again)["name?"] != first["name?"]
    assert resume(drive_kept, graph, config, "Ann")["words"] == ["Ann", "b", "end"]


@pytest.mark.rule("travel-1")
def test_an_old_state_at_which_nothing_was_due_runs_nothing(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(in_a_row(ran, a=None)), thread("nothing due")
    drive_kept.invoke(graph, {"words": ["x"]}, config)
    old = drive_kept.get_state(graph, config)
    drive_kept.invoke(graph, {"words": ["y"]}, config)

    assert drive_kept.invoke(graph, None, old.config)["words"] == ["x", "a"]
    assert ran == {"a": 2}


@pytest.mark.rule("travel-1")
@pytest.mark.ours_only("there, a copy is made that nothing comes of")
def test_the_latest_state_is_not_copied_when_nothing_is_due(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None)), thread("latest not copied")
    drive_kept.invoke(graph, {}, config)
    history = drive_kept.history(graph, config)
    drive_kept.invoke(graph, None, history[0].config)

    assert drive_kept.history(graph, config) == history


@pytest.mark.rule("travel-1")
def test_a_run_from_the_first_state_takes_the_input_again(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None)), thread("input again")
    drive_kept.invoke(graph, {"words": ["x"]}, config)
    first = drive_kept.history(graph, config)[-1]

    assert drive_kept.invoke(graph, None, first.config)["words"] == ["x", "a"]


@pytest.mark.rule("travel-2")
def test_a_new_input_to_an_older_state_branches_off(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=None)), thread("branches off")
    drive_kept.invoke(graph, {"words": ["x"]}, config)
    old = before(drive_kept, graph, config, "b")

    assert drive_kept.invoke(graph, {"words": ["y"]}, old.config)["words"] == ["x", "a", "y", "a", "b"]
    branch = next(each for each in drive_kept.history(graph, config) if each.next == ("__start__",))
    assert branch.parent_config == old.config


@pytest.mark.rule("travel-2")
@pytest.mark.ours_only("there, the thread begins anew at a state that it does not have")
@pytest.mark.parametrize("given", [None, {"words": ["x"]}], ids=["nothing", "an input"])
def test_a_state_that_the_thread_does_not_have_cannot_be_gone_on_from(drive_kept: Drive, given: Any) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None)), thread("no such state")
    drive_kept.invoke(graph, {}, config)
    drive_kept.invoke(graph, {}, thread("of another thread"))
    foreign = identity(drive_kept.get_state(graph, thread("of another thread")))
    config["configurable"] = {**config["configurable"], "checkpoint_id": foreign}

    with pytest.raises(ValueError, match="has no checkpoint"):
        drive_kept.invoke(graph, given, config)


# --- questions --------------------------------------------------------------------------------------------------------


@pytest.mark.rule("travel-3")
def test_going_back_asks_again_and_each_time_with_another_id(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=asks("1?", "2?"))), thread("asks again")
    known = [ids(drive_kept.invoke(graph, {}, config))["1?"]]
    old = before(drive_kept, graph, config, "b")
    resume(drive_kept, graph, config, "one")
    resume(drive_kept, graph, config, "two")
    known += [ids(drive_kept.invoke(graph, None, old.config))["1?"] for _ in range(3)]

    assert len(set(known)) == 4


@pytest.mark.rule("travel-3")
def test_an_answer_after_going_back_goes_on_with_the_new_branch(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b="name?", c=None)), thread("on the new branch")
    drive_kept.invoke(graph, {}, config)
    old = before(drive_kept, graph, config, "b")
    resume(drive_kept, graph, config, "Ann")
    drive_kept.invoke(graph, None, old.config)

    assert resume(drive_kept, graph, config, "Bob")["words"] == ["a", "Bob", "c"]


@pytest.mark.rule("travel-3")
def test_an_answer_at_the_latest_state_by_its_id_keeps_what_was_answered_and_finished(drive_kept: Drive) -> None:
    ran = Ran()
    builder = side_by_side(ran, a=asks("1?", "2?"), b=None)
    graph, config = drive_kept.keeping(builder), thread("answer by the state's id")
    drive_kept.invoke(graph, {}, config)
    resume(drive_kept, graph, config, "one")
    latest = drive_kept.get_state(graph, config)

    assert resume(drive_kept, graph, latest.config, "two")["words"] == ["one", "two", "b", "end"]
    assert ran == {"b": 1}


@pytest.mark.rule("travel-3")
@pytest.mark.ours_only("there, the first answer counts whatever is answered later")
def test_each_answer_given_at_one_state_counts(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b="name?", c=None)), thread("each answer counts")
    drive_kept.invoke(graph, {}, config)
    old = drive_kept.get_state(graph, config)

    for name in ("Ann", "Bob", "Cid"):
        assert resume(drive_kept, graph, old.config, name)["words"] == ["a", name, "c"]
        assert drive_kept.get_state(graph, config).values["words"] == ["a", name, "c"]
    parents = [identity(each) for each in drive_kept.history(graph, config) if each.next == ("c",)]
    assert len(parents) == 3


@pytest.mark.rule("travel-3")
@pytest.mark.ours_only("there, the first answer counts whatever is answered later")
def test_each_answer_given_by_its_id_at_one_state_counts(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(side_by_side(ran, a="1?", b="2?")), thread("each answer by id counts")
    known = ids(drive_kept.invoke(graph, {}, config))
    old = drive_kept.get_state(graph, config)
    resume(drive_kept, graph, config, {known["1?"]: "one", known["2?"]: "two"})

    assert resume(drive_kept, graph, old.config, {known["2?"]: "zwei", known["1?"]: "eins"})["words"][:2] == [
        "eins",
        "zwei",
    ]
    assert ran == {"a": 3, "b": 3}


@pytest.mark.rule("travel-3")
def test_an_update_of_an_old_state_asks_again_on_the_new_branch(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b="name?", c=None)), thread("asks on the branch")
    first = ids(drive_kept.invoke(graph, {}, config))
    old = before(drive_kept, graph, config, "b")
    resume(drive_kept, graph, config, "Ann")
    address = drive_kept.update(graph, old.config, {"words": ["u"]})
    again = drive_kept.invoke(graph, None, address)

    assert (again["words"], asked(again)) == (["a", "u"], ["name?"])
    assert ids(again) != first
    assert resume(drive_kept, graph, config, "Bob")["words"] == ["a", "u", "Bob", "c"]


@pytest.mark.rule("travel-3")
def test_a_stop_on_the_way_stops_a_run_from_an_older_state_too(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=None, c=None), interrupt_before=["c"]), thread("stops too")
    drive_kept.invoke(graph, {}, config)
    drive_kept.invoke(graph, None, config)
    old = before(drive_kept, graph, config, "b")

    assert drive_kept.invoke(graph, None, old.config)["words"] == ["a", "b"]
    assert drive_kept.get_state(graph, config).next == ("c",)
    assert drive_kept.invoke(graph, None, config)["words"] == ["a", "b", "c"]


@pytest.mark.rule("travel-2")
def test_a_command_at_an_older_state_branches_off(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=None, c=None)), thread("a command at an old state")
    drive_kept.invoke(graph, {}, config)
    old = before(drive_kept, graph, config, "c")
    history = drive_kept.history(graph, config)

    assert drive_kept.invoke(graph, Command(update={"last": "u"}), old.config) == {
        "words": ["a", "b", "c"],
        "count": 0,
        "last": "u",
    }
    assert drive_kept.history(graph, config)[-len(history) :] == history


@pytest.mark.rule("travel-1")
def test_a_branch_of_a_branch(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(alone(asks("name?", ran=ran))), thread("branch of a branch")
    drive_kept.invoke(graph, {}, config)
    for name in ("Ann", "Bob", "Cid"):
        assert resume(drive_kept, graph, config, name)["words"] == [name]
        old = before(drive_kept, graph, config, "a")
        assert asked(drive_kept.invoke(graph, None, old.config)) == ["name?"]

    assert ran == {"asks": 7}
