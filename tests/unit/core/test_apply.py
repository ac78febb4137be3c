"""What a superstep's writes do to a state, rule by rule, and that a step which fails does nothing."""

import logging
import operator
from collections.abc import Sequence
from typing import ClassVar

import pytest
from tests.unit.blueprints import content, given, graph, node, planned, state_after, task

from phalanx.channels import (
    AnyValue,
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
)
from phalanx.channels.base import MISSING
from phalanx.checkpoint.base import Version
from phalanx.coordinator.apply import TaskWrites, apply_writes
from phalanx.coordinator.state import GraphState, count_up
from phalanx.errors import InvalidUpdateError, UnknownNodeError
from phalanx.protocol.names import ERROR, INTERRUPT, NO_WRITES, RESUME, TASKS
from phalanx.types import Send, Update
from phalanx.worker.blueprint import Blueprint


def log() -> BinaryOperatorAggregate[list[str]]:
    return BinaryOperatorAggregate(list[str], operator.add)


def value(state: GraphState, name: str) -> object:
    return state.channels[name].checkpoint()


# --- order ------------------------------------------------------------------------------------------------------------


def test_writes_are_applied_in_the_order_of_task_paths_whatever_order_the_tasks_come_in() -> None:
    blueprint = graph(node("a"), node("b"), channels={"log": log()})
    tasks = [
        task("a", index=10, writes=[("log", ["a10"])]),
        task("a", index=2, writes=[("log", ["a2"])]),
        task("b", writes=[("log", ["b"])]),
        task("a", writes=[("log", ["a"])]),
    ]

    for order in (tasks, tasks[::-1]):
        assert value(state_after(blueprint, order), "log") == ["a", "b", "a2", "a10"]


def test_one_task_s_own_writes_keep_their_order() -> None:
    blueprint = graph(node("a"), channels={"log": log()})

    state = state_after(blueprint, [task("a", writes=[("log", ["1"]), ("value", 0), ("log", ["2"])])])

    assert value(state, "log") == ["1", "2"]


# --- versions ---------------------------------------------------------------------------------------------------------


def test_every_channel_that_a_superstep_changes_gets_the_same_next_version() -> None:
    blueprint = graph(node("a"), node("b"), channels={"log": log()})

    state = state_after(
        blueprint,
        [given(("to:a", None))],
        [task("a", writes=[("value", 1), ("log", ["x"]), ("to:b", None)])],
    )

    assert state.versions == {"to:a": 2, "value": 2, "log": 2, "to:b": 2}
    assert state.newest == 2


def test_the_next_version_is_asked_for_once_a_superstep_with_the_newest_one() -> None:
    blueprint = graph(node("a"))
    asked: list[Version | None] = []

    def count_by_ten(current: Version | None) -> Version:
        asked.append(current)
        return count_up(current) + 9

    state_after(
        blueprint,
        [given(("to:a", None))],
        [task("a", writes=[("value", 1)]), task("a", index=0, writes=[("to:a", 1)])],
        next_version=count_by_ten,
    )

    assert asked == [None, 10]


def test_a_superstep_that_changes_nothing_takes_no_version() -> None:
    blueprint = graph(node("a", "kept"), channels={"kept": LastValue[object](object)})
    state = state_after(blueprint, [given(("kept", 1))])

    assert apply_writes(blueprint, state, [task("a", "kept")], count_up) == frozenset()
    assert (state.newest, state.versions) == (1, {"kept": 1})


def test_the_names_of_the_changed_channels_are_returned_also_of_those_that_are_now_empty() -> None:
    blueprint = graph(node("a"))
    state = state_after(blueprint, [given(("to:a", None))])

    changed = apply_writes(blueprint, state, [task("a", writes=[("value", 1)])], count_up)

    assert changed == {"to:a", "value"}
    assert state.updated == frozenset({"value"})


def test_versions_of_other_savers_are_followed() -> None:
    blueprint = graph(node("a"))
    state = GraphState.load(blueprint, {"value": 1}, {"value": "0007"}, {})

    apply_writes(blueprint, state, [given(("to:a", None))], lambda current: f"{int(str(current)) + 1:04}")

    assert state.versions == {"value": "0007", "to:a": "0008"}
    assert [task.name for task in planned(blueprint, state)] == ["a"]


def test_counting_up_refuses_a_version_it_cannot_follow() -> None:
    with pytest.raises(TypeError, match="cannot count up from version '0007' of type str"):
        count_up("0007")


# --- what nodes have seen ---------------------------------------------------------------------------------------------


