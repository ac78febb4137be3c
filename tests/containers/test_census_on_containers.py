"""Runs that are spread over worker containers: work is shared, and a lost worker changes nothing but time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from phalanx.coordinator import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    from tests.containers.conftest import GraphLoader, RedisServer, StartWorker

pytestmark = pytest.mark.containers

FILES = 60
FUNCTIONS_PER_FILE = 300
FUNCTION = '''
def function_{number}(items):
    """Decide a little, so that there is something to count."""
    for item in items:
        if item and len(items) > {number}:
            return item
    return None
'''


@pytest.fixture
def source_folder(tmp_path: Path) -> Path:
    """A folder of Python files, each of which takes some milliseconds to parse: enough work for two hosts."""
    folder = tmp_path / "source"
    folder.mkdir()
    text = "".join(FUNCTION.format(number=number) for number in range(FUNCTIONS_PER_FILE))
    for number in range(FILES):
        (folder / f"module_{number:02}.py").write_text(text)
    return folder


def test_a_census_is_shared_by_two_worker_containers(
    redis_container: RedisServer, worker_container: StartWorker, load_graph: GraphLoader, source_folder: Path
) -> None:
    for name in ("alpha", "beta"):
        worker_container(name, "--graph", "census=/graphs/census.py:graph", folders=(source_folder,))
    census = load_graph("census")
    request = {"root": str(source_folder), "chunk": 2}

    with Cluster(redis_container.url) as cluster:
        result = census.with_cluster(cluster).invoke(request)

    assert set(result["hosts"]) == {"alpha", "beta"}
    assert sum(result["hosts"].values()) == FILES
    assert result["totals"]["functions"] == FILES * FUNCTIONS_PER_FILE
    inline = census.invoke(request)
    where = {"hosts", "processes"}
    assert {key: result[key] for key in result.keys() - where} == {key: inline[key] for key in inline.keys() - where}


def test_a_worker_container_killed_in_mid_run_does_not_change_the_result(
    redis_container: RedisServer, worker_container: StartWorker, load_graph: GraphLoader
) -> None:
    workers = {name: worker_container(name, "--graph", "slow=/graphs/slow.py:graph") for name in ("victim", "survivor")}
    done: list[dict[str, str | int]] = []
    killed_after: int | None = None
    final: list[dict[str, str | int]] = []

    with Cluster(redis_container.url) as cluster:
        slow = load_graph("slow").with_cluster(cluster)
        for mode, event in slow.stream({"outcomes": []}, stream_mode=["updates", "values"]):
            if mode == "values":
                final = event["outcomes"]
            elif "work" in event:
                done += event["work"]["outcomes"]
            # Both are at work: now one of them dies, in the middle of its next task.
            if killed_after is None and {outcome["host"] for outcome in done} == workers.keys():
                workers["victim"].get_wrapped_container().kill()
                killed_after = len(done)

    assert [outcome["index"] for outcome in final] == list(range(40))
    assert killed_after is not None, "no update came while the run went on"
    hosts = Counter(outcome["host"] for outcome in final)
    assert hosts["survivor"] > 3 * hosts["victim"], f"killed too late to prove anything: {hosts}, {killed_after=}"
