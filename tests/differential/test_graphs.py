"""Graphs, random and chosen, here and on the installed ``langgraph``: the same streams, states, errors, executions.

``PHALANX_DIFFERENTIAL_EXAMPLES`` sets how many graphs are tried.
"""

# pyright: reportMissingTypeStubs=false

import importlib
import logging
import operator
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from tests.differential.random_graphs import Built, GraphPlan, LibraryName, Shown, graph_plans
from typing_extensions import TypedDict

LIBRARIES: Final[tuple[LibraryName, LibraryName]] = ("phalanx", "langgraph")
EXAMPLES: Final = int(os.environ.get("PHALANX_DIFFERENTIAL_EXAMPLES", "300"))


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Random graphs name unknown nodes all the time; their warnings would fill the memory."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def assert_same_error(mine: tuple[str, str] | None, theirs: tuple[str, str] | None) -> None:
    """The same kind; our text begins with the first sentence of theirs and may say more."""
    if mine is None or theirs is None:
        assert mine == theirs
        return
    assert mine[0] == theirs[0], f"{mine} instead of {theirs}"
    assert mine[1].startswith(theirs[1].split(". ")[0].rstrip(".")), f"{mine} instead of {theirs}"


def failed_in_a_task(shown: Shown) -> bool:
    """Whether a node failed, rather than a superstep's writes or the run."""
    return shown.error is not None and (shown.error[0] == "ValueError" or shown.error[1].startswith("Expected dict"))


def without_last_step(shown: Shown) -> list[tuple[int, str, str]]:
    """What ran in steps that came to their end; which siblings of a failed task still ran is a matter of timing."""
    last = max((step for step, _, _ in shown.executed), default=0)
    return [each for each in shown.executed if each[0] < last]


def assert_same(mine: Shown, theirs: Shown) -> None:
    assert_same_error(mine.error, theirs.error)
    assert mine.values == theirs.values
    if failed_in_a_task(mine):
        assert mine.updates[:-1] == theirs.updates[:-1]
        assert without_last_step(mine) == without_last_step(theirs)
        return
    assert mine.updates == theirs.updates
    assert mine.executed == theirs.executed
    if theirs.state is not None:
        assert mine.state == theirs.state
    assert mine.history == theirs.history


def assert_same_behaviour(plan: GraphPlan) -> None:
    """Run a graph both ways: alone, and on a thread over several turns, going on after a failure."""
    mine_alone, theirs_alone = (Built(name, plan, keep=False).invoke(plan.inputs[0]) for name in LIBRARIES)
    assert_same_error(mine_alone[1], theirs_alone[1])
    assert mine_alone[0] == theirs_alone[0]

    mine, theirs = Built("phalanx", plan, keep=True), Built("langgraph", plan, keep=True)
    for place, data in enumerate(plan.inputs):
        first = mine.run(data)
        assert_same(first, theirs.run(data))
        if failed_in_a_task(first):  # goes on where it stopped
            again, their_again = mine.run(None), theirs.run(None)
            assert again.values == their_again.values
            assert_same_error(again.error, their_again.error)
            if their_again.state is not None:
                assert again.state == their_again.state
        elif place == len(plan.inputs) - 1:
            assert_same(mine.run(None, history=True), theirs.run(None, history=True))


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plan=graph_plans())
def test_any_graph_behaves_as_on_langgraph(plan: GraphPlan) -> None:
    assert_same_behaviour(plan)


# --- chosen ones ------------------------------------------------------------------------------------------------------


class State(TypedDict, total=False):
    value: int
    other: str
    log: Annotated[list[str], operator.add]


class Visible(TypedDict):
    value: int


