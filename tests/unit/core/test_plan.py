"""Which tasks a superstep has, in which order and under which ids."""

from dataclasses import replace

import pytest
from tests.unit.blueprints import given, graph, node, planned, state_after, task

from phalanx.channels import EphemeralValue, LastValue, NamedBarrierValue
from phalanx.coordinator.plan import Task, handler_task, path_order, plan
from phalanx.coordinator.state import GraphState
from phalanx.protocol.names import PULL, PUSH, TASKS
from phalanx.types import Send, TimeoutPolicy
from phalanx.worker.blueprint import Policies


def names(tasks: list[Task]) -> list[str]:
    return [task.name for task in tasks]


def packets(*nodes: str) -> list[tuple[str, Send]]:
    return [(TASKS, Send(name, number)) for number, name in enumerate(nodes)]


def test_a_fresh_thread_has_nothing_to_run() -> None:
    blueprint = graph(node("a"))

    assert planned(blueprint, GraphState.fresh(blueprint)) == []


def test_packets_come_before_nodes_that_a_channel_triggered() -> None:
    blueprint = graph(node("a"), node("z"))
    state = state_after(blueprint, [given(("to:a", None), *packets("z"))])

    assert [task.path for task in planned(blueprint, state)] == [(PUSH, 0), (PULL, "a")]


def test_packets_keep_the_order_they_were_sent_in_also_beyond_ten() -> None:
    blueprint = graph(node("a"), node("b"))
    state = state_after(blueprint, [given(*packets(*"babababababab"))])

    tasks = planned(blueprint, state)

    assert [task.path for task in tasks] == [(PUSH, index) for index in range(13)]
    assert "".join(names(tasks)) == "babababababab"
    assert [task.arg for task in tasks] == list(range(13))


def test_several_packets_for_one_node_are_tasks_of_their_own_beside_its_triggered_one() -> None:
    blueprint = graph(node("a"))
    state = state_after(blueprint, [given(("to:a", None), *packets("a", "a"))])

    tasks = planned(blueprint, state)

    assert names(tasks) == ["a", "a", "a"]
    assert [task.is_push for task in tasks] == [True, True, False]
    assert len({task.id for task in tasks}) == 3
    assert [task.triggers for task in tasks] == [(PUSH,), (PUSH,), ("to:a",)]


def test_triggered_nodes_are_ordered_by_name() -> None:
    blueprint = graph(*(node(name) for name in ("n10", "n2", "b", "a")))
    state = state_after(blueprint, [given(*((f"to:{name}", None) for name in ("n2", "b", "n10", "a")))])

    assert names(planned(blueprint, state)) == ["a", "b", "n10", "n2"]


def test_paths_sort_triggered_tasks_first_then_packets_by_number() -> None:
    paths: list[tuple[str | int, ...]] = [(PUSH, 10), (PUSH, 2), (PULL, "b"), (), (PULL, "a")]

    assert sorted(paths, key=path_order) == [(), (PULL, "a"), (PULL, "b"), (PUSH, 2), (PUSH, 10)]


def test_a_node_runs_once_however_many_of_its_triggers_are_new() -> None:
    blueprint = graph(node("a", "one", "two", "three"))
    state = state_after(blueprint, [given(("two", None), ("one", None))])

    (only,) = planned(blueprint, state)

    assert only.triggers == ("one", "two")


def test_a_trigger_without_a_value_triggers_nothing() -> None:
    blueprint = graph(node("a", "join"), channels={"join": NamedBarrierValue(str, {"x", "y"})})

    assert planned(blueprint, state_after(blueprint, [given(("join", "x"))])) == []
    assert names(planned(blueprint, state_after(blueprint, [given(("join", "x"), ("join", "y"))]))) == ["a"]


def test_a_trigger_the_node_has_seen_triggers_it_no_more() -> None:
    blueprint = graph(node("a", "kept"), channels={"kept": LastValue[object](object)})
    state = state_after(blueprint, [given(("kept", 1))], [task("a", "kept")])

    assert planned(blueprint, state) == []


