"""The life of a run whose tasks are tried again, handed over to error handlers, or stopped from outside."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.blueprints import START, content, graph, node
from tests.unit.driven import Driven, chain, driven, fan_out

from phalanx.channels import NamedBarrierValue, NamedBarrierValueAfterFinish
from phalanx.checkpoint.serde import decode_exception
from phalanx.coordinator.messages import (
    Abandon,
    Commit,
    Dispatch,
    Emit,
    Fail,
    Finish,
    Launch,
    Order,
    SaveWrites,
    TaskFailed,
    TaskFinished,
    WarnOfJoin,
)
from phalanx.coordinator.plan import Task
from phalanx.coordinator.terms import NOTHING_PENDING
from phalanx.errors import GraphBubbleUp, GraphDrained, NodeError
from phalanx.managed import StepLimits
from phalanx.protocol.names import ERROR, HANDED_OVER, NO_WRITES, TASKS
from phalanx.types import Send, StreamMode
from phalanx.worker.blueprint import Node, Policies


def handled(name: str, handler: str = "handler") -> Node:
    """A node with an error handler."""
    return replace(node(name), policies=Policies(error_handler=handler))


def handler(name: str = "handler") -> Node:
    """An error handler: nothing triggers it."""
    return replace(node(name), triggers=())


def with_handler(*names: str, modes: Sequence[StreamMode] = (), eager: bool = False) -> Driven:
    """A run at a superstep with one task of each node; all of them have one handler."""
    return fan_out(*(handled(name) for name in names), modes=modes, eager=eager, also=[handler()])


def launched(orders: Sequence[Order]) -> Launch:
    (found,) = [order for order in orders if isinstance(order, Launch)]
    return found


# --- again ------------------------------------------------------------------------------------------------------------


def test_a_failed_attempt_that_is_to_be_followed_by_another_orders_it_and_nothing_else() -> None:
    run = fan_out("a", "b")
    before, a = content(run.run.state), run.task("a")

    orders = run.fail(a, ValueError("no"), again_s=2.5, first=17.5)

    assert orders == [Launch(a, 2, 2.5, 17.5)]
    assert content(run.run.state) == before
    assert not run.run.barrier_full


def test_attempts_are_counted_for_each_task_alone() -> None:
    run = fan_out("a", "b")
    a, b = run.task("a"), run.task("b")

    found = [launched(run.fail(task, ValueError(), again_s=0.0)) for task in (a, a, b, a, b)]

    assert [(order.task.name, order.attempt) for order in found] == [("a", 2), ("a", 3), ("b", 2), ("a", 4), ("b", 3)]


def test_a_task_that_succeeds_in_the_end_leaves_no_trace_of_its_failures() -> None:
    run = fan_out("a", "b", modes=["updates"])
    a = run.task("a")
    run.fail(a, ValueError("no"), again_s=1.0)
    run.finish(run.task("b"))
    assert not run.run.barrier_full

    run.finish(a)

    assert [task.name for order in run.of(SaveWrites) for task in [order.task]][-2:] == ["b", "a"]  # type: ignore[union-attr]  # pyright: ignore
    assert run.of(Emit) == [Emit("updates", {"b": {"log": ["b"]}}), Emit("updates", {"a": {"log": ["a"]}})]
    assert run.close()[-1] == Finish()
    assert run.run.output() == {"log": ["a", "b"]}


def test_a_task_whose_last_attempt_fails_fails_the_step_with_that_attempt_s_error() -> None:
    run = fan_out("a", "b")
    a, last = run.task("a"), ValueError("last")
    run.finish(run.task("b"))
    run.fail(a, KeyError("first"), again_s=1.0)
    run.fail(a, last)

    assert run.close() == [Fail(last)]


def test_a_step_waits_for_a_retry_unless_a_sibling_s_failure_settles_it() -> None:
    patient, eager = fan_out("a", "b"), fan_out("a", "b", eager=True)
    for run in (patient, eager):
        run.fail(run.task("a"), ValueError("again"), again_s=1.0)
        run.fail(run.task("b"), KeyError("last"))

    assert not patient.run.barrier_full
    assert eager.run.barrier_full


def test_a_failure_that_is_tried_again_abandons_no_siblings() -> None:
    run = fan_out("a", "b", eager=True)

    run.fail(run.task("a"), ValueError("again"), again_s=1.0)

    assert run.of(Abandon) == []
    assert not run.run.barrier_full


@pytest.mark.parametrize("final", ["finished", "failed", "handed over"])
def test_news_of_an_attempt_that_comes_after_the_task_s_outcome_changes_nothing(final: str) -> None:
    run = with_handler("a", "b") if final == "handed over" else fan_out("a", "b")
    a = run.task("a")
    if final == "finished":
        run.finish(a)
    else:
        run.fail(a, ValueError("last"))
    before = dict(run.run.tasks)

    assert run.fail(a, ValueError("late"), again_s=1.0) == []
    assert run.fail(a, ValueError("late")) == []
    assert run.finish(a, ("log", ["late"])) == []
    assert run.run.tasks == before


def test_attempts_are_counted_anew_in_each_superstep() -> None:
    run = chain(2)
    run.start({})
    run.step()
    run.fail(run.task("n0"), ValueError(), again_s=0.0)
    assert run.run.attempts
    run.step()

    assert launched(run.fail(run.task("n1"), ValueError(), again_s=0.0)).attempt == 2


# --- handed over ------------------------------------------------------------------------------------------------------


def test_the_handler_of_a_failed_task_is_launched_in_its_place_and_is_told_what_failed() -> None:
    run = with_handler("a", "b")
    a, error = run.task("a"), ValueError("no")

    saved, launch = run.fail(a, error)

    assert isinstance(launch, Launch)
    assert (launch.attempt, launch.after_s, launch.first_try_at) == (1, 0.0, 0.0)
    task = launch.task
    assert (task.name, task.path, task.triggers, task.stands_for) == ("handler", a.path, a.triggers, a.id)
    assert task.error == NodeError("a", error)
    assert isinstance(saved, SaveWrites)
    assert saved.task == a
    assert saved.writes[0] == (ERROR, "ValueError('no')")
    assert [name for name, _ in saved.writes] == [ERROR, HANDED_OVER]
    assert repr(decode_exception(saved.writes[1][1])) == "ValueError('no')"
    assert sorted(each.name for each in run.run.tasks.values()) == ["b", "handler"]
    assert a.id not in run.run.tasks


def test_a_handler_s_writes_count_as_those_of_the_node_that_failed() -> None:
    run = with_handler("a", "b")
    a = run.task("a")
    run.fail(a, ValueError("no"))
    run.finish(run.task("b"))
    assert not run.run.barrier_full
    run.finish(run.task("handler"))
    run.close()

    assert run.run.output() == {"log": ["handler", "b"]}
    assert run.run.state.seen["a"] == {"to:a": run.run.state.versions["to:a"] - 1}  # type: ignore[operator]
    assert "handler" not in run.run.state.seen


def test_handlers_of_several_tasks_are_tasks_of_their_own_and_apply_in_the_order_of_those_tasks() -> None:
    run = with_handler("a", "b", "c")
    for name in "cab":
        run.fail(run.task(name), ValueError(name))
    handlers = run.tasks
    assert len({task.id for task in handlers}) == 3

    for task in reversed(handlers):
        assert task.error is not None
        run.finish(task, ("log", [f"handled {task.error.node}"]))
    run.close()

    assert run.run.output() == {"log": ["handled a", "handled b", "handled c"]}


def test_a_packet_s_handler_is_given_the_packet_s_argument() -> None:
    run = driven(graph(handled("a"), handler()), {START: [(TASKS, Send("a", 1)), (TASKS, Send("a", 2))]})
    run.start({})
    run.step()
    first, second = run.tasks

    task = launched(run.fail(second, ValueError())).task

    assert (task.arg, task.path, task.is_push) == (2, second.path, True)
    assert [each.id for each in run.tasks] == [first.id, task.id]


def test_a_handler_that_fails_fails_the_step_with_its_own_error() -> None:
    run = with_handler("a")
    run.fail(run.task("a"), ValueError("the node's"))
    own = KeyError("the handler's")

    assert run.fail(run.task("handler"), own) == [SaveWrites("c0", run.task("handler"), [(ERROR, repr(own))])]
    assert run.close() == [Fail(own)]


def test_a_handler_may_be_tried_again() -> None:
    run = with_handler("a")
    run.fail(run.task("a"), ValueError(), again_s=1.0)
    run.fail(run.task("a"), ValueError())
    task = run.task("handler")

    assert run.fail(task, KeyError(), again_s=2.0, first=5.0) == [Launch(task, 2, 2.0, 5.0)]
    run.finish(task)
    assert run.close()[-1] == Finish()


def test_a_handler_s_handler_takes_over_from_it() -> None:
    second = replace(handler("second"), policies=Policies())
    first = replace(handler("first"), policies=Policies(error_handler="second"))
    run = fan_out(handled("a", "first"), also=[first, second])
    run.fail(run.task("a"), ValueError("a"))
    task = launched(run.fail(run.task("first"), KeyError("first"))).task

    assert (task.name, task.path) == ("second", ("__pregel_pull", "a"))
    assert task.error is not None
    assert task.error.node == "first"


def test_what_is_no_failure_is_not_handed_over_and_not_kept() -> None:
    run = with_handler("a", "b")
    error = GraphBubbleUp("up")

    assert run.fail(run.task("a"), error) == []
    run.finish(run.task("b"))
    assert run.close() == [Fail(error)]


def test_what_is_no_failure_abandons_the_siblings_where_failures_do() -> None:
    run = with_handler("a", "b", eager=True)

    assert run.fail(run.task("a"), GraphBubbleUp("up")) == [Abandon()]
    assert run.run.barrier_full


def test_a_failure_that_is_handled_abandons_nobody() -> None:
    run = with_handler("a", "b", eager=True)

    orders = run.fail(run.task("a"), ValueError())

    assert not [order for order in orders if isinstance(order, Abandon)]
    assert not run.run.barrier_full


def test_a_handler_s_update_is_shown_under_its_own_name_and_the_failure_is_not_shown() -> None:
    run = with_handler("a", modes=["updates"])
    run.fail(run.task("a"), ValueError())
    run.finish(run.task("handler"))

    assert run.of(Emit) == [Emit("updates", {"handler": {"log": ["handler"]}})]


def test_several_failures_among_them_a_handler_s_are_ordered_by_where_they_happened() -> None:
    run = fan_out(handled("a"), "b", also=[handler()])
    run.fail(run.task("a"), ValueError("a"))
    run.fail(run.task("b"), ValueError("b"))
    first = KeyError("the handler of a")
    run.fail(run.task("handler"), first)

    assert run.close() == [Fail(first)]
    assert first.__notes__ == ["1 more tasks of this superstep failed (nodes: b)"]


# --- taken up again ---------------------------------------------------------------------------------------------------


def test_a_task_that_was_handed_over_before_is_not_run_again_but_its_handler_is() -> None:
    run = with_handler("a", "b")
    a, b = run.task("a"), run.task("b")
    handler_before = launched(run.fail(a, ValueError("no"))).task

    again = run.again(None, handed_over={a.id: ValueError("no")})

    (dispatch,) = again.of(Dispatch)
    assert isinstance(dispatch, Dispatch)
    assert {task.id for task in dispatch.tasks} == {handler_before.id, b.id}
    assert again.of(Launch) == []
    assert again.of(SaveWrites) == []
    task = again.task("handler")
    assert task.error is not None
    assert (task.error.node, repr(task.error.error)) == ("a", "ValueError('no')")
    assert again.to_its_end() == Finish()
    assert again.run.output() == {"log": ["handler", "b"]}


def test_a_handler_that_finished_before_is_not_run_again_either() -> None:
    run = with_handler("a", "b")
    a = run.task("a")
    task = launched(run.fail(a, ValueError("no"))).task

    again = run.again(
        None, handed_over={a.id: ValueError("no")}, pending={task.id: [("log", ["handled"])], "stranger": []}
    )

    assert [each.name for each in again.tasks] == ["b"]
    assert again.of(Dispatch) == [Dispatch(1, again.tasks)]
    again.to_its_end()
    assert again.run.output() == {"log": ["handled", "b"]}


def test_a_handler_s_writes_without_the_news_of_the_failure_are_left_aside() -> None:
    run = with_handler("a")
    task = launched(run.fail(run.task("a"), ValueError("no"))).task

    again = run.again(None, pending={task.id: [("log", ["handled"])]})

    assert [each.name for each in again.tasks] == ["a"]


def test_what_was_handed_over_by_a_stranger_is_left_aside() -> None:
    run = with_handler("a")

    again = run.again(None, handed_over={"stranger": ValueError()})

    assert [each.name for each in again.tasks] == ["a"]
    assert again.run.pending is NOTHING_PENDING


def test_restored_updates_of_handlers_are_streamed_and_marked_as_cached() -> None:
    run = with_handler("a", "b", modes=["updates"])
    a = run.task("a")
    task = launched(run.fail(a, ValueError("no"))).task

    again = run.again(None, handed_over={a.id: ValueError("no")}, pending={task.id: [("log", ["h"])]})

    assert again.of(Emit) == [Emit("updates", {"handler": {"log": ["h"]}, "__metadata__": {"cached": True}})]


# --- from the cache ---------------------------------------------------------------------------------------------------


def test_an_update_from_the_cache_is_kept_as_any_other_and_marked_in_the_stream() -> None:
    run = fan_out("a", "b", modes=["updates"])
    a = run.task("a")

    orders = run.run.handle(TaskFinished(a.id, [("log", ["cached"])], cached=True))

    assert orders == [
        SaveWrites("c0", a, [("log", ["cached"])]),
        Emit("updates", {"a": {"log": ["cached"]}, "__metadata__": {"cached": True}}),
    ]


# --- stopped ----------------------------------------------------------------------------------------------------------


class Switch:
    """Asks a run to stop, once it is set."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def __call__(self) -> str | None:
        return self.reason


