"""The life of one run: facts in, orders out."""

import pytest
from tests.unit.blueprints import START, content, graph, node
from tests.unit.driven import Driven, chain, driven, fan_out

from phalanx.coordinator.messages import (
    Abandon,
    Commit,
    Dispatch,
    Emit,
    Fail,
    Finish,
    SaveWrites,
    TaskFinished,
)
from phalanx.coordinator.run import Run
from phalanx.coordinator.terms import NOTHING_PENDING
from phalanx.errors import EmptyInputError, GraphRecursionError, InvalidUpdateError
from phalanx.protocol.names import ERROR, NO_WRITES, TASKS
from phalanx.types import Send

# --- its life ---------------------------------------------------------------------------------------------------------


def test_a_run_commits_its_input_then_each_superstep_and_finishes_when_nothing_is_left() -> None:
    run = chain(2)

    run.start({"value": "in"})
    run.to_its_end()

    kinds = [type(order).__name__ for order in run.orders if not isinstance(order, SaveWrites)]
    assert kinds == ["Commit", "Dispatch", "Commit", "Dispatch", "Commit", "Dispatch", "Commit", "Finish"]
    assert run.run.output() == {"value": 1}


def test_each_commit_names_its_source_its_step_and_the_checkpoint_before_it() -> None:
    run = chain(2)
    run.start({})
    run.to_its_end()

    commits = [order for order in run.orders if isinstance(order, Commit)]

    assert [(c.source, c.step, c.parent_id, c.stamp.checkpoint_id) for c in commits] == [
        ("input", -1, None, "c-1"),
        ("loop", 0, "c-1", "c0"),
        ("loop", 1, "c0", "c1"),
        ("loop", 2, "c1", "c2"),
    ]
    assert [sorted(c.changed) for c in commits] == [
        [START],
        [START, "to:n0"],
        ["to:n0", "to:n1", "value"],
        ["to:n1", "value"],
    ]


def test_the_hidden_first_node_takes_the_input_and_is_a_superstep_of_its_own() -> None:
    run = chain(1)

    orders = run.start({"value": "in"})

    assert isinstance(orders[-1], Dispatch)
    assert [task.name for task in orders[-1].tasks] == [START]
    assert orders[-1].step == 0
    assert run.run.state.channels[START].get() == {"value": "in"}


def test_nothing_to_run_and_no_input_is_an_error_that_names_the_input() -> None:
    with pytest.raises(EmptyInputError, match="Received no input for __start__"):
        chain(1).start(None)


def test_a_finished_thread_started_without_input_finishes_at_once() -> None:
    run = chain(1)
    run.start({})
    run.to_its_end()

    again = run.again(None)

    assert again.orders == [Finish()]
    assert again.run.output() == {"value": 0}


@pytest.mark.parametrize("falsy", [0, "", {}, False])
def test_only_none_is_no_input(falsy: object) -> None:
    run = chain(1)

    run.start(falsy)

    assert run.run.state.channels[START].get() == falsy


def test_a_later_input_goes_on_counting_steps_from_the_last_checkpoint() -> None:
    run = chain(1)
    run.start({})
    run.to_its_end()

    again = run.again({})
    again.to_its_end()

    commits = [order for order in again.orders if isinstance(order, Commit)]
    assert [(c.source, c.step, c.parent_id) for c in commits] == [
        ("input", 2, "c1"),
        ("loop", 3, "c2"),
        ("loop", 4, "c3"),
    ]


# --- the barrier ------------------------------------------------------------------------------------------------------


def test_nothing_is_applied_before_every_task_has_an_outcome() -> None:
    run = fan_out("a", "b")
    before = content(run.run.state)

    run.finish(run.task("a"))

    assert not run.run.barrier_full
    assert content(run.run.state) == before
    with pytest.raises(AssertionError, match="before all had ended"):
        run.close()


