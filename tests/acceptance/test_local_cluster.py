"""``Cluster.local`` in scripts of its users: its processes come with the script and go with it, however it ends."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.acceptance.processes import JOBS, PHALANX, environment, family
from tests.support import wait_until

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="looks at processes in /proc")

# A script as people write them: the graph is a variable of the module that runs as __main__.
SCRIPT = (
    JOBS.read_text()
    + """

if __name__ == "__main__":
    import sys
    from phalanx.coordinator import Cluster

    with Cluster.local(workers=2) as cluster:
        print(sorted(graph.with_cluster(cluster).invoke({"n": 3, "folder": sys.argv[1]})["done"]))
"""
)


@dataclass
class Script:
    """A script that runs a graph on a local cluster of two workers, whose tasks wait for :meth:`go`."""

    process: "subprocess.Popen[str]"
    folder: Path
    temporary: Path

    def wait_until_busy(self) -> list[int]:
        """Wait until both workers run a task; their process ids."""
        wait_until(lambda: len(self.workers()) == 2, "both workers to be busy")
        return self.workers()

    def workers(self) -> list[int]:
        return sorted({int(path.name.partition("-")[2]) for path in self.folder.iterdir() if "-" in path.name})

    def go(self) -> None:
        (self.folder / "go").touch()

    def family(self) -> set[int]:
        """All its processes: the script, the guardian, the server, the worker and its children."""
        return family(f"TMPDIR={self.temporary}")


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    folder, temporary, file = tmp_path / "jobs", tmp_path / "tmp", tmp_path / "my_script.py"
    folder.mkdir()
    temporary.mkdir()
    file.write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, str(file), str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=str(temporary)),
    )
    with process:
        yield Script(process, folder, temporary)
        process.kill()


def test_a_script_runs_its_own_graph_and_leaves_nothing(script: Script) -> None:
    script.wait_until_busy()
    assert len(script.family()) >= 5
    script.go()
    stdout, stderr = script.process.communicate(timeout=30)
    assert (script.process.returncode, stdout.splitlines()[-1]) == (0, "[0, 1, 2]"), stderr
    assert script.family() == set()
    assert [*script.temporary.iterdir()] == []


def test_an_interrupted_script_leaves_nothing(script: Script) -> None:
    script.wait_until_busy()
    script.process.send_signal(signal.SIGINT)
    _, stderr = script.process.communicate(timeout=30)
    assert "KeyboardInterrupt" in stderr
    assert script.family() == set()
    assert [*script.temporary.iterdir()] == []


def test_the_processes_of_a_killed_script_end_by_themselves(script: Script) -> None:
    script.wait_until_busy()
    script.process.kill()
    wait_until(lambda: not script.family(), "all processes to be gone")
    assert [*script.temporary.iterdir()] == []


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_is_killed_in_mid_run_does_not_change_the_result(tmp_path: Path, signum: signal.Signals) -> None:
    """Also by a signal that it may answer: service managers send SIGTERM to every process of a worker."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    given = json.dumps({"n": 5, "folder": str(folder)})
    process = subprocess.Popen(
        [PHALANX, "run", f"{JOBS}:graph", "--local", "2", "--json", "--input", given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    wait_until(lambda: len([*folder.iterdir()]) == 2, "both workers to be busy")
    victim = int(next(folder.iterdir()).name.partition("-")[2])
    os.kill(victim, signum)
    (folder / "go").touch()
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["done"] == [0, 1, 2, 3, 4]
    assert "is gone; 1 task handed out again" in stderr


def test_nodes_may_start_processes(tmp_path: Path) -> None:
    process = subprocess.run(
        [PHALANX, "run", f"{JOBS}:with_processes", "--local", "1", "--json", "--input", "{}"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout)["done"] == [3, 4]
