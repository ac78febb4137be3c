"""What random graphs have found, made small: the same on both libraries, or different on purpose."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.differential.bare_graphs import BareNode, BarePlan, Entry
from tests.differential.comparing import check_same_behaviour
from tests.differential.plans import Answer, BranchPlan, Failure, GraphPlan, NodePlan, Target, Turn
from tests.differential.running import AnyPlan, Running, Shown
from tests.differential.states import LIBRARIES, LibraryName, library
from typing_extensions import TypedDict


class Answered(TypedDict):
    value: str


COMMAND = Turn((("value", 5),), as_command=True)
FAILS = Failure()


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.mark.parametrize("turns", [(COMMAND, Turn((("log", ["x"]),))), (replace(COMMAND, gotos=(Target("node"),)),)])
def test_the_update_of_a_command_is_in_every_later_checkpoint(turns: tuple[Turn, ...]) -> None:
    check_same_behaviour(GraphPlan((NodePlan(),), turns=(Turn((("value", 6),)), *turns)))


def test_the_history_shows_what_a_command_that_was_given_on_a_checkpoint_updates() -> None:
    turns = (Turn((("value", 6),)), replace(COMMAND, gotos=(Target("send"),)))
    mine, theirs = (after(name, GraphPlan((NodePlan(),), turns=turns)) for name in LIBRARIES)

    assert [each["values"] for each in mine.history or ()] == [each["values"] for each in theirs.history or ()]
    assert [each["next"] for each in mine.history or ()][:2] == [(), ("a",)]
    assert [each["next"] for each in theirs.history or ()][:2] == [(), ()], "where it leads, theirs does not show"


def test_a_default_error_handler_is_given_what_the_node_was_given() -> None:
    node = NodePlan(Answer(failure=FAILS), narrow=True)
    check_same_behaviour(GraphPlan((node,), default_handler=Answer(("log",))))


def test_difference_an_error_handler_that_finished_is_not_run_again() -> None:
    # The writes of two tasks contradict each other, so that the step fails after the handler has finished.
    failing = NodePlan(Answer(failure=FAILS), handler=Answer(("value",)))
    packets = NodePlan(Answer(form="command", gotos=(Target("send", 1), Target("send", 1))))
    plan = GraphPlan((packets, failing))
    mine, theirs = (after(name, plan, again=True) for name in LIBRARIES)

    assert mine.error is not None
    assert theirs.error is not None
    assert (len(mine.executed), len(theirs.executed)) == (0, 2)


def test_difference_a_failing_step_shows_what_its_tasks_wrote() -> None:
    node = NodePlan(Answer(("value",)))
    plan = GraphPlan(
        (node, node), turns=(Turn((("value", "wrong"),)),), entries=(0,), edges=((0, 1),), state="pydantic"
    )
    mine, theirs = (after(name, plan) for name in LIBRARIES)

    assert mine.error == theirs.error
    assert (len(mine.values), len(theirs.values)) == (1, 0)


def test_difference_what_a_node_wrote_whose_path_failed_is_not_kept_beside_its_handler_s_writes() -> None:
    # The path is to read the state with the node's write in it, which the state's class refuses.
    nodes = (NodePlan(), NodePlan(Answer(("bad",)), handler=Answer(("log",))))
    branch = BranchPlan(1, late=(Target("node"),))
    plan = GraphPlan(nodes, entries=(1,), branches=(branch,), state="pydantic")
    mine, theirs = (after(name, plan) for name in LIBRARIES)

    assert mine.error is None
    assert theirs.error is None
    assert mine.values == [{"log": ["b0"], "count": 0}]
    assert theirs.values == [{"value": "b's", "log": ["b0"], "count": 0}]


@pytest.mark.parametrize("coroutine", [False, True])
def test_difference_coroutine_nodes_of_one_name_in_two_graphs_do_not_share_what_a_cache_remembers(
    coroutine: bool, loop: asyncio.Runner
) -> None:
    mine, theirs = (answers_with_one_cache(name, coroutine, loop) for name in LIBRARIES)

    assert mine == ["first", "second"]
    assert theirs == (["first", "first"] if coroutine else mine)


def test_difference_of_the_errors_of_two_graphs_in_one_step_it_is_not_luck_which_is_raised() -> None:
    # One of the tasks, the packet's, is given what its graph can take, and goes round; the other is not.
    round_and_round = GraphPlan((NodePlan(),), edges=((0, 0),), keep=False)
    packet = NodePlan(Answer(form="command", gotos=(Target("send"),)))
    plan = GraphPlan((NodePlan(inner=round_and_round), packet), entries=(1,), edges=((1, 0),), state="root")

    mine, theirs = ({name_of_error(after(name, plan)) for _ in range(5)} for name in LIBRARIES)

    assert mine == {"InvalidUpdateError"}
    assert theirs <= {"InvalidUpdateError", "GraphRecursionError"}
    check_same_behaviour(plan)


def test_difference_a_dict_of_one_channel_is_not_confused_with_its_bare_value() -> None:
    plan = BarePlan((BareNode(("x",)), BareNode(("x",), alone=False)))
    mine, theirs = (after(name, plan) for name in LIBRARIES)

    assert mine.executed == [(0, "n0", "'in'"), (0, "n1", "{'x': 'in'}")]
    assert theirs.executed == [(0, "n0", "'in'"), (0, "n1", "'in'")]


def test_difference_a_node_of_a_channel_that_nobody_wrote_is_not_shown_as_due() -> None:
    plan = BarePlan((BareNode(("x",), entries=(Entry("y"),)), BareNode(("log",))))
    mine, theirs = (after(name, plan) for name in LIBRARIES)

    assert (state(mine)["next"], state(theirs)["next"]) == ((), ("n1",))


def answers_with_one_cache(name: LibraryName, coroutine: bool, loop: asyncio.Runner) -> list[str]:
    """What two graphs come to that share a cache, each of one node, of the same name but another function."""
    parts = library(name)

    def first(state: Any) -> dict[str, str]:
        return {"value": "first"}

    def second(state: Any) -> dict[str, str]:
        return {"value": "second"}

    async def afirst(state: Any) -> dict[str, str]:
        return first(state)

    async def asecond(state: Any) -> dict[str, str]:
        return second(state)

    cache, answers = parts.cache(), list[str]()
    for action in (afirst, asecond) if coroutine else (first, second):
        builder = parts.graph.StateGraph(Answered)
        builder.add_node("a", action, cache_policy=parts.types.CachePolicy())
        builder.add_edge(parts.graph.START, "a")
        answers.append(loop.run(builder.compile(cache=cache).ainvoke({"value": "given"}))["value"])
    return answers


def after(name: Any, plan: AnyPlan, *, again: bool = False) -> Shown:
    """What the last run of a graph shows, or one that goes on after it."""
    running = Running(name, plan)
    shown = [running.turn(turn) for turn in plan.turns][-1]
    if again:
        shown = running.go_on()
    shown.history = running.history()
    return shown


def name_of_error(shown: Shown) -> str:
    return shown.error[0] if shown.error else ""


def state(shown: Shown) -> dict[str, Any]:
    found: dict[str, Any] = shown.state
    return found