def test_the_barrier_is_full_when_every_task_has_ended_well_or_not() -> None:
    run = fan_out("a", "b")

    run.fail(run.task("b"), ValueError("no"))
    assert not run.run.barrier_full
    run.finish(run.task("a"))

    assert run.run.barrier_full


def test_each_outcome_is_made_durable_on_the_checkpoint_the_step_starts_from() -> None:
    run = fan_out("a", "b")
    a, b = run.task("a"), run.task("b")

    assert run.finish(a) == [SaveWrites("c0", a, [("log", ["a"])])]
    assert run.fail(b, ValueError("no")) == [SaveWrites("c0", b, [(ERROR, "ValueError('no')")])]


def test_an_outcome_that_arrives_twice_counts_once_and_the_first_counts() -> None:
    run = fan_out("a", "b")
    a = run.task("a")
    run.finish(a)

    assert run.finish(a, ("log", ["again"])) == []
    assert run.fail(a, ValueError("late")) == []

    run.step()
    assert run.run.output() == {"log": ["a", "b"]}


def test_success_after_failure_changes_nothing() -> None:
    run = fan_out("a", "b")
    error = ValueError("first")
    run.fail(run.task("a"), error)

    assert run.finish(run.task("a")) == []

    run.finish(run.task("b"))
    assert run.close() == [Fail(error)]


def test_outcomes_of_other_supersteps_and_of_strangers_change_nothing() -> None:
    run = chain(3)
    run.start({})
    run.step()
    late = run.task("n0")
    run.step()
    before = content(run.run.state)

    assert run.finish(late, ("value", "late")) == []
    assert run.fail(late, ValueError("late")) == []
    assert run.run.handle(TaskFinished("a stranger's id", [("value", 1)])) == []
    assert not run.run.barrier_full
    assert content(run.run.state) == before

    run.to_its_end()
    assert run.run.output() == {"value": 2}


def test_a_finished_run_hears_no_more() -> None:
    run = chain(1)
    run.start({})
    run.step()
    last = run.task("n0")
    run.step()

    assert run.finish(last, ("value", "late")) == []
    assert run.run.output() == {"value": 0}


# --- failure ----------------------------------------------------------------------------------------------------------


def test_a_failed_step_is_not_applied_and_not_committed() -> None:
    run = fan_out("a", "b")
    before, position = content(run.run.state), run.run.position
    run.finish(run.task("a"))
    run.fail(run.task("b"), ValueError("no"))

    (order,) = run.close()

    assert isinstance(order, Fail)
    assert content(run.run.state) == before
    assert run.run.position == position


def test_of_several_failures_the_first_by_path_is_raised_and_says_that_there_were_others() -> None:
    run = fan_out("a", "b", "c", "d")
    errors = {name: ValueError(name) for name in "bcd"}
    for name in "dcb":
        run.fail(run.task(name), errors[name])
    run.finish(run.task("a"))

    assert run.close() == [Fail(errors["b"])]
    assert errors["b"].__notes__ == ["2 more tasks of this superstep failed (nodes: c, d)"]
    assert not hasattr(errors["d"], "__notes__")


def test_a_lone_failure_has_no_note_about_others() -> None:
    run = fan_out("a", "b")
    error = ValueError("no")
    run.finish(run.task("a"))
    run.fail(run.task("b"), error)
    run.close()

    assert not hasattr(error, "__notes__")


def test_a_step_whose_writes_do_not_go_together_fails_and_says_which_step_it_was() -> None:
    run = fan_out("a", "b")
    before = content(run.run.state)
    run.finish(run.task("a"), ("value", 1))
    run.finish(run.task("b"), ("value", 2))

    (order,) = run.close()

    assert isinstance(order, Fail)
    assert isinstance(order.error, InvalidUpdateError)
    assert order.error.__notes__ == [
        "While updating state key 'value', written by: a, b",
        "While applying the writes of superstep 1; the checkpoint is as before",
    ]
    assert content(run.run.state) == before


