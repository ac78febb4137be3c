"""Graphs in graphs on a cluster of real worker processes, some of which are killed, as are their coordinators."""

import asyncio
import json
import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.acceptance.graphs import nested
from tests.acceptance.serving import Graph, Serving, config_of, new_folder, new_thread
from tests.support import wait_until

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.types import StateSnapshot

_TASK_ID = re.compile(r":[0-9a-f-]{32,36}")


@pytest.fixture(scope="module")
def serving() -> Iterator[Serving]:
    """Two worker processes, of one slot each."""
    with Serving.of(nested) as started:
        yield started


def noted(folder: Path) -> Counter[str]:
    """What ran, and how often."""
    return Counter(path.name.split("-")[0] for path in folder.iterdir() if "-" in path.name)


def workers(serving: Serving) -> set[int]:
    """The process ids of the workers."""
    return {worker.pid for worker in serving.cluster.workers()}


# --- where it runs ----------------------------------------------------------------------------------------------------


def test_packets_to_a_graph_run_in_several_processes_at_once(serving: Serving, tmp_path: Path) -> None:
    result = serving.run(nested.spread, {"folder": str(tmp_path)})

    assert result["log"] == ["plan", *(each for item in "abcd" for each in (f"met {item}", f"then{item}")), "end"]
    assert nested.processes(tmp_path, "meets") == workers(serving)


def test_one_slot_is_enough_for_graphs_three_deep(tmp_path: Path) -> None:
    with Serving.of(nested, processes=1) as alone:
        result = alone.run(nested.deep, {"folder": str(tmp_path)}, "deep")
        ran = noted(tmp_path)

        assert (ran["plan"], ran["three"], ran["end"]) == (5, 16, 5)
        assert (result["log"][0], result["log"][-1]) == ("plan", "end")
        assert len(nested.processes(tmp_path, "three")) == 1
        alone.cluster.saver.delete_thread("deep")
        assert alone.keys("deep") == []


def test_paths_after_a_graph_run_in_a_worker(serving: Serving, tmp_path: Path) -> None:
    assert serving.run(nested.branched, {"folder": str(tmp_path)})["log"] == ["inner", "second", "yes"]
    assert nested.processes(tmp_path, "path") <= workers(serving)


@pytest.mark.parametrize("graph", [nested.limited, nested.cached], ids=["with a time limit", "remembered"])
def test_a_graph_that_counts_as_a_whole_runs_in_one_process(serving: Serving, graph: Graph, tmp_path: Path) -> None:
    result = serving.run(graph, {"folder": str(tmp_path)})

    assert result["log"][:2] == ["x", "y"]
    assert nested.processes(tmp_path, "x") == nested.processes(tmp_path, "y")
    assert nested.processes(tmp_path, "x") <= workers(serving)


# --- as inline --------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value without what differs from run to run: the ids of tasks, and the folder."""
    if isinstance(value, dict):
        items: Any = value.items()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return {plain(key): plain(each) for key, each in items if key != "folder"}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in cast("list[Any]", value)]
    return _TASK_ID.sub("", value) if isinstance(value, str) else value


def shown(state: StateSnapshot) -> Any:
    """A state, with those of graphs inside."""
    metadata = state.metadata or {}
    tasks = [
        [task.name, repr(task.error), [each.value for each in task.interrupts], plain(task.result), _inside(task.state)]
        for task in state.tasks
    ]
    return [plain(state.values), state.next, metadata.get("source"), metadata.get("step"), tasks]


def _inside(state: Any) -> Any:
    return shown(state) if isinstance(state, StateSnapshot) else state and plain(state["configurable"]["checkpoint_ns"])


def told(graph: Graph, folder: Path, times: int = 1) -> Any:
    """All that a graph tells of itself, run on a thread of its own."""
    config = {**config_of(new_thread()), "recursion_limit": 6}
    streams: list[Any] = []
    ended: list[Any] = []

    async def run() -> None:
        modes = ["updates", "values"]
        async for chunk in graph.astream({"folder": str(folder)}, config, stream_mode=modes, subgraphs=True):  # type: ignore[arg-type]
            streams.append(plain(chunk))

    for _ in range(times):
        try:
            asyncio.run(run())
        except Exception as error:
            ended.append((type(error).__name__, plain(str(error))))
    state = graph.get_state(config, subgraphs=True)  # type: ignore[arg-type]
    history = [*graph.get_state_history(config)]  # type: ignore[arg-type]
    if graph.name in HEARD_FROM_OUTSIDE:
        streams = [chunk for chunk in streams if not chunk[0]]
    return streams, ended, shown(state), [shown(each) for each in history]


HEARD_FROM_OUTSIDE = ("calling", "limited")
"""The graphs in which one runs in a worker as a whole: of that a stream hears what it came to."""


