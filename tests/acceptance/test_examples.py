"""Examples across processes: a question that outlives the process that asked it, and teams on worker processes."""

import subprocess
import sys
from pathlib import Path

from tests.acceptance.processes import PROJECT, environment, phalanx
from tests.unit.examples.test_census import load

from phalanx.config import RunnableConfig
from phalanx.testing import in_process_cluster
from phalanx.types import Command


def approval(folder: Path, *arguments: str) -> tuple[str, str]:
    """Run the example in a folder: what it prints, and what it complains of."""
    done = subprocess.run(
        [sys.executable, PROJECT / "examples/approval.py", *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env=environment(),
    )
    assert (done.returncode == 0) == (not done.stderr), done.stderr
    return done.stdout, done.stderr


def test_a_question_is_answered_in_another_process_than_the_one_that_asked(tmp_path: Path) -> None:
    assert "Dear Ms Hale" in approval(tmp_path, "ask", "--customer", "Ms Hale")[0]
    assert "three days" in approval(tmp_path, "answer", "say when it arrives")[0]
    assert approval(tmp_path, "answer", "yes") == ("sent to Ms Hale\n", "")


def test_letters_wait_side_by_side(tmp_path: Path) -> None:
    for name in ("a", "b"):
        approval(tmp_path, "ask", "--thread", name, "--customer", name)
    assert approval(tmp_path, "answer", "yes", "--thread", "a")[0] == "sent to a\n"
    assert approval(tmp_path, "answer", "no", "--thread", "b")[0] == "dropped\n"


def test_an_answer_to_nothing_is_refused(tmp_path: Path) -> None:
    assert approval(tmp_path, "answer", "yes") == ("", "letter 'letter' waits for no answer\n")
    approval(tmp_path, "ask")
    assert approval(tmp_path, "ask")[1] == "letter 'letter' waits for an answer\n"


def test_a_letter_waits_on_a_cluster_too() -> None:
    letter: RunnableConfig = {"configurable": {"thread_id": "letter"}}
    with in_process_cluster() as cluster:
        letters = load("approval").graph.with_cluster(cluster)
        assert letters.invoke({"customer": "Ms Hale"}, letter)["__interrupt__"]
        assert letters.invoke(Command(resume="yes"), letter)["outcome"] == "sent to Ms Hale"


def test_a_team_of_teams_reports_the_same_on_worker_processes() -> None:
    inline, local = (
        subprocess.run(
            [sys.executable, PROJECT / "examples/research_team.py", *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=PROJECT,
            env=environment(),
        ).stdout
        for arguments in ((), ("--workers", "2"))
    )
    assert inline == local
    assert inline.startswith("About oil:\n- ")


def test_the_command_line_shows_the_question_of_a_run() -> None:
    ended = phalanx("run", "examples/approval.py:graph", "--json", "--local", "1")
    assert ended.returncode == 0, ended.stderr
    assert "Send it? yes, no, or what to change" in ended.stdout
