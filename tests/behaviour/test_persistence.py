"""Threads: their state during and after runs, their history, and going on after a failure.

On three drivers the thread is kept by a saver in memory, on the fourth in the cluster's own server.
"""

import threading
from collections import Counter
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Update, Words, chain, gives, says

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.constants import START
from phalanx.errors import EmptyInputError
from phalanx.graph import StateGraph
from phalanx.types import Command, Send


def test_the_state_after_a_run_holds_its_values_and_nothing_is_next(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("state after")
    drive_kept.invoke(graph, {"last": "x"}, config)
    state = drive_kept.get_state(graph, config)

    assert state.values == {"words": ["a", "b"], "count": 0, "last": "x"}
    assert state.next == ()
    assert state.tasks == ()
    assert state.metadata is not None
    assert (state.metadata["source"], state.metadata["step"]) == ("loop", 2)
    assert state.created_at is not None


def test_a_thread_on_which_nothing_ran_has_no_state(drive_kept: Drive) -> None:
    state = drive_kept.get_state(drive_kept.keeping(chain("a")), thread("never used"))

    assert (state.values, state.next, state.created_at, state.parent_config) == ({}, (), None, None)


def test_the_history_has_the_input_and_every_step_newest_first(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("history")
    drive_kept.invoke(graph, {"words": ["x"]}, config)
    history = drive_kept.history(graph, config)

    assert [(each.metadata or {})["step"] for each in history] == [2, 1, 0, -1]
    assert [(each.metadata or {})["source"] for each in history] == ["loop", "loop", "loop", "input"]
    assert [each.next for each in history] == [(), ("b",), ("a",), (START,)]
    assert [each.values.get("words") for each in history] == [["x", "a", "b"], ["x", "a"], ["x"], []]


def test_every_state_names_the_one_before_it(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("chain of states")
    drive_kept.invoke(graph, {}, config)
    drive_kept.invoke(graph, {}, config)
    history = drive_kept.history(graph, config)
    ids = [each.config.get("configurable", {})["checkpoint_id"] for each in history]
    parents = [(each.parent_config or {}).get("configurable", {}).get("checkpoint_id") for each in history]

    assert parents == [*ids[1:], None]
    assert ids == sorted(ids, reverse=True)


def test_an_old_state_can_be_read_by_its_id(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a", "b")), thread("old states")
    drive_kept.invoke(graph, {}, config)

    for each in drive_kept.history(graph, config):
        again = drive_kept.get_state(graph, each.config)
        assert (again.values, again.next, again.metadata) == (each.values, each.next, each.metadata)


def test_a_second_turn_goes_on_with_the_thread_s_state(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("two turns")
    drive_kept.invoke(graph, {"words": ["x"], "last": "1"}, config)

    assert drive_kept.invoke(graph, {"words": ["y"]}, config) == {
        "words": ["x", "a", "y", "a"],
        "count": 0,
        "last": "1",
    }
    steps = [(each.metadata or {})["step"] for each in drive_kept.history(graph, config)]
    assert steps == [4, 3, 2, 1, 0, -1]


def test_threads_do_not_see_each_other(drive_kept: Drive) -> None:
    graph = drive_kept.keeping(chain("a"))
    drive_kept.invoke(graph, {"words": ["x"]}, thread("one"))

    assert drive_kept.invoke(graph, {}, thread("another"))["words"] == ["a"]


@pytest.mark.rule("config-2")
def test_the_config_s_metadata_and_plain_settings_are_stored_with_each_state(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("metadata", metadata={"user": "u", "nested": {"no": 1}})
    config["configurable"] = {**config.get("configurable", {}), "model": "m", "__hidden": "h"}
    drive_kept.invoke(graph, {}, config)
    metadata = drive_kept.get_state(graph, config).metadata

    assert metadata == {"source": "loop", "step": 1, "parents": {}, "user": "u", "model": "m"}


# --- going on after a failure -----------------------------------------------------------------------------------------


class Flaky:
    """``first``, then four tasks side by side of which one fails the first time, then ``last``. Counts executions."""

    def __init__(self, *, by_packets: bool) -> None:
        self.ran: Counter[str] = Counter()
        self._finished = threading.Semaphore(0)
        self._failed = False
        builder = StateGraph(Words)
        builder.add_node("first", self._counted("first"))
        builder.add_edge(START, "first")
        builder.add_node("last", self._counted("last"))
        if by_packets:
            builder.add_node("work", self._work)
            builder.add_conditional_edges("first", gives([Send("work", name) for name in "abcd"]))
            builder.add_edge("work", "last")
        else:
            for name in "abcd":
                builder.add_node(name, self._working(name))
                builder.add_edge("first", name)
            builder.add_edge([*"abcd"], "last")
        self.builder = builder

    def _counted(self, name: str) -> Any:
        def run(_: object) -> Update:
            self.ran[name] += 1
            return {"words": [name]}

        return run

    def _working(self, name: str) -> Any:
        def run(_: object) -> Update:
            return self._work(name)

        return run

    def _work(self, name: str) -> Update:
        self.ran[name] += 1
        if name == "c" and not self._failed:
            self._failed = True
            raise ValueError("c fails the first time")
        return {"words": [name]}


both_kinds = pytest.mark.parametrize("by_packets", [False, True], ids=["edges", "packets"])


@pytest.mark.ours_only("there, which tasks beside a failed one finish is a matter of timing")
@pytest.mark.not_on("inline-async", "siblings_finish")
@both_kinds
def test_going_on_after_a_failure_runs_only_what_failed(drive_kept: Drive, by_packets: bool) -> None:
    flaky = Flaky(by_packets=by_packets)
    graph, config = drive_kept.keeping(flaky.builder), thread(f"flaky {by_packets}")
    with pytest.raises(ValueError, match="c fails the first time"):
        drive_kept.invoke(graph, {}, config)
    assert flaky.ran == {"first": 1, "a": 1, "b": 1, "c": 1, "d": 1}

    assert drive_kept.invoke(graph, None, config)["words"] == ["first", "a", "b", "c", "d", "last"]
    assert flaky.ran == {"first": 1, "a": 1, "b": 1, "c": 2, "d": 1, "last": 1}


@both_kinds
def test_going_on_after_a_failure_gives_what_a_run_without_one_gives(drive_kept: Drive, by_packets: bool) -> None:
    flaky = Flaky(by_packets=by_packets)
    graph, config = drive_kept.keeping(flaky.builder), thread(f"flaky everywhere {by_packets}")
    with pytest.raises(ValueError, match="c fails the first time"):
        drive_kept.invoke(graph, {}, config)

    assert drive_kept.invoke(graph, None, config)["words"] == ["first", "a", "b", "c", "d", "last"]
    assert flaky.ran["first"] == flaky.ran["last"] == 1


@pytest.mark.not_on("inline-async", "siblings_finish")
@both_kinds
def test_the_state_after_a_failure_shows_what_finished_and_the_error_of_what_did_not(
    drive_kept: Drive, by_packets: bool
) -> None:
    flaky = Flaky(by_packets=by_packets)
    graph, config = drive_kept.keeping(flaky.builder), thread(f"flaky state {by_packets}")
    with pytest.raises(ValueError, match="c fails the first time"):
        drive_kept.invoke(graph, {}, config)
    state = drive_kept.get_state(graph, config)

    assert state.values["words"] == ["first", "a", "b", "d"]
    assert state.next == ("work",) if by_packets else ("c",)
    assert [task.result for task in state.tasks] == [{"words": [name]} if name != "c" else None for name in "abcd"]
    assert [task.error for task in state.tasks] == [None, None, "ValueError('c fails the first time')", None]
    stored = drive_kept.get_state(graph, state.config)
    assert stored.values["words"] == ["first"]
    assert len(stored.next) == 4


def test_a_new_input_abandons_what_was_unfinished(drive_kept: Drive) -> None:
    flaky = Flaky(by_packets=False)
    graph, config = drive_kept.keeping(flaky.builder), thread("abandoned")
    with pytest.raises(ValueError, match="c fails the first time"):
        drive_kept.invoke(graph, {}, config)

    words = drive_kept.invoke(graph, {"words": ["again"]}, config)["words"]

    assert words == ["first", "again", "first", "a", "b", "c", "d", "last"]


def test_a_run_can_fail_again_and_again_and_still_be_finished(drive_kept: Drive) -> None:
    attempts = Counter[str]()

    def stubborn(_: Words) -> Update:
        attempts["stubborn"] += 1
        if attempts["stubborn"] < 5:
            raise ConnectionError(f"attempt {attempts['stubborn']}")
        return {"words": ["done"]}

    builder = chain("a")
    builder.add_node("stubborn", stubborn)
    builder.add_edge("a", "stubborn")
    graph, config = drive_kept.keeping(builder), thread("stubborn")
    given: Any = {}
    for attempt in range(1, 5):
        with pytest.raises(ConnectionError, match=f"attempt {attempt}"):
            drive_kept.invoke(graph, given, config)
        given = None
        assert drive_kept.get_state(graph, config).tasks[0].error == f"ConnectionError('attempt {attempt}')"

    assert drive_kept.invoke(graph, None, config)["words"] == ["a", "done"]


@pytest.mark.ours_only("there, what the node wrote is kept, and its path is not asked again")
def test_a_failed_path_counts_as_its_node_s_failure(drive_kept: Drive) -> None:
    ran = Counter[str]()

    def works(_: Words) -> Update:
        ran["works"] += 1
        return {"words": ["w"]}

    def path(_: Words) -> str:
        if ran["works"] == 1:
            raise LookupError("no way")
        return "b"

    builder = StateGraph(Words)
    builder.add_node("works", works)
    builder.add_node("b", says("b"))
    builder.add_edge(START, "works")
    builder.add_conditional_edges("works", path)
    graph, config = drive_kept.keeping(builder), thread("failed path")
    with pytest.raises(LookupError, match="no way"):
        drive_kept.invoke(graph, {}, config)

    assert drive_kept.invoke(graph, None, config)["words"] == ["w", "b"]
    assert ran["works"] == 2


def test_a_step_that_failed_is_not_in_the_history(drive_kept: Drive) -> None:
    flaky = Flaky(by_packets=False)
    graph, config = drive_kept.keeping(flaky.builder), thread("failed step")
    with pytest.raises(ValueError, match="c fails the first time"):
        drive_kept.invoke(graph, {}, config)
    before = len(drive_kept.history(graph, config))
    drive_kept.invoke(graph, None, config)

    assert (before, len(drive_kept.history(graph, config))) == (3, 5)


def test_packets_wait_in_the_thread_with_their_arguments(drive_kept: Drive) -> None:
    """Small and large ones; a run that goes on finds them again."""
    large = {"text": "x" * 10_000}
    failing = [True]

    def plan(_: Words) -> Command[str]:
        return Command(goto=[Send("work", large), Send("work", {"text": "y"})])

    def work(arg: dict[str, str]) -> Update:
        if failing:
            raise OSError("not yet")
        return {"words": [str(len(arg["text"]))]}

    builder = StateGraph(Words)
    builder.add_node("plan", plan)
    builder.add_node("work", work)
    builder.add_edge(START, "plan")
    graph, config = drive_kept.keeping(builder), thread("packets wait")
    with pytest.raises(OSError, match="not yet"):
        drive_kept.invoke(graph, {}, config)
    assert drive_kept.get_state(graph, config).next == ("work", "work")
    failing.clear()

    assert drive_kept.invoke(graph, None, config)["words"] == ["10000", "1"]


# --- what is asked of a thread's name ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["{braces}", "}{:", "a\x00b", "🦜🔗", "x" * 10_000, "", " ", "../..", "*", "a:b"],
    ids=["braces", "more braces", "NUL", "emoji", "10 kB", "empty", "blank", "path", "star", "colon"],
)
def test_a_thread_can_have_any_name(drive_kept: Drive, name: str) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread(name)
    drive_kept.invoke(graph, {}, config)
    drive_kept.invoke(graph, {}, config)

    assert drive_kept.get_state(graph, config).values["words"] == ["a", "a"]
    assert len(drive_kept.history(graph, config)) == 6


def test_a_thread_s_name_need_not_be_text(drive_kept: Drive) -> None:
    graph = drive_kept.keeping(chain("a"))
    drive_kept.invoke(graph, {}, {"configurable": {"thread_id": 77}})

    assert drive_kept.get_state(graph, thread("77")).values["words"] == ["a"]


def test_a_saver_needs_a_thread(drive: Drive) -> None:
    with pytest.raises(ValueError, match="thread_id"):
        drive.invoke(compiled(chain("a"), InMemorySaver()), {})


@pytest.mark.rule("private-3")
@pytest.mark.parametrize("kept", [True, False])
def test_nothing_to_run_is_an_error(drive: Drive, kept: bool) -> None:
    graph = drive.keeping(chain("a")) if kept else compiled(chain("a"))

    with pytest.raises(EmptyInputError):
        drive.invoke(graph, None, thread("nothing to run"))


def test_without_a_saver_there_is_no_state_to_ask_for() -> None:
    with pytest.raises(ValueError, match="No checkpointer set"):
        chain("a").compile().get_state(thread("t"))
