"""The context of a run: what a caller gives to all nodes, apart from the state."""

import dataclasses
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from tests.behaviour.drivers import Drive, compiled
from tests.behaviour.states import Update, Words, alone, chain
from typing_extensions import TypedDict

from phalanx.constants import START
from phalanx.graph import StateGraph
from phalanx.runtime import Runtime, get_runtime


@dataclasses.dataclass
class Plain:
    """A context that is a dataclass."""

    user: str
    level: int = 1


class Checked(BaseModel):
    """A context that is a pydantic model."""

    user: str
    level: int = 1


class Typed(TypedDict):
    """A context that is a dict."""

    user: str


def looking(schema: type[Any] | None) -> StateGraph[Words]:
    """A node that notes its context."""

    def looks(_: Words, runtime: Runtime[Any]) -> Update:
        return {"other": runtime.context}

    builder: StateGraph[Words] = StateGraph(Words, context_schema=schema)
    builder.add_node("looks", looks)
    builder.add_edge(START, "looks")
    return builder


@pytest.mark.rule("context-1")
@pytest.mark.parametrize(
    ("schema", "context", "seen"),
    [
        (Plain, {"user": "u"}, Plain("u", 1)),
        (Plain, Plain("u", 2), Plain("u", 2)),
        (Checked, {"user": "u", "level": "3"}, Checked(user="u", level=3)),
        (Checked, Checked(user="u"), Checked(user="u")),
        (Typed, {"user": "u"}, {"user": "u"}),
        (Typed, {"anything": 1}, {"anything": 1}),
        (None, {"anything": 1}, {"anything": 1}),
    ],
    ids=["fields", "an instance", "fields of a model", "a model", "a dict", "another dict", "without a schema"],
)
def test_a_context_reaches_nodes_as_what_the_schema_says(
    drive: Drive, schema: Any, context: object, seen: object
) -> None:
    assert drive.invoke(compiled(looking(schema)), {}, context=context)["other"] == seen


@pytest.mark.rule("context-1")
@pytest.mark.parametrize("schema", [Plain, Checked, Typed, None])
def test_without_a_context_there_is_none(drive: Drive, schema: Any) -> None:
    assert drive.invoke(compiled(looking(schema)), {})["other"] is None
    assert drive.invoke(compiled(looking(schema)), {}, context=None)["other"] is None


@pytest.mark.rule("context-2")
@pytest.mark.parametrize("context", [{"pen": 1}, {"user": "u", "pen": 1}, {}], ids=repr)
def test_fields_that_do_not_fit_a_dataclass_are_refused_before_anything_runs(drive: Drive, context: Any) -> None:
    with pytest.raises(TypeError, match="__init__"):
        drive.invoke(compiled(looking(Plain)), {}, context=context)


@pytest.mark.rule("context-2")
@pytest.mark.parametrize("context", [{"level": 1}, {"user": 5}], ids=repr)
def test_fields_that_do_not_fit_a_model_are_refused_before_anything_runs(drive: Drive, context: Any) -> None:
    with pytest.raises(ValidationError, match="user"):
        drive.invoke(compiled(looking(Checked)), {}, context=context)


@pytest.mark.rule("context-3")
def test_every_node_of_a_run_has_its_context(drive: Drive) -> None:
    def looks(_: Words, runtime: Runtime[Plain]) -> Update:
        return {"words": [runtime.context.user]}

    builder: StateGraph[Words] = StateGraph(Words, context_schema=Plain)
    for name in ("a", "b"):
        builder.add_node(name, looks)
    builder.add_edge(START, "a")
    builder.add_edge("a", "b")
    graph = compiled(builder)

    assert drive.invoke(graph, {}, context=Plain("u"))["words"] == ["u", "u"]
    assert drive.invoke(graph, {}, context=Plain("v"))["words"] == ["v", "v"]


@pytest.mark.rule("context-3")
def test_a_stream_takes_a_context_too(drive: Drive) -> None:
    assert drive.stream(compiled(looking(Plain)), {}, context={"user": "u"}) == [{"looks": {"other": Plain("u")}}]


@pytest.mark.rule("context-3")
def test_a_graph_in_a_node_has_the_context_of_the_run(drive: Drive) -> None:
    builder = chain("a")
    builder.add_node("inner", looking(None).compile())
    builder.add_edge("a", "inner")

    assert drive.invoke(compiled(builder), {}, context={"user": "u"})["other"] == {"user": "u"}


@pytest.mark.rule("context-3")
def test_a_function_that_a_node_calls_can_ask_for_the_context(drive: Drive) -> None:
    def node(_: Words) -> Update:
        return {"other": get_runtime(Plain).context.user}

    assert drive.invoke(compiled(alone(node)), {}, context=Plain("u"))["other"] == "u"
