"""One driver a thread: a second run on a thread is refused before it writes anything, or waits for its turn."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, Graph, thread
from tests.behaviour.states import Words
from tests.support import wait_until

from phalanx.errors import ThreadBusyError
from phalanx.graph import START, StateGraph


class Gate:
    """Lets a node through when a test says so."""

    def __init__(self) -> None:
        self.inside = threading.Event()
        self.open = threading.Event()

    def graph(self, drive: Drive) -> Graph:
        """A graph whose only node waits at the gate."""

        def node(_: Words) -> Any:
            self.inside.set()
            assert self.open.wait(30)
            return {"words": ["through"]}

        builder = StateGraph(Words)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        return drive.keeping(builder)


@pytest.mark.rule("busy-1")
@pytest.mark.ours_only("there both runs go on, and the thread's history forks")
def test_a_second_run_on_a_thread_is_refused_and_writes_nothing(drive_kept: Drive) -> None:
    gate = Gate()
    graph = gate.graph(drive_kept)

    with ThreadPoolExecutor() as pool:
        first = pool.submit(drive_kept.invoke, graph, {"words": ["first"]}, thread("busy"))
        assert gate.inside.wait(30)
        before = len(drive_kept.history(graph, thread("busy")))
        with pytest.raises(ThreadBusyError, match=r"^thread 'busy' is being driven by another run"):
            drive_kept.invoke(graph, {"words": ["second"]}, thread("busy"))
        after = len(drive_kept.history(graph, thread("busy")))
        gate.open.set()

    assert after == before
    assert first.result()["words"] == ["first", "through"]
    assert drive_kept.get_state(graph, thread("busy")).values["words"] == ["first", "through"]


@pytest.mark.rule("busy-1")
@pytest.mark.ours_only("there both runs go on, and the thread's history forks")
def test_other_threads_are_free_and_the_thread_is_when_the_run_has_ended(drive_kept: Drive) -> None:
    gate = Gate()
    graph = gate.graph(drive_kept)

    with ThreadPoolExecutor() as pool:
        first = pool.submit(drive_kept.invoke, graph, {"words": []}, thread("one"))
        assert gate.inside.wait(30)
        other = pool.submit(drive_kept.invoke, graph, {"words": []}, thread("beside"))
        gate.open.set()
        assert first.result() == other.result()

    assert drive_kept.invoke(graph, {"words": []}, thread("one"))["words"] == ["through", "through"]


@pytest.mark.rule("busy-2")
@pytest.mark.ours_only("there is no such option")
def test_a_run_that_may_wait_has_its_turn_after_the_one_before(drive_kept: Drive) -> None:
    gate = Gate()
    graph = gate.graph(drive_kept)

    def enqueue(word: str) -> Any:
        return drive_kept.invoke(graph, {"words": [word]}, thread("queue"), if_busy="enqueue")

    with ThreadPoolExecutor() as pool:
        first = pool.submit(enqueue, "first")
        assert gate.inside.wait(30)
        second = pool.submit(enqueue, "second")
        wait_until(second.running, "the second run to begin")
        assert not second.done()
        gate.open.set()

    assert first.result()["words"] == ["first", "through"]
    assert second.result()["words"] == ["first", "through", "second", "through"]


@pytest.mark.rule("busy-1")
@pytest.mark.ours_only("there both runs go on, and the thread's history forks")
def test_a_run_that_failed_leaves_its_thread_free(drive_kept: Drive) -> None:
    def node(state: Words) -> Any:
        if "fail" in state["words"]:
            raise ValueError("no")
        return {"words": ["done"]}

    builder = StateGraph(Words)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = drive_kept.keeping(builder)

    with pytest.raises(ValueError, match="no"):
        drive_kept.invoke(graph, {"words": ["fail"]}, thread("failed"))

    with pytest.raises(ValueError, match="no"):
        drive_kept.invoke(graph, None, thread("failed"))


@pytest.mark.rule("busy-2")
@pytest.mark.ours_only("there is no such option")
def test_what_to_do_with_a_busy_thread_must_be_one_of_two_things(drive_kept: Drive) -> None:
    graph = Gate().graph(drive_kept)

    with pytest.raises(ValueError, match="if_busy must be 'refuse' or 'enqueue'; got 'wait'"):
        drive_kept.invoke(graph, {"words": []}, thread("wrong"), if_busy="wait")