def test_a_task_s_triggers_are_noted_as_seen_in_the_version_that_triggered_it() -> None:
    blueprint = graph(
        node("a", "kept", "other"), channels={"kept": LastValue[object](object), "other": LastValue[object](object)}
    )

    state = state_after(
        blueprint,
        [given(("kept", 1), ("other", 1))],
        [task("a", "kept", writes=[("kept", 2)])],
        [task("a", "kept"), task("a", "other")],
    )

    assert state.seen["a"] == {"kept": 2, "other": 1}


def test_what_other_nodes_have_seen_stays_as_it_is() -> None:
    blueprint = graph(node("a"), node("b"))
    state = state_after(blueprint, [given(("to:a", None), ("to:b", None))], [task("a")])
    before = state.seen["a"]

    apply_writes(blueprint, state, [task("b")], count_up)

    assert state.seen["a"] is before
    assert state.seen["b"] == {"to:b": 2}


def test_a_dict_of_seen_versions_is_replaced_and_never_changed() -> None:
    blueprint = graph(node("a", "kept"), channels={"kept": LastValue[object](object)})
    state = state_after(blueprint, [given(("kept", 1))], [task("a", "kept", writes=[("kept", 2)])])
    before = state.seen["a"]

    apply_writes(blueprint, state, [task("a", "kept")], count_up)

    assert before == {"kept": 1}
    assert state.seen["a"] == {"kept": 2}


def test_the_input_and_packets_have_seen_nothing_but_are_noted() -> None:
    blueprint = graph(node("a"))

    state = state_after(blueprint, [given(("to:a", None))], [task("a", index=0)])

    assert state.seen == {"__input__": {}, "a": {}}


# --- consume, empty updates, finish -----------------------------------------------------------------------------------


def test_a_barrier_closes_when_the_node_behind_it_has_run() -> None:
    blueprint = graph(node("c", "join"), channels={"join": NamedBarrierValue(str, {"a", "b"})})
    state = state_after(blueprint, [given(("join", "a"))], [given(("join", "b"))])
    assert [task.name for task in planned(blueprint, state)] == ["c"]

    apply_writes(blueprint, state, [task("c", "join")], count_up)

    assert value(state, "join") == set()
    assert planned(blueprint, state) == []


def test_a_barrier_is_consumed_before_the_writes_of_the_same_step_arrive() -> None:
    blueprint = graph(node("c", "join"), channels={"join": NamedBarrierValue(str, {"a", "b"})})
    state = state_after(blueprint, [given(("join", "a"), ("join", "b"))])

    apply_writes(blueprint, state, [task("c", "join"), task("x", writes=[("join", "a")])], count_up)

    assert value(state, "join") == {"a"}


def test_a_channel_that_expires_is_emptied_by_a_step_that_does_not_write_it_and_that_counts_as_a_change() -> None:
    blueprint = graph(
        node("a"),
        channels={"hint": EphemeralValue[object](object), "mail": Topic(str), "any": AnyValue[object](object)},
    )
    state = state_after(blueprint, [given(("to:a", None), ("hint", 1), ("mail", "x"), ("any", 2))])

    changed = apply_writes(blueprint, state, [task("a")], count_up)

    assert changed == {"to:a", "hint", "mail", "any"}
    assert set(state.versions.values()) == {2}
    assert not any(state.channels[name].is_available() for name in changed)
    assert state.updated == frozenset()


def test_a_channel_that_expires_lives_on_while_it_is_written() -> None:
    blueprint = graph(node("a"), channels={"mail": Topic(str)})
    state = state_after(blueprint, [given(("to:a", None), ("mail", "x"))])

    apply_writes(blueprint, state, [task("a", writes=[("mail", "y")])], count_up)
    assert value(state, "mail") == ["y"]

    apply_writes(blueprint, state, [task("a")], count_up)
    assert value(state, "mail") == []


def test_a_channel_that_accumulates_does_not_change_unwritten() -> None:
    blueprint = graph(node("a"), channels={"mail": Topic(str, accumulate=True)})
    state = state_after(blueprint, [given(("to:a", None), ("mail", "x"))])

    assert apply_writes(blueprint, state, [task("a")], count_up) == {"to:a"}
    assert value(state, "mail") == ["x"]


def test_input_alone_empties_nothing_and_finishes_nothing() -> None:
    blueprint = graph(
        node("a"),
        node("d", "last"),
        channels={"hint": EphemeralValue[object](object), "last": LastValueAfterFinish[object](object)},
    )
    state = state_after(blueprint, [given(("hint", 1), ("last", 1))])

    assert apply_writes(blueprint, state, [given(("value", 1))], count_up) == {"value"}
    assert value(state, "hint") == 1
    assert planned(blueprint, state) == []


