"""Time limits and error handlers over real worker processes, which can be ended and killed."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.processes import GRAPHS, PHALANX, PROJECT, environment, phalanx
from tests.support import wait_until

from phalanx.coordinator.local import LocalServer

POLICIES = GRAPHS / "policies.py"


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    """A server, and two worker processes that serve the graphs."""
    server = LocalServer.start()
    graphs = [f"--graph={name}={POLICIES}:{name}" for name in ("limited", "handled", "held")]
    urls = ["--url", server.url, "--broker-url", server.broker_url]
    worker = subprocess.Popen(
        [PHALANX, "worker", *urls, *graphs, "--concurrency", "2", "--quiet"], cwd=PROJECT, env=environment()
    )
    try:
        joined = "2 worker processes"
        wait_until(lambda: joined in phalanx("workers", "--url", server.url).stdout, "the workers to join")
        yield server
    finally:
        worker.terminate()
        worker.wait(timeout=20)
        server.close()


def run_command(server: LocalServer, name: str, *more: str) -> list[str]:
    """The command that runs a graph on the cluster."""
    urls = ["--url", server.url, "--broker-url", server.broker_url]
    return [PHALANX, "run", f"{POLICIES}:{name}", *urls, "--json", *more]


def noted(folder: Path) -> Counter[str]:
    """What ran, and how often."""
    return Counter(path.name.split("-")[0] for path in folder.iterdir() if "-" in path.name)


def test_a_node_that_hangs_loses_its_process_is_tried_again_and_nothing_else_is_lost(
    server: LocalServer, tmp_path: Path
) -> None:
    given = json.dumps({"folder": str(tmp_path)})
    ended = subprocess.run(
        run_command(server, "limited", "--input", given),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert sorted(json.loads(ended.stdout)["done"]) == ["NodeTimeoutError", "hangs_once", *["works"] * 20]
    ran = noted(tmp_path)
    assert (ran["hangs_once"], ran["hangs"], ran["works"]) == (2, 1, 20)
    hung = {int(path.name.split("-")[1]) for path in tmp_path.glob("hangs-*")}
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in hung), "the process that hung to be gone")


def test_a_node_that_lets_nothing_else_run_in_its_process_is_ended_from_outside(
    server: LocalServer, tmp_path: Path
) -> None:
    ended = phalanx(*run_command(server, "held", "--input", json.dumps({"folder": str(tmp_path)}))[1:])
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["done"] == ["holds"]
    assert noted(tmp_path)["holds"] == 2


def test_an_error_handler_runs_again_after_its_run_was_killed_and_the_node_does_not(
    server: LocalServer, tmp_path: Path
) -> None:
    given = json.dumps({"folder": str(tmp_path)})
    command = run_command(server, "handled", "--thread", "kept", "--input", given)
    first = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with first:
        wait_until(lambda: noted(tmp_path)["handles"] == 1, "the handler to run")
        first.kill()
    (tmp_path / "go").touch()

    def goes_on() -> bool:
        # Until the killed run's lease is over, the thread is its.
        again = phalanx(*run_command(server, "handled", "--thread", "kept", "--input", "null")[1:])
        if again.returncode == 0:
            assert json.loads(again.stdout)["done"] == ["fails: ValueError('no luck')"]
        return again.returncode == 0

    wait_until(goes_on, "the thread to be free and the run to end", timeout_s=60)
    assert noted(tmp_path)["fails"] == 1


def test_in_one_process_a_node_that_hangs_fails_in_time_and_its_thread_is_left_behind(tmp_path: Path) -> None:
    """Inline too a node that hangs fails in time; what it holds is its thread."""
    source = f"""
import sys
sys.path.insert(0, {str(GRAPHS)!r})
from policies import limited
print(sorted(limited.invoke({{"folder": {str(tmp_path)!r}}})["done"])[:2])
"""
    ended = subprocess.run(
        [str(Path(PHALANX).with_name("python")), "-c", source],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert ended.stdout.strip() == "['NodeTimeoutError', 'hangs_once']", ended.stderr
