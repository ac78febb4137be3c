"""One distribution from six roots: every tool must know all of them, and nothing may close the namespace package."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
ROOTS = sorted(path.parent.name for path in PROJECT.glob("*/phalanx") if path.is_dir())
PORTIONS = sorted(path.parent for root in ROOTS for path in PROJECT.glob(f"{root}/phalanx/*/__init__.py"))


@cache
def settings() -> dict[str, Any]:
    """The content of pyproject.toml."""
    return tomllib.loads((PROJECT / "pyproject.toml").read_text())


def tool(name: str) -> dict[str, Any]:
    """One tool's table of pyproject.toml."""
    table: dict[str, Any] = settings()["tool"][name]
    return table


def distributions(requirements: Iterable[str]) -> set[str]:
    """The normalized names in a list of requirements."""
    names = (re.match(r"[\w.-]+", requirement) for requirement in requirements)
    return {re.sub(r"[-_.]+", "-", name[0]).lower() for name in names if name}


def foreign_imports(*folders: str) -> Iterator[tuple[str, set[str]]]:
    """Yield each file and what it imports that is neither ours nor the standard library's.

    An import comes as the distributions that may bring it: several ones share a namespace package.
    """
    installed = packages_distributions()
    for folder in folders:
        for file in sorted((PROJECT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_bytes())):
                modules: list[str] = []
                if isinstance(node, ast.Import):
                    modules = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    modules = [node.module]
                for top in {module.partition(".")[0] for module in modules}:
                    if top not in sys.stdlib_module_names | {"phalanx", "tests", "bench", "examples"}:
                        yield str(file.relative_to(PROJECT)), distributions(installed.get(top, [top]))


def test_there_are_six_roots() -> None:
    assert ROOTS == ["channels", "checkpoint", "coordinator", "core", "graph", "worker"]


@pytest.mark.parametrize(
    ("where", "roots"),
    [
        ("editable install", tool("hatch")["build"]["dev-mode-dirs"]),
        ("wheel", [path.removesuffix("/phalanx") for path in tool("hatch")["build"]["targets"]["wheel"]["packages"]]),
        ("mypy", [path.removeprefix("$MYPY_CONFIG_FILE_DIR/") for path in tool("mypy")["mypy_path"].split(":")]),
        ("pyright", tool("pyright")["extraPaths"]),
        ("ruff", tool("ruff")["src"]),
        ("image", re.findall(r"^COPY (\w+) /src/\1$", (PROJECT / "deploy" / "Dockerfile").read_text(), re.MULTILINE)),
    ],
)
def test_every_tool_knows_all_roots(where: str, roots: list[str]) -> None:
    assert sorted(roots) == ROOTS, where


def test_the_source_distribution_and_the_image_context_hold_all_roots() -> None:
    sdist = tool("hatch")["build"]["targets"]["sdist"]["include"]
    assert {f"/{root}" for root in ROOTS} <= set(sdist)
    context = (PROJECT / ".dockerignore").read_text().splitlines()
    assert {f"!{root}" for root in ROOTS} <= set(context)


def test_no_root_closes_the_namespace_package() -> None:
    assert [root for root in ROOTS if (PROJECT / root / "phalanx" / "__init__.py").exists()] == []


def test_a_portion_lies_in_one_root_only() -> None:
    names = [portion.name for portion in PORTIONS]
    assert sorted(set(names)) == sorted(names)


def test_every_portion_is_typed() -> None:
    assert PORTIONS
    # The modules that lie directly in the namespace (phalanx.types) are typed by a marker beside them.
    assert (PROJECT / "core" / "phalanx" / "py.typed").exists()
    assert [portion for portion in PORTIONS if not (portion / "py.typed").exists()] == []


def test_the_product_imports_only_what_it_declares() -> None:
    project = settings()["project"]
    extras = {name: wanted for name, wanted in project["optional-dependencies"].items() if name != "dev"}
    declared = distributions(project["dependencies"]).union(*map(distributions, extras.values()))
    assert [(file, names) for file, names in foreign_imports(*ROOTS) if not names & declared] == []


def test_tests_benchmarks_and_examples_import_only_what_is_declared() -> None:
    project = settings()["project"]
    declared = distributions([*project["dependencies"], *project["optional-dependencies"]["dev"]])
    used = foreign_imports("tests", "bench", "examples")
    assert [(file, names) for file, names in used if not names & declared] == []


def test_the_product_never_imports_langgraph() -> None:
    assert [file for file, names in foreign_imports(*ROOTS) if "langgraph" in names] == []
