"""Which tests are about which rule of ``RULES.md``."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
TABLE: Final = HERE / "RULES.md"
_ROW: Final = re.compile(r"^\| (?P<number>[a-z]+-\d+) \| (?P<rule>.+?) \| (?P<tests>[^|]*) \|$", re.MULTILINE)


def rules_in_tests() -> dict[str, list[str]]:
    """The tests of each rule, as ``file::test``, by what they are marked with."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                for number in _marked(node):
                    found[number].append(f"{path.stem}::{node.name}")
    return dict(found)


def _marked(test: ast.FunctionDef) -> Iterator[str]:
    for decorator in test.decorator_list:
        match decorator:
            case ast.Call(func=ast.Attribute(attr="rule"), args=[ast.Constant(value=str(number))]):
                yield number
            case _:
                pass


def rules_in_table() -> dict[str, list[str]]:
    """The tests of each rule, as ``file::test``, by the table."""
    return {row["number"]: _tests(row["tests"]) for row in _ROW.finditer(TABLE.read_text())}


def cell(tests: list[str]) -> str:
    """The last cell of a rule's row: its tests by file, without the words that all of them begin with."""
    by_file: defaultdict[str, list[str]] = defaultdict(list)
    for test in tests:
        file, _, name = test.partition("::")
        by_file[file].append(name.removeprefix("test_"))
    return "; ".join(f"**{file}** {', '.join(names)}" for file, names in by_file.items())


def _tests(text: str) -> list[str]:
    found: list[str] = []
    for part in text.split("; "):
        file, _, names = part.removeprefix("**").partition("** ")
        found += [f"{file}::test_{name}" for name in names.split(", ") if name]
    return found
