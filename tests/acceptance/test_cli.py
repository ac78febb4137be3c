"""The installed command ``phalanx``, from outside."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from tests.acceptance.conftest import Service
from tests.acceptance.processes import JOBS, PHALANX, PROJECT, environment, family, phalanx
from tests.support import wait_until

THREE = {"done": [0, 1, 2]}


def run(attribute: str, *options: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """``phalanx run`` with a graph of the test's own file."""
    return phalanx("run", f"{JOBS}:{attribute}", *options, stdin=stdin)


# --- results ----------------------------------------------------------------------------------------------------------


def test_json_is_all_there_is_on_standard_output() -> None:
    ended = run("graph", "--json")
    assert ended.returncode == 0
    assert json.loads(ended.stdout) == THREE
    assert "planned" in ended.stderr  # what a node prints
    assert "jobs: superstep 2 (work): done, 3 tasks" in ended.stderr
    assert "jobs: 2 supersteps, 4 tasks in" in ended.stderr


def test_quiet_shows_no_progress() -> None:
    ended = run("graph", "--quiet", "--json")
    assert ended.stderr == "planned\n"


def test_a_result_for_people_shows_texts_as_they_are() -> None:
    ended = run("odd_values")
    assert ended.stdout == 'number: "NaN"\nwhen: ["a", "b"]\n\ntext:\none\ntwo\n'


def test_a_census_ends_with_its_table() -> None:
    ended = phalanx("run", "examples/census.py:graph", "--input", json.dumps({"root": str(PROJECT / "core")}))
    assert "\ntable:\nCensus of " in ended.stdout
    assert "most_complex: [" in ended.stdout


def test_a_graph_of_coroutines_runs_in_this_process() -> None:
    assert json.loads(run("on_loop", "--json").stdout) == THREE


def test_streamed_updates_are_lines_of_json() -> None:
    lines = run("graph", "--stream", "updates").stdout.splitlines()
    assert [*map(json.loads, lines)] == [{"plan": None}, *({"work": {"done": [n]}} for n in range(3))]


def test_a_graph_of_coroutines_can_be_streamed() -> None:
    lines = run("on_loop", "--stream", "values", "--input", '{"n": 1}').stdout.splitlines()
    assert json.loads(lines[-1]) == {"n": 1, "done": [0]}


def test_input_comes_from_a_file_or_from_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "input.json"
    file.write_text('{"n": 1}')
    assert json.loads(run("graph", "--json", "--input", f"@{file}").stdout) == {"n": 1, "done": [0]}
    assert json.loads(run("graph", "--json", "--input", "-", stdin='{"n": 1}').stdout) == {"n": 1, "done": [0]}


def test_a_module_is_a_target_too() -> None:
    ended = phalanx("run", "tests.acceptance.graphs.jobs:graph", "--json")
    assert json.loads(ended.stdout) == THREE


def test_a_reader_that_leaves_ends_the_run_without_a_word() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [PHALANX, "run", f"{JOBS}:graph", "--quiet"]
    process = subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, text=True, env=environment())
    os.close(writer)
    _, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (141, "planned\n")


def test_the_command_line_alone_loads_no_client_and_no_drawing() -> None:
    code = "import sys, phalanx.cli.app; print(sorted({'celery', 'redis', 'rich', 'phalanx.pregel'} & {*sys.modules}))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_building_a_graph_loads_no_pictures() -> None:
    code = "import sys, phalanx.graph; print([n for n in sys.modules if 'graphlay' in n or '.drawing' in n])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


@pytest.mark.parametrize("command", [[], ["run"], ["draw"], ["worker"], ["workers"]])
def test_help_says_what_exit_codes_mean(command: list[str]) -> None:
    ended = phalanx(*command, "--help")
    assert ended.returncode == 0
    assert "130 interrupted" in " ".join(ended.stdout.split())


# --- drawing ----------------------------------------------------------------------------------------------------------


def test_a_picture_is_all_there_is_on_standard_output() -> None:
    ended = phalanx("draw", f"{JOBS}:graph", "--format", "json")
    assert [node["id"] for node in json.loads(ended.stdout)["nodes"]] == ["__start__", "plan", "work", "__end__"]
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_drawing_in_characters_is_plain_text() -> None:
    ended = phalanx("draw", f"{JOBS}:graph", "-f", "ascii")
    assert "| plan" in ended.stdout
    assert ended.stdout.isascii()


