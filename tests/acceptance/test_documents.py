"""What the README and the pages of docs/ show is run, so that it stays true."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.processes import phalanx

PROJECT = Path(__file__).parents[2]
SNIPPET = re.compile(r"```python\n(.*?)```", re.DOTALL)


def snippets(page: str) -> list[str]:
    """The Python snippets of a page, in order."""
    return SNIPPET.findall((PROJECT / page).read_text(encoding="utf-8"))


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The README's first example, as a script."""
    script = tmp_path / "words.py"
    script.write_text(snippets("README.md")[0], encoding="utf-8")
    return script


def run(script: Path) -> list[str]:
    """The lines that a script prints."""
    done = subprocess.run([sys.executable, script], check=True, capture_output=True, text=True, timeout=60)
    return done.stdout.splitlines()


def test_the_first_example_gives_the_same_result_inline_and_on_worker_processes(example: Path) -> None:
    inline, cluster = run(example)
    assert inline == cluster
    assert "'words': 10" in inline


def test_the_example_of_a_test_runs(example: Path, tmp_path: Path) -> None:
    script = tmp_path / "testing.py"
    call = 'print(graph.with_cluster(cluster).invoke({"texts": ["to be"]})["words"])'
    snippet = re.sub(r"graph\.with_cluster\(cluster\)\.invoke\(\.\.\.\)", call, snippets("README.md")[1])
    script.write_text(f"from words import graph\n{snippet}", encoding="utf-8")
    assert run(script) == ["2"]


def test_every_snippet_of_the_readme_is_run_by_a_test() -> None:
    assert len(snippets("README.md")) == 2


def test_the_page_about_drawing_shows_what_its_snippets_print(tmp_path: Path) -> None:
    page = (PROJECT / "docs/drawing.md").read_text(encoding="utf-8")
    script = tmp_path / "drawing.py"
    script.write_text("\n".join(snippets("docs/drawing.md")), encoding="utf-8")
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert len(shown) == len(snippets("docs/drawing.md")) == 2
    assert [line for line in run(script) if line] == [line for line in "".join(shown).splitlines() if line]


def test_the_commands_of_the_page_about_drawing_work(tmp_path: Path) -> None:
    page = (PROJECT / "docs/drawing.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ phalanx (draw .*)$", page, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        arguments = command.replace("census.svg", str(tmp_path / "census.svg")).split()
        ended = phalanx(*arguments)
        assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    assert (tmp_path / "census.svg").read_text(encoding="utf-8").startswith("<svg ")


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (PROJECT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not link.startswith("http") and not (PROJECT / link).exists()] == []