def test_a_channel_written_with_an_equal_value_triggers_again() -> None:
    blueprint = graph(node("a", "kept"), channels={"kept": LastValue[object](object)})
    state = state_after(blueprint, [given(("kept", 1))], [task("a", "kept", writes=[("kept", 1)])])

    assert names(planned(blueprint, state)) == ["a"]


def test_without_knowledge_of_what_was_updated_every_node_is_looked_at_and_the_tasks_are_the_same() -> None:
    blueprint = graph(
        *(node(name) for name in "abcd"),
        node("e", "kept"),
        node("f", "kept"),
        channels={"kept": LastValue[object](object)},
    )
    state = state_after(
        blueprint,
        [given(("kept", 1), ("to:d", None))],
        [task("e", "kept", writes=[("to:b", None), ("to:a", None), *packets("c", "a")])],
    )
    known = planned(blueprint, state)

    state.updated = None

    # f was due in the first step and did not run; only an engine that does not know what was updated looks at it again
    assert [task for task in planned(blueprint, state) if task.name != "f"] == known
    assert names(known) == ["c", "a", "a", "b"]


def test_without_that_knowledge_nodes_are_ordered_by_name_too_and_none_is_missed() -> None:
    blueprint = graph(*(node(name) for name in "cabd"))
    state = state_after(blueprint, [given(*((f"to:{name}", None) for name in "dcab"))])
    state.updated = None

    assert names(planned(blueprint, state)) == ["a", "b", "c", "d"]


def test_a_packet_for_a_node_that_is_gone_after_a_new_deployment_is_left_out() -> None:
    old = graph(node("a"), node("b"))
    state = state_after(old, [given(*packets("a", "b", "a"))])

    tasks = planned(graph(node("b")), state)

    assert [(task.name, task.path) for task in tasks] == [("b", (PUSH, 1))]


def test_a_graph_without_a_topic_of_packets_is_planned_too() -> None:
    blueprint = graph(node("a"))
    blueprint = replace(blueprint, channels={"to:a": EphemeralValue[object](object)})
    state = state_after(blueprint, [given(("to:a", None))])

    assert names(planned(blueprint, state)) == ["a"]


# --- ids --------------------------------------------------------------------------------------------------------------


def test_task_ids_are_a_storage_format_and_stay_as_they_are() -> None:
    blueprint = graph(node("work"), node("wörk", "one", "two"))
    state = state_after(blueprint, [given(("to:work", None), ("one", 1), ("two", 2), *packets("work", "work"))])

    tasks = plan(
        blueprint, state, checkpoint_id="1ef5c2a4-7b1e-6d2a-8003-0123456789ab", namespace="outer:42|inner:7", step=3
    )

    assert {(task.name, *task.path): task.id for task in tasks} == {
        ("work", PUSH, 0): "5138a70c-a91d-daf5-c66d-447e9bcb8772",
        ("work", PUSH, 1): "db348a8d-148d-4015-6976-58b170a9e8ac",
        ("work", PULL, "work"): "7efb96ab-9b6b-9deb-8cac-247046ecc3c0",
        ("wörk", PULL, "wörk"): "612be25c-b446-f5fe-463a-153f3618fdc5",
    }


def ids(*, checkpoint_id: str = "c", namespace: str = "", step: int = 1, nodes: str = "a") -> list[str]:
    blueprint = graph(node("a"), node("b"))
    state = state_after(blueprint, [given(*((f"to:{name}", None) for name in nodes), *packets(*nodes))])
    tasks = plan(blueprint, state, checkpoint_id=checkpoint_id, namespace=namespace, step=step)
    return [task.id for task in tasks]


def test_planning_again_gives_the_same_ids() -> None:
    assert ids() == ids()


def test_ids_differ_by_checkpoint_namespace_step_node_and_index() -> None:
    everything = [
        *ids(),
        *ids(nodes="b"),
        *ids(checkpoint_id="d"),
        *ids(namespace="n"),
        *ids(step=2),
        ids(nodes="aa")[1],
    ]

    assert len(set(everything)) == len(everything)