def test_without_eager_failure_siblings_run_to_their_end() -> None:
    run = fan_out("a", "b")

    orders = run.fail(run.task("a"), ValueError("no"))

    assert not [order for order in orders if isinstance(order, Abandon)]
    assert not run.run.barrier_full


def test_with_eager_failure_the_first_failure_abandons_the_siblings_and_settles_the_step() -> None:
    run = fan_out("a", "b", "c", eager=True)
    error = ValueError("no")
    run.finish(run.task("a"))

    orders = run.fail(run.task("b"), error)

    assert orders[-1] == Abandon()
    assert run.run.barrier_full
    assert run.close() == [Fail(error)]


# --- taking up again --------------------------------------------------------------------------------------------------


def test_tasks_that_finished_before_are_not_dispatched_again_and_their_writes_count() -> None:
    run = fan_out("a", "b")
    a, b = run.task("a"), run.task("b")
    run.finish(a)
    run.fail(b, ValueError("no"))
    run.close()

    again = run.again(None, pending={a.id: [("log", ["a"])]})

    (dispatch,) = again.of(Dispatch)
    assert isinstance(dispatch, Dispatch)
    assert [task.id for task in dispatch.tasks] == [b.id]
    assert again.of(SaveWrites) == []
    again.to_its_end()
    assert again.run.output() == {"log": ["a", "b"]}


def test_when_all_tasks_had_finished_the_barrier_is_full_at_once() -> None:
    run = fan_out("a", "b")
    pending = {task.id: [("log", [task.name])] for task in run.tasks}

    again = run.again(None, pending=pending)

    assert again.orders == [Dispatch(1, [])]
    assert again.run.barrier_full
    assert again.close()[-1] == Finish()
    assert again.run.output() == {"log": ["a", "b"]}


def test_restored_updates_are_streamed_again_and_marked_as_cached() -> None:
    run = fan_out("a", "b", modes=["updates"])
    again = run.again(None, pending={run.task("a").id: [("log", ["a"])]})

    assert again.of(Emit) == [Emit("updates", {"a": {"log": ["a"]}, "__metadata__": {"cached": True}})]


def test_pending_writes_of_other_tasks_are_left_aside() -> None:
    run = fan_out("a", "b")

    again = run.again(None, pending={"someone else's task": [("log", ["x"])]})

    assert len(again.tasks) == 2
    again.to_its_end()
    assert again.run.output() == {"log": ["a", "b"]}


def test_pending_writes_are_for_the_first_superstep_only() -> None:
    run = chain(2)
    run.start({})
    run.step()

    again = run.again(None, pending={run.task("n0").id: [("value", "restored"), ("to:n1", None)]})
    again.close()

    assert [task.name for task in again.tasks] == ["n1"]
    assert again.run.pending is NOTHING_PENDING


def test_new_input_abandons_what_was_left_to_run() -> None:
    run = fan_out("a", "b")

    again = run.again({})

    assert [task.name for task in again.tasks] == [START]
    again.finish(again.task(START), ("value", "new"))
    assert again.close()[-1] == Finish()
    assert again.run.output() == {"value": "new", "log": []}


def test_new_input_drops_packets_that_were_not_delivered() -> None:
    blueprint = graph(node("a"))
    run = driven(blueprint, {START: [(TASKS, Send("a", 1)), (TASKS, Send("a", 2))]})
    run.start({})
    run.step()
    assert len(run.tasks) == 2

    again = run.again({})

    assert [task.name for task in again.tasks] == [START]


def test_pending_writes_are_not_applied_when_new_input_arrives() -> None:
    run = fan_out("a", "b")

    again = run.again({}, pending={run.task("a").id: [("log", ["a"])]})
    again.finish(again.task(START), ("value", 1))
    again.close()

    assert again.run.output() == {"value": 1, "log": []}


