"""The state of graphs inside of nodes: where it is, what is shown of it, and how long it lasts."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportTypedDictNotRequiredAccess=false

from typing import Any

import pytest
from tests.behaviour.asking import Ran, asked, identity, in_a_row, resume, side_by_side, steps
from tests.behaviour.drivers import Drive, Graph, compiled, thread
from tests.behaviour.states import Update, Words, says

from phalanx.config import RunnableConfig
from phalanx.constants import START
from phalanx.graph import StateGraph
from phalanx.types import Send, StateSnapshot


def inside(state: StateSnapshot, number: int = 0) -> StateSnapshot:
    """The state of the graph inside of a state's task."""
    found = state.tasks[number].state
    assert isinstance(found, StateSnapshot)
    return found


def place(config: RunnableConfig | None) -> dict[str, Any]:
    """What of a config says where in a thread a state is."""
    return dict((config or {})["configurable"])


def stopped_inside(drive: Drive, name: str, **options: Any) -> tuple[Graph, RunnableConfig]:
    """A graph with one inside that has asked, on a thread."""
    inner = compiled(in_a_row(x=None, y="name?", z=None), **options)
    graph, config = drive.keeping(in_a_row(a=inner, b=None)), thread(name)
    drive.invoke(graph, {"last": "l"}, config)
    return graph, config


@pytest.mark.rule("subgraph-1")
def test_a_state_says_where_to_ask_for_that_of_a_graph_inside(drive_kept: Drive) -> None:
    graph, config = stopped_inside(drive_kept, "where to ask")
    state = drive_kept.get_state(graph, config)
    (task,) = state.tasks
    where: Any = task.state

    assert where["configurable"] == {"thread_id": "where to ask", "checkpoint_ns": f"a:{task.id}"}
    found = drive_kept.get_state(graph, where)
    assert (found.values["words"], found.next) == (["x"], ("y",))


@pytest.mark.rule("subgraph-1")
def test_a_state_shows_that_of_graphs_inside_if_it_is_asked_to(drive_kept: Drive) -> None:
    graph, config = stopped_inside(drive_kept, "shown inside")
    state = drive_kept.get_state(graph, config, subgraphs=True)
    found = inside(state)

    assert (state.values, state.next) == ({"words": [], "count": 0, "last": "l"}, ("a",))
    assert (found.values, found.next) == ({"words": ["x"], "count": 0, "last": "l"}, ("y",))
    assert [question.value for question in found.interrupts] == ["name?"]
    assert found.interrupts == state.interrupts
    assert (found.metadata or {})["parents"] == {"": identity(state)}


@pytest.mark.rule("subgraph-1")
@pytest.mark.kept_by_workers
@pytest.mark.not_on("cluster-own-saver", "called_state")
def test_a_state_shows_that_of_graphs_that_its_nodes_call(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x=None, y="name?"))
    graph, config = drive_kept.keeping(in_a_row(a=lambda _: inner.invoke({}))), thread("shown where called")
    drive_kept.invoke(graph, {}, config)
    found = inside(drive_kept.get_state(graph, config, subgraphs=True))

    assert (found.values["words"], found.next) == (["x"], ("y",))


@pytest.mark.rule("subgraph-1")
def test_the_address_of_a_state_inside_says_where_the_graphs_around_it_stand(drive_kept: Drive) -> None:
    innermost = compiled(in_a_row(x=None, y="name?"))
    middle = compiled(in_a_row(m=innermost))
    graph, config = drive_kept.keeping(in_a_row(a=middle)), thread("map of states")
    drive_kept.invoke(graph, {}, config)
    outer = drive_kept.get_state(graph, config, subgraphs=True)
    between, found = inside(outer), inside(inside(outer))
    where = place(found.config)
    first, second = f"a:{outer.tasks[0].id}", f"m:{between.tasks[0].id}"

    assert where["checkpoint_ns"] == f"{first}|{second}"
    assert where["checkpoint_map"] == {
        "": identity(outer),
        first: identity(between),
        f"{first}|{second}": identity(found),
    }


@pytest.mark.rule("subgraph-1")
def test_the_history_of_a_graph_inside_can_be_asked_for(drive_kept: Drive) -> None:
    graph, config = stopped_inside(drive_kept, "history inside")
    where: Any = drive_kept.get_state(graph, config).tasks[0].state
    history = drive_kept.history(graph, where)

    assert steps(history) == [("loop", 1), ("loop", 0), ("input", -1)]
    assert [each.next for each in history] == [("y",), ("x",), ("__start__",)]
    assert steps(drive_kept.history(graph, config)) == [("loop", 0), ("input", -1)]


