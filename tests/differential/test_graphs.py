"""Chosen graphs, here and on the installed ``langgraph``: the same streams, states and errors."""

# pyright: reportMissingTypeStubs=false

import importlib
import logging
import operator
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import pytest
from tests.differential.comparing import check_same_error
from tests.differential.states import LIBRARIES
from typing_extensions import TypedDict


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Some graphs are made to be warned of."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


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
EXAMPLES: Final = int(os.environ.get("PHALANX_DIFFERENTIAL_EXAMPLES", "300"))
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

    check_same_error(*errors)
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


__all__ = ["EXAMPLES", "LIBRARIES"]
