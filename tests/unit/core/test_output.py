"""What a run shows of its state and of its tasks' writes."""

import pytest
from tests.unit.blueprints import graph, node

from phalanx.coordinator.output import Keys, as_names, read_values, shown_update
from phalanx.coordinator.state import GraphState
from phalanx.types import Update


def state(**values: object) -> GraphState:
    return GraphState.load(graph(node("a"), channels={}), values, dict.fromkeys(values, 1), {})


def test_keys_that_hold_nothing_are_left_out() -> None:
    assert read_values(state(), ("value", "to:a")) == {}
    assert read_values(state(value=None), ("value", "to:a")) == {"value": None}


def test_one_bare_key_shows_its_value_or_none() -> None:
    assert read_values(state(value=3), "value") == 3
    assert read_values(state(), "value") is None


def test_names_of_keys() -> None:
    assert as_names("value") == ("value",)
    assert as_names(["a", "b"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("keys", "writes", "shown"),
    [
        (["a", "b"], [("a", 1), ("b", 2), ("to:x", None)], {"a": 1, "b": 2}),
        (["a", "b"], [("a", 1), ("b", 2), ("a", 3)], [{"a": 1}, {"b": 2}, {"a": 3}]),
        (["a"], [("to:x", None)], None),
        (["a"], [], None),
        (["a"], [("a", None)], {"a": None}),
        ("a", [("a", 1)], 1),
        ("a", [("a", 1), ("b", 2), ("a", 3)], [1, 3]),
        ("a", [("b", 2)], None),
    ],
)
def test_an_update_shows_the_written_keys(keys: Keys, writes: list[Update], shown: object) -> None:
    assert shown_update(writes, keys) == shown
