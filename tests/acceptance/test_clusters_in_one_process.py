"""Clusters that come and go within one process, and the mistakes that are made around them."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.acceptance.processes import environment, family, phalanx
from tests.support import wait_until

from phalanx.coordinator import Cluster
from phalanx.errors import ClusterError
from phalanx.graph import StateGraph
from phalanx.testing import in_process_cluster

SCRIPT = """
import operator
from typing import Annotated, TypedDict
from phalanx.coordinator import Cluster
from phalanx.graph import START, StateGraph

class State(TypedDict):
    n: Annotated[int, operator.add]

builder = StateGraph(State)
builder.add_node("one", lambda state: {"n": 1})
builder.add_edge(START, "one")
graph = builder.compile(name="one")

with Cluster.local(workers=1) as cluster:
    print(graph.with_cluster(cluster).invoke({"n": 1}))
"""


def counting(step: int) -> StateGraph[dict[str, int]]:
    """A graph with a closure, so that another cluster's graph would give another answer."""
    builder: StateGraph[dict[str, int]] = StateGraph(dict)

    def add(state: dict[str, int]) -> dict[str, int]:
        return {"n": step}

    builder.add_node("add", add)
    builder.add_edge("__start__", "add")
    return builder


def test_one_in_process_cluster_after_another_works_in_one_process() -> None:
    for step in (1, 2, 3):
        with in_process_cluster(workers=1) as cluster:
            graph = counting(step).compile(name="counting").with_cluster(cluster)
            assert graph.invoke({"n": 0}) == {"n": step}


def test_a_cluster_that_was_closed_says_so() -> None:
    with in_process_cluster(workers=1) as cluster:
        graph = counting(1).compile(name="counting").with_cluster(cluster)
    with pytest.raises(ClusterError, match="was closed"):
        graph.invoke({"n": 0})


def test_a_url_in_place_of_a_cluster_is_explained() -> None:
    url: object = "redis://127.0.0.1:6379/0"
    with pytest.raises(TypeError, match=r"takes a Cluster, such as Cluster\("):
        counting(1).compile(name="counting").with_cluster(url)  # type: ignore[arg-type]


def test_the_number_of_local_workers_is_a_number() -> None:
    with pytest.raises(TypeError, match="a number of processes"):
        Cluster.local(workers="2")  # type: ignore[arg-type]


def test_a_script_that_starts_a_cluster_when_it_is_imported_is_told_so_and_starts_no_more(tmp_path: Path) -> None:
    script, mark = tmp_path / "bare.py", f"mark-{tmp_path}"
    script.write_text(textwrap.dedent(SCRIPT), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment(TEST_MARK=mark),
        check=False,
    )
    assert done.returncode == 1
    assert "starts a cluster while it is being imported" in done.stderr
    assert "if __name__ == '__main__'" in done.stderr
    wait_until(lambda: not family(mark), "every process of the script to be gone")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "a worker needs graphs to run: --graph"),
        (["--graph", "other=examples/census.py:graph"], "is called 'census', but is to be registered as 'other'"),
    ],
    ids=["no graph", "another name"],
)
def test_a_worker_that_could_run_nothing_does_not_start(options: list[str], text: str) -> None:
    ended = phalanx("worker", "--url", "redis://127.0.0.1:1/0", *options)
    assert ended.returncode == 2
    assert text in ended.stderr
