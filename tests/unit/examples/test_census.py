"""The census example: its pure functions obey their laws, and the graph counts a small folder."""

import ast
import importlib.util
import os
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st


def load(name: str) -> ModuleType:
    path = Path(__file__).parents[3] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # the annotations of the state are looked up there
    spec.loader.exec_module(module)
    return module


census = load("census")

counts = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(0, 1000))
functions = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["f", "g", "C.f"]),
        "file": st.sampled_from(["a.py", "b.py"]),
        "line": st.integers(1, 5),
        "complexity": st.integers(1, 6),
    }
)
boards = st.lists(functions, max_size=15)
texts = st.lists(st.text(max_size=3), max_size=5)


@pytest.mark.parametrize(("reducer", "zero"), [("merge", {}), ("leaders", []), ("gather", [])])
def test_nothing_is_the_neutral_element_of_every_reducer(reducer: str, zero: Any) -> None:
    reduce = getattr(census, reducer)
    value: Any = {
        "merge": {"files": 3},
        "leaders": [{"name": "f", "file": "a.py", "line": 1, "complexity": 2}],
        "gather": ["a.py: bad"],
    }[reducer]
    assert reduce(zero, value) == reduce(value, zero) == value
    assert reduce(zero, zero) == zero


@given(counts, counts, counts)
def test_counts_merge_in_any_order_and_grouping(a: Any, b: Any, c: Any) -> None:
    assert census.merge(a, b) == census.merge(b, a)
    assert census.merge(census.merge(a, b), c) == census.merge(a, census.merge(b, c))


@given(boards, boards, boards)
def test_leaders_merge_in_any_order_and_grouping(a: Any, b: Any, c: Any) -> None:
    assert census.leaders(a, b) == census.leaders(b, a)
    assert census.leaders(census.leaders(a, b), c) == census.leaders(a, census.leaders(b, c))


@given(texts, texts, texts)
def test_lists_gather_in_any_order_and_grouping(a: Any, b: Any, c: Any) -> None:
    assert census.gather(a, b) == census.gather(b, a)
    assert census.gather(census.gather(a, b), c) == census.gather(a, census.gather(b, c))


@given(boards, boards)
def test_leaders_are_the_ten_most_complex_then_by_name(a: Any, b: Any) -> None:
    best = census.leaders(a, b)
    assert best == sorted(a + b, key=lambda f: (-f["complexity"], f["name"], f["file"], f["line"]))[:10]


def test_a_reducer_leaves_its_arguments_alone() -> None:
    left, right = {"a": 1}, {"a": 2}
    census.merge(left, right)
    assert (left, right) == ({"a": 1}, {"a": 2})


@pytest.mark.parametrize(
    ("body", "complexity"),
    [
        ("pass", 1),
        ("if a: pass", 2),
        ("if a: pass\n    else: pass", 2),
        ("if a: pass\n    elif b: pass\n    else: pass", 3),
        ("return b if a else c", 2),
        ("for x in a: pass\n    else: pass", 2),
        ("while a: pass", 2),
        ("try: pass\n    except A: pass\n    except B: pass\n    finally: pass", 3),
        ("with a: pass", 1),
        ("assert a", 2),
        ("return a and b and c", 3),
        ("return a and b or c", 3),
        ("return [x for x in a]", 2),
        ("return {x: y for x in a if x if y for y in x}", 5),
        ("match a:\n        case 1: pass\n        case [b]: pass\n        case _: pass", 3),
        ("match a:\n        case _ if b: pass", 2),
        ("match a:\n        case other: pass", 2),
        ("return lambda: b if a else c", 2),
    ],
)
def test_complexity_is_one_plus_the_decisions(body: str, complexity: int) -> None:
    (function,), classes = census.measure(ast.parse(f"def f(a, b, c):\n    {body}\n"), "f.py")
    assert function == {"name": "f", "file": "f.py", "line": 1, "complexity": complexity}
    assert classes == 0


def test_nested_definitions_have_qualified_names_and_count_for_themselves() -> None:
    source = """
if debug:
    def hidden(): pass

class Shop:
    def sell(self):
        if self.open:
            def price(item):
                return 1 if item else 2
            return price
    class Till:
        async def ring(self):
            async for coin in self.coins: pass
"""
    found, classes = census.measure(ast.parse(source), "shop.py")
    assert {function["name"]: function["complexity"] for function in found} == {
        "hidden": 1,
        "Shop.sell": 2,
        "Shop.sell.price": 2,
        "Shop.Till.ring": 2,
    }
    assert classes == 2


def test_very_deep_code_is_measured_without_recursion() -> None:
    chain: ast.expr = ast.Name("a")
    for _ in range(5000):
        chain = ast.Attribute(chain, "a")
    function = ast.parse("def f(): return 0").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body = [ast.Return(chain)]
    (measured,), _ = census.measure(ast.Module([function], []), "deep.py")
    assert measured["complexity"] == 1


def test_lines_are_code_comment_or_blank() -> None:
    source = b'"""Doc.\n\n"""\n# why\n   \nx = 1  # so\n\x0c\n'
    assert census.line_counts(source) == {"lines": 7, "code": 3, "comment": 1, "blank": 3}
    assert census.line_counts(b"") == {"lines": 0, "code": 0, "comment": 0, "blank": 0}


