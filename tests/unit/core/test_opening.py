"""Which checkpoint a run begins from, and how it takes it up."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from typing import Any

import pytest
from typing_extensions import TypedDict

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.config import RunnableConfig
from phalanx.constants import START
from phalanx.coordinator.opening import Opened, Place, open_place
from phalanx.coordinator.saver_access import SaverHere
from phalanx.coordinator.terms import ANEW
from phalanx.graph import CompiledStateGraph, StateGraph
from phalanx.types import Command, StateSnapshot, interrupt
from phalanx.worker.lineage import Lineage
from phalanx.worker.run_task import run_to_end


class State(TypedDict):
    """What the graph here is about."""

    text: str


class Thread:
    """A thread ``t`` on which a graph has asked, and was answered."""

    def __init__(self) -> None:
        self.saver = InMemorySaver()
        builder = StateGraph(State)
        builder.add_node("asks", lambda _: {"text": interrupt("?")})
        builder.add_node("then", lambda _: {"text": "then"})
        builder.add_edge(START, "asks")
        builder.add_edge("asks", "then")
        self.graph: CompiledStateGraph[Any] = builder.compile(self.saver)
        self.config: RunnableConfig = {"configurable": {"thread_id": "t"}}
        self.graph.invoke({"text": "x"}, self.config)
        self.graph.invoke(Command(resume="answer"), self.config)

    def state(self, *following: str) -> StateSnapshot:
        """The state at which those nodes are next."""
        return next(each for each in self.graph.get_state_history(self.config) if each.next == following)

    def identity(self, *following: str) -> str:
        """The id of that state."""
        config: Any = self.state(*following).config
        return str(config["configurable"]["checkpoint_id"])

    def open(self, place: Place, given: object = None) -> Opened:
        """What a run begins with."""
        return run_to_end(open_place(SaverHere(self.saver), self.graph.blueprint, place, given))

    def found(self, place: Place, given: object = None) -> str | None:
        """The id of the checkpoint it begins from."""
        opened = self.open(place, given).found
        return None if opened is None else opened.checkpoint["id"]


@pytest.fixture
def thread() -> Thread:
    """Such a thread."""
    return Thread()


def test_a_fresh_thread_has_nothing_to_begin_from(thread: Thread) -> None:
    assert thread.open(Place("another")) == Opened()


def test_without_a_pointer_a_run_takes_up_the_latest(thread: Thread) -> None:
    assert thread.found(Place("t")) == thread.identity()
    assert thread.open(Place("t")).beginning is ANEW


def test_pointed_to_the_latest_it_runs_again_what_is_due_there_unless_it_brings_something(thread: Thread) -> None:
    place = Place("t", checkpoint_id=thread.identity())
    again = thread.open(place).beginning

    assert thread.found(place) == thread.identity()
    assert (again.fork, again.latest) == (True, True)
    for given in ({"text": "y"}, Command[str](resume="answer")):
        assert thread.open(place, given).beginning is ANEW


@pytest.mark.parametrize("given", [None, Command[str](goto="then"), Command[str](update={"text": "y"})], ids=repr)
def test_pointed_to_an_older_one_it_goes_on_from_a_copy(thread: Thread, given: object) -> None:
    opened = thread.open(Place("t", checkpoint_id=thread.identity("then")), given)

    assert opened.beginning.fork
    assert not opened.beginning.again


def test_a_new_input_to_an_older_one_needs_no_copy(thread: Thread) -> None:
    place = Place("t", checkpoint_id=thread.identity("then"))

    assert thread.found(place, {"text": "y"}) == thread.identity("then")
    assert thread.open(place, {"text": "y"}).beginning is ANEW


def test_an_answer_to_what_was_asked_at_an_older_one_is_dealt_with_there(thread: Thread) -> None:
    opened = thread.open(Place("t", checkpoint_id=thread.identity("asks")), Command(resume="another"))

    assert opened.beginning.again
    assert not opened.beginning.fork


def test_an_answer_where_nothing_was_asked_goes_on_from_a_copy(thread: Thread) -> None:
    place = Place("t", checkpoint_id=thread.identity("then"))

    assert thread.open(place, Command(resume="another")).beginning.fork


@pytest.mark.parametrize("given", [None, {"text": "y"}, Command[str](resume="x")], ids=repr)
def test_a_checkpoint_that_is_not_there_is_an_error_that_names_it(thread: Thread, given: object) -> None:
    with pytest.raises(ValueError, match="'t' has no checkpoint 'nowhere'"):
        thread.open(Place("t", checkpoint_id="nowhere"), given)


def test_after_an_update_of_the_past_what_graphs_inside_did_since_is_not_for_the_run(thread: Thread) -> None:
    old, old_id = thread.state("then"), thread.identity("then")
    updated: Any = thread.graph.update_state(old.config, {"text": "u"})
    new_id = updated["configurable"]["checkpoint_id"]

    assert thread.open(Place("t", checkpoint_id=new_id)).beginning.before == (old_id, new_id)
    assert thread.open(Place("t", checkpoint_id=new_id), {"text": "y"}).beginning is ANEW


# --- graphs inside ----------------------------------------------------------------------------------------------------


class Inside:
    """A thread with checkpoints of a graph inside, each made for a task of the checkpoint ``around``."""

    def __init__(self) -> None:
        self.saver = InMemorySaver()
        self.blueprint = StateGraph(State).add_node("a", lambda _: None).add_edge(START, "a").compile().blueprint

    def put(self, identity: str, around: str) -> None:
        """Store one."""
        checkpoint: Any = {
            "v": 4,
            "id": identity,
            "ts": "2026-01-01T00:00:00+00:00",
            "channel_values": {},
            "channel_versions": {},
            "versions_seen": {},
            "updated_channels": None,
        }
        where: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": "a"}}
        self.saver.put(where, checkpoint, {"source": "loop", "step": 0, "parents": {"": around}}, {})

    def open(self, around: str, lineage: Lineage | None = None) -> Opened:
        """What a run of the graph inside begins with, called in a task of that checkpoint."""
        place = Place("t", "a", around=lineage or Lineage(), parent=("", around), lasts=True)
        return run_to_end(open_place(SaverHere(self.saver), self.blueprint, place, {"text": "given"}))


def test_a_graph_inside_goes_on_where_its_task_left_it_and_else_begins_with_its_input() -> None:
    inside = Inside()
    inside.put("2", around="1")

    same, other = inside.open(around="1"), inside.open(around="3")
    assert same.beginning.continues
    assert not other.beginning.continues
    assert same.found is not None
    assert other.found is not None  # its state lasts


def test_a_graph_inside_is_given_the_answers_of_the_outermost_run() -> None:
    inside = Inside()
    inside.put("2", around="1")

    assert inside.open("1", Lineage(answers={"id": "answer"})).beginning.answers == {"id": "answer"}


def test_a_graph_inside_does_not_see_what_it_did_after_the_time_that_is_gone_back_to() -> None:
    inside = Inside()
    for number in range(2, 10, 2):
        inside.put(str(number), around=str(number - 1))

    def found(before: tuple[str, str] | None) -> str | None:
        opened = inside.open("x", Lineage(before=before))
        return None if opened.found is None else opened.found.checkpoint["id"]

    assert found(None) == "8"
    assert found(("5", "9")) == "4"
    assert found(("1", "9")) is None
    assert found(("1", "7")) == "8"  # made since


def test_a_graph_inside_may_be_pointed_to_a_checkpoint_of_a_task_that_was_its_own() -> None:
    inside = Inside()
    inside.put("2", around="1")
    place = Place("t", "a:new", "2", "a", Lineage(), ("", "3"))
    opened = run_to_end(open_place(SaverHere(inside.saver), inside.blueprint, place, None))

    assert opened.found is not None
    assert opened.beginning.fork
    assert opened.beginning.continues
