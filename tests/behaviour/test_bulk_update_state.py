"""Changing a thread's state superstep by superstep."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportTypedDictNotRequiredAccess=false

from typing import Any

import pytest
from tests.behaviour.asking import steps
from tests.behaviour.drivers import Drive, Supersteps, thread
from tests.behaviour.states import Words, chain, fan_out, says

from phalanx.constants import END, START
from phalanx.errors import InvalidUpdateError
from phalanx.graph import StateGraph
from phalanx.types import StateUpdate

A, B = StateUpdate({"words": ["1"]}, "a"), StateUpdate({"words": ["2"]}, "b")


@pytest.mark.rule("bulk-1")
def test_each_superstep_of_updates_makes_one_state(drive_kept: Drive) -> None:
    builder = fan_out("a", "b")
    builder.add_node("c", says("c"))
    builder.add_edge(["a", "b"], "c")
    graph, config = drive_kept.keeping(builder), thread("bulk")
    drive_kept.bulk_update(graph, config, [[StateUpdate({"last": "x"}, START)], [A, B]])
    state = drive_kept.get_state(graph, config)

    assert (state.values["words"], state.values["last"], state.next) == (["1", "2"], "x", ("c",))
    assert [source for source, _ in steps(drive_kept.history(graph, config))] == ["update", "update"]
    assert drive_kept.invoke(graph, None, config)["words"] == ["1", "2", "c"]


@pytest.mark.rule("bulk-1")
def test_the_address_of_the_last_state_is_returned(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("bulk address")
    drive_kept.invoke(graph, {}, config)
    address = drive_kept.bulk_update(graph, config, [[A], [B]])
    latest = drive_kept.get_state(graph, config)

    assert address["configurable"] == latest.config["configurable"]
    assert latest.values["words"] == ["a", "b", "1", "2"]


@pytest.mark.rule("bulk-1")
def test_a_whole_run_can_be_told_by_updates(drive_kept: Drive) -> None:
    graph, real, told = drive_kept.keeping(chain("a", "b")), thread("a real run"), thread("a told run")
    drive_kept.invoke(graph, {"words": ["x"], "last": "y"}, real)
    supersteps: Supersteps = [
        [StateUpdate({"words": ["x"], "last": "y"}, "__input__")],
        [StateUpdate({"words": ["x"], "last": "y"}, START)],
        [StateUpdate({"words": ["a"]}, "a")],
        [StateUpdate({"words": ["b"]}, "b")],
    ]
    drive_kept.bulk_update(graph, told, supersteps)

    def shown(config: Any) -> list[Any]:
        return [
            (each.values, each.next, (each.metadata or {})["step"], [(task.name, task.result) for task in each.tasks])
            for each in drive_kept.history(graph, config)
        ]

    assert shown(told) == shown(real)


@pytest.mark.rule("bulk-1")
def test_updates_of_one_superstep_apply_in_their_order(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(fan_out("a", "b")), thread("bulk order")
    drive_kept.bulk_update(graph, config, [[StateUpdate({}, START)], [B, A]])

    assert drive_kept.get_state(graph, config).values["words"] == ["2", "1"]


@pytest.mark.rule("bulk-1")
def test_several_updates_of_one_node_are_several_tasks(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("bulk of one node")
    drive_kept.invoke(graph, {}, config)
    drive_kept.bulk_update(graph, config, [[A, A._replace(values={"words": ["3"]})]])

    assert drive_kept.get_state(graph, config).values["words"] == ["a", "b", "1", "3"]
    assert drive_kept.get_state(graph, config).next == ("b",)


@pytest.mark.rule("bulk-2")
@pytest.mark.parametrize(
    ("supersteps", "error", "message"),
    [
        ([], ValueError, "^No supersteps provided"),
        ([[]], ValueError, "^No updates provided"),
        ([[A], []], ValueError, "^No updates provided"),
        ([[A, StateUpdate({})]], InvalidUpdateError, "^as_node is required when applying multiple updates"),
        ([[A, StateUpdate({}, "nobody")]], InvalidUpdateError, "^Node nobody does not exist"),
        ([[StateUpdate(None, END), A]], InvalidUpdateError, "^Cannot apply multiple updates when clearing state"),
        ([[StateUpdate({}, "__input__"), A]], InvalidUpdateError, "^Cannot apply multiple updates when updating as i"),
        ([[StateUpdate(None, "__copy__"), A]], InvalidUpdateError, "^Cannot copy checkpoint with multiple updates"),
    ],
    ids=["nothing", "an empty one", "an empty one later", "no node", "nobody", "the end", "an input", "a copy"],
)
def test_updates_that_do_not_go_together_are_refused(
    drive_kept: Drive, supersteps: Supersteps, error: type[Exception], message: str
) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread(f"refused {message}")
    drive_kept.invoke(graph, {}, config)
    before = drive_kept.history(graph, config)
    with pytest.raises(error, match=message):
        drive_kept.bulk_update(graph, config, supersteps)

    assert drive_kept.history(graph, config) == before


@pytest.mark.rule("bulk-2")
@pytest.mark.ours_only("there, only the first one is looked at")
def test_a_copy_among_other_updates_is_refused_wherever_it_stands(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("a copy among others")
    drive_kept.invoke(graph, {}, config)

    for name in ("__copy__", "__input__", END):
        with pytest.raises(InvalidUpdateError, match="multiple updates"):
            drive_kept.bulk_update(graph, config, [[A, StateUpdate(None, name)]])


@pytest.mark.rule("bulk-2")
def test_a_task_can_be_named_where_several_of_its_node_are_due(drive_kept: Drive) -> None:
    builder = StateGraph(Words)
    builder.add_node("work", lambda arg: {"words": [str(arg)]})
    builder.add_conditional_edges(START, _packets, ["work"])
    graph, config = drive_kept.keeping(builder, interrupt_before=["work"]), thread("named task")
    drive_kept.invoke(graph, {"last": "x"}, config)
    first, second = drive_kept.get_state(graph, config).tasks
    drive_kept.bulk_update(graph, config, [[StateUpdate({"words": ["u"]}, "work", second.id)]])
    before = next(each for each in drive_kept.history(graph, config) if each.next == ("work", "work"))

    assert {task.id: task.result for task in before.tasks} == {first.id: None, second.id: {"words": ["u"]}}


def _packets(_: Words) -> Any:
    from phalanx.types import Send

    return [Send("work", 1), Send("work", 2)]