def test_an_id_does_not_depend_on_which_of_its_triggers_are_new() -> None:
    blueprint = graph(node("a", "one", "two"))

    first = planned(blueprint, state_after(blueprint, [given(("one", 1))]))
    second = planned(blueprint, state_after(blueprint, [given(("two", 1))]))
    both = planned(blueprint, state_after(blueprint, [given(("one", 1), ("two", 1))]))

    assert len({first[0].id, second[0].id, both[0].id}) == 1


def test_the_parts_of_an_id_cannot_run_into_one_another() -> None:
    assert ids(checkpoint_id="c1", step=1) != ids(checkpoint_id="c", step=11)
    assert ids(checkpoint_id="cn") != ids(checkpoint_id="c", namespace="n")


@pytest.mark.parametrize("name", ["\udcff", "a" * 10_000, "🜁", ""])
def test_any_text_has_an_id(name: str) -> None:
    (first,) = set(ids(checkpoint_id=name, namespace=name)[:1])

    assert len(first) == 36
    assert first != ids()[0]


# --- error handlers ---------------------------------------------------------------------------------------------------


def failing(*names: str) -> list[Task]:
    """Tasks of nodes with error handlers: two packets' for the first, and one of each."""
    return planned(
        HANDLED, state_after(HANDLED, [given(*((f"to:{name}", None) for name in names), *packets("a", "a"))])
    )


HANDLED = graph(
    *(replace(node(name), policies=Policies(error_handler="one" if name != "b" else "two")) for name in "abc"),
    *(replace(node(name), triggers=(), policies=Policies(timeout=TimeoutPolicy(3.0))) for name in ("one", "two")),
)


def test_a_handler_s_id_is_made_of_the_failed_task_s_and_is_no_other_task_s() -> None:
    tasks = failing("a", "b", "c")
    error = ValueError("no")
    ids = [handler_task(HANDLED, each, error).id for each in tasks]

    assert len({*ids, *(each.id for each in tasks)}) == 2 * len(tasks)
    assert ids == [handler_task(HANDLED, each, KeyError("another error")).id for each in tasks]
    assert handler_task(HANDLED, tasks[0], error).id == "76e28303-98fb-5a5c-5d47-82ea19b4b5d0"


def test_another_handler_of_the_same_task_is_another_task() -> None:
    (*_, task) = failing("a")
    other = graph(
        replace(node("a"), policies=Policies(error_handler="two")), *(replace(node(n), triggers=()) for n in ("two",))
    )

    assert handler_task(HANDLED, task, ValueError()).id != handler_task(other, task, ValueError()).id


def test_a_handler_has_its_own_time_limit_and_the_rest_of_the_failed_task() -> None:
    task = failing("a")[1]

    found = handler_task(HANDLED, replace(task, timeout=TimeoutPolicy(9.0)), ValueError())

    assert found.timeout == TimeoutPolicy(3.0)
    assert (found.path, found.triggers, found.arg, found.stands_for) == (task.path, task.triggers, task.arg, task.id)


def test_a_task_has_the_packet_s_time_limit_or_else_its_node_s() -> None:
    blueprint = graph(replace(node("a"), policies=Policies(timeout=TimeoutPolicy(3.0))), node("b"))
    sent = [Send("a", 1, timeout=9), Send("a", 2), Send("b", 3)]
    state = state_after(blueprint, [given(("to:a", None), ("to:b", None), *((TASKS, each) for each in sent))])

    assert [each.timeout for each in planned(blueprint, state)] == [
        *(TimeoutPolicy(9.0), TimeoutPolicy(3.0), None),
        *(TimeoutPolicy(3.0), None),
    ]


def test_a_time_limit_is_no_part_of_a_task_s_id() -> None:
    blueprint = graph(node("a"))
    one, other = (
        planned(blueprint, state_after(blueprint, [given((TASKS, Send("a", 1, timeout=limit)))])) for limit in (None, 5)
    )

    assert [each.id for each in one] == [each.id for each in other]


def test_a_node_that_nothing_triggers_is_never_planned() -> None:
    assert "one" not in names(failing("a", "b"))
