"""A coordinator may die between any two commands: nothing is lost, and nothing is applied twice.

Each test runs a whole story once undisturbed, and then again and again, with a coordinator that dies at its first
moment, its second, and so on, until one gets through. After each death another coordinator goes on. What the story
comes to, and what every checkpoint on the way holds, is always that of the undisturbed one.
"""

# Short paths are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import asyncio
import operator
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, cast

import pytest
from tests.integration.crashing import Graph, Story, look_often
from typing_extensions import TypedDict

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.constants import END, START
from phalanx.errors import NodeError
from phalanx.graph import StateGraph
from phalanx.testing import InProcessCluster, in_process_cluster
from phalanx.types import Command, RetryPolicy, Send, interrupt


class Wrote(TypedDict, total=False):
    """``log`` has what each node wrote; ``total`` would show a write that counts twice."""

    log: Annotated[list[str], operator.add]
    total: Annotated[int, operator.add]


class State(Wrote, total=False):
    item: str


Ran = Counter[str]
"""How often each node ran."""


class AtLeast(Ran):
    """Equal to counts that name the same, and are nowhere smaller."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counter) and self.keys() == other.keys() and self <= other

    __hash__ = None  # type: ignore[assignment]


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    with in_process_cluster() as started:
        yield started


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    look_often(monkeypatch)


# --- graphs -----------------------------------------------------------------------------------------------------------


def writes(ran: Ran, name: str) -> Callable[[State], State]:
    """A node that notes that it ran."""

    def node(state: State) -> State:
        said = f"{name} {state.get('item', '')}".strip()
        ran[said] += 1
        return {"log": [said], "total": 1}

    return node


def row(ran: Ran, /, **nodes: Any) -> StateGraph[Any]:
    """A graph of nodes one after the other; ``None`` is one that writes its name."""
    builder: StateGraph[Any] = StateGraph(State, output_schema=Wrote)
    before = START
    for name, node in nodes.items():
        action, options = cast("tuple[Any, dict[str, Any]]", node) if isinstance(node, tuple) else (node, {})
        builder.add_node(name, writes(ran, name) if action is None else action, **options)
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return builder


def spread(ran: Ran, work: Any, letters: str = "abc", **more: Any) -> StateGraph[Any]:
    """A plan, packets to something, and more."""
    builder = row(ran, plan=None)
    builder.add_node("work", work)
    builder.add_conditional_edges("plan", lambda _: [Send("work", {"item": each}) for each in letters], ["work"])
    before = "work"
    for name, node in more.items():
        builder.add_node(name, writes(ran, name) if node is None else node)
        builder.add_edge(before, name)
        before = name
    return builder


def nested(ran: Ran, inside: Graph) -> StateGraph[Any]:
    """Packets to a graph, and the same graph two floors down."""
    return spread(ran, inside, "ab", middle=row(ran, deep=inside).compile(), end=None)


def asking(ran: Ran, inside: Callable[[StateGraph[Any]], Any] = StateGraph.compile) -> StateGraph[Any]:
    """Nodes before, beside and after a question in a graph in a graph.

    Args:
        inside: makes a node of the graph that asks.
    """

    def asks(_: State) -> State:
        answer = interrupt("what?")
        ran["asks"] += 1  # that is, has asked and was answered
        return {"log": [f"asks: {answer}"], "total": 1}

    asker = row(ran, before=None, asks=asks)
    asker.add_node("beside", writes(ran, "beside"))
    asker.add_node("after", writes(ran, "after"))
    asker.add_edge("before", "beside")
    asker.add_edge(["asks", "beside"], "after")
    builder = row(ran, plan=None, asker=row(ran, deep=inside(asker)).compile())
    builder.add_node("other", writes(ran, "other"))
    builder.add_node("end", writes(ran, "end"))
    builder.add_edge("plan", "other")
    builder.add_edge(["asker", "other"], "end")
    return builder


# --- stories ----------------------------------------------------------------------------------------------------------

GIVEN: State = {"log": ["given"], "total": 1}


def begin(graph: Graph, story: Story) -> object:
    return graph.invoke(GIVEN, story.config)


def nothing(_graph: Graph, _story: Story) -> None:
    """Nothing has happened before."""


def to_the_end(story: Story) -> None:
    """What a client does that does not know how far another came: it looks, and goes on from there."""
    if not story.begun():
        begin(story.graph, story)
    while story.graph.get_state(story.config).tasks:
        answer(story.graph, story)


def answer(graph: Graph, story: Story) -> object:
    """Answer what the thread asks, or go on if it asks nothing."""
    asked = graph.get_state(story.config, subgraphs=True).interrupts
    resume = {question.id: "this" for question in asked}
    return graph.invoke(Command[str](resume=resume) if asked else None, story.config)


@dataclass
class Plot:
    """A story in which a coordinator dies.

    Attributes:
        make: the graph.
        before: what happens before that.
        call: what that coordinator is about.
        after: what a client does then, to have the story end as it should.
        often: how often each node may run, given how often it did undisturbed.
        stride: 2 leaves out the moments after commands; those before the next differ little from them.
        own_saver: whether the graph has a saver of its own.
    """

    make: Callable[[Ran], StateGraph[Any]]
    before: Callable[[Graph, Story], object] = nothing
    call: Callable[[Graph, Story], object] = begin
    after: Callable[[Story], object] = to_the_end
    often: Callable[[Ran], Ran] = lambda calm: calm
    stride: int = 1
    own_saver: bool = False
    options: dict[str, Any] = field(default_factory=dict[str, Any])

    def story(self, cluster: InProcessCluster, ran: Ran) -> Story:
        """One on a thread of its own, as far as to the moment that matters."""
        saver = InMemorySaver() if self.own_saver else None
        story = Story.of(cluster, self.make(ran).compile(saver, name="story", **self.options))
        self.before(story.graph, story)
        return story

    def check(self, cluster: InProcessCluster) -> None:
        """Have it end at every moment in turn."""
        calm = Ran()
        quiet = self.story(cluster, calm)
        self.call(quiet.graph, quiet)
        self.after(quiet)
        expected = quiet.graph.get_state(quiet.config).values, quiet.history(), self.often(calm)
        moment = passed = 1 - self.stride
        while passed >= moment:
            moment += self.stride
            ran = Ran()
            story = self.story(cluster, ran)
            passed = story.broken(moment, partial(_with, self.call, story))
            self.after(story)
            came_to = story.graph.get_state(story.config).values, story.history(), ran
            assert came_to == expected, f"after a death at moment {moment}"
            assert story.delete() == [], f"after a death at moment {moment}"
        assert moment > 4, "nothing was disturbed"


def _with(call: Callable[[Graph, Story], object], story: Story, graph: Graph) -> object:
    return call(graph, story)


def test_a_spread_over_packets(cluster: InProcessCluster) -> None:
    Plot(lambda ran: spread(ran, writes(ran, "work"), end=None)).check(cluster)


@pytest.mark.parametrize("own_saver", [False, True], ids=["cluster's saver", "own saver"])
def test_graphs_in_graphs(cluster: InProcessCluster, own_saver: bool) -> None:
    """With a saver of its own, checkpoints go there first, and then the superstep is retired in the state server."""

    def make(ran: Ran) -> StateGraph[Any]:
        return nested(ran, row(ran, first=None, second=None).compile())

    Plot(make, own_saver=own_saver, stride=1 + own_saver).check(cluster)


@pytest.mark.parametrize("checkpointer", [True, False], ids=["lasts", "is not kept"])
def test_a_graph_inside_whose_state(cluster: InProcessCluster, checkpointer: bool) -> None:
    def make(ran: Ran) -> StateGraph[Any]:
        return row(ran, before=None, inside=row(ran, first=None, second=None).compile(checkpointer), after=None)

    # What is not kept begins anew.
    Plot(make, often=(lambda calm: calm) if checkpointer else AtLeast).check(cluster)


def test_a_graph_inside_with_a_saver_of_its_own(cluster: InProcessCluster) -> None:
    def make(ran: Ran) -> StateGraph[Any]:
        return row(ran, before=None, inside=row(ran, first=None, second=None).compile(InMemorySaver()), after=None)

    Plot(make).check(cluster)


@pytest.mark.parametrize("own_saver", [False, True], ids=["cluster's saver", "own saver"])
def test_a_question_before_it_was_answered(cluster: InProcessCluster, own_saver: bool) -> None:
    Plot(asking, own_saver=own_saver, stride=1 + own_saver).check(cluster)


def not_kept(asker: StateGraph[Any]) -> Any:
    return asker.compile(False)


def called(asker: StateGraph[Any]) -> Any:
    graph = asker.compile()

    def calls(_: State) -> Any:
        return graph.invoke({})

    return calls


@pytest.mark.parametrize("inside", [not_kept, called])
@pytest.mark.parametrize("answering", [False, True], ids=["before it was answered", "while it is answered"])
def test_a_question_in_a_graph_that_is(
    cluster: InProcessCluster, inside: Callable[[StateGraph[Any]], Any], answering: bool
) -> None:
    plot = Plot(lambda ran: asking(ran, inside), often=AtLeast, stride=2)
    if answering:
        plot.before, plot.call = begin, answer
    plot.check(cluster)


@pytest.mark.parametrize("own_saver", [False, True], ids=["cluster's saver", "own saver"])
def test_a_question_while_it_is_answered(cluster: InProcessCluster, own_saver: bool) -> None:
    Plot(asking, before=begin, call=answer, own_saver=own_saver, stride=1 + own_saver).check(cluster)


@pytest.mark.parametrize("as_node", ["a", "b"], ids=["of a node that has run", "of a node that is due"])
def test_an_update_from_outside(cluster: InProcessCluster, as_node: str) -> None:
    """A client that does not know whether its update was made looks, and makes it if it was not."""

    def update(graph: Graph, story: Story) -> object:
        return graph.update_state(story.config, {"log": ["updated"], "total": 1}, as_node)

    def finish(story: Story) -> None:
        if (story.graph.get_state(story.config).metadata or {}).get("source") != "update":
            update(story.graph, story)
        to_the_end(story)

    options = {"interrupt_before": ["b"]}
    Plot(lambda ran: row(ran, a=None, b=None, c=None), begin, update, finish, options=options).check(cluster)


def test_going_back_to_an_older_checkpoint(cluster: InProcessCluster) -> None:
    """The moment that matters is that between the copy of the checkpoint and what follows it."""

    def make(ran: Ran) -> StateGraph[Any]:
        return spread(ran, row(ran, first=None, second=None).compile(), "ab", end=None)

    def back(graph: Graph, story: Story) -> object:
        then = next(each for each in graph.get_state_history(story.config) if each.next == ("work", "work"))
        return graph.invoke(None, then.config)

    def finish(story: Story) -> None:
        if not any(source == "fork" for _, source, _, _ in story.history()):
            back(story.graph, story)
        to_the_end(story)

    Plot(make, begin, back, finish, stride=2).check(cluster)


def test_errors_that_are_handled_and_attempts_that_are_repeated(cluster: InProcessCluster) -> None:
    """A node of a graph inside is tried again, another's error is handled, and so is that of the graph itself."""

    def make(ran: Ran) -> StateGraph[Any]:
        def fails_once(_: State) -> State:
            ran["fails once"] += 1
            if ran["fails once"] == 1:
                raise ConnectionError("once")
            return {"log": ["tried again"], "total": 1}

        def fails(_: State) -> State:
            ran["fails"] += 1
            raise ValueError("always")

        def handles(_: State, error: NodeError) -> State:
            ran[f"handles {error.node}"] += 1
            return {"log": [f"handled {error.node}: {error.error}"], "total": 1}

        again = RetryPolicy(initial_interval=0.01, jitter=False, retry_on=ConnectionError)
        tried = (fails_once, {"retry_policy": again})
        handled = row(ran, fails_once=tried, fails=(fails, {"error_handler": handles})).compile()
        failing = row(ran, before=None, fails=fails).compile()
        return row(ran, handled=handled, failing=(failing, {"error_handler": handles}), end=None)

    Plot(make, often=AtLeast, stride=2).check(cluster)


