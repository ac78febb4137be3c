"""What a graph compiles to, and what it refuses to compile."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

import dataclasses
import operator
from typing import Annotated, Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from phalanx.cache.base import BaseCache
from phalanx.channels import EphemeralValue, LastValueAfterFinish, NamedBarrierValue, NamedBarrierValueAfterFinish
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.checkpoint.serde import default_registry
from phalanx.graph import END, START, StateGraph
from phalanx.managed import IsLastStep, RemainingSteps
from phalanx.managed.is_last_step import IsLastStepManager, RemainingStepsManager
from phalanx.types import CachePolicy, RetryPolicy, TimeoutPolicy
from phalanx.worker.blueprint import NO_POLICIES, Policies


class State(TypedDict):
    count: int
    words: Annotated[list[str], operator.add]


class Private(TypedDict):
    secret: int
    left: RemainingSteps


def nothing(_: Any) -> None:
    """A node."""


def private(_: Private) -> None:
    """A node with a schema of its own."""


def rescue(_: Any, error: object) -> None:
    """An error handler."""


def new(*names: str, **options: Any) -> "StateGraph[Any]":
    """A graph with these nodes, the first of which the graph starts with."""
    builder: StateGraph[Any] = StateGraph(State)
    for name in names:
        builder.add_node(name, nothing, **options)
    if names:
        builder.add_edge(START, names[0])
    return builder


# --- a graph that is not whole ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda b: b.add_edge("a", "nobody"), r"^Found edge ending at unknown node `nobody`; the nodes are: a, b$"),
        (lambda b: b.add_edge("nobody", "a"), r"^Found edge starting at unknown node 'nobody'; the nodes are: a, b$"),
        (lambda b: b.add_conditional_edges("nobody", nothing), "^Found edge starting at unknown node 'nobody'"),
        (lambda b: b.add_conditional_edges(END, nothing), "^Found edge starting at unknown node '__end__'"),
        (
            lambda b: b.add_conditional_edges("a", nothing, ["nobody"]),
            "^At 'a' node, 'nothing' branch found unknown target 'nobody'; the nodes are: a, b$",
        ),
        (lambda b: b.add_node("c", nothing, destinations=("nobody",)), "^Found edge ending at unknown node `nobody`"),
        (
            lambda b: b.add_node("c", nothing, error_handler=rescue).add_edge("a", "__error_handler__c"),
            "^Found edge ending at error handler `__error_handler__c`",
        ),
        (
            lambda b: b.add_node("__default_error_handler__", nothing).set_node_defaults(error_handler=rescue),
            "^Auto-generated default error handler node `__default_error_handler__` already exists",
        ),
    ],
)
def test_a_graph_that_is_not_whole_is_refused_by_the_edge_that_is_wrong(edit: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        edit(new("a", "b")).compile()


@pytest.mark.parametrize("builder", [new(), new().add_node("a", nothing).add_edge("a", END)], ids=["empty", "no start"])
def test_a_graph_needs_a_way_in(builder: Any) -> None:
    with pytest.raises(ValueError, match=r"^Graph must have an entrypoint: .* add_edge\(START, 'first'\)"):
        builder.compile()


def test_a_graph_may_start_by_a_path_and_have_no_nodes_at_all() -> None:
    new().add_node("a", nothing).set_conditional_entry_point(lambda _: "a").compile()
    assert new().add_edge(START, END).compile().invoke({"count": 1}) == {"count": 1, "words": []}


# --- what compile() is asked for --------------------------------------------------------------------------------------


@pytest.mark.parametrize("saver", [3, "x", object(), InMemorySaver])
def test_what_is_no_saver_is_refused(saver: Any) -> None:
    with pytest.raises(TypeError, match=r"^Invalid checkpointer provided\. "):
        new("a").compile(saver)


def test_a_saver_is_kept_and_false_means_none_at_all() -> None:
    saver = InMemorySaver()

    assert new("a").compile(saver).checkpointer is saver
    assert new("a").compile(False).checkpointer is False
    assert new("a").compile().checkpointer is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"debug": True}, "debug=True is not there yet"),
    ],
    ids=str,
)
def test_what_is_not_there_yet_is_refused_and_not_ignored(options: Any, message: str) -> None:
    with pytest.raises(NotImplementedError, match=message):
        new("a").compile(**options)


def test_what_is_not_there_yet_may_be_left_out_in_so_many_words() -> None:
    new("a").compile(interrupt_before=[], interrupt_after=None, debug=False)


@pytest.mark.parametrize("name", ["nobody", START, END])
def test_an_interrupt_must_be_at_a_node(name: str) -> None:
    message = f"^Interrupt node `{name}` not found; the nodes are: a$"

    with pytest.raises(ValueError, match=message):
        new("a").validate(interrupt=[name])
    with pytest.raises(ValueError, match=message):
        new("a").compile(interrupt_before=[name])


def test_an_interrupt_at_a_node_or_an_error_handler_is_valid() -> None:
    builder = new("a", error_handler=rescue)

    assert builder.validate(interrupt=["a", "__error_handler__a"]) is builder


@pytest.mark.parametrize("place", ["interrupt_before", "interrupt_after"])
def test_interrupts_are_a_list(place: str) -> None:
    options: Any = {place: "a"}

    with pytest.raises(TypeError, match="interrupts are a list of node names"):
        new("a").compile(**options)
    with pytest.raises(TypeError, match="interrupts are a list of node names"):
        new("a").validate(interrupt="a")


class Held(BaseModel):
    value: int


class Context(TypedDict):
    held: Held


class Nowhere(BaseCache[Any]):
    """A cache that forgets."""

    def get(self, keys: Any) -> dict[Any, Any]:
        return {}

    def set(self, pairs: Any) -> None: ...

    def clear(self, namespaces: Any = None) -> None: ...


def test_a_compiled_graph_holds_what_it_was_compiled_with() -> None:
    builder: StateGraph[Any, Context] = StateGraph(State, Context)
    builder.add_node("a", nothing).add_edge(START, "a")
    cache, store = Nowhere(), object()

    blueprint = builder.compile(cache=cache, store=store, name="census").blueprint

    assert (blueprint.name, blueprint.cache, blueprint.store) == ("census", cache, store)
    assert blueprint.context_schema is Context


def test_the_classes_in_a_context_may_travel() -> None:
    class Carried(BaseModel):
        value: int

    class Carrying(TypedDict):
        carried: Carried

    Carrying.__annotations__["carried"] = Carried  # a class of a function cannot be found by its name
    StateGraph(State, Carrying).add_edge(START, END).compile()

    assert default_registry().name_of(Carried) is not None


# --- channels and readers ---------------------------------------------------------------------------------------------


def test_each_node_has_a_trigger_of_its_own_and_each_join_one_too() -> None:
    builder = new("a", "b").add_node("c", nothing).add_node("d", nothing, defer=True)
    builder.add_edge(["a", "b"], "c").add_edge(["a", "b"], "d").add_edge(["a", "b"], END)
    graph = builder.compile()

    assert graph.nodes["c"].triggers == ("branch:to:c", "join:a+b:c")
    assert {name: type(channel) for name, channel in graph.channels.items() if ":" in name} == {
        "branch:to:a": EphemeralValue,
        "branch:to:b": EphemeralValue,
        "branch:to:c": EphemeralValue,
        "branch:to:d": LastValueAfterFinish,
        "join:a+b:c": NamedBarrierValue,
        "join:a+b:d": NamedBarrierValueAfterFinish,
    }


def test_managed_values_are_read_where_a_schema_has_them_and_are_no_channels() -> None:
    builder = new("a").add_node("p", private)
    builder.add_conditional_edges("a", private, ["p"]).add_conditional_edges("p", lambda _: END)
    graph = builder.compile()

    left = (("left", RemainingStepsManager),)
    assert "left" not in graph.channels
    assert dict(graph.blueprint.managed) == {"left": RemainingStepsManager}
    assert (graph.nodes["p"].reader.keys, graph.nodes["p"].reader.managed) == (("secret",), left)
    assert [branch.reader.managed for name in "ap" for branch in graph.nodes[name].branches] == [left, left]
    assert graph.nodes["a"].reader.managed == ()


@dataclasses.dataclass
class Limited:
    count: int
    last: IsLastStep = False


def test_managed_values_are_no_part_of_what_goes_in_and_comes_out() -> None:
    builder: StateGraph[Any] = StateGraph(Limited)
    builder.add_node("a", nothing).add_edge(START, "a")
    blueprint = builder.compile().blueprint

    assert blueprint.output_channels == ("count",)
    assert blueprint.stream_channels == ("count",)
    assert blueprint.nodes["a"].reader.managed == (("last", IsLastStepManager),)


def test_compiling_twice_gives_two_graphs_that_share_no_channel() -> None:
    builder = new("a", "b").set_node_defaults(error_handler=rescue)
    one, other = builder.compile(), builder.compile()

    assert [*one.nodes] == [*other.nodes]
    assert all(one.channels[name] is not other.channels[name] for name in one.channels)


# --- policies and error handlers --------------------------------------------------------------------------------------

RETRY, CACHE, TIMEOUT = RetryPolicy(max_attempts=2), CachePolicy(ttl=1), TimeoutPolicy(run_timeout=1.0)


def test_an_error_handler_is_a_node_of_its_own_before_the_one_it_guards() -> None:
    builder = new().add_node("p", private, error_handler=rescue).add_node("next", nothing)
    builder.add_edge(START, "p").add_edge("p", "next")
    graph = builder.compile()
    handler = graph.nodes["__error_handler__p"]

    assert [*graph.nodes] == [START, "__error_handler__p", "p", "next"]
    assert graph.nodes["p"].policies == Policies(error_handler="__error_handler__p")
    assert (handler.triggers, handler.policies) == ((), NO_POLICIES)
    assert handler.reader == graph.nodes["p"].reader
    assert handler.writes({"count": 1}) == [("count", 1)]
    assert "branch:to:__error_handler__p" not in graph.channels


def test_an_error_handler_may_have_edges_of_its_own() -> None:
    builder = new("a", "b", error_handler=rescue).add_edge("__error_handler__a", "b")

    assert builder.compile().nodes["__error_handler__a"].writes(None) == [("branch:to:b", None)]


def test_an_error_handler_whose_name_is_taken_is_refused() -> None:
    builder = new("__error_handler__b")

    with pytest.raises(ValueError, match=r"^Auto-generated error handler node `__error_handler__b` already exists"):
        builder.add_node("b", nothing, error_handler=rescue)
    with pytest.raises(ValueError, match=r"^Node `__error_handler__c` already present"):
        builder.add_node("c", nothing, error_handler=rescue).add_node("__error_handler__c", nothing)


def test_defaults_hold_for_nodes_that_have_no_policy_of_their_own_whenever_they_are_added() -> None:
    own = RetryPolicy(max_attempts=7)
    builder = new("before").set_node_defaults(retry_policy=RETRY, cache_policy=CACHE).set_node_defaults(timeout=1)
    builder.add_node("after", nothing, retry_policy=own, cache_policy=CachePolicy(ttl=9), timeout=5)
    nodes = builder.compile().nodes

    assert nodes["before"].policies == Policies((RETRY,), TIMEOUT, CACHE)
    assert nodes["after"].policies == Policies((own,), TimeoutPolicy(run_timeout=5.0), CachePolicy(ttl=9))
    assert nodes[START].policies == NO_POLICIES


def test_a_later_default_of_the_same_kind_replaces_the_earlier_one() -> None:
    later = RetryPolicy(max_attempts=9)
    builder = new("a").set_node_defaults(retry_policy=RETRY).set_node_defaults(retry_policy=[later])

    assert builder.compile().nodes["a"].policies.retry == (later,)


def test_the_default_error_handler_guards_nodes_without_one_and_no_handler() -> None:
    builder = new("own", error_handler=rescue).add_node("other", nothing)
    nodes = builder.set_node_defaults(error_handler=rescue).compile().nodes

    assert [*nodes] == [START, "__error_handler__own", "own", "other", "__default_error_handler__"]
    assert {name: node.policies.error_handler for name, node in nodes.items() if node.policies.error_handler} == {
        "own": "__error_handler__own",
        "other": "__default_error_handler__",
    }
    assert nodes["__default_error_handler__"].triggers == ()


def test_handlers_are_retried_and_timed_by_default_but_never_cached() -> None:
    builder = new("a", error_handler=rescue).add_node("b", nothing)
    builder.set_node_defaults(retry_policy=RETRY, cache_policy=CACHE, timeout=1, error_handler=rescue)
    nodes = builder.compile().nodes

    assert nodes["__error_handler__a"].policies == Policies((RETRY,), TIMEOUT)
    assert nodes["__default_error_handler__"].policies == Policies((RETRY,), TIMEOUT)


@pytest.mark.parametrize(
    ("options", "error"),
    [({"timeout": -1}, ValueError), ({"retry_policy": 1}, TypeError), ({"error_handler": 1}, TypeError)],
    ids=str,
)
def test_a_wrong_default_is_refused_at_once(options: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        new("a").set_node_defaults(**options)