@given(st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(0, 10_000)), st.integers(1, 9))
def test_every_file_is_in_exactly_one_chunk(sizes: dict[str, int], per_chunk: int) -> None:
    chunks = census.balanced(sizes, per_chunk)
    assert sorted(path for chunk in chunks for path in chunk) == sorted(sizes)
    assert len(chunks) == -(-len(sizes) // per_chunk)
    assert all(chunks)


@given(st.lists(st.integers(1, 10_000), min_size=1), st.integers(1, 9))
def test_chunks_weigh_about_the_same(sizes: list[int], per_chunk: int) -> None:
    files = {str(number): size for number, size in enumerate(sizes)}
    weights = [sum(files[path] + 1 for path in chunk) for chunk in census.balanced(files, per_chunk)]
    assert max(weights) - min(weights) <= max(sizes) + 1


def test_chunks_do_not_depend_on_the_order_of_the_listing() -> None:
    sizes = dict.fromkeys("badce", 10)
    assert census.balanced(sizes, 2) == census.balanced(dict(sorted(sizes.items())), 2)


@pytest.mark.parametrize("per_chunk", [0, -3])
def test_a_chunk_of_no_files_is_a_clear_error(per_chunk: int) -> None:
    with pytest.raises(ValueError, match=f"at least one file, not {per_chunk}"):
        census.balanced({"a.py": 1}, per_chunk)


def test_columns_align_numbers_right_and_text_left() -> None:
    rows = [("complexity", "function", "file:line"), ("12", "f", "a.py:1"), ("7", "Long.name", "b.py:22")]
    assert census.columns(rows).splitlines() == [
        "complexity  function   file:line",
        "        12  f          a.py:1",
        "         7  Long.name  b.py:22",
    ]


# --- On a folder ------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "one.py": "# first\n\ndef f(a):\n    return 1 if a else 2\n",
        "pkg/two.py": "class C:\n    def m(self, a, b):\n        return a and b or self\n",
        "pkg/broken.py": "def f(:\n",
        "pkg/zero.py": "x = 1\x00\n",
        "pkg/escape.py": 'pattern = "\\d"\n',
        "empty.py": "",
        "notes.txt": "def f(): pass\n",
        "site-packages/other.py": "def g(): pass\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    return tmp_path


def test_a_folder_is_listed_without_installed_packages(folder: Path) -> None:
    assert list(census.python_files(str(folder))) == [
        "empty.py",
        "one.py",
        "pkg/broken.py",
        "pkg/escape.py",
        "pkg/two.py",
        "pkg/zero.py",
    ]


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match=r"no such folder") as caught:
        census.python_files(str(tmp_path / "missing"))
    assert "missing" in str(caught.value)


def test_a_chunk_is_counted_and_says_who_counted_it(folder: Path) -> None:
    result = census.count({"root": str(folder), "paths": ["pkg/two.py", "pkg/broken.py"]})
    host = socket.gethostname()
    assert result["hosts"] == {host: 2}
    assert result["processes"] == {f"{host}:{os.getpid()}": 2}
    assert result["most_complex"] == [{"name": "C.m", "file": "pkg/two.py", "line": 2, "complexity": 3}]
    assert result["unparsable"] == ["pkg/broken.py: invalid syntax (broken.py, line 1)"]


def test_code_nested_beyond_reason_is_listed_as_unparsable(tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text("x = " + "-" * 100_000 + "1\n")
    (listed,) = census.count({"root": str(tmp_path), "paths": ["deep.py"]})["unparsable"]
    assert listed.startswith("deep.py: ")


@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_the_graph_counts_a_folder_whatever_the_chunks(folder: Path, chunk: int) -> None:
    result = census.graph.invoke({"root": str(folder), "chunk": chunk})
    assert result["files"] == sum(result["hosts"].values()) == sum(result["processes"].values()) == 6
    assert result["totals"] == {
        "files": 6,
        "lines": 10,
        "code": 8,
        "comment": 1,
        "blank": 1,
        "classes": 1,
        "functions": 2,
        "complexity": 5,
    }
    assert [function["name"] for function in result["most_complex"]] == ["C.m", "f"]
    assert [line.partition(":")[0] for line in result["unparsable"]] == ["pkg/broken.py", "pkg/zero.py"]
    assert set(result) == {"files", "totals", "hosts", "processes", "most_complex", "unparsable", "table"}
    assert result["table"].splitlines() == [
        f"Census of {folder}",
        "",
        " 6  files",
        "10  lines",
        " 8  code",
        " 1  comment",
        " 1  blank",
        " 1  classes",
        " 2  functions",
        " 5  complexity",
        " 2  unparsable",
        "",
        "Most complex functions (the mean is 2.5)",
        "",
        "complexity  function  file:line",
        "         3  C.m       pkg/two.py:2",
        "         2  f         one.py:3",
    ]


def test_the_graph_reports_an_empty_folder(tmp_path: Path) -> None:
    result = census.graph.invoke({"root": str(tmp_path)})
    assert result["files"] == 0
    assert result["most_complex"] == []
    assert "Most complex" not in result["table"]
