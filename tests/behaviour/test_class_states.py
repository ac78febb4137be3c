"""States that are dataclasses or pydantic models."""

import dataclasses
import operator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ValidationError
from tests.behaviour.drivers import Drive, compiled, thread

from phalanx.constants import START
from phalanx.errors import RemoteNodeError
from phalanx.graph import StateGraph


@dataclasses.dataclass
class Report:
    title: str
    pages: int = 1
    lines: Annotated[list[str], operator.add] = dataclasses.field(default_factory=list[str])


class Order(BaseModel):
    item: str
    amount: int = 1
    note: str | None = None
    log: Annotated[list[str], operator.add] = []


@dataclasses.dataclass
class Basket:
    name: str
    order: Order | None = None


def _report() -> StateGraph[Any]:
    def titles(state: Report) -> dict[str, object]:
        return {"title": state.title.upper(), "lines": [type(state).__name__]}

    def whole(state: Report) -> Report:
        return Report(state.title + "!", 3, ["whole"])

    builder: StateGraph[Any] = StateGraph(Report)
    builder.add_node("titles", titles)
    builder.add_node("whole", whole)
    builder.add_edge(START, "titles")
    builder.add_edge("titles", "whole")
    return builder


@pytest.mark.rule("model-1")
def test_a_dataclass_state_reaches_nodes_as_an_instance_and_leaves_as_a_dict(drive: Drive) -> None:
    result = drive.invoke(compiled(_report()), {"title": "a", "pages": 2})

    assert result == {"title": "A!", "pages": 3, "lines": ["Report", "whole"]}


@pytest.mark.rule("model-1")
def test_an_instance_can_be_the_input(drive: Drive) -> None:
    assert drive.invoke(compiled(_report()), Report("a"))["title"] == "A!"


def _order() -> StateGraph[Any]:
    def doubles(state: Order) -> dict[str, object]:
        return {"amount": state.amount * 2, "log": [type(state).__name__]}

    builder: StateGraph[Any] = StateGraph(Order)
    builder.add_node("doubles", doubles)
    builder.add_edge(START, "doubles")
    return builder


@pytest.mark.rule("model-1")
def test_a_pydantic_state_reaches_nodes_as_a_model(drive: Drive) -> None:
    assert drive.invoke(compiled(_order()), {"item": "pen", "amount": 2}) == {
        "item": "pen",
        "amount": 4,
        "log": ["Order"],
    }


@pytest.mark.rule("model-3")
def test_a_value_is_validated_when_a_node_is_about_to_read_it(drive: Drive) -> None:
    # From a cluster its text comes back, not its class: see "native_errors" in conftest.
    expected = RemoteNodeError if drive.name == "cluster" else ValidationError
    with pytest.raises(expected, match="amount"):
        drive.invoke(compiled(_order()), {"item": "pen", "amount": "many"})


@pytest.mark.rule("model-2")
def test_a_model_writes_what_was_set(drive: Drive) -> None:
    """A ``None`` that is only a default is not written."""

    def renames(state: Order) -> Order:
        return Order(item=state.item + "cil")

    builder: StateGraph[Any] = StateGraph(Order)
    builder.add_node("renames", renames)
    builder.add_edge(START, "renames")

    assert drive.stream(compiled(builder), Order(item="pen", note="n")) == [
        {"renames": {"item": "pencil", "amount": 1, "log": []}}
    ]


def test_a_model_inside_the_state_comes_back_as_a_model(drive_kept: Drive) -> None:
    def places(state: Basket) -> dict[str, object]:
        return {"order": Order(item=state.name, amount=5)}

    builder: StateGraph[Any] = StateGraph(Basket)
    builder.add_node("places", places)
    builder.add_edge(START, "places")
    graph, config = drive_kept.keeping(builder), thread("model in state")

    assert drive_kept.invoke(graph, {"name": "pen"}, config)["order"] == Order(item="pen", amount=5)
    assert drive_kept.get_state(graph, config).values["order"] == Order(item="pen", amount=5)
