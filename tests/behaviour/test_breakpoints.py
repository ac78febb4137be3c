"""Nodes before and after which a run stops, to be gone on with by another."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportTypedDictNotRequiredAccess=false

from typing import Any

import pytest
from tests.behaviour.asking import Ran, asked, in_a_row, resume, side_by_side
from tests.behaviour.drivers import Drive, compiled, thread

from phalanx.types import Command

both_times = pytest.mark.parametrize("at_compile", [True, False], ids=["at compile", "at a call"])


def words(result: Any) -> list[str]:
    """The words of a result, which may have none."""
    return [] if result is None else result.get("words", [])


@pytest.mark.rule("break-1")
@both_times
def test_a_run_stops_before_a_node_and_goes_on_with_it(drive_kept: Drive, at_compile: bool) -> None:
    options: dict[str, Any] = {"interrupt_before": ["b"]}
    graph = drive_kept.keeping(in_a_row(a=None, b=None, c=None), **(options if at_compile else {}))
    config, more = thread(f"before {at_compile}"), {} if at_compile else options
    first = drive_kept.invoke(graph, {}, config, **more)

    assert first == {"words": ["a"], "count": 0}
    assert drive_kept.get_state(graph, config).next == ("b",)
    assert drive_kept.invoke(graph, None, config, **more) == {"words": ["a", "b", "c"], "count": 0}


@pytest.mark.rule("break-1")
@both_times
def test_a_run_stops_after_a_node_and_goes_on_behind_it(drive_kept: Drive, at_compile: bool) -> None:
    options: dict[str, Any] = {"interrupt_after": ["b"]}
    graph = drive_kept.keeping(in_a_row(a=None, b=None, c=None), **(options if at_compile else {}))
    config, more = thread(f"after {at_compile}"), {} if at_compile else options

    assert drive_kept.invoke(graph, {}, config, **more)["words"] == ["a", "b"]
    assert drive_kept.get_state(graph, config).next == ("c",)
    assert drive_kept.invoke(graph, None, config, **more)["words"] == ["a", "b", "c"]


@pytest.mark.rule("break-1")
def test_a_stop_is_no_question(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=None), interrupt_before=["b"]), thread("no question")
    result = drive_kept.invoke(graph, {}, config)
    state = drive_kept.get_state(graph, config)

    assert "__interrupt__" not in result
    assert state.interrupts == ()
    assert [task.interrupts for task in state.tasks] == [()]


@pytest.mark.rule("break-1")
@pytest.mark.parametrize("which", ["interrupt_before", "interrupt_after"])
def test_a_star_stops_at_every_node(drive_kept: Drive, which: str) -> None:
    options: dict[str, Any] = {which: "*"}
    graph, config = drive_kept.keeping(in_a_row(a=None, b=None, c=None), **options), thread(f"every node {which}")
    given: Any = {"last": "x"}
    seen: list[list[str]] = []
    for _ in range(3):
        seen.append(drive_kept.invoke(graph, given, config)["words"])
        given = None

    begin = 0 if which == "interrupt_before" else 1
    assert seen == [[*"abc"][:count] for count in range(begin, begin + 3)]
    assert drive_kept.invoke(graph, None, config)["words"] == ["a", "b", "c"]
    assert drive_kept.get_state(graph, config).next == ()


@pytest.mark.rule("break-1")
def test_a_call_s_breakpoints_replace_the_graph_s(drive_kept: Drive) -> None:
    graph = drive_kept.keeping(in_a_row(a=None, b=None, c=None), interrupt_before=["b"])
    config = thread("replaced breakpoints")

    assert drive_kept.invoke(graph, {}, config, interrupt_before=["c"])["words"] == ["a", "b"]
    assert drive_kept.invoke(graph, None, config, interrupt_before=[])["words"] == ["a", "b", "c"]


@pytest.mark.rule("break-1")
def test_a_stop_before_one_of_several_nodes_stops_them_all(drive_kept: Drive) -> None:
    ran = Ran()
    graph = drive_kept.keeping(side_by_side(ran, a=None, b=None), interrupt_before=["a"])
    config = thread("stops them all")
    drive_kept.invoke(graph, {}, config)
    assert not ran

    assert drive_kept.invoke(graph, None, config)["words"] == ["a", "b", "end"]


@pytest.mark.rule("break-2")
def test_a_stop_does_not_stop_what_goes_on_from_it(drive_kept: Drive) -> None:
    """Even if the node fails, so that another run has to go on."""
    failing = [True]

    def node(_: object) -> dict[str, Any]:
        if failing:
            raise ValueError("not yet")
        return {"words": ["b"]}

    graph, config = drive_kept.keeping(in_a_row(a=None, b=node), interrupt_before=["b"]), thread("stops once")
    drive_kept.invoke(graph, {}, config)
    with pytest.raises(ValueError, match="not yet"):
        drive_kept.invoke(graph, None, config)
    failing.clear()

    assert drive_kept.invoke(graph, None, config)["words"] == ["a", "b"]


@pytest.mark.rule("break-2")
def test_a_stop_before_and_one_after_the_same_place_both_count(drive_kept: Drive) -> None:
    graph = drive_kept.keeping(in_a_row(a=None, b=None), interrupt_before=["b"], interrupt_after=["a"])
    config = thread("both count")

    assert drive_kept.invoke(graph, {}, config)["words"] == ["a"]
    assert drive_kept.invoke(graph, None, config)["words"] == ["a", "b"]


@pytest.mark.rule("break-2")
def test_a_new_turn_stops_again(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=None), interrupt_before=["b"]), thread("stops again")
    drive_kept.invoke(graph, {}, config)
    drive_kept.invoke(graph, None, config)

    assert drive_kept.invoke(graph, {"words": ["x"]}, config)["words"] == ["a", "b", "x", "a"]
    assert drive_kept.get_state(graph, config).next == ("b",)


@pytest.mark.rule("break-2")
def test_an_update_before_going_on_stops_again(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=None, c=None), interrupt_before=["b"]), thread("updated")
    drive_kept.invoke(graph, {}, config)
    drive_kept.update(graph, config, {"words": ["u"]})

    assert words(drive_kept.invoke(graph, None, config)) == ["a", "u", "b", "c"]


@pytest.mark.rule("break-2")
def test_what_a_stop_left_is_gone_on_with_by_an_answer_too(drive_kept: Drive) -> None:
    graph, config = (
        drive_kept.keeping(in_a_row(a=None, b="name?"), interrupt_before=["b"]),
        thread("an answer after a stop"),
    )
    drive_kept.invoke(graph, {}, config)

    assert resume(drive_kept, graph, config, "Ann")["words"] == ["a", "Ann"]


@pytest.mark.rule("break-2")
def test_what_a_run_has_seen_when_it_goes_on_is_kept_in_the_thread(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=None), interrupt_before=["b"]), thread("versions seen")
    drive_kept.invoke(graph, {}, config)
    drive_kept.invoke(graph, None, config)

    assert [each.next for each in drive_kept.history(graph, config)] == [(), ("b",), ("a",), ("__start__",)]


@pytest.mark.rule("break-3")
def test_streams_tell_of_a_stop(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=None), interrupt_before=["b"]), thread("streamed stop")

    assert drive_kept.stream(graph, {}, config, stream_mode="updates") == [
        {"a": {"words": ["a"]}},
        {"__interrupt__": ()},
    ]
    assert drive_kept.stream(graph, None, config, stream_mode="values") == [
        {"words": ["a"], "count": 0},
        {"words": ["a", "b"], "count": 0},
    ]


@pytest.mark.rule("break-3")
def test_streams_tell_of_a_stop_after_a_node(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=None), interrupt_after=["a"]), thread("streamed stop after")

    assert drive_kept.stream(graph, {}, config, stream_mode=["updates", "values"])[-1] == (
        "updates",
        {"__interrupt__": ()},
    )


@pytest.mark.rule("break-4")
@pytest.mark.ours_only("there, a name that is no node never stops anything")
@pytest.mark.parametrize("which", ["interrupt_before", "interrupt_after"])
def test_a_breakpoint_at_nobody_is_refused_at_a_call_too(drive_kept: Drive, which: str) -> None:
    options: dict[str, Any] = {which: ["a", "nobody"]}
    with pytest.raises(ValueError, match="nobody"):
        drive_kept.invoke(drive_kept.keeping(in_a_row(a=None)), {}, thread("at nobody"), **options)


@pytest.mark.rule("break-4")
def test_a_run_without_a_thread_stops_too(drive: Drive) -> None:
    assert drive.invoke(compiled(in_a_row(a=None, b=None)), {}, interrupt_before=["b"])["words"] == ["a"]


@pytest.mark.rule("break-5")
@pytest.mark.parametrize("which", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize(
    "called", [False, pytest.param(True, marks=pytest.mark.kept_by_workers)], ids=["as a node", "called by a node"]
)
def test_a_stop_inside_a_graph_stops_the_whole_run(drive_kept: Drive, which: str, called: bool) -> None:
    ran = Ran()
    options: dict[str, Any] = {which: ["x" if which == "interrupt_after" else "y"]}
    inner = compiled(in_a_row(ran, x=None, y=None), **options)
    node: Any = (lambda _: inner.invoke({})) if called else inner
    graph, config = drive_kept.keeping(in_a_row(ran, a=node, b=None)), thread(f"stop inside {which} {called}")
    drive_kept.invoke(graph, {}, config)
    assert ran == {"x": 1}
    assert drive_kept.get_state(graph, config).next == ("a",)

    assert drive_kept.invoke(graph, None, config)["words"] == ["x", "y", "b"]
    assert ran == {"x": 1, "y": 1, "b": 1}


@pytest.mark.rule("break-5")
def test_a_stop_two_graphs_deep_stops_the_whole_run(drive_kept: Drive) -> None:
    innermost = compiled(in_a_row(x=None, y=None), interrupt_before=["y"])
    middle = compiled(in_a_row(m=innermost, n=None), interrupt_after=["m"])
    graph, config = drive_kept.keeping(in_a_row(a=middle, b=None)), thread("stop two deep")
    drive_kept.invoke(graph, {}, config)
    drive_kept.invoke(graph, None, config)
    assert drive_kept.get_state(graph, config, subgraphs=True).tasks[0].state.next == ("n",)  # type: ignore[union-attr]

    assert drive_kept.invoke(graph, None, config)["words"] == ["x", "y", "n", "b"]


@pytest.mark.rule("break-5")
def test_a_stop_and_a_question_side_by_side_both_count(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x=None, y=None), interrupt_before=["y"])
    graph, config = drive_kept.keeping(side_by_side(a=inner, b="name?")), thread("stop and question")
    assert asked(drive_kept.invoke(graph, {}, config)) == ["name?"]

    assert drive_kept.invoke(graph, Command(resume="Ann"), config)["words"] == ["x", "y", "Ann", "end"]
