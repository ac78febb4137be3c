"""The same state classes and the same nodes on the installed ``langgraph``: the same keys, schemas, names and updates.

Where we differ on purpose, a test at the end says so.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import dataclasses
import functools
import operator
from collections.abc import Callable
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, NotRequired, Required

import langgraph.channels as their_channels
import langgraph.managed as their_managed
import langgraph.types as their_types
import pytest
from langgraph.graph import StateGraph as TheirGraph
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

import phalanx.channels as our_channels
import phalanx.managed as our_managed
import phalanx.types as our_types
from phalanx.graph import START, StateGraph


@dataclasses.dataclass(frozen=True)
class Library:
    """What the same graph is made of on either side."""

    graph: Any
    channels: Any
    managed: Any
    types: Any


OURS: Final = Library(StateGraph, our_channels, our_managed, our_types)
THEIRS: Final = Library(TheirGraph, their_channels, their_managed, their_types)


def add(one: int, other: int) -> int:
    return one + other


# --- what an annotation declares --------------------------------------------------------------------------------------

ANNOTATIONS: Final[dict[str, Callable[[Library], Any]]] = {
    "plain": lambda _: int,
    "note": lambda _: Annotated[int, "a note"],
    "reducer": lambda _: Annotated[int, add],
    "reducer last": lambda _: Annotated[int, "a note", add],
    "reducer not last": lambda _: Annotated[int, add, "a note"],
    "partial": lambda _: Annotated[int, functools.partial(add)],
    "reducer with one parameter": lambda _: Annotated[int, lambda one: one],
    "reducer with three parameters": lambda _: Annotated[int, lambda one, two, three=1: one],
    "reducer with more by name": lambda _: Annotated[int, lambda one, two, *, three=1: one],
    "reducer of any number": lambda _: Annotated[int, lambda *values: values],
    "class": lambda _: Annotated[list[int], list],
    "channel class": lambda lib: Annotated[int, lib.channels.EphemeralValue],
    "channel before reducer": lambda lib: Annotated[int, lib.channels.EphemeralValue, add],
    "channel after reducer": lambda lib: Annotated[int, add, lib.channels.EphemeralValue],
    "two channels": lambda lib: Annotated[int, lib.channels.EphemeralValue, lib.channels.UntrackedValue],
    "channel instance and note": lambda lib: Annotated[int, lib.channels.UntrackedValue(int), "a note"],
    "topic": lambda lib: Annotated[list[int], lib.channels.Topic(int)],
    "required": lambda _: Required[Annotated[int, add]],
    "not required": lambda _: NotRequired[Annotated[int, add]],
    "not required inside": lambda _: Annotated[NotRequired[int], add],
    "managed": lambda lib: lib.managed.RemainingSteps,
    "managed required": lambda lib: Required[lib.managed.RemainingSteps],
    "managed not required": lambda lib: NotRequired[lib.managed.IsLastStep],
    "managed optional": lambda lib: lib.managed.RemainingSteps | None,
}


def declared(library: Library, annotation: Any) -> str:
    """What kind of thing a key with this annotation is, or the first sentence of why it cannot be."""
    try:
        builder = library.graph(TypedDict("State", {"key": annotation}))  # type: ignore[operator]
    except ValueError as error:
        return str(error).partition(". ")[0]
    found = {**builder.channels, **builder.managed}["key"]
    return found.__name__ if isinstance(found, type) else type(found).__name__


@pytest.mark.parametrize("annotation", ANNOTATIONS.values(), ids=ANNOTATIONS)
def test_an_annotation_declares_the_same(annotation: Callable[[Library], Any]) -> None:
    assert declared(OURS, annotation(OURS)) == declared(THEIRS, annotation(THEIRS))


REDECLARED: Final[dict[str, Callable[[Library], Any]]] = {
    "plain, plain": lambda _: (int, str),
    "plain, reducer": lambda _: (int, Annotated[int, add]),
    "reducer, plain": lambda _: (Annotated[int, add], int),
    "reducer, the same": lambda _: (Annotated[int, add], Annotated[str, add]),
    "reducer, another": lambda _: (Annotated[int, add], Annotated[int, operator.add]),
    "lambda, lambda": lambda _: (Annotated[int, lambda one, two: one], Annotated[int, lambda one, two: two]),
    "plain, channel": lambda lib: (int, Annotated[int, lib.channels.EphemeralValue]),
    "channel, plain": lambda lib: (Annotated[int, lib.channels.EphemeralValue], int),
    "managed, another": lambda lib: (lib.managed.RemainingSteps, lib.managed.IsLastStep),
}


def redeclared(library: Library, first: Any, second: Any) -> str:
    """What a key is in the end, or the first words of why it cannot be declared twice so."""
    builder = library.graph(TypedDict("State", {"key": first}))  # type: ignore[operator]
    try:
        builder.add_node("n", len, input_schema=TypedDict("Input", {"key": second}))  # type: ignore[operator]
    except ValueError as error:
        return str(error).partition(":")[0]
    return type({**builder.channels, **builder.managed}["key"]).__name__


@pytest.mark.parametrize("declarations", REDECLARED.values(), ids=REDECLARED)
def test_a_key_declared_twice_is_the_same_or_refused_by_both(declarations: Callable[[Library], Any]) -> None:
    assert redeclared(OURS, *declarations(OURS)) == redeclared(THEIRS, *declarations(THEIRS))


# --- schemas ----------------------------------------------------------------------------------------------------------


class Inner(BaseModel):
    value: int


class Typed(TypedDict):
    """A state with something of everything."""

    a: int
    b: NotRequired[str]
    c: Annotated[list[int], operator.add]
    inner: Inner
    described: Annotated[int, Field(description="what it is")]


class Partial(TypedDict, total=False):
    a: int
    b: Required[str]


class Given(TypedDict):
    a: int


@dataclasses.dataclass
class Data:
    a: int
    maybe: int | None
    b: str = "x"
    c: Annotated[list[int], operator.add] = dataclasses.field(default_factory=list)
    d: float = dataclasses.field(default_factory=lambda: 2.0)
    later: int | None = 5
    own: int = dataclasses.field(init=False, default=4)


class Model(BaseModel):
    """A model."""

    a: int
    b: str = "x"
    c: Annotated[list[int], operator.add] = Field(default_factory=list)
    e: int = Field(default=3, alias="ee", description="an alias")


class Plain:
    a: int
    b: str = "x"
    c: Annotated[list[int], operator.add]
    maybe: int | None


class Empty:
    pass


class Awkward:
    schema: int
    json: str
    _own: int


STATES: Final = {
    **{cls.__name__: cls for cls in (Typed, Partial, Data, Model, Plain, Empty, Awkward)},
    "list": list[int],
    "reduced list": Annotated[list[int], operator.add],
    "dict": dict,
    "models": list[Inner],
}


def compiled(library: Library, schema: Any, name: str | None = None, **schemas: Any) -> Any:
    builder = library.graph(schema, **schemas)
    builder.add_node("n", lambda _: None)
    builder.add_edge(START, "n")
    return builder.compile(name=name)


def said(graph: Any) -> dict[str, Any]:
    """All that a graph says about its schemas."""
    answers: dict[str, Callable[[], Any]] = {
        "input": graph.get_input_jsonschema,
        "output": graph.get_output_jsonschema,
        "context": graph.get_context_jsonschema,
        "input model": lambda: graph.get_input_schema().model_json_schema(),
        "output model": lambda: graph.get_output_schema().model_json_schema(),
        "input name": lambda: graph.get_input_schema().__name__,
        "output name": lambda: graph.get_output_schema().__name__,
        "types": lambda: (graph.InputType, graph.OutputType),
    }
    return {what: answered(answer) for what, answer in answers.items()}


def answered(answer: Callable[[], Any]) -> Any:
    try:
        return answer()
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize("name", [None, "census", "Census"])
@pytest.mark.parametrize("schema", STATES.values(), ids=STATES)
def test_a_graph_says_the_same_about_its_state(schema: Any, name: str | None) -> None:
    assert said(compiled(OURS, schema, name)) == said(compiled(THEIRS, schema, name))


@pytest.mark.parametrize("context", [Typed, Data, Model, Plain, int, None])
def test_a_graph_says_the_same_about_its_input_output_and_context(context: Any) -> None:
    schemas: Any = {"input_schema": Given, "output_schema": Data, "context_schema": context}

    assert said(compiled(OURS, Typed, **schemas)) == said(compiled(THEIRS, Typed, **schemas))


# --- nodes ------------------------------------------------------------------------------------------------------------


def reads_given(state: Given) -> None: ...
def reads_text(state: "Given") -> None: ...
def reads_note(state: Annotated[Given, "a note"]) -> None: ...
def reads_option(state: Given | None) -> None: ...
def reads_dict(state: dict[str, Any]) -> None: ...
def reads_model(state: Inner) -> None: ...
def reads_plain(state: Plain) -> None: ...
async def reads_async(state: Given) -> None: ...


class Callable1:
    """A node that is an object."""

    def __call__(self, state: Given) -> None: ...

    def method(self, state: Given) -> None: ...


NODES: Final = {
    "text": reads_text,
    "note": reads_note,
    "option": reads_option,
    "dict": reads_dict,
    "model": reads_model,
    "plain": reads_plain,
    "async": reads_async,
    "class": reads_given,
    "object": Callable1(),
    "method": Callable1().method,
    "lambda": lambda state: state,
}


@pytest.mark.parametrize("node", NODES.values(), ids=NODES)
def test_a_node_has_the_same_name_and_reads_the_same(node: Any) -> None:
    ours, theirs = StateGraph(Typed).add_node(node), TheirGraph(Typed).add_node(node)

    assert [(name, spec.input_schema) for name, spec in ours.nodes.items()] == [
        (name, spec.input_schema) for name, spec in theirs.nodes.items()
    ]
    assert [*ours.channels] == [*theirs.channels]


@pytest.mark.parametrize("path", NODES.values(), ids=NODES)
def test_a_path_has_the_same_name_and_reads_the_same(path: Any) -> None:
    ours, theirs = (library.graph(Typed).add_conditional_edges("n", path) for library in (OURS, THEIRS))

    assert [(name, branch.input_schema) for name, branch in ours.branches["n"].items()] == [
        (name, branch.input_schema) for name, branch in theirs.branches["n"].items()
    ]


@pytest.mark.parametrize(
    "returned",
    [
        lambda lib: lib.types.Command[Literal["a", "b"]],
        lambda lib: lib.types.Command[Literal["a"]] | None,
        lambda lib: lib.types.Command[Literal["a", "__end__"]] | dict[str, int],
        lambda lib: GenericAlias(list, (lib.types.Command[Literal["a"]],)),
        lambda lib: lib.types.Command,
        lambda _: int,
    ],
    ids=["command", "or none", "or dict", "list", "bare", "other"],
)
def test_a_return_annotation_names_the_same_destinations(returned: Callable[[Library], Any]) -> None:
    def named(library: Library) -> Any:
        def node(state: Any) -> Any: ...

        node.__annotations__["return"] = returned(library)
        return library.graph(Typed).add_node("n", node).nodes["n"]

    assert tuple(named(OURS).destinations) == tuple(named(THEIRS).ends)


# --- what nodes return ------------------------------------------------------------------------------------------------


class State(TypedDict):
    a: int
    log: Annotated[list[str], operator.add]


class NotedObject:
    """An object with annotated attributes."""

    a: int
    log: list[str]


def noted(**attributes: Any) -> NotedObject:
    made = NotedObject()
    vars(made).update(attributes)
    return made


@dataclasses.dataclass
class Returned:
    a: int | None = None
    log: list[str] = dataclasses.field(default_factory=lambda: ["d"])
    unknown: int = 3


class ReturnedModel(BaseModel):
    a: int | None = None
    log: list[str] = ["m"]


OUTPUTS: Final[dict[str, Callable[[Library], Any]]] = {
    "none": lambda _: None,
    "empty": lambda _: {},
    "dict": lambda _: {"a": 2, "unknown": 3},
    "object": lambda _: noted(a=9),
    "object with None": lambda _: noted(a=None, log=["o"]),
    "dataclass": lambda _: Returned(),
    "model": lambda _: ReturnedModel(),
    "model with None": lambda _: ReturnedModel(a=None),
    "class": lambda _: NotedObject,
    "number": lambda _: 7,
    "text": lambda _: "x",
    "empty list": lambda _: [],
    "list of dicts": lambda _: [{"a": 2}],
    "set": lambda _: {1, 2},
    "command and dict": lambda lib: [lib.types.Command(update={"a": 2}), {"log": ["k"]}],
    "command and None": lambda lib: [lib.types.Command(update={"log": ["1"]}), None, {"log": ["2"]}],
    "command and object": lambda lib: [lib.types.Command(update={"log": ["1"]}), Returned(a=3)],
    "command and number": lambda lib: [lib.types.Command(), 7],
    "nested commands": lambda lib: [lib.types.Command(update={"log": ["1"]}), [lib.types.Command(update={"a": 2})]],
    "tuple": lambda lib: (lib.types.Command(update={"log": ["1"]}), {"log": ["2"]}),
    "update of pairs": lambda lib: lib.types.Command(update=[("log", ["1"]), ("log", ["2"]), ("zz", 1)]),
    "update of a tuple of pairs": lambda lib: lib.types.Command(update=(("a", 3),)),
    "update of a dataclass": lambda lib: lib.types.Command(update=Returned(a=6)),
    "update of a model": lambda lib: lib.types.Command(update=ReturnedModel(a=6)),
    "update of an object": lambda lib: lib.types.Command(update=noted(a=9)),
    "no update": lambda lib: lib.types.Command(update=[]),
    "overwrite": lambda lib: {"log": lib.types.Overwrite(["z"])},
    "overwrite in pairs": lambda lib: lib.types.Command(update=[("log", lib.types.Overwrite(["z"]))]),
    "packet": lambda lib: lib.types.Send("after", {"a": 5}),
    "goto": lambda lib: lib.types.Command(goto="after", update={"log": ["g"]}),
    "gotos": lambda lib: lib.types.Command(goto=["after", lib.types.Send("after", {"a": 4}), "__end__"]),
}


def outcome(library: Library, schema: Any, output: Any, given: Any) -> Any:
    """What a run of a node that returns this comes to: the state, or the kind and first words of the error."""
    builder = library.graph(schema)
    builder.add_node("n", lambda _: output)
    builder.add_node("after", lambda state: {"log": [f"after {state.get('a')}"]})
    builder.add_edge(START, "n")
    try:
        return builder.compile().invoke(given)
    except Exception as error:
        return type(error).__name__, str(error)[:18]


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_what_a_node_returns_comes_to_the_same(output: Callable[[Library], Any]) -> None:
    given = {"a": 1, "log": ["i"]}

    assert outcome(OURS, State, output(OURS), given) == outcome(THEIRS, State, output(THEIRS), given)


ROOT_OUTPUTS: Final[dict[str, Callable[[Library], Any]]] = {
    "value": lambda _: ["x"],
    "none": lambda _: None,
    "empty": lambda _: [],
    "command": lambda lib: lib.types.Command(update=["c"]),
    "empty command": lambda lib: lib.types.Command(),
    "commands": lambda lib: [lib.types.Command(update=["1"]), ["2"]],
    "named pairs": lambda lib: lib.types.Command(update=[("__root__", ["p"]), ("__root__", ["q"])]),
    "named": lambda lib: lib.types.Command(update={"__root__": ["d"]}),
    "overwrite": lambda lib: lib.types.Overwrite(["z"]),
}


@pytest.mark.parametrize("output", ROOT_OUTPUTS.values(), ids=ROOT_OUTPUTS)
def test_where_the_state_is_one_value_it_comes_to_the_same_too(output: Callable[[Library], Any]) -> None:
    schema = Annotated[list[str], operator.add]

    assert outcome(OURS, schema, output(OURS), ["i"]) == outcome(THEIRS, schema, output(THEIRS), ["i"])


# --- on purpose -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "output",
    [
        lambda lib: lib.types.Command(update="text"),
        lambda lib: lib.types.Command(update=[1, 2]),
        lambda lib: lib.types.Command(graph="elsewhere", update={"a": 2}),
        lambda lib: lib.types.Command(goto=[5]),
    ],
    ids=["update of a text", "update of numbers", "another graph", "goto to a number"],
)
def test_a_command_that_says_nothing_is_dropped_or_misread_there_and_refused_here(
    output: Callable[[Library], Any],
) -> None:
    given = {"a": 1, "log": []}

    assert outcome(OURS, State, output(OURS), given)[0] == "InvalidUpdateError"
    assert isinstance(outcome(THEIRS, State, output(THEIRS), given), dict)


def test_a_packet_beside_a_command_is_dropped_there_and_sent_here() -> None:
    def output(library: Library) -> Any:
        return [library.types.Command(update={"a": 3}), library.types.Send("after", {"a": 5})]

    assert outcome(OURS, State, output(OURS), {"a": 1}) == {"a": 3, "log": ["after 5"]}
    assert outcome(THEIRS, State, output(THEIRS), {"a": 1}) == {"a": 3, "log": []}


def test_a_partial_goes_by_its_kind_there_and_by_what_it_wraps_here() -> None:
    node = functools.partial(reads_given)

    assert [*StateGraph(Typed).add_node(node).nodes] == ["reads_given"]
    assert [*TheirGraph(Typed).add_node(node).nodes] == ["partial"]
