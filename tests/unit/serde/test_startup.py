"""Importing the codec stays cheap: what only some programs need is loaded when it is needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from phalanx.checkpoint import serde

MODULES = sorted(Path(serde.__file__).parent.glob("*.py"))
LATE = {
    *("attr", "attrs", "decimal", "fractions", "ipaddress", "pathlib", "pydantic", "traceback", "uuid", "zoneinfo"),
    *("cryptography", "numpy", "pandas", "pyarrow", "zstandard"),
}
CODE_BY_NAME = {"importlib", "pickle", "runpy", "marshal", "shelve", "dill", "cloudpickle"}
CALLS_BY_NAME = {"__import__", "eval", "exec", "compile"}


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
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    imported = {
        alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    }
    imported |= {
        node.module.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module
    }

    assert names.isdisjoint(CALLS_BY_NAME)
    assert imported.isdisjoint(CODE_BY_NAME)


def test_storing_and_reading_plain_values_loads_no_library() -> None:
    program = """
import sys
from phalanx.checkpoint.serde import Serializer
serializer = Serializer()
serializer.loads(serializer.dumps([{"a": (1, 2.5)}, {1}]))
class ndarray: pass
class DataFrame: pass
for value in (ndarray(), DataFrame()):
    try:
        serializer.dumps(value)
    except TypeError:
        continue
    raise AssertionError(value)
print(sorted({"numpy", "pandas", "pydantic", "cryptography", "zstandard"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.stdout.strip(), done.stderr) == ("[]", "")