@dataclass
class Library:
    """One of the two, as a scenario uses it."""

    START: str
    END: str
    StateGraph: Any
    Send: Any
    Command: Any
    Overwrite: Any
    InMemorySaver: Any

    @classmethod
    def load(cls, name: str) -> "Library":
        graph: Any = importlib.import_module(f"{name}.graph")
        types: Any = importlib.import_module(f"{name}.types")
        memory: Any = importlib.import_module(f"{name}.checkpoint.memory")
        return cls(
            graph.START, graph.END, graph.StateGraph, types.Send, types.Command, types.Overwrite, memory.InMemorySaver
        )

    def chain(self, *outputs: Any, schema: Any = State, **schemas: Any) -> Any:
        """Nodes ``n0``, ``n1``, … one after the other, each with a fixed output."""
        builder = self.StateGraph(schema, **schemas)
        before = self.START
        for number, output in enumerate(outputs):
            builder.add_node(f"n{number}", _returning(output))
            builder.add_edge(before, f"n{number}")
            before = f"n{number}"
        return builder


def _returning(output: Any) -> Callable[..., Any]:
    def node(state: Any) -> Any:
        return output

    node.__annotations__ = {}
    return node


Scenario = Callable[[Library], object]
CONFIG: Final = {"configurable": {"thread_id": "t"}}
MODES: Final = ["values", "updates"]


def nothing_is_written(use: Library) -> object:
    graph = use.chain(None, {}).compile()
    return graph.invoke({}), [*graph.stream({}, stream_mode=MODES)]


def nothing_is_written_on_a_thread_with_state(use: Library) -> object:
    graph = use.chain(None).compile(checkpointer=use.InMemorySaver())
    return [graph.invoke(given, CONFIG) for given in ({"value": 1}, {}, None, {"strange": 1})]


def only_unknown_keys_are_written(use: Library) -> object:
    return [*use.chain({"nowhere": 1}, {"value": 2, "nowhere": 1}).compile().stream({}, stream_mode=MODES)]


def the_output_schema_is_narrower(use: Library) -> object:
    graph = use.chain({"other": "o"}, {"value": 1}, output_schema=Visible).compile()
    return graph.invoke({}), graph.invoke({"value": 0}), [*graph.stream({"value": 0}, stream_mode=MODES)]


def nothing_of_the_output_schema_is_written(use: Library) -> object:
    return use.chain({"other": "o"}, output_schema=Visible).compile().invoke({"other": "x"})


def the_input_schema_is_narrower(use: Library) -> object:
    return use.chain({"other": "o"}, input_schema=Visible).compile().invoke({"value": 1, "other": "x", "log": ["x"]})


def output_keys_are_a_list(use: Library) -> object:
    graph = use.chain({"other": "o"}, {"value": 1}).compile()
    return graph.invoke({}, output_keys=["value"]), [*graph.stream({}, stream_mode=MODES, output_keys=["value"])]


def output_keys_are_one_key(use: Library) -> object:
    graph = use.chain({"other": "o"}, {"value": 1}).compile()
    return graph.invoke({}, output_keys="value"), [*graph.stream({}, stream_mode=MODES, output_keys="value")]


def output_keys_are_reducer_keys(use: Library) -> object:
    graph = use.chain({"other": "o"}, {"log": ["l"]}).compile()
    return graph.invoke({"value": 1}, output_keys="log"), [*graph.stream({}, stream_mode=MODES, output_keys=["log"])]


def packets_of_commands_and_paths(use: Library) -> object:
    def path(state: Any) -> Any:
        return [use.Send("work", {"other": "path"}), "work"]

    def work(state: Any) -> Any:
        return {"log": [str(state.get("other"))]}

    path.__annotations__ = work.__annotations__ = {}
    builder = use.chain(use.Command(goto=[use.Send("work", {"other": "command"}), "work"], update={"other": "state"}))
    builder.add_node("work", work)
    builder.add_conditional_edges("n0", path)
    return [*builder.compile().stream({}, stream_mode="values")]


def overwrites(use: Library) -> object:
    graph = use.chain(
        {"log": ["a"]},
        {"log": use.Overwrite(["b"])},
        {"log": {"__overwrite__": ["c"]}},
        {"log": {"type": "__overwrite__", "value": ["d"]}},
        use.Command(update={"log": use.Overwrite(["e"])}),
        schema=State,
    ).compile()
    return [*graph.stream({"log": ["x"]}, stream_mode="values")]