def test_a_graph_that_a_function_calls(cluster: InProcessCluster) -> None:
    """It runs in the worker, which has it to itself: a death of the coordinator does not disturb it."""

    def make(ran: Ran) -> StateGraph[Any]:
        called = row(ran, first=None, second=None).compile()

        def calls(_: State) -> Any:
            ran["calls"] += 1
            return called.invoke({"item": "x"})

        return row(ran, plan=None, calls=calls, end=None)

    Plot(make).check(cluster)


def test_coroutine_nodes_in_a_graph(cluster: InProcessCluster) -> None:
    def make(ran: Ran) -> StateGraph[Any]:
        async def waits(state: State) -> State:
            await asyncio.sleep(0)
            return writes(ran, "waits")(state)

        return spread(ran, row(ran, waits=waits, then=None).compile(), end=None)

    Plot(make, stride=2).check(cluster)


@pytest.mark.parametrize("moments", [7, 13])
def test_one_coordinator_after_the_other_dies_and_the_run_still_comes_to_its_end(
    cluster: InProcessCluster, moments: int
) -> None:
    """Each lives for a few moments, enough to take up what is stored and to add something."""
    plot = Plot(lambda ran: nested(ran, row(ran, first=None, second=None).compile()))
    calm, ran = Ran(), Ran()
    quiet = plot.story(cluster, calm)
    begin(quiet.graph, quiet)
    story = plot.story(cluster, ran)

    def call(graph: Graph) -> object:
        return graph.invoke(None if story.begun() else GIVEN, story.config)

    while story.broken(moments, call) >= moments:
        assert story.crashes < 60, "nobody comes any further"
    assert story.crashes > 1
    assert story.graph.get_state(story.config).values == quiet.graph.get_state(quiet.config).values
    assert (story.history(), ran) == (quiet.history(), calm)
    assert story.delete() == []
