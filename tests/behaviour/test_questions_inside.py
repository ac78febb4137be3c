"""Questions that are asked in graphs inside of nodes."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportTypedDictNotRequiredAccess=false

import operator
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from tests.behaviour.asking import Ran, asked, asks, ids, in_a_row, resume, side_by_side
from tests.behaviour.drivers import Drive, Graph, compiled, thread
from tests.behaviour.states import Update, Words
from typing_extensions import TypedDict

from phalanx.constants import START
from phalanx.graph import StateGraph
from phalanx.types import Command, RetryPolicy, Send, interrupt


class OnlyWords(TypedDict):
    """What a graph inside returns where several of them run side by side."""

    words: Annotated[list[str], operator.add]


both_ways = pytest.mark.parametrize(
    "called", [False, pytest.param(True, marks=pytest.mark.kept_by_workers)], ids=["as a node", "called by a node"]
)


def calling(*graphs: Graph, ran: Ran | None = None) -> Callable[[Words], Update]:
    """A node that calls graphs one after the other, each with nothing, and adds up their words."""

    def node(_: Words) -> Update:
        if ran is not None:
            ran["calls"] += 1
        return {"words": [word for graph in graphs for word in graph.invoke({"words": []})["words"]]}

    return node


def inside(builder: StateGraph[Words], *, called: bool, **options: Any) -> Any:
    """A graph as a node, or a node that calls it."""
    graph = compiled(builder, **options)
    return calling(graph) if called else graph


@pytest.mark.rule("inside-1")
@both_ways
def test_a_question_inside_is_the_question_of_the_whole_run(drive_kept: Drive, called: bool) -> None:
    ran = Ran()
    inner = inside(in_a_row(ran, x=None, y="name?", z=None), called=called)
    graph, config = drive_kept.keeping(in_a_row(ran, a=inner, b=None)), thread(f"question inside {called}")

    assert asked(drive_kept.invoke(graph, {}, config)) == ["name?"]
    assert resume(drive_kept, graph, config, "Ann")["words"] == ["x", "Ann", "z", "b"]


@pytest.mark.rule("inside-1")
@both_ways
def test_what_finished_inside_is_not_run_again(drive_kept: Drive, called: bool) -> None:
    ran = Ran()
    inner = inside(side_by_side(ran, x=None, y=asks("1?", "2?", ran=ran, name="y"), z=None), called=called)
    graph, config = drive_kept.keeping(in_a_row(ran, a=inner)), thread(f"finished inside {called}")
    drive_kept.invoke(graph, {}, config)
    assert asked(resume(drive_kept, graph, config, "one")) == ["2?"]

    assert resume(drive_kept, graph, config, "two")["words"] == ["x", "one", "two", "z", "end"]
    assert ran == {"x": 1, "y": 3, "z": 1}


@pytest.mark.rule("inside-1")
@both_ways
def test_what_finished_beside_the_graph_is_not_run_again(drive_kept: Drive, called: bool) -> None:
    ran = Ran()
    inner = inside(in_a_row(x="name?"), called=called)
    graph, config = drive_kept.keeping(side_by_side(ran, a=inner, b=None)), thread(f"finished beside a graph {called}")
    first = drive_kept.invoke(graph, {}, config)
    assert (first["words"], asked(first)) == (["b"], ["name?"])

    assert resume(drive_kept, graph, config, "Ann")["words"] == ["Ann", "b", "end"]
    assert ran == {"b": 1}


@pytest.mark.rule("inside-1")
@pytest.mark.kept_by_workers
def test_a_node_that_calls_a_graph_runs_again_from_its_first_line(drive_kept: Drive) -> None:
    ran = Ran()
    node = calling(compiled(in_a_row(ran, x=None, y="name?")), ran=ran)
    graph, config = drive_kept.keeping(in_a_row(a=node)), thread("the caller runs again")
    drive_kept.invoke(graph, {}, config)
    resume(drive_kept, graph, config, "Ann")

    assert ran == {"calls": 2, "x": 1, "y": 2}


@pytest.mark.rule("inside-1")
@both_ways
def test_answers_inside_may_be_addressed(drive_kept: Drive, called: bool) -> None:
    inner = inside(side_by_side(x="1?", y="2?"), called=called)
    graph, config = drive_kept.keeping(side_by_side(a=inner, b="3?")), thread(f"addressed inside {called}")
    known = ids(drive_kept.invoke(graph, {}, config))
    assert sorted(known) == ["1?", "2?", "3?"]
    result = resume(drive_kept, graph, config, {known["2?"]: "two"})
    assert ids(result) == {question: known[question] for question in ("1?", "3?")}

    result = resume(drive_kept, graph, config, {known["1?"]: "one", known["3?"]: "three"})
    assert result["words"] == ["one", "two", "end", "three", "end"]


@pytest.mark.rule("inside-1")
@both_ways
@pytest.mark.ours_only("there, nodes whose question stays open run again")
def test_nodes_inside_whose_question_stays_open_are_not_run_again(drive_kept: Drive, called: bool) -> None:
    ran = Ran()
    inner = inside(side_by_side(ran, x="1?", y="2?"), called=called)
    graph, config = drive_kept.keeping(in_a_row(a=inner)), thread(f"open inside {called}")
    known = ids(drive_kept.invoke(graph, {}, config))
    resume(drive_kept, graph, config, {known["2?"]: "two"})
    resume(drive_kept, graph, config, {known["1?"]: "one"})

    assert ran == {"x": 2, "y": 2}


@pytest.mark.rule("inside-2")
@both_ways
def test_a_graph_in_a_graph_in_a_graph_asks(drive_kept: Drive, called: bool) -> None:
    ran = Ran()
    innermost = inside(in_a_row(ran, x=None, y=asks("1?", "2?")), called=called)
    middle = inside(in_a_row(ran, m=innermost, n="3?"), called=called)
    graph, config = drive_kept.keeping(in_a_row(ran, a=middle, b="4?")), thread(f"three deep {called}")

    assert asked(drive_kept.invoke(graph, {}, config)) == ["1?"]
    for answer, question in [("one", "2?"), ("two", "3?"), ("three", "4?")]:
        assert asked(resume(drive_kept, graph, config, answer)) == [question]
    assert resume(drive_kept, graph, config, "four")["words"] == ["x", "one", "two", "three", "four"]
    assert ran["x"] == 1


@pytest.mark.rule("inside-2")
@pytest.mark.kept_by_workers
def test_a_node_may_call_several_graphs_that_ask(drive_kept: Drive) -> None:
    ran = Ran()
    first, second = compiled(in_a_row(ran, x=None, y="1?")), compiled(in_a_row(ran, z=None, w="2?"))
    graph, config = drive_kept.keeping(in_a_row(a=calling(first, second, ran=ran))), thread("two graphs")

    assert asked(drive_kept.invoke(graph, {}, config)) == ["1?"]
    assert asked(resume(drive_kept, graph, config, "one")) == ["2?"]
    assert resume(drive_kept, graph, config, "two")["words"] == ["x", "one", "z", "two"]
    assert (ran["x"], ran["z"], ran["calls"]) == (1, 1, 3)


@pytest.mark.rule("inside-2")
@pytest.mark.kept_by_workers
def test_a_node_may_call_a_graph_that_asks_several_times(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x=None, y="?"))
    graph, config = drive_kept.keeping(in_a_row(a=calling(inner, inner, inner))), thread("one graph, three times")
    drive_kept.invoke(graph, {}, config)
    resume(drive_kept, graph, config, "one")
    resume(drive_kept, graph, config, "two")

    assert resume(drive_kept, graph, config, "three")["words"] == ["x", "one", "x", "two", "x", "three"]


@pytest.mark.rule("inside-2")
@pytest.mark.kept_by_workers
def test_a_node_may_ask_before_and_after_a_graph_that_asks(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x="inside?"))

    def node(_: Words) -> Update:
        before = interrupt("before?")
        within = inner.invoke({"words": []})["words"]
        return {"words": [before, *within, interrupt("after?")]}

    graph, config = drive_kept.keeping(in_a_row(a=node)), thread("before and after")

    assert asked(drive_kept.invoke(graph, {}, config)) == ["before?"]
    assert asked(resume(drive_kept, graph, config, "1")) == ["inside?"]
    assert asked(resume(drive_kept, graph, config, "2")) == ["after?"]
    assert resume(drive_kept, graph, config, "3")["words"] == ["1", "2", "3"]


@pytest.mark.rule("inside-2")
@both_ways
def test_packets_for_a_graph_that_asks_are_answered_in_one_map(drive_kept: Drive, called: bool) -> None:
    asking = StateGraph(Words, output_schema=OnlyWords)
    asking.add_node("x", lambda state: {"words": [f"{state['last']}: {interrupt(state['last'])}"]})
    asking.add_edge(START, "x")
    inner: Any = compiled(asking)
    builder = StateGraph(Words)
    builder.add_node("work", (lambda packet: inner.invoke(packet)) if called else inner)
    builder.add_conditional_edges(START, lambda _: [Send("work", {"last": letter}) for letter in "cab"], ["work"])
    graph, config = drive_kept.keeping(builder), thread(f"packets for graphs {called}")
    known = ids(drive_kept.invoke(graph, {}, config))
    result = resume(drive_kept, graph, config, {known[letter]: letter.upper() for letter in "abc"})

    assert result["words"] == ["c: C", "a: A", "b: B"]


@pytest.mark.rule("inside-3")
@both_ways
def test_without_a_thread_a_question_inside_stops_the_run(drive: Drive, called: bool) -> None:
    graph = compiled(in_a_row(a=None, b=inside(in_a_row(x="name?"), called=called)))
    result = drive.invoke(graph, {})

    assert (result["words"], asked(result)) == (["a"], ["name?"])


@pytest.mark.rule("inside-3")
@both_ways
def test_a_graph_that_keeps_nothing_asks_and_begins_anew_when_it_is_answered(drive_kept: Drive, called: bool) -> None:
    ran = Ran()
    inner = inside(in_a_row(ran, x=None, y="name?"), called=called, checkpointer=False)
    graph, config = drive_kept.keeping(in_a_row(a=inner)), thread(f"keeps nothing {called}")

    assert asked(drive_kept.invoke(graph, {}, config)) == ["name?"]
    assert resume(drive_kept, graph, config, "Ann")["words"] == ["x", "Ann"]
    assert ran == {"x": 2, "y": 2}


@pytest.mark.rule("inside-3")
@both_ways
def test_a_question_inside_is_no_failure_to_retry(drive_kept: Drive, called: bool) -> None:
    ran = Ran()
    inner = inside(in_a_row(ran, x=None, y="name?"), called=called)
    builder = StateGraph(Words)
    policy = RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=BaseException)  # type: ignore[arg-type]
    builder.add_node("a", inner, retry_policy=policy)
    builder.add_edge(START, "a")
    graph, config = drive_kept.keeping(builder), thread(f"no failure inside {called}")
    drive_kept.invoke(graph, {}, config)

    assert resume(drive_kept, graph, config, "Ann")["words"] == ["x", "Ann"]
    assert ran == {"x": 1, "y": 2}


@pytest.mark.rule("inside-3")
@both_ways
def test_streams_show_a_question_inside_once(drive_kept: Drive, called: bool) -> None:
    inner = inside(in_a_row(x=None, y="name?"), called=called)
    graph, config = drive_kept.keeping(in_a_row(a=inner, b=None)), thread(f"streamed inside {called}")
    streamed = drive_kept.stream(graph, {}, config, stream_mode="updates")

    assert [[question.value for question in item["__interrupt__"]] for item in streamed] == [["name?"]]
    assert drive_kept.stream(graph, Command(resume="Ann"), config, stream_mode="updates")[-1] == {"b": {"words": ["b"]}}


@pytest.mark.rule("inside-3")
@both_ways
def test_a_failure_inside_after_an_answer_is_gone_on_from(drive_kept: Drive, called: bool) -> None:
    ran = Ran()

    def fails(_: Words) -> Update:
        ran["fails"] += 1
        if ran["fails"] == 1:
            raise ValueError("not yet")
        return {"words": ["z"]}

    inner = inside(in_a_row(ran, x="name?", y=None, z=fails), called=called)
    graph, config = drive_kept.keeping(in_a_row(a=inner, b=None)), thread(f"fails inside {called}")
    drive_kept.invoke(graph, {}, config)
    with pytest.raises(ValueError, match="not yet"):
        resume(drive_kept, graph, config, "Ann")

    assert drive_kept.invoke(graph, None, config)["words"] == ["Ann", "y", "z", "b"]
    assert ran == {"x": 2, "y": 1, "fails": 2}
