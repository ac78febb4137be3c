"""State keys whose value the engine works out: how many steps are left, and whether this is the last."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import logging
import operator
from typing import Annotated, Any, NotRequired, Required

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Update, gives
from typing_extensions import TypedDict

from phalanx.constants import END, START
from phalanx.graph import StateGraph
from phalanx.managed import IsLastStep, RemainingSteps
from phalanx.types import Send


class Bare(TypedDict):
    """Managed keys as they are."""

    words: Annotated[list[str], operator.add]
    steps: RemainingSteps
    is_last: IsLastStep


class Wrapped(TypedDict):
    """Managed keys with a word about whether they must be there."""

    words: Annotated[list[str], operator.add]
    steps: Required[RemainingSteps]
    is_last: NotRequired[IsLastStep]


class Given(TypedDict):
    """An input with a managed key."""

    steps: RemainingSteps


def looks(state: Any) -> Update:
    """A node that notes what it sees."""
    return {"words": [f"{state['steps']} {state['is_last']}"]}


def looking(schema: type[Any] = Bare, first: Any = looks) -> StateGraph[Any]:
    """Two nodes that look, one after the other."""
    builder: StateGraph[Any] = StateGraph(schema)
    builder.add_node("a", first)
    builder.add_node("b", looks)
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    return builder


@pytest.mark.rule("managed-1")
@pytest.mark.parametrize("schema", [Bare, Wrapped])
def test_a_node_is_told_how_many_steps_are_left_and_whether_it_is_the_last(drive: Drive, schema: Any) -> None:
    seen = drive.invoke(compiled(looking(schema)), {}, {"recursion_limit": 3})

    assert seen == {"words": ["2 False", "1 True"]}


@pytest.mark.rule("managed-1")
def test_a_path_is_told_too(drive: Drive) -> None:
    def path(state: Bare) -> str:
        return END if state["steps"] < 3 else "a"

    builder: StateGraph[Any] = StateGraph(Bare)
    builder.add_node("a", looks)
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", path)

    seen = drive.invoke(compiled(builder), {}, {"recursion_limit": 6})["words"]

    assert seen == ["5 False", "4 False", "3 False", "2 False"]


@pytest.mark.rule("managed-1")
def test_a_packet_brings_its_argument_only(drive: Drive) -> None:
    builder: StateGraph[Any] = StateGraph(Bare)
    builder.add_node("a", lambda arg: {"words": sorted(arg)})
    builder.add_conditional_edges(START, gives([Send("a", {"x": 1})]))

    assert drive.invoke(compiled(builder), {})["words"] == ["x"]


@pytest.mark.rule("managed-2")
def test_managed_keys_are_no_part_of_what_a_run_returns_streams_or_keeps(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(looking()), thread("managed", recursion_limit=10)
    values = drive_kept.stream(graph, {}, config, stream_mode="values")

    assert values == [{"words": ["9 False"]}, {"words": ["9 False", "8 False"]}]
    assert drive_kept.get_state(graph, config).values == values[-1]


@pytest.mark.rule("managed-2")
def test_writing_a_managed_key_warns_and_changes_nothing(drive: Drive, caplog: pytest.LogCaptureFixture) -> None:
    graph = compiled(looking(first=gives({"words": ["x"], "steps": 99})))

    with caplog.at_level(logging.WARNING):
        assert drive.invoke(graph, {}, {"recursion_limit": 10})["words"] == ["x", "8 False"]
    assert any("steps" in record.getMessage() for record in caplog.records)


@pytest.mark.rule("managed-2")
def test_a_managed_key_that_is_given_as_input_changes_nothing(drive: Drive) -> None:
    seen = drive.invoke(compiled(looking()), {"words": ["x"], "steps": 99}, {"recursion_limit": 10})

    assert seen["words"] == ["x", "9 False", "8 False"]


@pytest.mark.rule("managed-3")
@pytest.mark.parametrize("place", ["input_schema", "output_schema"])
def test_managed_keys_may_not_be_in_input_or_output(place: str) -> None:
    schemas: dict[str, Any] = {place: Given}

    with pytest.raises(ValueError, match="Invalid managed channels detected in Given: steps"):
        StateGraph(Bare, **schemas)
