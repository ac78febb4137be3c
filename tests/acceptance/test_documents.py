"""What the README shows is run, so that it stays true."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_every_link_of_the_readme_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (PROJECT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not link.startswith("http") and not (PROJECT / link).exists()] == []
