"""Importing the codec stays cheap: what only some programs need is loaded when it is needed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.checkpoint import serde

MODULES = sorted(Path(serde.__file__).parent.glob("*.py"))
LATE = {"attr", "attrs", "decimal", "fractions", "ipaddress", "pathlib", "pydantic", "traceback", "uuid", "zoneinfo"}


def imports_at_start(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_imports_nothing_heavy_when_it_is_loaded(path: Path) -> None:
    loaded = {name.partition(".")[0] for name in imports_at_start(ast.parse(path.read_text(encoding="utf-8")))}

    assert loaded.isdisjoint(LATE)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_never_imports_by_a_name_that_data_could_give(path: Path) -> None:
    source = path.read_text(encoding="utf-8")

    for word in ("importlib", "__import__", "eval(", "exec(", "pickle"):
        assert word not in source