def an_overwrite_as_input(use: Library) -> object:
    graph = use.chain({"log": ["a"]}).compile(checkpointer=use.InMemorySaver())
    return graph.invoke({"log": ["x"]}, CONFIG), graph.invoke({"log": use.Overwrite(["new"])}, CONFIG)


def a_deferred_node_and_packets(use: Library) -> object:
    def split(number: Any) -> Any:
        return use.Command(update={"log": [str(number)]}, goto=[use.Send("split", number - 1)] if number else [])

    split.__annotations__ = {}
    builder = use.StateGraph(State)
    builder.add_node("split", split)
    builder.add_node("done", _returning({"log": ["done"]}), defer=True)
    builder.add_edge("split", "done")
    builder.add_conditional_edges(use.START, _returning(use.Send("split", 2)))
    return builder.compile().invoke({})["log"]


def a_command_as_a_list_of_pairs(use: Library) -> object:
    command = use.Command(update=[("log", ["1"]), ("value", 1), ("log", ["2"]), ("nowhere", 3)])
    return [*use.chain(command).compile().stream({}, stream_mode=MODES)]


def a_list_of_commands_and_dicts(use: Library) -> object:
    output = [use.Command(update={"log": ["1"]}), {"log": ["2"], "value": 1}, None]
    return [*use.chain(output).compile().stream({}, stream_mode=MODES)]


def a_list_without_a_command(use: Library) -> object:
    return use.chain([{"log": ["1"]}]).compile().invoke({})


def a_value_that_is_written_twice_by_one_command(use: Library) -> object:
    return use.chain(use.Command(update=[("value", 1), ("value", 2)])).compile().invoke({})


def a_join_in_a_loop(use: Library) -> object:
    def path(state: Any) -> Any:
        return ["n0", "b"] if len(state["log"]) < 8 else use.END

    path.__annotations__ = {}
    builder = use.chain({"log": ["a"]})
    builder.add_node("b", _returning({"log": ["b"]}))
    builder.add_edge(use.START, "b")
    builder.add_node("join", _returning({"log": ["join"]}))
    builder.add_edge(["n0", "b"], "join")
    builder.add_conditional_edges("join", path)
    return builder.compile().invoke({})["log"]


def a_path_that_answers_none(use: Library) -> object:
    builder = use.chain({"value": 1})
    builder.add_conditional_edges("n0", _returning(None))
    return builder.compile().invoke({})


def a_packet_for_the_end(use: Library) -> object:
    builder = use.chain({"value": 1})
    builder.add_conditional_edges("n0", _returning([use.Send(use.END, 1)]))
    return builder.compile().invoke({})


def the_recursion_limit_is_just_enough(use: Library) -> object:
    return use.chain({"value": 1}, {"value": 2}).compile().invoke({}, {"recursion_limit": 3})


def the_recursion_limit_is_one_too_small(use: Library) -> object:
    return use.chain({"value": 1}, {"value": 2}).compile().invoke({}, {"recursion_limit": 2})


def nothing_to_run(use: Library) -> object:
    return use.chain({"value": 1}).compile(checkpointer=use.InMemorySaver()).invoke(None, CONFIG)


def an_input_that_is_no_dict(use: Library) -> object:
    return use.chain({"value": 1}).compile().invoke(5)


def a_state_that_is_a_list(use: Library) -> object:
    builder = use.StateGraph(Annotated[list[int], operator.add])
    builder.add_node("n", _returning([2]))
    builder.add_edge(use.START, "n")
    graph = builder.compile(checkpointer=use.InMemorySaver())
    return graph.invoke([1], CONFIG), [*graph.stream([3], CONFIG, stream_mode=MODES)], graph.get_state(CONFIG).values


def a_node_without_a_way_out_and_a_deferred_join(use: Library) -> object:
    builder = use.chain({"log": ["a"]}, {"log": ["b"]})
    builder.add_node("alone", _returning({"log": ["alone"]}))
    builder.add_edge(use.START, "alone")
    builder.add_node("last", _returning({"log": ["last"]}), defer=True)
    builder.add_edge(["n0", "alone"], "last")
    return builder.compile().invoke({})["log"]