def test_a_deferred_node_runs_when_nothing_else_is_left_and_only_once() -> None:
    blueprint = graph(
        node("a"), node("b"), node("last", "last"), channels={"last": LastValueAfterFinish[object](object)}
    )
    ran: list[list[str]] = []
    state = state_after(blueprint, [given(("to:a", None))])
    writes: dict[str, list[Update]] = {
        "a": [("last", None), ("to:b", None)],
        "b": [("last", None)],
        "last": [("value", 1)],
    }

    while tasks := planned(blueprint, state):
        ran.append([one.name for one in tasks])
        apply_writes(blueprint, state, [task(t.name, *t.triggers, writes=writes[t.name]) for t in tasks], count_up)

    assert ran == [["a"], ["b"], ["last"]]


def test_a_deferred_barrier_needs_all_its_names_and_that_nothing_is_left() -> None:
    blueprint = graph(
        node("a"),
        node("b"),
        node("c"),
        node("last", "join"),
        channels={"join": NamedBarrierValueAfterFinish(str, {"a", "b"})},
    )
    state = state_after(blueprint, [given(("to:a", None))], [task("a", writes=[("join", "a")])])
    assert planned(blueprint, state) == []

    apply_writes(blueprint, state, [given(("to:b", None))], count_up)
    apply_writes(blueprint, state, [task("b", writes=[("join", "b"), ("to:c", None)])], count_up)
    assert [one.name for one in planned(blueprint, state)] == ["c"]

    apply_writes(blueprint, state, [task("c")], count_up)
    assert [one.name for one in planned(blueprint, state)] == ["last"]


def test_finishing_gives_the_version_of_the_superstep_that_finished() -> None:
    blueprint = graph(node("a"), node("last", "last"), channels={"last": LastValueAfterFinish[object](object)})
    state = state_after(blueprint, [given(("to:a", None))])

    changed = apply_writes(blueprint, state, [task("a", writes=[("last", None)])], count_up)

    assert changed == {"to:a", "last"}
    assert state.versions["last"] == 2
    assert state.updated == frozenset({"last"})


def test_a_deferred_channel_of_a_loaded_state_is_finished_too() -> None:
    blueprint = graph(node("a"), node("last", "last"), channels={"last": LastValueAfterFinish[object](object)})
    state = GraphState.load(blueprint, {"last": (None, False), "to:a": None}, {"last": 1, "to:a": 2}, {})

    apply_writes(blueprint, state, [task("a")], count_up)

    assert [one.name for one in planned(blueprint, state)] == ["last"]


class Finishing(LastValue[object]):
    """Notes how often it is told that nothing is left."""

    __slots__ = ()

    finishes = True
    told: ClassVar[list[str]] = []

    def finish(self) -> bool:
        self.told.append(self.key)
        return False


def test_a_channel_that_did_not_change_since_it_was_finished_in_vain_is_not_told_again() -> None:
    blueprint = graph(node("a"), channels={"f": Finishing(object)})
    Finishing.told.clear()
    state = state_after(blueprint, [given(("to:a", None))], [task("a")], [task("a")], [task("a", writes=[("f", 1)])])

    assert Finishing.told == ["f", "f"]
    assert value(state, "f") == 1


# --- writes that mean nothing -----------------------------------------------------------------------------------------


def test_a_write_to_a_channel_that_does_not_exist_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    blueprint = graph(node("a"))

    with caplog.at_level(logging.WARNING, logger="phalanx.apply"):
        state = state_after(blueprint, [task("a", writes=[("to:nobody", None), ("value", 1)])])

    assert caplog.messages == ["node a wrote to unknown channel to:nobody; the write is ignored"]
    assert state.versions == {"value": 1}


@pytest.mark.parametrize("reserved", [NO_WRITES, ERROR, INTERRUPT, RESUME])
def test_a_write_about_the_task_itself_reaches_no_channel_and_warns_nobody(
    reserved: str, caplog: pytest.LogCaptureFixture
) -> None:
    state = state_after(graph(node("a")), [task("a", writes=[(reserved, "x")])])

    assert state.versions == {}
    assert caplog.messages == []


# --- all or nothing ---------------------------------------------------------------------------------------------------


def busy() -> tuple[Blueprint, GraphState]:
    """A state in which a step can do everything that a step can do: consume, expire, write, finish."""
    blueprint = graph(
        node("a"),
        node("b", "join"),
        node("last", "last"),
        channels={
            "join": NamedBarrierValue(str, {"x", "y"}),
            "last": LastValueAfterFinish[object](object),
            "hint": EphemeralValue[object](object),
            "log": log(),
            "guarded": EphemeralValue[object](object, guard=True),
        },
    )
    state = state_after(
        blueprint,
        [given(("to:a", None), ("join", "x"), ("join", "y"), ("hint", 1), ("last", 1), ("value", 0), ("log", ["0"]))],
    )
    return blueprint, state


