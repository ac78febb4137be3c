"""What random threads have found, made small: the same on both libraries, or different on purpose."""

from dataclasses import replace

import pytest
from tests.differential.states import LIBRARIES
from tests.differential.threads_comparing import difference
from tests.differential.threads_plans import Act, Change, Graph, Node, Thread
from tests.differential.threads_running import Done, Running

ASKS = Node(("ask",))
ASKS_TWICE = Node(("ask", "ask"))
SAYS = Node()
LOG = (("log", 1),)
END = Change("end", None)


def update(*changes: Change, at: int | None = None) -> Act:
    return Act("update", changes=(changes,), at=at)


SAME = {
    "a question before anything was shown": Thread(Graph((ASKS,)), (Act(),)),
    "the end of a fresh thread": Thread(Graph((SAYS,)), (update(END),)),
    "an update of a graph of one node that has not run": Thread(Graph((ASKS,)), (Act(), update(Change("none", LOG)))),
    "an update of nothing": Thread(Graph((ASKS,)), (Act(), update(Change(0, None)))),
    "an input of nothing": Thread(Graph((SAYS,)), (update(Change("input", None)),)),
    "an update of an older state": Thread(
        Graph((ASKS,)), (Act(), Act("nothing", at=0), update(Change(0, (("value", 1),)), at=1))
    ),
    "a run from the latest state by its id": Thread(Graph((ASKS,)), (Act(), Act("nothing", at=0, way="stream"))),
    "a command at an older state": Thread(Graph((SAYS,)), (Act(), Act("command", LOG, (0,), at=1), update(Change(0)))),
    "an answer that nobody in the first step takes": Thread(
        Graph((SAYS, ASKS), edges=((0, 1),), before=(0,)), (Act(), Act("answer", way="stream"))
    ),
    "a breakpoint inside beside another node": Thread(
        Graph((Node(inner=Graph((SAYS,), after=(-1,))), SAYS), entries=(0, 1)), (Act(way="deep"),)
    ),
    "a question inside beside another node": Thread(
        Graph((Node(inner=Graph((ASKS, SAYS), entries=(0, 1))),)), (Act(way="deep"), Act("answer", way="deep"))
    ),
}


@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in SAME.items()])
def test_the_same(plan: Thread) -> None:
    assert difference(plan) is None


def test_difference_an_answer_without_an_id_is_given_once() -> None:
    plan = Thread(Graph((ASKS_TWICE,)), (Act(), Act("answer"), Act("nothing")))
    mine, theirs = last_of_both(plan)

    assert (len(mine.looked.questions), len(theirs.looked.questions)) == (1, 0)


def test_difference_a_question_that_was_answered_before_its_node_failed_is_not_pending() -> None:
    mine, theirs = last_of_both(Thread(Graph((Node(("ask", "fail")),)), (Act(), Act("answers"))))

    assert mine.error == theirs.error
    assert (len(mine.looked.questions), len(theirs.looked.questions)) == (0, 1)


def test_difference_a_graph_whose_state_lasts_begins_when_a_run_goes_on_to_it() -> None:
    lasting = Node(inner=Graph((SAYS,), kept="lasting"))
    turn = (Act(values=(("value", 3),)), Act("nothing"))
    mine, theirs = last_of_both(Thread(Graph((lasting,), before=(0,)), turn * 2))

    assert (len(mine.ran), len(theirs.ran)) == (1, 0)


def test_difference_an_answer_to_one_question_of_the_past_leaves_finished_tasks_alone() -> None:
    graph = Graph((ASKS, SAYS), entries=(0, 1))
    acts = (Act(), Act(values=LOG), Act("answer", at=2))
    mine, theirs = last_of_both(Thread(graph, acts))

    assert (len(mine.ran), len(theirs.ran)) == (1, 2)


def test_difference_an_update_takes_what_a_command_has_written() -> None:
    command = replace(Act("command"), values=LOG)
    mine, theirs = last_of_both(Thread(Graph((SAYS,)), (Act(), command, update(Change(0, (("value", 1),))))))

    assert "input 1.1" in mine.looked.state["values"]
    assert "input 1.1" not in theirs.looked.state["values"]


def test_difference_a_state_that_lasts_is_not_kept_inside_of_a_graph_that_keeps_nothing() -> None:
    lasting = Graph((SAYS,), kept="lasting")
    plan = Thread(Graph((Node(inner=Graph((Node(inner=lasting),), kept="none")),)), (Act(), Act(values=LOG)))
    mine, theirs = last_of_both(plan)

    assert mine.ran[0] != theirs.ran[0]


def last_of_both(plan: Thread) -> list[Done]:
    """What the last act shows on both threads."""
    return [[running.act(number, act) for number, act in enumerate(plan.acts)][-1] for running in both(plan)]


def both(plan: Thread) -> list[Running]:
    return [Running(name, plan) for name in LIBRARIES]