@pytest.mark.parametrize(
    ("graph", "times"),
    [
        (nested.nested, 1),
        (nested.schemas, 1),
        (nested.retried, 1),
        (nested.handled, 1),
        (nested.failing, 1),
        (nested.leaving, 1),
        (nested.branched, 1),
        (nested.timed, 1),
        (nested.endless, 1),
        (nested.lasting, 3),
        (nested.passing, 2),
        (nested.owning, 2),
        (nested.coroutines, 1),
        (nested.calling, 2),
        (nested.limited, 1),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_it_is_as_inline(serving: Serving, graph: Graph, times: int, tmp_path: Path) -> None:
    """Values, streams, errors, states with those of graphs inside, and histories."""
    builder_saver = InMemorySaver()
    inline = graph.with_config({})
    inline.checkpointer = builder_saver
    expected = told(inline, new_folder(tmp_path), times)

    assert told(graph.with_cluster(serving.cluster), new_folder(tmp_path), times) == expected


# --- faults -----------------------------------------------------------------------------------------------------------

SLOW_LOG = ["plan", *(f"{each}{item}" for item in "abcd" for each in ("first", "waited", "last")), "end"]


def test_a_worker_that_is_killed_in_a_graph_changes_nothing(serving: Serving, tmp_path: Path) -> None:
    """What it was at is handed out again; what had finished is not."""
    thread = new_thread()
    with serving.client(nested.slow, thread, input={"folder": str(tmp_path)}) as client:
        wait_until(lambda: len(nested.processes(tmp_path, "waits")) == 2, "both workers to be in the middle of a graph")
        os.kill(min(nested.processes(tmp_path, "waits")), signal.SIGKILL)
        (tmp_path / "go").touch()
        stdout, stderr = client.communicate(timeout=60)

    assert client.returncode == 0, stderr
    assert json.loads(stdout)["result"]["log"] == SLOW_LOG
    assert noted(tmp_path) == {"plan": 1, "first": 4, "waits": 5, "last": 4, "end": 1}


def test_a_coordinator_that_is_killed_while_a_task_of_a_graph_runs_loses_nothing(
    serving: Serving, tmp_path: Path
) -> None:
    thread = new_thread()
    with serving.client(nested.slow, thread, input={"folder": str(tmp_path)}) as client:
        wait_until(lambda: len(nested.processes(tmp_path, "waits")) == 2, "both workers to be in the middle of a graph")
        client.kill()
    serving.expire_lease(thread)
    (tmp_path / "go").touch()
    result = serving.call(nested.slow, thread, input=None)["result"]

    assert result["log"] == SLOW_LOG
    assert noted(tmp_path) == {"plan": 1, "first": 4, "waits": 4, "last": 4, "end": 1}


@pytest.mark.parametrize("commits", [6, 14, 23])
def test_a_coordinator_that_is_killed_between_the_commits_of_a_graph_and_of_the_one_around_it_loses_nothing(
    serving: Serving, tmp_path: Path, commits: int
) -> None:
    """Three commits of the graph around come first, and then five of each of the four graphs inside, in some order."""
    thread = new_thread()
    (tmp_path / "go").touch()
    serving.dies(nested.slow, thread, "commit", commits, before=False, input={"folder": str(tmp_path)})
    between = nested.slow.with_cluster(serving.cluster).get_state(config_of(thread))
    assert (between.metadata or {})["step"] == 1, "nothing of the graphs inside is applied yet"

    result = serving.call(nested.slow, thread, input=None)["result"]

    assert result["log"] == SLOW_LOG
    assert noted(tmp_path) == {"plan": 1, "first": 4, "waits": 4, "last": 4, "end": 1}
    serving.cluster.saver.delete_thread(thread)
    assert serving.keys(thread) == []


def test_a_worker_that_is_killed_in_a_graph_that_a_function_calls_changes_nothing(
    serving: Serving, tmp_path: Path
) -> None:
    """The function begins anew in another worker; what had finished in the graph has its place in the thread."""
    thread = new_thread()
    with serving.client(nested.slow_call, thread, input={"folder": str(tmp_path)}) as client:
        wait_until(lambda: noted(tmp_path)["waits"], "a worker to be in the middle of the graph")
        os.kill(min(nested.processes(tmp_path, "waits")), signal.SIGKILL)
        (tmp_path / "go").touch()
        stdout, stderr = client.communicate(timeout=60)

    assert client.returncode == 0, stderr
    assert json.loads(stdout)["result"]["log"] == ["plan", "first", "waited", "last", "end"]
    assert noted(tmp_path) == {"plan": 1, "calls": 2, "first": 1, "waits": 2, "last": 1, "end": 1}
    serving.cluster.saver.delete_thread(thread)
    assert serving.keys(thread) == []


def test_a_coordinator_that_was_paused_for_too_long_changes_nothing_any_more(serving: Serving, tmp_path: Path) -> None:
    """Nobody has a claim on a graph as a whole, so another coordinator takes it up at once; the first finds out."""
    thread = new_thread()
    with serving.client(nested.slow, thread, input={"folder": str(tmp_path)}) as paused:
        wait_until(lambda: len(nested.processes(tmp_path, "waits")) == 2, "both workers to be in the middle of a graph")
        paused.send_signal(signal.SIGSTOP)
        serving.expire_lease(thread)
        with serving.client(nested.slow, thread, input=None) as other:
            lease = serving.cluster.saver.keys(thread).lease
            owner = serving.cluster.saver.client.hget(lease, "owner")
            wait_until(lambda: serving.cluster.saver.client.hget(lease, "owner") != owner, "the thread to be taken")
            paused.send_signal(signal.SIGCONT)
            (tmp_path / "go").touch()
            stdout, stderr = other.communicate(timeout=60)
        _, said = paused.communicate(timeout=60)

    assert other.returncode == 0, stderr
    assert json.loads(stdout)["result"]["log"] == SLOW_LOG
    assert paused.returncode == 1
    assert "StaleLeaseError" in said
    assert noted(tmp_path) == {"plan": 1, "first": 4, "waits": 4, "last": 4, "end": 1}
    history = [*nested.slow.with_cluster(serving.cluster).get_state_history(config_of(thread))]
    assert [(each.metadata or {})["step"] for each in history] == [3, 2, 1, 0, -1]
