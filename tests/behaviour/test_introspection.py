"""What a graph says about itself: its schemas, its drawing, the graphs in it."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import dataclasses
import importlib
import operator
import warnings
from typing import Annotated, Any, Required

import pytest
from pydantic import BaseModel
from tests.behaviour.drivers import Drive, compiled
from tests.behaviour.states import Flaky, Words, chain, gives, says, silent
from typing_extensions import TypedDict

from phalanx.constants import END, START
from phalanx.graph import StateGraph
from phalanx.types import Command, RetryPolicy


class Typed(TypedDict, total=False):
    """A key that must be there, and one that need not."""

    a: Required[int]
    b: str


class Model(BaseModel):
    """The same with a default."""

    a: int
    b: str = "x"


@dataclasses.dataclass
class Data:
    """The same as a dataclass."""

    a: int
    b: str = "x"


def one(schema: Any, **schemas: Any) -> Any:
    """A compiled graph of one node."""
    builder: StateGraph[Any] = StateGraph(schema, **schemas)
    builder.add_node("n", silent)
    builder.add_edge(START, "n")
    return builder.compile()


@pytest.mark.rule("schema-1")
@pytest.mark.parametrize(("schema", "default"), [(Typed, None), (Model, "x"), (Data, "x")])
@pytest.mark.parametrize("side", ["input", "output"])
def test_json_schemas_tell_types_defaults_and_what_must_be_there(schema: Any, default: Any, side: str) -> None:
    found = getattr(one(schema), f"get_{side}_jsonschema")()

    assert found["type"] == "object"
    assert found["required"] == ["a"]
    assert {key: value["type"] for key, value in found["properties"].items()} == {"a": "integer", "b": "string"}
    assert found["properties"]["b"].get("default") == default


@pytest.mark.rule("schema-1")
def test_json_schemas_of_input_and_output_are_those_of_their_schemas() -> None:
    class Given(TypedDict):
        a: int

    class Result(TypedDict):
        b: str

    graph = one(Typed, input_schema=Given, output_schema=Result)

    assert list(graph.get_input_jsonschema()["properties"]) == ["a"]
    assert list(graph.get_output_jsonschema()["properties"]) == ["b"]


@pytest.mark.rule("schema-1")
def test_the_json_schema_of_the_context_is_that_of_its_schema() -> None:
    found = one(Typed, context_schema=Data).get_context_jsonschema()

    assert list(found["properties"]) == ["a", "b"]
    assert found["required"] == ["a"]
    assert one(Typed).get_context_jsonschema() is None


# --- drawings ---------------------------------------------------------------------------------------------------------


def branching() -> Any:
    """``a`` leads to ``b`` or the end, ``b`` to ``c``, which leads nowhere."""
    builder = chain("a")
    builder.add_node("b", says("b"))
    builder.add_node("c", says("c"))
    builder.add_conditional_edges("a", gives("b"), ["b", END])
    builder.add_edge("b", "c")
    return builder


def edges_of(graph: Any) -> set[tuple[str, str, bool]]:
    """The edges of a drawing."""
    return {(edge.source, edge.target, edge.conditional) for edge in graph.edges}


@pytest.mark.rule("draw-1")
def test_a_drawing_has_all_nodes_and_edges_and_tells_conditional_ones() -> None:
    drawing = branching().compile().get_graph()

    assert set(drawing.nodes) == {START, "a", "b", "c", END}
    assert edges_of(drawing) == {
        (START, "a", False),
        ("a", "b", True),
        ("a", END, True),
        ("b", "c", False),
        ("c", END, False),
    }


@pytest.mark.rule("draw-1")
@pytest.mark.ours_only("there, nothing is drawn for such a path, and the nodes behind it stand alone")
def test_a_path_that_does_not_say_where_it_may_lead_is_drawn_to_every_other_node_and_the_end() -> None:
    builder = chain("a")
    builder.add_node("b", says("b"))
    builder.add_conditional_edges("a", lambda _: "b")

    assert {edge for edge in edges_of(builder.compile().get_graph()) if edge[2]} == {
        ("a", "b", True),
        ("a", END, True),
    }


@pytest.mark.rule("draw-1")
def test_where_a_node_s_commands_lead_can_be_told() -> None:
    builder = chain("a")
    builder.add_node("b", gives(None), destinations=("c", END))
    builder.add_node("c", says("c"))
    builder.add_edge("a", "b")

    assert {("b", "c", True), ("b", END, True)} <= edges_of(builder.compile().get_graph())


@pytest.mark.rule("draw-1")
def test_a_drawing_can_be_written_as_mermaid() -> None:
    text = branching().compile().get_graph().draw_mermaid()

    assert "graph TD;" in text
    assert "a -.-> b;" in text
    assert "b --> c;" in text


@pytest.mark.rule("draw-1")
def test_a_drawing_can_show_the_graphs_in_nodes() -> None:
    builder = chain("a")
    builder.add_node("inner", chain("x", "y").compile())
    builder.add_edge("a", "inner")
    graph: Any = builder.compile()

    assert set(graph.get_graph().nodes) == {START, "a", "inner", END}
    assert {"inner:x", "inner:y"} <= set(graph.get_graph(xray=True).nodes)


# --- graphs in graphs -------------------------------------------------------------------------------------------------


@pytest.mark.rule("nest-1")
def test_a_graph_finds_the_graphs_in_its_nodes_and_in_their_functions() -> None:
    inner: Any = chain("x").compile()

    class Calls:
        def method(self, state: Words) -> Any:
            return inner.invoke(state)

    def calls(state: Words) -> Any:
        return inner.invoke(state)

    builder = chain("a")
    for name, action in (("node", inner), ("calls", calls), ("method", Calls().method), ("object", Flaky())):
        builder.add_node(name, action)
        builder.add_edge("a", name)
    graph: Any = builder.compile()

    assert sorted(name for name, _ in graph.get_subgraphs()) == ["calls", "method", "node"]


# --- names of old -----------------------------------------------------------------------------------------------------


@pytest.mark.rule("legacy-1")
@pytest.mark.ours_only("there, arguments under their former names still work, with a warning that they will not")
def test_arguments_under_their_former_names_are_refused() -> None:
    former: dict[str, Any] = {"retry": RetryPolicy()}
    with pytest.raises(TypeError, match="retry"):
        StateGraph(Words).add_node("a", says("a"), **former)


# --- graphs of channels and nodes -------------------------------------------------------------------------------------


@pytest.mark.rule("pregel-1")
def test_a_graph_can_be_made_of_channels_and_nodes(drive: Drive) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pregel: Any = importlib.import_module("phalanx.pregel")
    channels: Any = importlib.import_module("phalanx.channels")
    node: Any = pregel.NodeBuilder
    graph = pregel.Pregel(
        nodes={
            "bare": node().subscribe_only("a").do(lambda value: value * 2).write_to("b"),
            "dict": node().subscribe_to("a").read_from("c").do(sorted).write_to("keys"),
            "nothing": node().subscribe_only("a").do(lambda _: None).write_to("none"),
        },
        channels={
            "a": channels.EphemeralValue(str),
            "b": channels.LastValue(str),
            "c": channels.LastValue(str),
            "keys": channels.LastValue(list),
            "none": channels.LastValue(str),
        },
        input_channels=["a", "c"],
        output_channels=["b", "keys", "none"],
        name="made-by-hand",
    )

    assert drive.invoke(graph, {"a": "foo", "c": "x"}) == {"b": "foofoo", "keys": ["a", "c"], "none": None}
    assert drive.invoke(graph, {"c": "x"}) is None


@pytest.mark.rule("tool-1")
@pytest.mark.not_yet("tool nodes")
def test_a_tool_can_return_a_command_as_a_node_can(drive: Drive) -> None:
    prebuilt: Any = importlib.import_module("phalanx.prebuilt")
    tools: Any = importlib.import_module("langchain_core.tools")
    messages: Any = importlib.import_module("langchain_core.messages")

    def commands(word: str, tool_call_id: Annotated[str, tools.InjectedToolCallId]) -> Command[str]:
        """Say a word."""
        answer = messages.ToolMessage(word, tool_call_id=tool_call_id)
        return Command(update={"messages": [answer], "words": [word]}, goto="c" if word == "go" else ())

    def plain(word: str) -> str:
        """Say a word."""
        return word

    class Talk(Words):
        messages: Annotated[list[Any], operator.add]

    builder = StateGraph(Talk)
    builder.add_node("tools", prebuilt.ToolNode([tools.tool(commands), tools.tool(plain)]))
    builder.add_node("c", says("c"))
    builder.add_edge(START, "tools")
    calls = [
        {"name": "commands", "args": {"word": "go"}, "id": "1", "type": "tool_call"},
        {"name": "plain", "args": {"word": "plain"}, "id": "2", "type": "tool_call"},
    ]
    result = drive.invoke(compiled(builder), {"messages": [messages.AIMessage("", tool_calls=calls)]})

    assert result["words"] == ["go", "c"]
    assert [each.content for each in result["messages"][1:]] == ["go", "plain"]