def switched() -> tuple[Driven, Switch]:
    """A chain that can be stopped, at its first node."""
    switch = Switch()
    made = chain(2)
    run = driven(made.run.blueprint, made.writes, drain=switch)
    run.start({})
    run.step()
    return run, switch


@pytest.mark.parametrize("reason", ["deploy", ""])
def test_a_run_that_is_asked_to_stop_does_so_before_its_next_superstep_and_keeps_the_last_one(reason: str) -> None:
    run, switch = switched()
    switch.reason = reason

    commit, stop = run.step()

    assert isinstance(commit, Commit)
    assert isinstance(stop, Fail)
    assert isinstance(stop.error, GraphDrained)
    assert stop.error.reason == reason
    assert run.again(None).to_its_end() == Finish()


def test_a_run_that_is_asked_to_stop_lets_the_running_superstep_come_to_its_end() -> None:
    run, switch = switched()
    switch.reason = "deploy"

    assert launched(run.fail(run.task("n0"), ValueError(), again_s=1.0))
    assert not run.run.barrier_full


def test_a_run_that_has_nothing_left_to_do_when_it_is_asked_to_stop_has_finished() -> None:
    run, switch = switched()
    run.step()
    switch.reason = "too late"

    assert run.step()[-1] == Finish()


def test_a_run_that_is_asked_to_stop_before_it_begins_has_kept_its_input() -> None:
    switch = Switch()
    switch.reason = "at once"
    made = chain(1)
    run = driven(made.run.blueprint, made.writes, drain=switch)

    commit, stop = run.start({})

    assert isinstance(commit, Commit)
    assert isinstance(stop, Fail)
    assert [task.name for task in run.again(None).tasks] == [START]


