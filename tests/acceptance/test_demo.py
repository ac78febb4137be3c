"""The demonstration does what it says: the census of the real standard library, by worker processes."""

import json
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from tests.acceptance.processes import PROJECT, phalanx


def python_files() -> int:
    """How many files the census should find, counted in another way."""
    root = Path(sysconfig.get_path("stdlib"))
    left_out = {"site-packages", "__pycache__"}
    return sum(1 for path in root.rglob("*.py") if not left_out & set(path.relative_to(root).parts[:-1]))


@pytest.fixture(scope="module")
def command() -> list[str]:
    """What ``make demo`` runs, without the interpreter's environment before it."""
    make = shutil.which("make")
    if make is None:
        assert not os.environ.get("CI"), "in CI the demo must run, and there is no make"
        pytest.skip("there is no make on this machine")
    printed = subprocess.run([make, "-n", "demo"], cwd=PROJECT, check=True, capture_output=True, text=True).stdout
    found = re.search(r"^\S*phalanx (.+)$", printed, re.MULTILINE)
    assert found is not None, printed
    return found[1].split()


def test_the_demo_counts_the_whole_standard_library_in_two_worker_processes(command: list[str]) -> None:
    ended = phalanx(*command, "--json", timeout_s=110)
    assert ended.returncode == 0, ended.stderr
    census = json.loads(ended.stdout)
    assert census["files"] == python_files() > 1000
    assert len(census["processes"]) == 2
    assert not any(process.endswith(f":{os.getpid()}") for process in census["processes"])
    assert sum(census["processes"].values()) == census["files"]
    assert len(census["most_complex"]) == 10