def test_a_target_that_is_no_graph_is_not_drawn(tmp_path: Path) -> None:
    ended = phalanx("draw", f"{JOBS}:work", "--output", str(tmp_path / "picture"))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "is not a compiled graph but a function" in ended.stderr
    assert [*tmp_path.iterdir()] == []


# --- wrong use --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("jobs", "'jobs' is not a target"),
        ("tests/nothing.py:graph", "there is no file tests/nothing.py"),
        ("no_such.module:graph", "there is no module 'no_such'"),
        (f"{JOBS}:grpah", "has no attribute 'grpah'; did you mean 'graph'"),
        (f"{JOBS}:uncompiled", "not a compiled graph but a StateGraph; did you forget .compile()?"),
        (f"{JOBS}:build", "call it in the module"),
    ],
)
def test_a_wrong_target_is_explained(target: str, text: str) -> None:
    ended = phalanx("run", target)
    assert ended.returncode == 2
    assert text in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("import no_such_thing", "cannot be imported: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("x = 1 / 0", "cannot be imported: ZeroDivisionError: division by zero"),
        ("def f(:", "cannot be imported: SyntaxError: invalid syntax ("),
        ("raise SystemExit(3)", "if __name__ == '__main__'"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(tmp_path: Path, source: str, text: str) -> None:
    file = tmp_path / "broken.py"
    file.write_text(source)
    ended = phalanx("run", f"{file}:graph")
    assert ended.returncode == 2
    assert text in ended.stderr
    assert "broken.py" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--input", "{n: 1}"], "--input is not JSON"),
        (["--input", "[1]"], "must be a JSON object"),
        (["--input", "@no/such.json"], "there is no such file"),
        (["--input", '{"m": 1}'], "has no key 'm'"),
        (["--input", "null"], "say which one with --thread ID"),
        (["--local", "0"], "at least 1 worker"),
        (["--local", "1", "--url", "redis://h"], "exclude each other"),
        (["--url", "localhost"], "is not a server's URL"),
        (["--recursion-limit", "0"], "--recursion-limit"),
        (["--stream", "everything"], "'values', 'updates'"),
    ],
)
def test_wrong_options_are_explained(options: list[str], text: str) -> None:
    ended = run("graph", *options)
    assert ended.returncode == 2
    assert text in " ".join(ended.stderr.split())
    assert ended.stdout == ""


def test_a_graph_without_a_name_cannot_go_to_workers() -> None:
    ended = run("unnamed", "--local", "1")
    assert ended.returncode == 2
    assert "a graph needs a name that workers know it by" in ended.stderr


@pytest.mark.parametrize(
    "command", [["run", f"{JOBS}:graph"], ["workers"], ["worker", "--graph", f"jobs={JOBS}:graph"]]
)
def test_a_server_that_is_not_there_has_an_exit_code_of_its_own(command: list[str]) -> None:
    ended = phalanx(*command, "--url", "redis://127.0.0.1:1/0")
    assert ended.returncode == 3
    assert "the state server at redis://127.0.0.1:1/0 does not answer" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", ["worker", "workers"])
def test_a_command_that_needs_a_server_asks_for_one(command: str) -> None:
    ended = phalanx(command)
    assert ended.returncode == 2
    assert "PHALANX_URL" in ended.stderr


# --- failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [[], ["--local", "1"]])
def test_a_node_that_raises_is_named_with_the_users_own_lines(where: list[str]) -> None:
    ended = run("failing", *where)
    assert ended.returncode == 1
    assert "phalanx: node 'work' of graph 'failing' failed: ZeroDivisionError" in ended.stderr
    assert 'return {"done": [10 // (job["number"] - 1)]}' in ended.stderr
    assert "run_task.py" not in ended.stderr
    assert ended.stdout == ""


def test_the_whole_traceback_is_there_for_the_asking() -> None:
    ended = run("failing", "--traceback")
    assert ended.returncode == 1
    assert "Traceback (most recent call last):" in ended.stderr
    assert "run_task.py" in ended.stderr


# --- on a cluster -----------------------------------------------------------------------------------------------------


