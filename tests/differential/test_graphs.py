"""Random graphs on this library and on the installed ``langgraph``: the same streams, states, errors and executions.

``PHALANX_DIFFERENTIAL_EXAMPLES`` sets how many graphs are tried.
"""

# pyright: reportMissingTypeStubs=false

import os
from typing import Any, Final

from hypothesis import HealthCheck, given, settings

from tests.differential.random_graphs import Built, GraphPlan, Shown, graph_plans

EXAMPLES: Final = int(os.environ.get("PHALANX_DIFFERENTIAL_EXAMPLES", "300"))


def assert_same_error(mine: tuple[str, str] | None, theirs: tuple[str, str] | None) -> None:
    """The same kind; our text begins with the first sentence of theirs and may say more."""
    if mine is None or theirs is None:
        assert mine == theirs
        return
    assert mine[0] == theirs[0], f"{mine} instead of {theirs}"
    assert mine[1].startswith(theirs[1].split(". ")[0].rstrip(".")), f"{mine} instead of {theirs}"


def without_last_step(shown: Shown) -> list[tuple[int, str, str]]:
    """What ran in steps that came to their end; which siblings of a failed task still ran is a matter of timing."""
    last = max((step for step, _, _ in shown.executed), default=0)
    return [each for each in shown.executed if each[0] < last]


def assert_same(mine: Shown, theirs: Shown) -> None:
    assert_same_error(mine.error, theirs.error)
    assert mine.values == theirs.values
    if mine.error is not None and mine.error[0] == "ValueError":
        assert mine.updates[:-1] == theirs.updates[:-1]
        assert without_last_step(mine) == without_last_step(theirs)
        return
    assert mine.updates == theirs.updates
    assert mine.executed == theirs.executed
    if theirs.state is not None:
        assert mine.state == theirs.state
    assert mine.history == theirs.history


def assert_same_behaviour(plan: GraphPlan) -> None:
    """Run a graph both ways: alone, and on a thread over several turns, going on after a failure."""
    alone: list[Any] = [Built(library, plan, keep=False).invoke(plan.inputs[0]) for library in ("phalanx", "langgraph")]
    if isinstance(alone[1], tuple):
        assert_same_error(alone[0], alone[1])
    else:
        assert alone[0] == alone[1]

    mine, theirs = Built("phalanx", plan, keep=True), Built("langgraph", plan, keep=True)
    for place, data in enumerate(plan.inputs):
        first = mine.run(data)
        assert_same(first, theirs.run(data))
        if first.error is not None and first.error[0] == "ValueError":  # goes on where it stopped
            again, their_again = mine.run(None), theirs.run(None)
            assert again.values == their_again.values
            assert_same_error(again.error, their_again.error)
            if their_again.state is not None:
                assert again.state == their_again.state
        elif place == len(plan.inputs) - 1:
            assert_same(mine.run(None, history=True), theirs.run(None, history=True))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=graph_plans())
def test_any_graph_behaves_as_on_langgraph(plan: GraphPlan) -> None:
    assert_same_behaviour(plan)