@pytest.mark.rule("subgraph-1")
def test_states_of_the_past_say_where_those_of_graphs_inside_are(drive_kept: Drive) -> None:
    graph, config = stopped_inside(drive_kept, "past inside")
    resume(drive_kept, graph, config, "Ann")
    old = next(each for each in drive_kept.history(graph, config) if each.next == ("a",))
    where: Any = old.tasks[0].state
    found = drive_kept.get_state(graph, where)

    assert found.values["words"] == ["x", "Ann", "z"]
    assert found.next == ()


@pytest.mark.rule("subgraph-1")
def test_packets_have_graphs_of_their_own_inside(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x="name?"))
    builder = StateGraph(Words)
    builder.add_node("work", inner)
    builder.add_conditional_edges("__start__", lambda _: [Send("work", {"last": each}) for each in "ab"], ["work"])
    graph, config = drive_kept.keeping(builder), thread("packets inside")
    drive_kept.invoke(graph, {}, config)
    state = drive_kept.get_state(graph, config, subgraphs=True)

    assert [inside(state, number).values["last"] for number in (0, 1)] == ["a", "b"]
    assert len({place(inside(state, number).config)["checkpoint_ns"] for number in (0, 1)}) == 2


@pytest.mark.rule("subgraph-2")
@pytest.mark.ours_only("there, the state of a graph that does not exist is empty")
@pytest.mark.parametrize("namespace", ["nobody:1", "b:1", "a:1|nobody:2"])
def test_a_namespace_without_a_graph_is_refused(drive_kept: Drive, namespace: str) -> None:
    graph, _ = stopped_inside(drive_kept, f"no graph there {namespace}")
    where: RunnableConfig = {"configurable": {"thread_id": "no graph there", "checkpoint_ns": namespace}}

    with pytest.raises(ValueError, match=r"^Subgraph .* not found"):
        drive_kept.get_state(graph, where)


@pytest.mark.rule("subgraph-3")
def test_by_default_a_graph_inside_begins_anew_with_every_call(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x=_counts))
    graph, config = drive_kept.keeping(in_a_row(a=inner)), thread("anew with every call")
    drive_kept.invoke(graph, {}, config)
    drive_kept.invoke(graph, {}, config)

    assert drive_kept.get_state(graph, config).values["words"] == ["0", "0", "1"]


def _counts(state: Words) -> Update:
    return {"words": [str(len(state["words"]))]}


def remembering(ran: Ran | None = None) -> Graph:
    """A graph whose state lasts, which says how many words of its own it has."""
    return compiled(in_a_row(ran, x=_counts, y=None), checkpointer=True)


def calls(graph: Graph) -> Any:
    """A node that calls a graph with no words of the graph around it."""

    def node(_: Words) -> Update:
        return {"other": graph.invoke({"last": "l"})["words"]}

    return node


@pytest.mark.rule("subgraph-3")
@pytest.mark.kept_by_workers
def test_the_state_of_a_graph_inside_may_last(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=calls(remembering()))), thread(f"lasting {drive_kept.name}")

    assert drive_kept.invoke(graph, {}, config)["other"] == ["0", "y"]
    assert drive_kept.invoke(graph, {}, config)["other"] == ["0", "y", "2", "y"]
    assert drive_kept.invoke(graph, {}, thread(f"lasting elsewhere {drive_kept.name}"))["other"] == ["0", "y"]


@pytest.mark.rule("subgraph-3")
def test_a_state_that_lasts_is_where_no_task_is_named(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x=None, y="name?"), checkpointer=True)
    graph, config = drive_kept.keeping(in_a_row(a=inner)), thread("no task is named")
    drive_kept.invoke(graph, {}, config)
    where: RunnableConfig = {"configurable": {"thread_id": "no task is named", "checkpoint_ns": "a"}}
    found = drive_kept.get_state(graph, where)
    assert (found.values["words"], found.next) == (["x"], ("y",))
    assert inside(drive_kept.get_state(graph, config, subgraphs=True)).config == found.config
    resume(drive_kept, graph, config, "Ann")

    assert drive_kept.get_state(graph, where).values["words"] == ["x", "Ann"]
    assert asked(drive_kept.invoke(graph, {}, config)) == ["name?"]
    assert len(drive_kept.history(graph, where)) > 4


