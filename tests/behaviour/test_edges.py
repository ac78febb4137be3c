"""Edges, joins, loops, deferred nodes, the recursion limit."""

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Update, Words, chain, fan_out, says

from phalanx.constants import END, START
from phalanx.errors import GraphRecursionError
from phalanx.graph import StateGraph


@pytest.mark.rule("edge-1")
def test_a_chain_runs_in_order(drive: Drive) -> None:
    assert drive.invoke(compiled(chain("a", "b", "c")), {"words": ["x"]})["words"] == ["x", "a", "b", "c"]


@pytest.mark.rule("edge-1")
def test_nodes_after_the_same_node_run_in_the_same_step(drive: Drive) -> None:
    builder = chain("a")
    for name in ("b", "c"):
        builder.add_node(name, says(name))
        builder.add_edge("a", name)

    values = drive.stream(compiled(builder), {}, stream_mode="values")

    assert [each["words"] for each in values] == [["a"], ["a", "b", "c"]]


@pytest.mark.rule("edge-1")
def test_two_plain_edges_into_a_node_run_it_once_a_step_that_they_come_from(drive: Drive) -> None:
    """``d`` follows ``b`` and ``c``, which run in one step, and ``e``, which runs in the next."""
    builder = fan_out("b", "c")
    builder.add_node("e", says("e"))
    builder.add_node("d", says("d"))
    builder.add_edge("c", "e")
    for name in ("b", "c", "e"):
        builder.add_edge(name, "d")

    assert drive.invoke(compiled(builder), {})["words"] == ["b", "c", "d", "e", "d"]


@pytest.mark.rule("join-1")
def test_a_join_runs_once_after_all_its_sources_in_whichever_steps_they_ran(drive: Drive) -> None:
    builder = chain("a1", "a2", "a3")
    builder.add_node("b", says("b"))
    builder.add_edge(START, "b")
    builder.add_node("join", says("join"))
    builder.add_edge(["a3", "b"], "join")

    assert drive.invoke(compiled(builder), {})["words"] == ["a1", "b", "a2", "a3", "join"]


@pytest.mark.rule("join-1")
def test_a_join_whose_sources_do_not_all_run_does_not_run(drive: Drive) -> None:
    builder = fan_out("a")
    builder.add_node("never", says("never"))
    builder.add_node("join", says("join"))
    builder.add_edge(["a", "never"], "join")

    assert drive.invoke(compiled(builder), {})["words"] == ["a"]


@pytest.mark.rule("join-1")
def test_a_join_starts_over_after_it_ran(drive: Drive) -> None:
    def round_is_over(state: Words) -> str | list[str]:
        return ["a", "b"] if state["words"].count("join") < 3 else END

    builder = fan_out("a", "b")
    builder.add_node("join", says("join"))
    builder.add_edge(["a", "b"], "join")
    builder.add_conditional_edges("join", round_is_over)

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "b", "join"] * 3


def test_a_deferred_node_runs_once_when_nothing_else_is_left(drive: Drive) -> None:
    builder = chain("a1", "a2", "a3")
    builder.add_node("b", says("b"))
    builder.add_edge(START, "b")
    builder.add_node("last", says("last"), defer=True)
    builder.add_edge("b", "last")
    builder.add_edge("a1", "last")
    builder.add_edge("a3", "last")

    assert drive.invoke(compiled(builder), {})["words"] == ["a1", "b", "a2", "a3", "last"]


@pytest.mark.rule("defer-1")
def test_what_follows_a_deferred_node_runs_after_it(drive: Drive) -> None:
    builder = chain("a", "b")
    builder.add_node("later", says("later"), defer=True)
    builder.add_node("end", says("end"))
    builder.add_edge("a", "later")
    builder.add_edge("later", "end")

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "b", "later", "end"]


# --- loops ------------------------------------------------------------------------------------------------------------


def counting(limit: int) -> StateGraph[Words]:
    """A loop of ``work`` and ``check`` that is left after ``limit`` rounds."""

    def work(state: Words) -> Update:
        return {"count": 1, "words": [f"w{state['count']}"]}

    def more(state: Words) -> str:
        return "work" if state["count"] < limit else END

    builder = StateGraph(Words)
    builder.add_node("work", work)
    builder.add_node("check", says())
    builder.add_edge(START, "work")
    builder.add_edge("work", "check")
    builder.add_conditional_edges("check", more)
    return builder


@pytest.mark.rule("edge-1")
def test_a_loop_runs_until_its_path_leaves_it(drive: Drive) -> None:
    assert drive.invoke(compiled(counting(4)), {}) == {"words": ["w0", "w1", "w2", "w3"], "count": 4}


@pytest.mark.rule("limit-1")
def test_k_steps_of_nodes_need_a_recursion_limit_of_k_plus_one(drive: Drive) -> None:
    graph = compiled(chain("a", "b", "c"))

    assert drive.invoke(graph, {}, {"recursion_limit": 4})["words"] == ["a", "b", "c"]
    with pytest.raises(GraphRecursionError, match=r"^Recursion limit of 3 reached without hitting a stop condition"):
        drive.invoke(graph, {}, {"recursion_limit": 3})


@pytest.mark.rule("limit-1")
def test_a_recursion_error_is_a_python_recursion_error(drive: Drive) -> None:
    with pytest.raises(RecursionError):
        drive.invoke(compiled(counting(99)), {}, {"recursion_limit": 5})


@pytest.mark.rule("limit-1")
def test_a_run_that_reached_its_limit_goes_on_with_a_new_limit(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(counting(4)), thread("limits", recursion_limit=3)
    with pytest.raises(GraphRecursionError):
        drive_kept.invoke(graph, {}, config)

    assert drive_kept.get_state(graph, config).next == ("check",)
    assert drive_kept.invoke(graph, None, {**config, "recursion_limit": 20})["count"] == 4


@pytest.mark.rule("limit-1")
@pytest.mark.parametrize("limit", [0, -1])
def test_a_recursion_limit_below_one_is_refused(drive: Drive, limit: int) -> None:
    with pytest.raises(ValueError, match="recursion_limit must be at least 1"):
        drive.invoke(compiled(chain("a")), {}, {"recursion_limit": limit})
