"""Writing a graph loads no more than that needs."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import phalanx.graph.state
import phalanx.pregel.schemas

MODULES = [*sorted(Path(phalanx.graph.state.__file__).parent.glob("*.py")), Path(phalanx.pregel.schemas.__file__)]
LATE = {"asyncio", "celery", "pydantic", "redis"}


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
