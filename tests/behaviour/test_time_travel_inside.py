"""Going back where graphs are inside of nodes: to states of the outermost, and to those inside."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportTypedDictNotRequiredAccess=false

from typing import Any

import pytest
from tests.behaviour.asking import Ran, asked, identity, in_a_row, resume
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Update, Words

from phalanx.config import RunnableConfig
from phalanx.types import StateSnapshot, interrupt

both_ways = pytest.mark.parametrize(
    "called", [False, pytest.param(True, marks=pytest.mark.kept_by_workers)], ids=["as a node", "called by a node"]
)


def innermost_of(state: StateSnapshot) -> StateSnapshot:
    """The state of the graph that is deepest inside."""
    while state.tasks and isinstance(state.tasks[0].state, StateSnapshot):
        state = state.tasks[0].state
    return state


@pytest.mark.rule("travel-4")
@both_ways
def test_going_back_before_a_graph_runs_all_of_it_again(drive_kept: Drive, called: bool) -> None:
    ran = Ran()
    inner = compiled(in_a_row(ran, x=None, y=None))
    node: Any = (lambda _: {"words": inner.invoke({})["words"]}) if called else inner
    graph, config = drive_kept.keeping(in_a_row(ran, a=node, b=None)), thread(f"all of it again {called}")
    drive_kept.invoke(graph, {"last": "l"}, config)
    old = next(each for each in drive_kept.history(graph, config) if each.next == ("a",))

    assert drive_kept.invoke(graph, None, old.config)["words"] == ["x", "y", "b"]
    assert ran == {"x": 2, "y": 2, "b": 2}


@pytest.mark.rule("travel-4")
@both_ways
def test_going_back_before_a_question_inside_asks_again(drive_kept: Drive, called: bool) -> None:
    ran = Ran()
    inner = compiled(in_a_row(ran, x=None, y="name?"))
    node: Any = (lambda _: {"words": inner.invoke({})["words"]}) if called else inner
    graph, config = drive_kept.keeping(in_a_row(ran, a=node, b=None)), thread(f"asks inside again {called}")
    drive_kept.invoke(graph, {"last": "l"}, config)
    old = drive_kept.get_state(graph, config)
    resume(drive_kept, graph, config, "Ann")

    assert asked(drive_kept.invoke(graph, None, old.config)) == ["name?"]
    assert resume(drive_kept, graph, config, "Bob")["words"] == ["x", "Bob", "b"]
    assert ran == {"x": 2, "y": 4, "b": 2}


@pytest.mark.rule("travel-4")
@both_ways
@pytest.mark.ours_only("there, the first answer counts whatever is answered later")
def test_each_answer_given_to_a_question_inside_at_one_state_counts(drive_kept: Drive, called: bool) -> None:
    ran = Ran()
    inner = compiled(in_a_row(ran, x=None, y="name?", z=None))
    node: Any = (lambda _: {"words": inner.invoke({})["words"]}) if called else inner
    graph, config = drive_kept.keeping(in_a_row(ran, a=node, b=None)), thread(f"each answer inside {called}")
    drive_kept.invoke(graph, {"last": "l"}, config)
    old = drive_kept.get_state(graph, config)

    for name in ("Ann", "Bob", "Cid"):
        assert resume(drive_kept, graph, old.config, name)["words"] == ["x", name, "z", "b"]
    assert drive_kept.get_state(graph, config).values["words"] == ["x", "Cid", "z", "b"]
    assert ran == {"x": 1, "y": 4, "z": 3, "b": 3}


@pytest.mark.rule("travel-5")
@pytest.mark.ours_only("there, the graph inside begins with its first node")
def test_going_back_to_a_state_inside_goes_on_there_and_then_around_it(drive_kept: Drive) -> None:
    ran = Ran()
    inner = compiled(in_a_row(ran, x=None, y="name?", z=None))
    graph, config = drive_kept.keeping(in_a_row(ran, a=inner, b=None)), thread("back inside")
    drive_kept.invoke(graph, {"last": "l"}, config)
    old = innermost_of(drive_kept.get_state(graph, config, subgraphs=True))
    resume(drive_kept, graph, config, "Ann")

    assert asked(drive_kept.invoke(graph, None, old.config)) == ["name?"]
    assert resume(drive_kept, graph, config, "Bob")["words"] == ["x", "Bob", "z", "b"]
    assert ran == {"x": 1, "y": 4, "z": 2, "b": 2}


@pytest.mark.rule("travel-5")
@pytest.mark.ours_only("there, the graph inside begins with its first node")
def test_going_back_to_an_earlier_state_inside_begins_at_its_node(drive_kept: Drive) -> None:
    ran = Ran()
    inner = compiled(in_a_row(ran, x=None, y=None, z="name?"))
    graph, config = drive_kept.keeping(in_a_row(ran, a=inner, b=None)), thread("earlier inside")
    drive_kept.invoke(graph, {"last": "l"}, config)
    where: Any = drive_kept.get_state(graph, config).tasks[0].state
    old = next(each for each in drive_kept.history(graph, where) if each.next == ("y",))
    resume(drive_kept, graph, config, "Ann")
    drive_kept.invoke(graph, None, old.config)

    assert resume(drive_kept, graph, config, "Bob")["words"] == ["x", "y", "Bob", "b"]
    assert (ran["x"], ran["y"]) == (1, 2)


@pytest.mark.rule("travel-5")
@pytest.mark.ours_only("there, the graph inside begins with its first node")
def test_going_back_into_a_graph_in_a_graph_in_a_graph(drive_kept: Drive) -> None:
    ran = Ran()
    innermost = compiled(in_a_row(ran, x=None, y="name?"))
    middle = compiled(in_a_row(ran, l=None, m=innermost, n=None))
    graph, config = drive_kept.keeping(in_a_row(ran, a=middle, b=None)), thread("three deep back")
    drive_kept.invoke(graph, {"last": "l"}, config)
    old = innermost_of(drive_kept.get_state(graph, config, subgraphs=True))
    assert old.next == ("y",)
    resume(drive_kept, graph, config, "Ann")
    assert asked(drive_kept.invoke(graph, None, old.config)) == ["name?"]
    result = resume(drive_kept, graph, config, "Bob")

    assert result["words"][-3:] == ["Bob", "n", "b"]
    assert (ran["l"], ran["x"], ran["n"], ran["b"]) == (1, 1, 2, 2)


@pytest.mark.rule("travel-5")
@pytest.mark.ours_only("there, the graph inside begins with its first node")
def test_an_update_of_a_state_inside_of_the_past_is_gone_on_from(drive_kept: Drive) -> None:
    ran = Ran()
    inner = compiled(in_a_row(ran, x=None, y=None, z="name?"))
    graph, config = drive_kept.keeping(in_a_row(ran, a=inner, b=None)), thread("update inside the past")
    drive_kept.invoke(graph, {"last": "l"}, config)
    where: Any = drive_kept.get_state(graph, config).tasks[0].state
    old = next(each for each in drive_kept.history(graph, where) if each.next == ("y",))
    address = drive_kept.update(graph, old.config, {"words": ["u"]}, as_node="y")

    assert asked(drive_kept.invoke(graph, None, address)) == ["name?"]
    assert resume(drive_kept, graph, config, "Ann")["words"] == ["x", "u", "Ann", "b"]
    assert ran["y"] == 1


def _counts(state: Words) -> Update:
    return {"words": [str(len(state["words"]))]}


@pytest.mark.rule("travel-6")
@pytest.mark.kept_by_workers
def test_a_state_that_lasts_is_as_it_was_at_the_time_that_is_gone_back_to(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x=_counts), checkpointer=True)
    builder = in_a_row(a=None, b=lambda _: {"other": inner.invoke({"last": "l"})["words"]})
    graph, config = drive_kept.keeping(builder), thread(f"lasting and going back {drive_kept.name}")
    drive_kept.invoke(graph, {}, config)
    old = next(each for each in drive_kept.history(graph, config) if each.next == ("b",))
    for _ in range(2):
        drive_kept.invoke(graph, {}, config)
    assert drive_kept.get_state(graph, config).values["other"] == ["0", "1", "2"]

    assert drive_kept.invoke(graph, None, old.config)["other"] == ["0"]
    assert drive_kept.invoke(graph, {}, config)["other"] == ["0", "1"]


@pytest.mark.rule("travel-6")
@pytest.mark.kept_by_workers
def test_later_calls_of_a_run_that_went_back_find_what_its_earlier_calls_left(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x=_counts), checkpointer=True)

    def node(state: Words) -> Update:
        return {"other": inner.invoke({"last": "l"})["words"], "count": 1}

    builder = in_a_row(a=None, b=node)
    builder.add_conditional_edges("b", lambda state: "b" if state["count"] % 2 else "__end__", ["b", "__end__"])
    graph, config = drive_kept.keeping(builder), thread(f"later calls {drive_kept.name}")
    drive_kept.invoke(graph, {}, config)
    first = [each for each in drive_kept.history(graph, config) if each.next == ("b",)][-1]
    drive_kept.invoke(graph, {}, config)
    assert drive_kept.get_state(graph, config).values["other"] == ["0", "1", "2", "3"]

    assert drive_kept.invoke(graph, None, first.config)["other"] == ["0", "1"]


@pytest.mark.rule("travel-6")
@pytest.mark.kept_by_workers
def test_after_an_update_of_the_past_a_state_that_lasts_is_as_it_was_then(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x=_counts), checkpointer=True)
    builder = in_a_row(a=None, b=lambda _: {"other": inner.invoke({"last": "l"})["words"]})
    graph, config = drive_kept.keeping(builder), thread(f"lasting and updating {drive_kept.name}")
    drive_kept.invoke(graph, {}, config)
    old = next(each for each in drive_kept.history(graph, config) if each.next == ("b",))
    drive_kept.invoke(graph, {}, config)
    address: RunnableConfig = drive_kept.update(graph, old.config, {"last": "u"})

    assert drive_kept.invoke(graph, None, address)["other"] == ["0"]
    assert identity(drive_kept.get_state(graph, config)) > identity(old)


@pytest.mark.rule("travel-6")
@pytest.mark.kept_by_workers
@pytest.mark.ours_only("there the graph inside begins from its latest state, and the answer is lost")
def test_a_question_in_a_state_that_lasts_is_answered_anew_from_what_it_was_then(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x=lambda state: {"words": [interrupt(str(len(state["words"])))]}), checkpointer=True)

    def node(_: Words) -> Update:
        return {"other": inner.invoke({"last": "l"})["words"], "count": 1}

    builder = in_a_row(b=node)
    builder.add_conditional_edges("b", lambda state: "b" if state["count"] % 2 else "__end__", ["b", "__end__"])
    graph, config = drive_kept.keeping(builder), thread(f"lasting and answered anew {drive_kept.name}")
    assert asked(drive_kept.invoke(graph, {}, config)) == ["0"]
    old = drive_kept.get_state(graph, config)
    for answer in ("a", "b"):
        resume(drive_kept, graph, config, answer)
    assert drive_kept.get_state(graph, config).values["other"] == ["a", "b"]

    assert asked(resume(drive_kept, graph, old.config, "A")) == ["1"]
    assert resume(drive_kept, graph, config, "B")["other"] == ["A", "B"]
