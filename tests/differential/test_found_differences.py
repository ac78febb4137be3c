"""What random graphs have found, made small: the same on both libraries, or different on purpose."""

from dataclasses import replace
from typing import Any

import pytest
from tests.differential.bare_graphs import BareNode, BarePlan, Entry
from tests.differential.comparing import check_same_behaviour
from tests.differential.plans import Answer, Failure, GraphPlan, NodePlan, Target, Turn
from tests.differential.running import AnyPlan, Running, Shown
from tests.differential.states import LIBRARIES

COMMAND = Turn((("value", 5),), as_command=True)
FAILS = Failure()


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


def test_difference_a_dict_of_one_channel_is_not_confused_with_its_bare_value() -> None:
    plan = BarePlan((BareNode(("x",)), BareNode(("x",), alone=False)))
    mine, theirs = (after(name, plan) for name in LIBRARIES)

    assert mine.executed == [(0, "n0", "'in'"), (0, "n1", "{'x': 'in'}")]
    assert theirs.executed == [(0, "n0", "'in'"), (0, "n1", "'in'")]


def test_difference_a_node_of_a_channel_that_nobody_wrote_is_not_shown_as_due() -> None:
    plan = BarePlan((BareNode(("x",), entries=(Entry("y"),)), BareNode(("log",))))
    mine, theirs = (after(name, plan) for name in LIBRARIES)

    assert (state(mine)["next"], state(theirs)["next"]) == ((), ("n1",))


def after(name: Any, plan: AnyPlan, *, again: bool = False) -> Shown:
    """What the last run of a graph shows, or one that goes on after it."""
    running = Running(name, plan)
    shown = [running.turn(turn) for turn in plan.turns][-1]
    if again:
        shown = running.go_on()
    shown.history = running.history()
    return shown


def state(shown: Shown) -> dict[str, Any]:
    found: dict[str, Any] = shown.state
    return found