@pytest.mark.rule("subgraph-3")
def test_two_nodes_of_one_graph_whose_state_lasts_have_states_of_their_own(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x=None), checkpointer=True)
    graph, config = drive_kept.keeping(in_a_row(a=inner, b=inner)), thread("two lasting")
    drive_kept.invoke(graph, {}, config)

    def words(namespace: str) -> Any:
        where: RunnableConfig = {"configurable": {"thread_id": "two lasting", "checkpoint_ns": namespace}}
        return drive_kept.get_state(graph, where).values["words"]

    assert (words("a"), words("b")) == (["x"], ["x", "x"])


@pytest.mark.rule("subgraph-3")
def test_a_graph_whose_state_is_to_last_cannot_be_outermost(drive_kept: Drive) -> None:
    graph = compiled(in_a_row(x=None), checkpointer=True)

    with pytest.raises(RuntimeError, match=r"^checkpointer=True cannot be used for root graphs"):
        drive_kept.invoke(graph, {}, thread("outermost"))


@pytest.mark.rule("subgraph-3")
def test_a_graph_may_keep_nothing(drive_kept: Drive) -> None:
    inner = compiled(in_a_row(x=None), checkpointer=False)
    graph, config = drive_kept.keeping(in_a_row(a=inner, b="name?")), thread("keeps nothing")
    drive_kept.invoke(graph, {}, config)
    old = next(each for each in drive_kept.history(graph, config) if each.next == ("a",))

    assert old.tasks[0].state is None
    assert resume(drive_kept, graph, config, "Ann")["words"] == ["x", "Ann"]


@pytest.mark.rule("subgraph-4")
def test_the_state_of_a_graph_inside_can_be_updated(drive_kept: Drive) -> None:
    graph, config = stopped_inside(drive_kept, "updated inside")
    where: Any = drive_kept.get_state(graph, config).tasks[0].state
    drive_kept.update(graph, where, {"words": ["u"]}, as_node="y")

    assert drive_kept.get_state(graph, where).next == ("z",)
    assert drive_kept.invoke(graph, None, config)["words"] == ["x", "u", "z", "b"]


@pytest.mark.rule("subgraph-4")
def test_an_update_of_a_node_replaces_the_graph_inside(drive_kept: Drive) -> None:
    graph, config = stopped_inside(drive_kept, "replaced inside")
    drive_kept.update(graph, config, {"words": ["u"]}, as_node="a")

    assert drive_kept.get_state(graph, config).next == ("b",)
    assert drive_kept.invoke(graph, None, config)["words"] == ["u", "b"]


@pytest.mark.rule("subgraph-4")
def test_graphs_side_by_side_show_their_states_side_by_side(drive_kept: Drive) -> None:
    first, second = compiled(in_a_row(x="1?")), compiled(in_a_row(y=None, z="2?"))
    graph, config = drive_kept.keeping(side_by_side(a=first, b=second)), thread("side by side inside")
    drive_kept.invoke(graph, {}, config)
    state = drive_kept.get_state(graph, config, subgraphs=True)

    assert [(task.name, inside(state, number).next) for number, task in enumerate(state.tasks)] == [
        ("a", ("x",)),
        ("b", ("z",)),
    ]


@pytest.mark.rule("subgraph-3")
@pytest.mark.ours_only("there, all of them load and store one state at once")
def test_packets_to_a_graph_whose_state_lasts_have_a_state_each(drive_kept: Drive) -> None:
    inner = StateGraph(Words)
    inner.add_node("inner", says("done"))
    inner.add_edge(START, "inner")

    def send(state: Words) -> list[Send]:
        return [Send("each", {"words": [f"{word}!"]}) for word in state["words"][-2:]]

    builder = StateGraph(Words)
    builder.add_node("each", inner.compile(True))
    builder.add_conditional_edges(START, send, ["each"])
    graph, config = drive_kept.keeping(builder), thread("packets to what lasts")

    first = drive_kept.invoke(graph, {"words": ["a", "b"]}, config)["words"]
    second = drive_kept.invoke(graph, {"words": ["c", "d"]}, config)["words"]

    assert first == ["a", "b", "a!", "done", "b!", "done"]
    assert second[len(first) :] == ["c", "d", "a!", "done", "c!", "done", "b!", "done", "d!", "done"]
