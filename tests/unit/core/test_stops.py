"""Breakpoints hit the nodes they name, once for every change."""

import pytest

from phalanx.constants import START
from phalanx.coordinator.state import GraphState
from phalanx.coordinator.stops import NO_STOPS, Names, Stops, has_moved, note_gone_on
from phalanx.graph import StateGraph


def nothing(_: dict[str, object]) -> None:
    """A node."""


def graph() -> StateGraph[dict[str, object]]:
    """Of two nodes."""
    builder: StateGraph[dict[str, object]] = StateGraph(dict[str, object])
    for name in "ab":
        builder.add_node(name, nothing)
        builder.add_edge(START, name)
    return builder


@pytest.mark.parametrize(
    ("names", "nodes", "expected"),
    [
        (frozenset[str](), ["a"], False),
        (frozenset({"a"}), ["a", "b"], True),
        (frozenset({"a"}), ["b"], False),
        ("*", ["b"], True),
        ("*", [START], False),
        (frozenset({START}), [START], False),
        ("*", list[str](), False),
    ],
)
def test_a_stop_is_at_the_nodes_that_are_named_and_can_be_seen(names: Names, nodes: list[str], expected: bool) -> None:
    blueprint = graph().compile().blueprint
    state = GraphState.fresh(blueprint)
    state.versions["words"] = 1

    assert NO_STOPS.hits(names, blueprint, state, nodes) is expected


def test_a_stop_is_over_when_a_run_goes_on_and_is_one_again_when_something_changes() -> None:
    blueprint = graph().compile().blueprint
    state, stops = GraphState.fresh(blueprint), Stops(before="*")
    assert not has_moved(state)
    state.versions["words"] = 1
    assert stops.hits(stops.before, blueprint, state, ["a"])

    note_gone_on(state)
    assert not has_moved(state)
    assert not stops.hits(stops.before, blueprint, state, ["a"])

    state.versions["words"] = 2
    assert stops.hits(stops.before, blueprint, state, ["a"])


def test_what_was_seen_when_a_run_went_on_does_not_change_with_the_state() -> None:
    state = GraphState.fresh(graph().compile().blueprint)
    state.versions["words"] = 1
    note_gone_on(state)
    state.versions["other"] = 1

    assert has_moved(state)