# --- the recursion limit ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_k_node_steps_need_a_limit_of_k_and_one_for_the_first_node(steps: int) -> None:
    enough, too_few = chain(steps, limit=steps + 1), chain(steps, limit=steps)
    enough.start({})
    too_few.start({})

    assert enough.to_its_end() == Finish()
    failed = too_few.to_its_end()
    assert isinstance(failed, Fail)
    assert isinstance(failed.error, GraphRecursionError)
    assert isinstance(failed.error, RecursionError)


def test_the_limit_is_checked_before_looking_whether_anything_is_left_so_the_last_step_is_committed() -> None:
    run = chain(2, limit=2)
    run.start({})

    failed = run.to_its_end()

    assert isinstance(failed, Fail)
    assert isinstance(run.orders[-2], Commit)
    assert run.run.state.channels["value"].get() == 1


def test_the_limit_s_error_names_the_limit_and_the_key_and_the_code() -> None:
    run = chain(3, limit=2)
    run.start({})
    failed = run.to_its_end()

    assert isinstance(failed, Fail)
    assert "Recursion limit of 2 reached" in str(failed.error)
    assert "`recursion_limit`" in str(failed.error)
    assert "GRAPH_RECURSION_LIMIT" in str(failed.error)


def test_the_limit_is_per_run_and_not_per_thread() -> None:
    run = chain(2, limit=3)
    for _ in range(3):
        run.start({})
        assert run.to_its_end() == Finish()
        run = Driven(Run(run.run.blueprint, run.run.state, run.run.position, run.run.settings), run.writes)


@pytest.mark.parametrize("left", [1, 2, 4])
def test_a_run_that_goes_on_without_input_may_take_one_step_more_than_its_limit(left: int) -> None:
    # No step goes to an input or to the first node, and the limit is checked against the step that comes next.
    for limit, expected in ((left, Finish), (left - 1, Finish), (left - 2, Fail)):
        if limit < 1:
            continue
        run = chain(left + 1, limit=2)
        run.start({})
        run.step()
        run.step()

        assert isinstance(run.again(None, limit=limit).to_its_end(), expected)


def test_a_run_stopped_by_its_limit_goes_on_from_there() -> None:
    run = chain(4, limit=2)
    run.start({})
    run.to_its_end()

    again = run.again(None)

    assert [task.name for task in again.tasks] == ["n2"]
    assert again.to_its_end() == Finish()
    assert again.run.output() == {"value": 3}


# --- what it shows ----------------------------------------------------------------------------------------------------


def test_values_are_shown_after_each_step_that_changed_one_of_them() -> None:
    run = chain(2, modes=["values"])
    run.start({})
    run.to_its_end()

    assert run.of(Emit) == [Emit("values", {"value": 0}), Emit("values", {"value": 1})]


def test_values_are_shown_before_anything_runs_when_a_thread_goes_on() -> None:
    run = chain(2, modes=["values"])
    run.start({})
    run.step()
    run.step()

    again = run.again(None)

    assert again.orders[0] == Emit("values", {"value": 0})


def test_updates_are_shown_as_each_task_finishes_and_hidden_nodes_are_not() -> None:
    run = fan_out("a", "b", "c", modes=["updates"])

    run.finish(run.task("c"))
    run.finish(run.task("a"), (NO_WRITES, None))
    run.finish(run.task("b"), ("log", ["1"]), ("log", ["2"]), ("to:a", None))

    assert run.of(Emit) == [
        Emit("updates", {"c": {"log": ["c"]}}),
        Emit("updates", {"a": None}),
        Emit("updates", {"b": [{"log": ["1"]}, {"log": ["2"]}]}),
    ]


def test_a_failed_task_shows_no_update() -> None:
    run = fan_out("a", "b", modes=["updates", "values"])

    run.fail(run.task("a"), ValueError("no"))
    run.finish(run.task("b"))
    run.close()

    assert run.of(Emit) == [Emit("updates", {"b": {"log": ["b"]}})]


def test_nothing_is_shown_that_nobody_asked_for() -> None:
    run = chain(2)
    run.start({})
    run.to_its_end()

    assert run.of(Emit) == []
