"""States that are pydantic models or dataclasses: what nodes get, what their instances write, what is validated."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import dataclasses
import operator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ValidationError, field_validator
from tests.behaviour.drivers import Drive, compiled
from typing_extensions import TypedDict

from phalanx.constants import START
from phalanx.errors import RemoteNodeError
from phalanx.graph import StateGraph
from phalanx.types import Command, Send


class Model(BaseModel):
    """A state that is a pydantic model."""

    name: str
    size: int = 1
    note: str | None = None
    label: str | None = "plain"
    log: Annotated[list[str], operator.add] = []


@dataclasses.dataclass
class Data:
    """A state that is a dataclass."""

    name: str
    size: int = 1
    note: str | None = None
    log: Annotated[list[str], operator.add] = dataclasses.field(default_factory=list[str])


class Inner(BaseModel):
    """A model inside a state."""

    value: int


class Nested(BaseModel):
    """A state with a model inside and a validator."""

    inner: Inner | None = None
    items: list[Inner] = []
    even: int = 0

    @field_validator("even")
    @classmethod
    def must_be_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


def one(schema: Any, node: Any) -> StateGraph[Any]:
    """A graph of one node."""
    builder: StateGraph[Any] = StateGraph(schema)
    builder.add_node("a", node)
    builder.add_edge(START, "a")
    return builder


def refused(drive: Drive) -> type[Exception]:
    """What a validation error comes back as: see "native_errors" in conftest."""
    return RemoteNodeError if drive.name == "cluster" else ValidationError


@pytest.mark.rule("model-1")
@pytest.mark.parametrize("schema", [Model, Data])
def test_a_node_gets_an_instance_with_the_defaults_of_what_is_not_set(drive: Drive, schema: Any) -> None:
    def node(state: Any) -> dict[str, Any]:
        return {"log": [f"{type(state).__name__} {state.name} {state.size} {state.note}"]}

    assert drive.invoke(compiled(one(schema, node)), {"name": "n"})["log"] == [f"{schema.__name__} n 1 None"]


@pytest.mark.rule("model-1")
@pytest.mark.parametrize("given", [Model(name="n", size=3), {"name": "n", "size": 3}], ids=["instance", "dict"])
def test_an_input_is_an_instance_or_a_dict(drive: Drive, given: Any) -> None:
    def node(state: Model) -> dict[str, Any]:
        return {"size": state.size + 1}

    result = drive.invoke(compiled(one(Model, node)), given)

    assert isinstance(result, dict)
    assert (result["name"], result["size"]) == ("n", 4)


@pytest.mark.rule("model-1")
def test_values_are_coerced_for_the_node_that_reads_them(drive: Drive) -> None:
    def node(state: Nested) -> dict[str, Any]:
        assert isinstance(state.inner, Inner)
        return {"even": state.inner.value * 2, "items": [*state.items, Inner(value=7)]}

    result = drive.invoke(compiled(one(Nested, node)), {"inner": {"value": "4"}, "items": [{"value": 1}]})

    assert (result["even"], result["items"]) == (8, [Inner(value=1), Inner(value=7)])


@pytest.mark.rule("model-2")
@pytest.mark.parametrize(
    ("answer", "update"),
    [
        (Model(name="m"), {"name": "m", "size": 1, "label": "plain", "log": []}),
        (Model(name="m", note=None), {"name": "m", "size": 1, "note": None, "label": "plain", "log": []}),
        (Model(name="m", label=None), {"name": "m", "size": 1, "label": None, "log": []}),
        (Command[str](update=Model(name="m", size=2)), {"name": "m", "size": 2, "label": "plain", "log": []}),
    ],
    ids=["defaults", "none that was set", "none that is no default", "in a command"],
)
def test_a_model_writes_its_values_and_those_nones_that_say_something(
    drive: Drive, answer: Any, update: dict[str, Any]
) -> None:
    def node(_: Model) -> Any:
        return answer

    assert drive.stream(compiled(one(Model, node)), {"name": "n"}) == [{"a": update}]


@pytest.mark.rule("model-2")
@pytest.mark.parametrize("wrapped", [False, True], ids=["alone", "in a command"])
def test_a_dataclass_writes_all_its_values(drive: Drive, wrapped: bool) -> None:
    def node(_: Data) -> Any:
        answer = Data("m", log=["l"])
        return Command(update=answer) if wrapped else answer

    update = {"name": "m", "size": 1, "note": None, "log": ["l"]}

    assert drive.stream(compiled(one(Data, node)), {"name": "n"}) == [{"a": update}]


@pytest.mark.rule("model-2")
def test_an_instance_of_another_class_writes_the_keys_they_share(drive: Drive) -> None:
    @dataclasses.dataclass
    class Part:
        size: int
        other: int = 5

    def node(_: Model) -> Any:
        return Part(9)

    assert drive.stream(compiled(one(Model, node)), {"name": "n"}) == [{"a": {"size": 9}}]


@pytest.mark.rule("model-3")
def test_a_value_that_does_not_fit_is_found_when_a_node_is_about_to_read_it(drive: Drive) -> None:
    ran: list[str] = []

    def writes(_: Model) -> dict[str, Any]:
        ran.append("writes")
        return {"size": "many"}

    def reads(_: Model) -> dict[str, Any]:
        ran.append("reads")
        return {}

    builder = one(Model, writes)
    builder.add_node("b", reads)
    builder.add_edge("a", "b")

    with pytest.raises(refused(drive), match="size"):
        drive.invoke(compiled(builder), {"name": "n"})
    assert ran == ["writes"]


@pytest.mark.rule("model-3")
def test_a_value_that_nobody_reads_is_not_validated(drive: Drive) -> None:
    def writes(_: Model) -> dict[str, Any]:
        return {"size": "many"}

    assert drive.invoke(compiled(one(Model, writes)), {"name": "n"})["size"] == "many"


@pytest.mark.rule("model-3")
@pytest.mark.parametrize("given", [{}, {"name": "n", "size": "x"}, {"name": None}], ids=repr)
def test_an_input_that_does_not_fit_fails_before_the_first_node_runs(drive: Drive, given: Any) -> None:
    ran: list[int] = []

    def node(_: Model) -> dict[str, Any]:
        ran.append(1)
        return {}

    with pytest.raises(refused(drive)):
        drive.invoke(compiled(one(Model, node)), given)
    assert ran == []


@pytest.mark.rule("model-3")
def test_validators_of_the_model_run(drive: Drive) -> None:
    with pytest.raises(refused(drive), match="must be even"):
        drive.invoke(compiled(one(Nested, lambda _: {})), {"even": 3})


@pytest.mark.rule("model-4")
def test_a_packet_s_argument_is_not_made_into_an_instance(drive: Drive) -> None:
    def node(arg: Model) -> dict[str, Any]:
        return {"log": [type(arg).__name__]}

    builder: StateGraph[Any] = StateGraph(Model)
    builder.add_node("a", node)
    builder.add_conditional_edges(START, lambda _: [Send("a", {"name": 5}), Send("a", Model(name="n"))])

    assert drive.invoke(compiled(builder), {"name": "n"})["log"] == ["dict", "Model"]


@pytest.mark.rule("model-4")
def test_a_path_gets_an_instance_too(drive: Drive) -> None:
    def path(state: Model) -> str:
        return "b" if state.size == 5 else "c"

    builder = one(Model, lambda _: {"size": 5})
    for name in ("b", "c"):
        builder.add_node(name, lambda _, name=name: {"log": [name]})
    builder.add_conditional_edges("a", path)

    assert drive.invoke(compiled(builder), {"name": "n"})["log"] == ["b"]


class Plain(TypedDict):
    """A state that is no class of instances."""

    name: str
    size: int
    log: Annotated[list[str], operator.add]


@pytest.mark.rule("model-4")
def test_a_node_may_read_the_state_as_a_model_of_its_own(drive: Drive) -> None:
    class Sized(BaseModel):
        size: int = 4

    def node(state: Sized) -> dict[str, Any]:
        return {"log": [str(state.size)]}

    assert drive.invoke(compiled(one(Plain, node)), {"name": "n"})["log"] == ["4"]
    assert drive.invoke(compiled(one(Plain, node)), {"size": "6"})["log"] == ["6"]


@pytest.mark.rule("model-4")
def test_input_and_output_may_be_models_of_their_own(drive: Drive) -> None:
    class Given(BaseModel):
        name: str

    class Result(BaseModel):
        size: int = 0

    def node(state: Plain) -> dict[str, Any]:
        return {"size": len(state["name"])}

    builder: StateGraph[Any] = StateGraph(Plain, input_schema=Given, output_schema=Result)
    builder.add_node("a", node)
    builder.add_edge(START, "a")

    assert drive.invoke(compiled(builder), Given(name="abc")) == {"size": 3}
