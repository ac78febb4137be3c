"""When checkpoints are stored: before the run goes on, in the background, or when it ends."""

import threading
from collections.abc import Sequence
from typing import Any, Literal

import pytest
from tests.behaviour.drivers import Drive, Graph, compiled, thread
from tests.behaviour.states import Words, says

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.graph import START, StateGraph
from phalanx.types import Command, interrupt

ALWAYS_DURABLE = pytest.mark.not_on("cluster", "durability")
Durability = Literal["sync", "async", "exit"]
EVERY: Sequence[Durability] = ("sync", "async", "exit")


def chain(*actions: Any, saver: Any = None) -> Graph:
    """Nodes one after the other."""
    builder = StateGraph(Words)
    before = START
    for number, action in enumerate(actions):
        name = f"node{number}"
        builder.add_node(name, action)
        builder.add_edge(before, name)
        before = name
    return compiled(builder, saver or InMemorySaver())


def fails(_: Words) -> Any:
    raise ValueError("no")


def asks(_: Words) -> Any:
    return {"words": [interrupt("what?")]}


def words(drive: Drive, graph: Graph) -> list[list[str]]:
    """The words of every stored state, oldest first."""
    return [state.values["words"] for state in reversed(drive.history(graph, thread("t")))]


@pytest.mark.rule("durable-1")
@pytest.mark.parametrize("durability", EVERY)
def test_a_thread_ends_the_same_whenever_it_is_stored(drive: Drive, durability: Durability) -> None:
    graph = chain(says("a"), says("b"))

    result = drive.invoke(graph, {"words": ["in"]}, thread("t"), durability=durability)

    assert result["words"] == ["in", "a", "b"]
    assert drive.get_state(graph, thread("t")).values["words"] == ["in", "a", "b"]
    assert drive.invoke(graph, {"words": ["more"]}, thread("t"), durability=durability)["words"][3:] == [
        "more",
        "a",
        "b",
    ]


@ALWAYS_DURABLE
@pytest.mark.rule("durable-1")
@pytest.mark.parametrize(("durability", "stored"), [("sync", 4), ("async", 4), ("exit", 1)])
def test_every_state_is_stored_or_the_last_alone(drive: Drive, durability: Durability, stored: int) -> None:
    graph = chain(says("a"), says("b"))

    drive.invoke(graph, {"words": []}, thread("t"), durability=durability)

    assert len(drive.history(graph, thread("t"))) == stored


@ALWAYS_DURABLE
@pytest.mark.rule("durable-2")
def test_stored_at_the_end_each_run_s_state_follows_the_last_run_s(drive: Drive) -> None:
    graph = chain(says("a"))

    for turn in ("one", "two", "three"):
        drive.invoke(graph, {"words": [turn]}, thread("t"), durability="exit")

    states = drive.history(graph, thread("t"))
    assert words(drive, graph) == [["one", "a"], ["one", "a", "two", "a"], ["one", "a", "two", "a", "three", "a"]]
    assert [state.parent_config for state in states] == [states[1].config, states[2].config, None]


@pytest.mark.rule("durable-2")
@pytest.mark.parametrize("durability", EVERY)
def test_a_run_that_fails_or_asks_is_stored_so_that_it_can_go_on(drive: Drive, durability: Durability) -> None:
    graph = chain(says("a"), asks, says("b"))
    drive.invoke(graph, {"words": []}, thread("t"), durability=durability)
    asked = drive.get_state(graph, thread("t"))

    result = drive.invoke(graph, Command[str](resume="answer"), thread("t"), durability=durability)

    assert [question.value for question in asked.interrupts] == ["what?"]
    assert result["words"] == ["a", "answer", "b"]


@pytest.mark.rule("durable-2")
@pytest.mark.parametrize("durability", EVERY)
def test_what_finished_beside_a_failure_is_stored_with_the_state_it_ran_from(
    drive: Drive, durability: Durability
) -> None:
    builder = StateGraph(Words)
    for name, action in (("fails", fails), ("works", says("works"))):
        builder.add_node(name, action)
        builder.add_edge(START, name)
    graph = compiled(builder, InMemorySaver())
    if drive.name == "inline-async":
        pytest.skip("the first failure cancels what runs beside it")

    with pytest.raises(ValueError, match="no"):
        drive.invoke(graph, {"words": []}, thread("t"), durability=durability)

    results = {task.name: task.result for task in drive.get_state(graph, thread("t")).tasks}
    assert results == {"fails": None, "works": {"words": ["works"]}}