def steps_that_fail() -> dict[str, tuple[Sequence[TaskWrites], type[Exception]]]:
    fine = [task("b", "join", writes=[("join", "x"), ("log", ["1"])]), task("a", writes=[("last", 2)])]
    return {
        "two writes to a plain key": (
            [*fine, task("a", index=0, writes=[("value", 1)]), task("a", index=1, writes=[("value", 2)])],
            InvalidUpdateError,
        ),
        "two writes of one task": (
            [*fine, task("a", index=0, writes=[("value", 1), ("value", 1)])],
            InvalidUpdateError,
        ),
        "two writes to a guarded hint": (
            [*fine, task("a", index=0, writes=[("guarded", 1), ("guarded", 2)])],
            InvalidUpdateError,
        ),
        "a packet for nobody": ([*fine, task("a", index=0, writes=[(TASKS, Send("nobody", 1))])], UnknownNodeError),
        "a name that the barrier does not know": (
            [*fine, task("a", index=0, writes=[("join", "z")])],
            InvalidUpdateError,
        ),
        "a reducer that raises": ([*fine, task("a", index=0, writes=[("log", 1)])], TypeError),
    }


@pytest.mark.parametrize("what", steps_that_fail())
def test_a_step_that_fails_leaves_the_state_as_it_was(what: str) -> None:
    blueprint, state = busy()
    channels, before = dict(state.channels), content(state)
    tasks, error = steps_that_fail()[what]

    for order in (tasks, tasks[::-1]):
        with pytest.raises(error):
            apply_writes(blueprint, state, order, count_up)

        assert content(state) == before
        assert all(state.channels[name] is channels[name] for name in channels)


def test_a_saver_that_cannot_count_on_leaves_the_state_as_it_was() -> None:
    blueprint, state = busy()
    before = content(state)

    def refuse(current: Version | None) -> Version:
        raise RuntimeError("no more versions")

    with pytest.raises(RuntimeError, match="no more versions"):
        apply_writes(blueprint, state, [task("b", "join"), task("a", writes=[("value", 1)])], refuse)

    assert content(state) == before


def test_after_a_failed_step_the_same_tasks_can_still_be_applied() -> None:
    blueprint, state = busy()
    with pytest.raises(InvalidUpdateError):
        apply_writes(blueprint, state, [task("a", writes=[("value", 1), ("value", 2)])], count_up)

    apply_writes(blueprint, state, [task("a", writes=[("value", 1)])], count_up)

    assert value(state, "value") == 1
    assert state.newest == 2


def test_two_writes_to_a_plain_key_are_refused_with_the_key_and_the_code_to_search_for() -> None:
    tasks = [task("a", writes=[("value", 1)]), task("b", writes=[("value", 2)])]

    with pytest.raises(InvalidUpdateError, match=r"^At key 'value': Can receive only one value per step.*INVALID_CONC"):
        state_after(graph(node("a"), node("b")), tasks)


def test_a_packet_for_an_unknown_node_is_refused_with_the_names_that_exist() -> None:
    blueprint = graph(node("count"), node("sum"))

    with pytest.raises(UnknownNodeError, match=r"'count' sent a packet to 'sumn', .* its nodes are: count, sum$"):
        state_after(blueprint, [task("count", writes=[(TASKS, Send("sumn", 1))])])


# --- loading ----------------------------------------------------------------------------------------------------------


def test_a_loaded_state_has_the_values_versions_and_expiring_channels_of_the_one_that_was_stored() -> None:
    blueprint, state = busy()
    stored = {name: made.checkpoint() for name, made in state.channels.items()}

    loaded = GraphState.load(
        blueprint, {name: held for name, held in stored.items() if held is not MISSING}, state.versions, state.seen
    )
    loaded.updated = state.updated

    assert content(loaded) == content(state)
    assert loaded.versions is not state.versions
    assert loaded.seen["__input__"] is not state.seen["__input__"]


def test_a_loaded_state_forgets_channels_the_graph_no_longer_has_and_starts_new_ones_empty() -> None:
    blueprint = graph(node("a"), channels={"log": log()})

    state = GraphState.load(blueprint, {"gone": 1, "value": 2}, {"gone": 3, "value": 3}, {"old": {"gone": 3}})

    assert value(state, "value") == 2
    assert value(state, "log") == []
    assert "gone" not in state.channels
    assert state.newest == 3
    assert state.updated is None