def test_what_is_pending_is_not_lost_on_a_run_that_is_stopped_at_once() -> None:
    """It is not streamed, and it is still in storage for the next run."""
    before = fan_out("a", "b", modes=["updates"])
    settings = replace(before.run.settings, drain_reason=lambda: "at once")
    before.run.settings = settings
    run = driven(before.run.blueprint, before.writes, modes=["updates"], drain=lambda: "at once")
    run.run.state, run.run.position = before.run.state, before.run.position

    (stop,) = run.start(None)

    assert isinstance(stop, Fail)
    assert isinstance(stop.error, GraphDrained)


# --- joins ------------------------------------------------------------------------------------------------------------


def joined(kind: "type[NamedBarrierValue[str]]" = NamedBarrierValue, *sources: str) -> Driven:
    """A run at a superstep with nodes a, b and c, of which ``sources`` must run before ``both``."""
    blueprint = graph(
        *(node(name) for name in "abc"), node("both", "join"), channels={"join": kind(str, set(sources or "ab"))}
    )
    run = driven(blueprint, {START: [(f"to:{name}", None) for name in "abc"]})
    run.start({})
    run.step()
    return run


@pytest.mark.parametrize("kind", [NamedBarrierValue, NamedBarrierValueAfterFinish])
def test_a_join_that_waits_in_vain_is_warned_about_when_the_run_finishes(kind: "type[NamedBarrierValue[str]]") -> None:
    run = joined(kind, "a", "b", "c")
    run.finish(run.task("b"), ("join", "b"))
    for name in "ac":
        run.finish(run.task(name), (NO_WRITES, None))

    assert run.close()[-2:] == [WarnOfJoin("both", ["b"], ["a", "c"]), Finish()]