@ALWAYS_DURABLE
@pytest.mark.rule("durable-3")
@pytest.mark.ours_only("there the value is stored as it is by then")
@pytest.mark.parametrize("durability", ["async", "exit"])
def test_what_waits_to_be_stored_does_not_change_when_nodes_change_the_value_itself(
    drive: Drive, durability: Durability
) -> None:
    def changes(state: Words) -> Any:
        state["words"].append("in place")
        return {"words": [interrupt("what?")]}

    graph = chain(says("a"), changes)
    drive.invoke(graph, {"words": []}, thread("t"), durability=durability)

    assert words(drive, graph)[-1] == ["a"]


class Breaks(InMemorySaver):
    """Stores a number of things, and then no more."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.left = after
        self.lock = threading.Lock()

    def put(self, *args: Any, **kwargs: Any) -> Any:
        with self.lock:
            self.left -= 1
            if self.left < 0:
                raise OSError("the disk is full")
        return super().put(*args, **kwargs)

    async def aput(self, *args: Any, **kwargs: Any) -> Any:
        return self.put(*args, **kwargs)


@ALWAYS_DURABLE
@pytest.mark.rule("durable-4")
@pytest.mark.parametrize("durability", ["sync", "async"])
@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_state_that_cannot_be_stored_ends_the_run_and_nothing_later_is(
    drive: Drive, durability: Durability, after: int
) -> None:
    saver = Breaks(after)
    graph = chain(says("a"), says("b"), saver=saver)

    with pytest.raises(OSError, match="the disk is full"):
        drive.invoke(graph, {"words": ["in"]}, thread("t"), durability=durability)

    assert words(drive, graph) == [[], ["in"], ["in", "a"]][:after]


@ALWAYS_DURABLE
@pytest.mark.rule("durable-4")
def test_a_state_that_cannot_be_stored_at_the_end_is_an_error(drive: Drive) -> None:
    graph = chain(says("a"), saver=Breaks(0))

    with pytest.raises(OSError, match="the disk is full"):
        drive.invoke(graph, {"words": []}, thread("t"), durability="exit")


@ALWAYS_DURABLE
@pytest.mark.rule("durable-5")
@pytest.mark.parametrize(("lasting", "stored"), [(None, 0), (True, 1)])
def test_a_graph_inside_is_stored_at_the_end_only_if_its_state_lasts(
    drive: Drive, lasting: bool | None, stored: int
) -> None:
    inner = StateGraph(Words)
    inner.add_node("inner", says("inner"))
    inner.add_edge(START, "inner")
    saver = InMemorySaver()
    graph = chain(inner.compile(lasting), saver=saver)

    drive.invoke(graph, {"words": []}, thread("t"), durability="exit")

    namespaces = [found.config.get("configurable", {})["checkpoint_ns"] for found in saver.list(thread("t"))]
    assert len([namespace for namespace in namespaces if namespace]) == stored


@pytest.mark.rule("durable-6")
@pytest.mark.not_on("cluster", "durability")
def test_to_ask_for_durability_where_nothing_is_stored_is_worth_a_warning(drive: Drive) -> None:
    builder = StateGraph(Words)
    builder.add_node("a", says("a"))
    builder.add_edge(START, "a")

    with pytest.warns(UserWarning, match="no effect"):
        drive.invoke(compiled(builder), {"words": []}, durability="async")


@pytest.mark.rule("durable-6")
@pytest.mark.ours_only("there it is taken for one of the three")
def test_there_are_three_ways_and_no_other(drive: Drive) -> None:
    with pytest.raises(ValueError, match="unknown durability 'never'; it must be one of: sync, async, exit"):
        drive.invoke(chain(says("a")), {"words": []}, thread("t"), durability="never")
