"""``phalanx draw``, in this process: what it writes where."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from phalanx.cli.app import app
from phalanx.cli.draw import DrawOptions, draw
from phalanx.cli.exits import CommandError, ExitCode

GRAPH = """
from typing_extensions import TypedDict
from phalanx.graph import StateGraph, START


class State(TypedDict):
    n: int


def work(state: State) -> dict[str, int]:
    return {}


def chain(first, second):
    builder = StateGraph(State)
    builder.add_node("first", first)
    builder.add_node("second", second, metadata={"what": object})
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    return builder.compile()


inner = chain(work, work)
graph = chain(chain(inner, work), work)
"""


@pytest.fixture(autouse=True)
def stdout_as_it_was() -> Iterator[None]:
    """A command keeps standard output for its results, for as long as its process lives."""
    kept = os.dup(1)
    yield
    os.dup2(kept, 1)
    os.close(kept)


@pytest.fixture
def target(tmp_path: Path) -> str:
    file = tmp_path / "drawn.py"
    file.write_text(GRAPH)
    return f"{file}:graph"


def written(options: DrawOptions, tmp_path: Path) -> str:
    """What ``draw`` writes to a file."""
    file = tmp_path / "picture"
    draw(DrawOptions(options.target, options.format, options.xray, file))
    return file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("form", "start"), [("mermaid", "---\nconfig:"), ("ascii", "+-----------+\n| __start__ |"), ("svg", "<svg ")]
)
def test_every_format(form: str, start: str, target: str, tmp_path: Path) -> None:
    text = written(DrawOptions(target, form), tmp_path)  # type: ignore[arg-type]
    assert text.startswith(start)
    assert text.endswith("\n")
    assert "second" in text


def test_json_holds_what_json_can(target: str, tmp_path: Path) -> None:
    drawn = json.loads(written(DrawOptions(target, "json"), tmp_path))
    assert [node["id"] for node in drawn["nodes"]] == ["__start__", "first", "second", "__end__"]
    assert {"source": "first", "target": "second"} in drawn["edges"]


def test_a_file_that_cannot_be_written_is_named(target: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be written: No such file or directory") as raised:
        draw(DrawOptions(target, output=tmp_path / "no" / "such" / "folder"))
    assert raised.value.code is ExitCode.USAGE


def test_without_the_extra_another_format_is_offered(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphlay", None)
    with pytest.raises(CommandError, match=r"phalanx\[draw\]'; --format mermaid needs nothing more") as raised:
        draw(DrawOptions(target, "svg"))
    assert raised.value.code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("options", "nodes"),
    [
        ([], {"first"}),
        (["--xray"], {"first:first:first"}),
        (["--xray", "1"], {"first:first"}),
        (["--xray=2"], {"first:first:first"}),
        (["--xray", "--format", "json"], {"first:first:first"}),
    ],
)
def test_xray_may_stand_alone_or_name_a_depth(options: list[str], nodes: set[str], target: str, tmp_path: Path) -> None:
    file = tmp_path / "picture"
    for arguments in ([target, *options], [*options, target]):
        ended = CliRunner().invoke(app, ["draw", "--format", "json", "--output", str(file), *arguments])
        assert ended.exit_code == 0, ended.output
        assert nodes <= {node["id"] for node in json.loads(file.read_text(encoding="utf-8"))["nodes"]}


@pytest.mark.parametrize("options", [["--xray=deep"], ["--format", "png"]])
def test_wrong_options_are_refused(options: list[str], target: str) -> None:
    assert CliRunner().invoke(app, ["draw", target, *options]).exit_code == ExitCode.USAGE
