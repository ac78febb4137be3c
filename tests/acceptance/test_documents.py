"""What the README and the pages of docs/ show is run, so that it stays true.

A page is one program: its Python snippets run one after the other in one module. A block of text right after a snippet
shows what that snippet prints, and how it fails if it does; ``...`` stands for what is left out.
"""

import doctest
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from tests.acceptance.processes import phalanx

PROJECT: Final = Path(__file__).parents[2]
SNIPPET: Final = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)
CONCEPTS: Final = sorted(path.stem for path in (PROJECT / "docs/concepts").glob("*.md"))
PAGES: Final = sorted(
    str(path.relative_to(PROJECT)) for path in [PROJECT / "README.md", *(PROJECT / "docs").rglob("*.md")]
)
TUTORIALS: Final = ("branching", "map_reduce", "plan_and_execute")

MARK: Final = "--- 8< ---"
RUNNER: Final = f"""
import json, sys
for number, code in enumerate(json.load(open(sys.argv[1], encoding="utf-8")), 1):
    try:
        exec(compile(code, f"snippet {{number}}", "exec"), globals())
    except Exception as error:
        print(f"{{type(error).__name__}}: {{error}}")
    print({MARK!r})
"""


def text_of(page: str) -> str:
    return (PROJECT / page).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Snippet:
    """A piece of Python on a page, and what it is said to print."""

    code: str
    shown: str


def shown_on(page: str) -> list[Snippet]:
    """The Python snippets of a page, in order."""
    return [Snippet(code, shown) for code, shown in SNIPPET.findall(text_of(page))]


def snippets(page: str) -> list[str]:
    return [snippet.code for snippet in shown_on(page)]


def printed_by(page: str, folder: Path) -> list[str]:
    """What each snippet of a page prints, when all are run in order."""
    program, codes = folder / "runner.py", folder / "snippets.json"
    program.write_text(RUNNER, encoding="utf-8")
    codes.write_text(json.dumps(snippets(page)), encoding="utf-8")
    return "\n".join(run(program, str(codes))).split(MARK)[:-1]


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The README's first example, as a script."""
    script = tmp_path / "words.py"
    script.write_text(snippets("README.md")[0], encoding="utf-8")
    return script


def run(script: Path, *arguments: str) -> list[str]:
    """The lines that a script prints."""
    done = subprocess.run(
        [sys.executable, script, *arguments], check=False, capture_output=True, text=True, timeout=60, cwd=PROJECT
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# --- the README -------------------------------------------------------------------------------------------------------


def test_the_first_example_gives_the_same_result_inline_and_on_worker_processes(example: Path) -> None:
    inline, cluster = run(example)
    assert inline == cluster
    assert "'words': 10" in inline


def test_the_example_of_a_test_runs(example: Path, tmp_path: Path) -> None:
    script = tmp_path / "testing.py"
    call = 'print(graph.with_cluster(cluster).invoke({"texts": ["to be"]})["words"])'
    snippet = re.sub(r"graph\.with_cluster\(cluster\)\.invoke\(\.\.\.\)", call, snippets("README.md")[-1])
    script.write_text(f"from words import graph\n{snippet}", encoding="utf-8")
    assert run(script) == ["2"]


def test_the_policies_of_the_readme_change_nothing_where_nothing_fails(example: Path) -> None:
    plain_node = 'builder.add_node("count", count)\n'
    source = example.read_text(encoding="utf-8")
    assert plain_node in source
    inline = source.replace(plain_node, snippets("README.md")[1]).partition("    with Cluster.local")[0]
    example.write_text(inline, encoding="utf-8")
    assert "'words': 10" in run(example)[0]


def test_the_question_of_the_readme_is_asked_and_answered_as_its_comments_say(tmp_path: Path) -> None:
    script = tmp_path / "letters.py"
    snippet = snippets("README.md")[2]
    script.write_text(snippet.replace('"letters.db"', repr(str(tmp_path / "letters.db"))), encoding="utf-8")
    assert run(script) == re.findall(r"  # (.+)$", snippet, re.MULTILINE) == run(script)


def test_every_snippet_of_the_readme_is_run_by_a_test() -> None:
    assert len(snippets("README.md")) == 4


# --- the pages about concepts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("concept", CONCEPTS)
def test_every_snippet_of_a_page_does_what_the_page_shows(concept: str, tmp_path: Path) -> None:
    page = f"docs/concepts/{concept}.md"
    snippets_shown, printed = shown_on(page), printed_by(page, tmp_path)
    assert len(printed) == len(snippets_shown) == text_of(page).count("```python")
    assert text_of(page).count("```text") == sum(bool(snippet.shown) for snippet in snippets_shown)
    for snippet, was in zip(snippets_shown, printed, strict=True):
        said, came = snippet.shown.strip() + "\n", was.strip() + "\n"
        assert doctest.OutputChecker().check_output(said, came, doctest.ELLIPSIS), (snippet.code, said, came)


def test_the_list_of_pages_has_them_all() -> None:
    listed = set(re.findall(r"\]\(([\w/-]+\.md)\)", text_of("docs/README.md")))
    assert listed == {page.removeprefix("docs/") for page in PAGES if page not in ("README.md", "docs/README.md")}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    folder = (PROJECT / page).parent
    for link in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if link.startswith("http"):
            continue
        path, _, anchor = link.partition("#")
        target = folder / path if path else PROJECT / page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


def anchors(text: str) -> set[str]:
    """What the headings of a page can be linked by."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


# --- the page about drawing -------------------------------------------------------------------------------------------


def test_the_page_about_drawing_shows_what_its_snippets_print(tmp_path: Path) -> None:
    page = text_of("docs/drawing.md")
    script = tmp_path / "drawing.py"
    script.write_text("\n".join(snippets("docs/drawing.md")), encoding="utf-8")
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    assert len(shown) == len(snippets("docs/drawing.md")) == 2
    assert [line for line in run(script) if line] == [line for line in "".join(shown).splitlines() if line]


def test_the_commands_of_the_page_about_drawing_work(tmp_path: Path) -> None:
    commands = re.findall(r"^\$ phalanx (draw .*)$", text_of("docs/drawing.md"), re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        arguments = command.replace("census.svg", str(tmp_path / "census.svg")).split()
        ended = phalanx(*arguments)
        assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    assert (tmp_path / "census.svg").read_text(encoding="utf-8").startswith("<svg ")


# --- the examples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TUTORIALS)
def test_an_example_runs_as_a_script(name: str) -> None:
    assert run(PROJECT / "examples" / f"{name}.py")


@pytest.mark.parametrize("name", TUTORIALS)
def test_an_example_gives_the_same_result_inline_and_on_two_worker_processes(name: str) -> None:
    target = f"examples/{name}.py:graph"
    inline, local = phalanx("run", target, "--json"), phalanx("run", target, "--json", "--local", "2")
    assert (inline.returncode, local.returncode) == (0, 0), (inline.stderr, local.stderr)
    assert json.loads(inline.stdout) == json.loads(local.stdout)