def test_a_run_on_a_cluster_gives_the_same(service: Service) -> None:
    ended = run("graph", "--json", *service.options)
    assert json.loads(ended.stdout) == THREE
    assert "jobs: 1 worker on" in ended.stderr


def test_a_thread_keeps_its_state_on_the_cluster(service: Service) -> None:
    options = ["--json", "--thread", "kept", *service.options]
    run("graph", *options)
    assert json.loads(run("graph", *options).stdout) == {"done": [0, 1, 2, 0, 1, 2]}


def test_the_environment_names_the_cluster_and_inline_overrides_it(service: Service) -> None:
    env = {"PHALANX_URL": service.server.url, "PHALANX_BROKER_URL": service.server.broker_url}
    assert "1 worker on" in phalanx("run", f"{JOBS}:graph", env=env).stderr
    assert "worker" not in phalanx("run", f"{JOBS}:graph", "--inline", env=env).stderr
    assert json.loads(phalanx("workers", "--json", env=env).stdout)[0]["queues"] == ["phalanx"]


def test_a_graph_that_no_worker_knows(service: Service) -> None:
    ended = run("other", *service.options)
    assert ended.returncode == 1
    assert "knows no graph named 'other' (it knows: jobs)" in ended.stderr
    assert "phalanx worker --graph other=" in ended.stderr


def test_a_graph_of_another_version(service: Service, tmp_path: Path) -> None:
    changed = tmp_path / "jobs.py"
    changed.write_text(JOBS.read_text().replace('print("planned")', 'print("planned better")'))
    ended = phalanx("run", f"{changed}:graph", *service.options)
    assert ended.returncode == 1
    assert "holds another version of graph 'jobs'" in ended.stderr


def test_without_workers_a_run_waits_says_so_and_can_be_interrupted(service: Service) -> None:
    command = [PHALANX, "run", f"{JOBS}:graph", "--queue", "nobody", *service.options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stderr is not None
    said = [process.stderr.readline() for _ in range(2)]
    assert "no live worker serves queue 'nobody' (waited 1 s); start one: phalanx worker --url unix://" in said[1]
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert (stdout, stderr.splitlines()[-1]) == ("", "phalanx: interrupted")
    assert "Traceback" not in stderr


# --- interrupts and terminals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_leaves_no_process_and_no_folder(tmp_path: Path, number: int, code: int) -> None:
    folder, temporary = tmp_path / "jobs", tmp_path / "tmp"
    folder.mkdir()
    temporary.mkdir()
    env = environment(TMPDIR=str(temporary))
    command = [PHALANX, "run", f"{JOBS}:graph", "--local", "2", "--input", json.dumps({"folder": str(folder)})]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    wait_until(lambda: len([*folder.iterdir()]) == 2, "both workers to be busy")
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    assert process.returncode == code
    assert stdout == ""
    assert "Traceback" not in stderr
    assert family(str(temporary)) == set()
    assert [*temporary.iterdir()] == []


def test_on_a_terminal_there_is_a_live_view_and_the_result_stays_clean(tmp_path: Path) -> None:
    import pty

    terminal, side = pty.openpty()
    command = [
        PHALANX,
        "run",
        f"{JOBS}:graph",
        "--local",
        "1",
        "--json",
        "--input",
        json.dumps({"folder": str(tmp_path)}),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=side, stdin=side, text=True, env=environment(TERM="xterm")
    )
    os.close(side)
    os.set_blocking(terminal, False)
    drawn = b""

    def shows(text: bytes) -> bool:
        nonlocal drawn
        with suppress(OSError):  # nothing new, or the other side is gone
            drawn += os.read(terminal, 65536)
        return text in drawn

    for text in (b"starting 1 local worker", b"planned", b"superstep 2", b"0/3", b"1 worker on"):
        wait_until(lambda text=text: shows(text), f"{text!r} on the terminal")  # type: ignore[misc]
    (tmp_path / "go").touch()
    wait_until(lambda: shows(b"2 supersteps, 4 tasks") or process.poll() is not None, "the run to end")
    stdout, _ = process.communicate(timeout=30)
    shows(b"")
    os.close(terminal)
    assert json.loads(stdout) == {"folder": str(tmp_path), **THREE}
    assert b"2 supersteps, 4 tasks" in drawn
