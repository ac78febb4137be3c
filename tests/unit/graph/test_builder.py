"""Adding nodes and edges: what is taken, what is refused, and what the refusal says."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import enum
import functools
import logging
import operator
from datetime import timedelta
from typing import Annotated, Any, Literal, cast

import pytest
from typing_extensions import TypedDict

from phalanx.channels import EphemeralValue
from phalanx.graph import END, START, StateGraph
from phalanx.managed import IsLastStep, RemainingSteps
from phalanx.types import CachePolicy, Command, RetryPolicy, TimeoutPolicy


class State(TypedDict):
    count: int
    words: Annotated[list[str], operator.add]


def nothing(_: Any) -> None:
    """A node."""


def other(_: Any) -> None:
    """Another node."""


def rescue(_: Any, error: object) -> None:
    """An error handler."""


def leads(_: Any) -> Command[Literal["hinted"]]:
    """A node that says where its commands lead."""
    raise NotImplementedError


def new(*names: str) -> "StateGraph[Any]":
    """A graph with these nodes, the first of which the graph starts with."""
    builder: StateGraph[Any] = StateGraph(State)
    for name in names:
        builder.add_node(name, nothing)
    if names:
        builder.add_edge(START, names[0])
    return builder


# --- nodes ------------------------------------------------------------------------------------------------------------


class Color(str, enum.Enum):  # noqa: UP042 - what older code has
    RED = "red"


def test_names_of_an_enum_are_plain_text_everywhere() -> None:
    builder = new().add_node(Color.RED, nothing).add_node("blue", nothing)
    builder.add_edge(START, Color.RED).add_edge([Color.RED], "blue").add_conditional_edges(Color.RED, lambda _: "blue")

    assert {type(name) for name in [*builder.nodes, *builder.branches]} == {str}
    assert builder.edges == {(START, "red")}
    assert builder.waiting_edges == {(("red",), "blue")}
    assert builder.compile().invoke({"count": 1}) == {"count": 1, "words": []}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a", r"^Node `a` already present\. "),
        (START, r"^Node `__start__` is reserved\. "),
        (END, r"^Node `__end__` is reserved\. "),
        ("x|y", r"^'\|' is a reserved character and is not allowed in the node names\. Got 'x\|y'"),
        ("x:y", r"^':' is a reserved character and is not allowed in the node names\. Got 'x:y'"),
    ],
)
def test_a_name_that_is_taken_reserved_or_separates_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        new("a").add_node(name, nothing)


@pytest.mark.parametrize("action", [3, {"a": nothing}], ids=repr)
def test_a_node_must_be_callable(action: Any) -> None:
    with pytest.raises(TypeError, match="must be a function, a callable object or have invoke"):
        new().add_node("a", action)


def test_a_name_alone_is_no_node() -> None:
    with pytest.raises(TypeError, match="node 'a' has no action: add_node\\('a', function\\)"):
        new().add_node("a")


def test_a_refused_node_leaves_nothing_behind() -> None:
    builder = new()

    with pytest.raises(TypeError):
        builder.add_node("a", nothing, error_handler=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    assert builder.nodes == {}


def test_a_node_keeps_what_it_was_added_with() -> None:
    retry, cache = RetryPolicy(max_attempts=2), CachePolicy(ttl=3)
    builder = new().add_node(
        "a", nothing, defer=True, metadata={"team": "x"}, retry_policy=retry, cache_policy=cache, timeout=2
    )
    node = builder.add_edge(START, "a").compile().nodes["a"]

    assert (node.deferred, node.metadata) == (True, {"team": "x"})
    assert node.policies.retry == (retry,)
    assert node.policies.cache == cache
    assert node.policies.timeout == TimeoutPolicy(run_timeout=2.0)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (None, None),
        (1, TimeoutPolicy(run_timeout=1.0)),
        (timedelta(minutes=1), TimeoutPolicy(run_timeout=60.0)),
        (TimeoutPolicy(idle_timeout=timedelta(seconds=3)), TimeoutPolicy(idle_timeout=3.0)),
    ],
    ids=repr,
)
def test_a_timeout_is_a_number_a_timedelta_or_a_policy(given: Any, kept: object) -> None:
    assert new().add_node("a", nothing, timeout=given).nodes["a"].timeout == kept


def test_of_several_retry_policies_all_are_kept_in_order() -> None:
    policies = [RetryPolicy(max_attempts=2), RetryPolicy(max_attempts=5)]

    assert new().add_node("a", nothing, retry_policy=policies).nodes["a"].retry == tuple(policies)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"retry_policy": 3}, TypeError, "retry_policy of node 'a' must be a RetryPolicy or a sequence of them; got 3"),
        ({"retry_policy": [3]}, TypeError, "retry_policy of node 'a' must be a RetryPolicy or a sequence of them"),
        ({"cache_policy": True}, TypeError, "cache_policy of node 'a' must be a CachePolicy; got True"),
        ({"timeout": 0}, ValueError, "run_timeout must be greater than 0"),
        ({"timeout": "1"}, TypeError, "run_timeout must be a number of seconds or a timedelta"),
        ({"destinations": "b"}, TypeError, "destinations of node 'a' must be a tuple or dict of node names; got 'b'"),
    ],
    ids=str,
)
def test_a_policy_of_another_kind_is_refused(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        new().add_node("a", nothing, **options)


def test_a_wrong_timeout_says_whose_it_is() -> None:
    with pytest.raises(ValueError, match="greater than 0") as caught:
        new().add_node("a", nothing, timeout=-1)
    assert caught.value.__notes__ == ["this is the timeout of node 'a'"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (("b", Color.RED), {"b": None, "red": None}),
        ({"b": "on success"}, {"b": "on success"}),
        (None, {"hinted": None}),
    ],
    ids=repr,
)
def test_destinations_given_come_before_those_of_the_annotation(given: Any, kept: object) -> None:
    assert new().add_node("a", leads, destinations=given).nodes["a"].destinations == kept


def test_a_node_added_after_compiling_is_told_to_come_too_late(caplog: pytest.LogCaptureFixture) -> None:
    builder = new("a")
    graph = builder.compile()

    with caplog.at_level(logging.WARNING, "phalanx.graph"):
        builder.add_node("late", nothing)

    assert "compiled already" in caplog.text
    assert [*graph.nodes] == [START, "a"]
    assert [*builder.compile().nodes] == [START, "a", "late"]


def test_validating_is_not_compiling(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "phalanx.graph"):
        new("a").validate().add_node("b", nothing)

    assert caplog.text == ""


def test_a_builder_says_that_it_cannot_run() -> None:
    builder: Any = new("a")

    with pytest.raises(AttributeError, match=r"has no attribute 'invoke'; did you forget \.compile\(\)"):
        builder.invoke({})


# --- sequences --------------------------------------------------------------------------------------------------------


def test_a_sequence_is_nodes_with_edges_between_them() -> None:
    builder = new().add_sequence([nothing, ("second", nothing), functools.partial(other)])

    assert [*builder.nodes] == ["nothing", "second", "other"]
    assert builder.edges == {("nothing", "second"), ("second", "other")}


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        ([], ValueError, r"^Sequence requires at least one node\. "),
        ([nothing, nothing], ValueError, "^Node names must be unique: node with the name 'nothing' already exists"),
        ([("a", nothing)], ValueError, "^Node names must be unique: node with the name 'a' already exists"),
        ([("b", nothing, 1)], TypeError, "a tuple in a sequence is"),
        (["b"], TypeError, "must be a function"),
    ],
    ids=["empty", "twice", "there already", "three", "a name"],
)
def test_a_sequence_of_something_else_is_refused(nodes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        new("a").add_sequence(nodes)


# --- edges ------------------------------------------------------------------------------------------------------------


def test_entry_and_finish_points_are_edges() -> None:
    builder = new().add_node("a", nothing).set_entry_point("a").set_finish_point("a")

    assert builder.edges == {(START, "a"), ("a", END)}


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (END, "a", "^END cannot be a start node"),
        (["a", END], "a", "^END cannot be a start node"),
        ("a", START, "^START cannot be an end node"),
        (["a", START], "b", "^Need to add_node `__start__` first; START cannot be one of several"),
        (["a", "nobody"], "b", "^Need to add_node `nobody` first"),
        (["a"], "nobody", "^Need to add_node `nobody` first"),
        ([], "b", "an edge to 'b' needs at least one start"),
    ],
)
def test_an_edge_that_cannot_be_is_refused_at_once(start: Any, end: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        new("a", "b").add_edge(start, end)


def test_two_paths_of_one_name_at_one_node_are_refused() -> None:
    builder = new("a", "b").add_conditional_edges("a", lambda _: "b")

    builder.add_conditional_edges("b", lambda _: "a")
    with pytest.raises(ValueError, match=r"^Branch with name `condition` already exists for node `a`"):
        builder.add_conditional_edges("a", lambda _: "b")


# --- schemas ----------------------------------------------------------------------------------------------------------


def added(one: object, another: object) -> object:
    return (one, another)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (int, Annotated[int, added]),
        (int, Annotated[int, EphemeralValue]),
        (Annotated[int, added], Annotated[int, operator.add]),
        (Annotated[int, added], Annotated[int, lambda one, another: one]),
        (Annotated[int, added], Annotated[int, EphemeralValue]),
        (RemainingSteps, int),
        (int, RemainingSteps),
        (RemainingSteps, IsLastStep),
    ],
    ids=str,
)
def test_a_key_declared_differently_is_refused_and_nothing_of_that_schema_is_kept(first: Any, second: Any) -> None:
    builder: StateGraph[Any] = StateGraph(TypedDict("One", {"key": first}))  # type: ignore[operator]
    schema: Any = cast("Any", TypedDict)("Two", {"extra": int, "key": second})
    before = (dict(builder.channels), dict(builder.managed), dict(builder.schemas))

    with pytest.raises(
        ValueError, match=r"^(Channel|Managed value) 'key' already exists with a different type: .* Two"
    ):
        builder.add_node("a", nothing, input_schema=schema)
    assert (builder.channels, builder.managed, builder.schemas) == before


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (int, str),
        (Annotated[int, added], int),
        (Annotated[int, added], Annotated[int, added]),
        (Annotated[int, lambda one, another: one], Annotated[int, lambda one, another: another]),
        (Annotated[int, EphemeralValue], int),
        (RemainingSteps, RemainingSteps),
    ],
    ids=str,
)
def test_a_key_may_be_declared_again_plainly_or_in_the_same_way(first: Any, second: Any) -> None:
    builder: StateGraph[Any] = StateGraph(TypedDict("One", {"key": first}))  # type: ignore[operator]
    before = builder.channels.get("key")

    builder.add_node("a", nothing, input_schema=TypedDict("Two", {"key": second}))  # type: ignore[operator]

    assert builder.channels.get("key") is before


class Managed(TypedDict):
    count: int
    left: RemainingSteps
    last: IsLastStep


@pytest.mark.parametrize("place", ["input_schema", "output_schema"])
def test_a_managed_value_may_not_be_in_the_input_or_output(place: str) -> None:
    schemas: Any = {place: Managed}

    with pytest.raises(ValueError, match=r"^Invalid managed channels detected in Managed: left, last\. "):
        StateGraph(State, **schemas)


def test_a_state_with_managed_values_may_be_the_input_and_output_by_default() -> None:
    builder: StateGraph[Any] = StateGraph(Managed)

    assert [*builder.channels] == ["count"]
    assert [*builder.managed] == ["left", "last"]
