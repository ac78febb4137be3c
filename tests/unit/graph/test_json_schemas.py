"""What a compiled graph says about its input, output and context."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import dataclasses
import operator
from typing import Annotated, Any, NotRequired

import pytest
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from phalanx.graph import START, StateGraph
from phalanx.managed import RemainingSteps
from phalanx.pregel.schemas import title_of


class State(TypedDict):
    """The whole state."""

    count: int
    words: Annotated[list[str], operator.add]
    note: NotRequired[str]


class Given(TypedDict):
    count: int


@dataclasses.dataclass
class Record:
    count: int
    maybe: int | None
    left: RemainingSteps
    words: Annotated[list[str], operator.add] = dataclasses.field(default_factory=lambda: ["x"])


class Model(BaseModel):
    count: int
    note: str = "x"


def compiled(schema: Any, name: str | None = None, **schemas: Any) -> Any:
    builder: StateGraph[Any] = StateGraph(schema, **schemas)
    builder.add_node("a", lambda _: None).add_edge(START, "a")
    return builder.compile(name=name)


def test_what_may_be_left_out_is_not_required() -> None:
    assert compiled(State).get_input_jsonschema()["required"] == ["count", "words"]
    assert compiled(Record).get_input_jsonschema()["required"] == ["count"]
    assert compiled(Model).get_input_jsonschema()["required"] == ["count"]


def test_defaults_are_told_and_managed_values_of_a_dataclass_are_not() -> None:
    properties = compiled(Record).get_input_jsonschema()["properties"]

    assert {key: told.get("default", "none") for key, told in properties.items()} == {
        "count": "none",
        "maybe": None,
        "words": ["x"],
    }


def test_input_and_output_are_told_apart() -> None:
    graph = compiled(State, input_schema=Given, output_schema=Model)

    assert graph.get_input_jsonschema()["title"] == "Given"
    assert graph.get_output_jsonschema()["title"] == "Model"
    assert graph.InputType is Given
    assert graph.OutputType is None


def test_the_input_s_model_takes_what_the_input_schema_takes() -> None:
    model = compiled(State, input_schema=Given).get_input_schema()

    assert model.model_validate({"count": 1}).root == {"count": 1}
    with pytest.raises(ValidationError):
        model.model_validate({"count": "many"})
    assert compiled(Model).get_input_schema() is Model


def test_any_key_of_the_output_s_model_may_be_absent() -> None:
    model = compiled(State).get_output_schema()

    assert model.model_validate({}).model_dump() == {"count": None, "words": None, "note": None}


def test_a_state_of_one_value_is_told_by_its_type() -> None:
    graph = compiled(list[int])

    assert (graph.InputType, graph.OutputType) == (list[int], list[int])
    assert graph.get_output_jsonschema()["type"] == "array"
    assert graph.get_input_schema().model_validate([1]).root == [1]


def test_keys_may_have_the_names_of_a_model_s_own_attributes() -> None:
    class Awkward:
        schema: int
        json: str
        model_config: int
        _own: int

    graph = compiled(Awkward)

    assert [*graph.get_input_jsonschema()["properties"]] == ["schema", "json", "model_config", "_own"]
    assert [*graph.get_output_schema().model_json_schema()["properties"]] == ["schema", "json", "model_config", "_own"]


@pytest.mark.parametrize(("schema", "title"), [(State, "State"), (Record, "Record"), (Model, "Model")])
def test_the_context_is_told_by_its_class(schema: Any, title: str) -> None:
    assert compiled(State, context_schema=schema).get_context_jsonschema()["title"] == title


def test_a_context_without_a_class_has_no_schema() -> None:
    assert compiled(State).get_context_jsonschema() is None


def test_a_context_of_a_class_that_says_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^Invalid context schema type: <class 'int'>"):
        compiled(State, context_schema=int).get_context_jsonschema()


@pytest.mark.parametrize(
    ("graph", "title"),
    [("", "LangGraphInput"), ("census", "census_input"), ("Census", "CensusInput"), ("1a", "1a_input")],
)
def test_a_schema_without_a_name_is_titled_after_the_graph(graph: str, title: str) -> None:
    assert title_of(graph, "input") == title
    assert compiled(int, graph).get_input_jsonschema()["title"] == title
