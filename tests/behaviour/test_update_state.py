"""Changing a thread's state from outside, as if a node had run."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportTypedDictNotRequiredAccess=false

from typing import Any

import pytest
from tests.behaviour.asking import Ran, asked, asks, ids, in_a_row, resume, side_by_side, steps
from tests.behaviour.drivers import Drive, Graph, thread
from tests.behaviour.states import chain, fan_out, says

from phalanx.config import RunnableConfig
from phalanx.constants import END, START
from phalanx.errors import InvalidUpdateError
from phalanx.types import Command, Overwrite


def stopped(drive: Drive, name: str, **nodes: Any) -> tuple[Graph, RunnableConfig, Ran]:
    """A graph of nodes in a row on a thread that stands before the last one."""
    ran = Ran()
    graph, config = drive.keeping(in_a_row(ran, **nodes), interrupt_before=[[*nodes][-1]]), thread(name)
    drive.invoke(graph, {}, config)
    return graph, config, ran


@pytest.mark.rule("update-1")
def test_an_update_counts_as_what_a_node_returned(drive_kept: Drive) -> None:
    graph, config, ran = stopped(drive_kept, "counts as a node", a=None, b=None, c=None)
    drive_kept.update(graph, config, {"words": ["u"]}, as_node="a")
    state = drive_kept.get_state(graph, config)

    assert (state.values["words"], state.next) == (["a", "b", "u"], ("b",))
    assert drive_kept.invoke(graph, None, config)["words"] == ["a", "b", "u", "b"]
    assert drive_kept.invoke(graph, None, config)["words"] == ["a", "b", "u", "b", "c"]
    assert ran == {"a": 1, "b": 2, "c": 1}


@pytest.mark.rule("update-1")
def test_an_update_makes_a_state_of_its_own_and_returns_its_address(drive_kept: Drive) -> None:
    graph, config, _ = stopped(drive_kept, "address of an update", a=None, b=None)
    before = drive_kept.get_state(graph, config)
    address = drive_kept.update(graph, config, {"words": ["u"]})
    after = drive_kept.get_state(graph, config)

    assert address["configurable"] == after.config["configurable"]
    assert after.parent_config == before.config
    assert steps(drive_kept.history(graph, config)) == [("update", 2), ("loop", 1), ("loop", 0), ("input", -1)]
    assert drive_kept.get_state(graph, address).values["words"] == ["a", "u"]


@pytest.mark.rule("update-1")
def test_the_paths_of_the_node_are_followed(drive_kept: Drive) -> None:
    builder = chain("a")
    builder.add_node("yes", says("yes"))
    builder.add_node("no", says("no"))
    builder.add_conditional_edges("a", lambda state: state["last"], ["yes", "no"])
    graph, config = drive_kept.keeping(builder), thread("paths of an update")
    drive_kept.invoke(graph, {"last": "no"}, config)
    drive_kept.update(graph, config, {"last": "yes"}, as_node="a")

    assert drive_kept.get_state(graph, config).next == ("yes",)
    assert drive_kept.invoke(graph, None, config)["words"] == ["a", "no", "yes"]


@pytest.mark.rule("update-1")
def test_reducers_and_overwrites_apply_to_updates(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("reducers of updates")
    drive_kept.invoke(graph, {"count": 1}, config)
    drive_kept.update(graph, config, {"count": 2})
    assert drive_kept.get_state(graph, config).values["count"] == 3
    drive_kept.update(graph, config, {"words": Overwrite(["o"]), "strange": 1})

    assert drive_kept.get_state(graph, config).values == {"words": ["o"], "count": 3}


@pytest.mark.rule("update-1")
def test_an_update_may_be_a_command(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("a command as an update")
    drive_kept.invoke(graph, {}, config)
    drive_kept.update(graph, config, Command(update={"last": "u"}, goto="a"), as_node="b")
    state = drive_kept.get_state(graph, config)

    assert (state.values["last"], state.next) == ("u", ("a",))


@pytest.mark.rule("update-1")
def test_an_update_that_is_no_update_is_refused_and_changes_nothing(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("no update")
    drive_kept.invoke(graph, {}, config)
    before = drive_kept.get_state(graph, config)
    with pytest.raises(InvalidUpdateError):
        drive_kept.update(graph, config, 5, as_node="a")

    assert drive_kept.get_state(graph, config) == before


# --- in whose name ----------------------------------------------------------------------------------------------------


@pytest.mark.rule("update-2")
def test_unless_it_is_named_the_node_is_the_one_that_ran_last(drive_kept: Drive) -> None:
    graph, config, _ = stopped(drive_kept, "who ran last", a=None, b=None, c=None)
    drive_kept.update(graph, config, {"words": ["u"]})

    assert drive_kept.get_state(graph, config).next == ("c",)


@pytest.mark.rule("update-2")
def test_on_a_fresh_thread_an_update_counts_as_the_input(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("fresh update")
    drive_kept.update(graph, config, {"words": ["u"]})
    state = drive_kept.get_state(graph, config)

    assert (state.values["words"], state.next) == (["u"], ("a",))
    assert drive_kept.invoke(graph, None, config)["words"] == ["u", "a", "b"]


@pytest.mark.rule("update-2")
def test_where_several_nodes_ran_last_one_must_be_named(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(fan_out("a", "b")), thread("ambiguous")
    drive_kept.invoke(graph, {}, config)
    with pytest.raises(InvalidUpdateError, match=r"^Ambiguous update, specify as_node"):
        drive_kept.update(graph, config, {"words": ["u"]})
    drive_kept.update(graph, config, {"words": ["u"]}, as_node="b")

    assert drive_kept.get_state(graph, config).values["words"] == ["a", "b", "u"]


@pytest.mark.rule("update-2")
def test_a_node_that_does_not_exist_is_refused(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("update as nobody")
    drive_kept.invoke(graph, {}, config)

    with pytest.raises(InvalidUpdateError, match=r"^Node nobody does not exist"):
        drive_kept.update(graph, config, {}, as_node="nobody")


@pytest.mark.rule("update-2")
def test_a_node_in_whose_name_an_update_was_made_is_not_the_one_that_ran_last(drive_kept: Drive) -> None:
    graph, config, _ = stopped(drive_kept, "updates in a row", a=None, b=None, c=None)
    drive_kept.update(graph, config, {"words": ["1"]}, as_node="a")
    drive_kept.update(graph, config, {"words": ["2"]})

    assert drive_kept.get_state(graph, config).next == ("c",)


@pytest.mark.rule("update-2")
def test_without_a_thread_that_is_kept_there_is_nothing_to_update() -> None:
    with pytest.raises(ValueError, match="No checkpointer set"):
        chain("a").compile().update_state(thread("t"), {})


# --- ends and inputs --------------------------------------------------------------------------------------------------


@pytest.mark.rule("update-3")
def test_the_end_drops_what_is_due(drive_kept: Drive) -> None:
    graph, config, ran = stopped(drive_kept, "the end", a=None, b=None)
    drive_kept.update(graph, config, None, as_node=END)
    state = drive_kept.get_state(graph, config)

    assert (state.values["words"], state.next) == (["a"], ())
    assert steps(drive_kept.history(graph, config))[0] == ("update", 2)
    assert ran == {"a": 1}


@pytest.mark.rule("update-3")
def test_the_end_keeps_what_has_finished(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(side_by_side(a="name?", b=None)), thread("the end of some")
    drive_kept.invoke(graph, {}, config)
    drive_kept.update(graph, config, None, as_node=END)
    state = drive_kept.get_state(graph, config)

    assert (state.values["words"], state.next, state.interrupts) == (["b"], (), ())


@pytest.mark.rule("update-3")
def test_an_update_may_be_an_input(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("update as input")
    drive_kept.update(graph, config, {"words": ["u"]}, as_node="__input__")

    assert steps(drive_kept.history(graph, config)) == [("input", -1)]
    assert drive_kept.get_state(graph, config).next == (START,)
    assert drive_kept.invoke(graph, None, config)["words"] == ["u", "a", "b"]


@pytest.mark.rule("update-3")
def test_an_input_after_a_run_begins_another_turn(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("another turn")
    drive_kept.invoke(graph, {}, config)
    drive_kept.update(graph, config, {"words": ["u"]}, as_node="__input__")

    assert drive_kept.invoke(graph, None, config)["words"] == ["a", "u", "a"]


@pytest.mark.rule("update-3")
def test_nothing_is_an_update_too(drive_kept: Drive) -> None:
    graph, config, _ = stopped(drive_kept, "nothing as an update", a=None, b=None)
    before = len(drive_kept.history(graph, config))
    drive_kept.update(graph, config, None)
    state = drive_kept.get_state(graph, config)

    assert len(drive_kept.history(graph, config)) == before + 1
    assert (state.values["words"], state.next) == (["a"], ("b",))
    assert (state.metadata or {})["source"] == "update"


@pytest.mark.rule("update-3")
def test_after_an_update_a_question_is_asked_again(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=asks("1?", "2?"))), thread("asked after an update")
    drive_kept.invoke(graph, {}, config)
    second = ids(resume(drive_kept, graph, config, "one"))
    drive_kept.update(graph, config, None, as_node="a")
    again = drive_kept.invoke(graph, None, config)

    assert asked(again) == ["1?"]
    assert ids(again)["1?"] != second["2?"]


# --- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.rule("update-4")
def test_a_copy_is_a_sibling_of_its_original(drive_kept: Drive) -> None:
    graph, config, _ = stopped(drive_kept, "a copy", a=None, b=None)
    original = drive_kept.get_state(graph, config)
    drive_kept.update(graph, original.config, None, as_node="__copy__")
    copy = drive_kept.get_state(graph, config)

    assert copy.config != original.config
    assert copy.parent_config == original.parent_config
    assert (copy.values, copy.next) == (original.values, original.next)
    assert (copy.metadata or {})["source"] == "fork"


@pytest.mark.rule("update-4")
def test_a_copy_may_be_updated_at_once(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("an updated copy")
    drive_kept.invoke(graph, {}, config)
    before_b = drive_kept.history(graph, config)[1]
    drive_kept.update(graph, before_b.config, [({"words": ["u"]}, "a")], as_node="__copy__")
    state = drive_kept.get_state(graph, config)

    assert (state.values["words"], state.next) == (["a", "u"], ("b",))
    assert [source for source, _ in steps(drive_kept.history(graph, config))[:2]] == ["update", "fork"]


@pytest.mark.rule("update-4")
def test_a_thread_without_a_state_cannot_be_copied(drive_kept: Drive) -> None:
    with pytest.raises(InvalidUpdateError, match=r"^Cannot copy a non-existent checkpoint"):
        drive_kept.update(drive_kept.keeping(chain("a")), thread("nothing to copy"), None, as_node="__copy__")


# --- branches ---------------------------------------------------------------------------------------------------------


@pytest.mark.rule("update-5")
def test_an_update_of_an_old_state_begins_a_branch(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b", "c")), thread("a branch")
    drive_kept.invoke(graph, {}, config)
    history = drive_kept.history(graph, config)
    old = next(each for each in history if each.next == ("b",))
    address = drive_kept.update(graph, old.config, {"words": ["u"]})

    assert drive_kept.get_state(graph, address).parent_config == old.config
    assert drive_kept.invoke(graph, None, address)["words"] == ["a", "u", "b", "c"]
    assert drive_kept.history(graph, config)[-len(history) :] == history


@pytest.mark.rule("update-5")
def test_what_had_finished_at_an_old_state_is_no_part_of_the_branch(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(side_by_side(a="name?", b=None)), thread("no part of the branch")
    drive_kept.invoke(graph, {}, config)
    old = drive_kept.history(graph, config)[0]
    drive_kept.update(graph, old.config, {"words": ["u"]}, as_node=START)

    assert drive_kept.get_state(graph, config).values["words"] == ["u"]


@pytest.mark.rule("update-5")
@pytest.mark.ours_only("there, it is lost, unless the update is the end")
def test_what_has_finished_at_the_latest_state_is_taken_into_an_update(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(side_by_side(ran, a="name?", b=None)), thread("taken into an update")
    drive_kept.invoke(graph, {}, config)
    drive_kept.update(graph, config, {"words": ["u"]}, as_node="a")
    state = drive_kept.get_state(graph, config)

    assert (state.values["words"], state.next) == (["b", "u"], ("end",))
    assert drive_kept.invoke(graph, None, config)["words"] == ["b", "u", "end"]
    assert ran == {"a": 1, "b": 1}


@pytest.mark.rule("update-5")
def test_an_update_of_a_due_task_is_its_result(drive_kept: Drive) -> None:
    graph, config, _ = stopped(drive_kept, "its result", a=None, b=None)
    drive_kept.update(graph, config, {"words": ["u"]}, as_node="b")
    before = next(each for each in drive_kept.history(graph, config) if each.next == ("b",))

    assert [(task.name, task.result) for task in before.tasks] == [("b", {"words": ["u"]})]
    assert drive_kept.get_state(graph, config).next == ()


@pytest.mark.rule("update-5")
@pytest.mark.ours_only("there, it is taken for a fresh thread")
def test_a_state_that_the_thread_does_not_have_cannot_be_updated(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("not in this thread")
    drive_kept.invoke(graph, {}, config)
    drive_kept.invoke(graph, {}, thread("another thread"))
    foreign = drive_kept.get_state(graph, thread("another thread")).config["configurable"]
    config["configurable"] = {**foreign, "thread_id": "not in this thread"}

    with pytest.raises(ValueError, match="has no checkpoint"):
        drive_kept.update(graph, config, {})