def test_a_join_that_is_released_is_not_warned_about() -> None:
    run = joined()
    for name in "ab":
        run.finish(run.task(name), ("join", name))
    run.finish(run.task("c"), (NO_WRITES, None))
    run.close()
    assert [task.name for task in run.tasks] == ["both"]

    assert run.to_its_end() == Finish()
    assert run.of(WarnOfJoin) == []


def test_a_join_that_nothing_ran_for_is_not_warned_about() -> None:
    run = joined()

    assert run.to_its_end() == Finish()
    assert run.of(WarnOfJoin) == []


def test_nobody_is_warned_about_joins_of_a_run_that_failed() -> None:
    run = joined()
    run.finish(run.task("a"), ("join", "a"))
    run.fail(run.task("b"), ValueError())
    run.finish(run.task("c"), (NO_WRITES, None))
    run.close()

    assert run.of(WarnOfJoin) == []


# --- where it stands --------------------------------------------------------------------------------------------------


def test_a_run_knows_how_many_supersteps_it_may_still_take() -> None:
    run = chain(3, limit=2)
    run.start({})
    found = [run.run.limits]
    for _ in range(2):
        run.step()
        found.append(run.run.limits)

    assert found == [StepLimits(0, 2), StepLimits(1, 2), StepLimits(2, 2)]
    assert isinstance(run.step()[-1], Fail)


def test_a_later_run_on_the_thread_has_its_full_number_of_supersteps() -> None:
    run = chain(1, limit=5)
    run.start({})
    run.to_its_end()

    again = run.again({}, limit=3)

    assert again.run.limits.stop - again.run.limits.step == 3


def test_events_of_one_task_never_touch_another() -> None:
    run = with_handler("a", "b")
    before: Task = run.task("b")

    run.run.handle(TaskFailed(run.task("a").id, ValueError()))

    assert run.task("b") is before