def metadata_of_states(use: Library) -> object:
    graph = use.chain({"value": 1}).compile(checkpointer=use.InMemorySaver())
    config = {"configurable": {"thread_id": "t", "model": "m", "__x": 1, "list": [1]}, "metadata": {"user": "u"}}
    graph.invoke({"log": ["x"]}, config)
    return [(each.metadata, each.values, each.next) for each in graph.get_state_history(config)]


def where_a_node_is_told_it_is(use: Library) -> object:
    def node(state: Any, config: Any) -> Any:
        metadata = config["metadata"]
        names = ("langgraph_step", "langgraph_node", "langgraph_triggers", "thread_id", "user")
        path = metadata["langgraph_path"][:2]  # theirs says False in a third part of a packet's path
        return {"log": [f"{path}", *(f"{name}={metadata.get(name)!r}" for name in names)]}

    node.__annotations__ = {}
    builder = use.StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(use.START, "node")
    builder.add_conditional_edges(use.START, _returning([use.Send("node", {})]))
    return builder.compile().invoke({}, {**CONFIG, "metadata": {"user": "u"}})["log"]


SCENARIOS: Final[list[Scenario]] = [
    *(nothing_is_written, nothing_is_written_on_a_thread_with_state, only_unknown_keys_are_written),
    *(the_output_schema_is_narrower, nothing_of_the_output_schema_is_written, the_input_schema_is_narrower),
    *(output_keys_are_a_list, output_keys_are_one_key, output_keys_are_reducer_keys, packets_of_commands_and_paths),
    *(overwrites, an_overwrite_as_input, a_deferred_node_and_packets, a_command_as_a_list_of_pairs),
    *(a_list_of_commands_and_dicts, a_list_without_a_command, a_value_that_is_written_twice_by_one_command),
    *(a_join_in_a_loop, a_path_that_answers_none, a_packet_for_the_end, the_recursion_limit_is_just_enough),
    *(the_recursion_limit_is_one_too_small, nothing_to_run, an_input_that_is_no_dict, a_state_that_is_a_list),
    *(a_node_without_a_way_out_and_a_deferred_join, metadata_of_states, where_a_node_is_told_it_is),
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_chosen_graph_behaves_as_on_langgraph(scenario: Scenario) -> None:
    outcomes: list[Any] = []
    errors: list[tuple[str, str] | None] = []
    for name in LIBRARIES:
        try:
            outcomes.append(scenario(Library.load(name)))
            errors.append(None)
        except Exception as error:
            outcomes.append(None)
            errors.append((type(error).__name__, str(error).split("\n")[0]))

    assert_same_error(*errors)
    assert outcomes[0] == outcomes[1]


# --- deliberate differences -------------------------------------------------------------------------------------------


def test_difference_a_packet_for_nobody_is_an_error() -> None:
    def scenario(use: Library) -> object:
        builder = use.chain({"value": 1})
        builder.add_conditional_edges("n0", _returning(use.Send("nobody", 1)))
        return builder.compile().invoke({})

    assert scenario(Library.load("langgraph")) == {"value": 1, "log": []}
    with pytest.raises(Exception, match="sent a packet to 'nobody'"):
        scenario(Library.load("phalanx"))


def test_difference_the_state_can_be_read_after_writes_that_contradict_each_other() -> None:
    def scenario(use: Library) -> object:
        builder = use.chain({"value": 1})
        builder.add_node("b", _returning({"value": 2}))
        builder.add_edge(use.START, "b")
        graph = builder.compile(checkpointer=use.InMemorySaver())
        with pytest.raises(Exception, match="Can receive only one value per step"):
            graph.invoke({"other": "x"}, CONFIG)
        return graph.get_state(CONFIG)

    with pytest.raises(Exception, match="Can receive only one value per step"):
        scenario(Library.load("langgraph"))
    state: Any = scenario(Library.load("phalanx"))
    assert (state.values, state.next) == ({"other": "x", "log": []}, ("b", "n0"))
