"""The examples in the shapes that tutorials teach run on the installed ``langgraph`` too, with one word changed."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Literal

import pytest

from phalanx.testing import InProcessCluster, in_process_cluster

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
WALLED_IN: Final = "S # G"

INPUTS: Final[dict[str, list[dict[str, object]]]] = {
    "map_reduce": [{}, {"theme": "kitchen"}],
    "branching": [
        {},
        {"item": "anchor", "amount": 2},
        {"amount": 60},
        {"amount": 2, "country": "NO"},
        {"item": "anchor", "country": "NO"},
        {"item": "sail"},
    ],
    "plan_and_execute": [{}, {"world": "S . G"}, {"world": WALLED_IN}, {"world": "S # G\n. . ."}],
}
CASES: Final = [
    pytest.param(name, given, id=f"{name}-{number}")
    for name, inputs in INPUTS.items()
    for number, given in enumerate(inputs)
]
WRONG: Final = [
    pytest.param("map_reduce", {"theme": "moon"}, "no topics for the theme 'moon'", id="map_reduce"),
    pytest.param("plan_and_execute", {"world": "S ."}, "the world has no G", id="plan_and_execute"),
]


def source_for(name: str, library: Literal["phalanx", "langgraph"]) -> str:
    """The example's source; for the other library, with its name in the imports."""
    source = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    return re.sub(r"^(from|import) phalanx\b", rf"\1 {library}", source, flags=re.MULTILINE)


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs an example's source on a library and returns its graph."""

    def load(name: str, library: Literal["phalanx", "langgraph"]) -> Any:
        module = ModuleType(f"{name}_on_{library}")
        monkeypatch.setitem(sys.modules, module.__name__, module)  # annotations are looked up there
        exec(compile(source_for(name, library), f"{name}.py on {library}", "exec"), module.__dict__)
        return module.__dict__["graph"]

    return load


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    with in_process_cluster() as cluster:
        yield cluster


def updates(graph: Any, given: dict[str, object]) -> list[list[Any]]:
    """The updates of each superstep, in an order of their own: they come as tasks finish."""
    steps: list[list[Any]] = [[]]
    for mode, chunk in graph.stream(given, stream_mode=["updates", "values"]):
        if mode == "values":
            steps.append([])
        else:
            steps[-1].append(chunk)
    return [sorted(step, key=repr) for step in steps]


def values(graph: Any, given: dict[str, object]) -> list[Any]:
    return list(graph.stream(given, stream_mode="values"))


@pytest.mark.parametrize("name", INPUTS)
def test_an_example_changes_in_its_imports_alone(name: str) -> None:
    ours, theirs = source_for(name, "phalanx").splitlines(), source_for(name, "langgraph").splitlines()
    changed = [line for line, other in zip(ours, theirs, strict=True) if line != other]
    assert changed
    assert [line for line in changed if not line.startswith("from phalanx.")] == []


@pytest.mark.parametrize(("name", "given"), CASES)
def test_an_example_gives_the_same_results_and_updates_on_both_libraries(
    loaded: Any, name: str, given: dict[str, object]
) -> None:
    ours, theirs = loaded(name, "phalanx"), loaded(name, "langgraph")
    assert ours.invoke(given) == theirs.invoke(given)
    assert updates(ours, given) == updates(theirs, given)
    assert values(ours, given) == values(theirs, given)


@pytest.mark.parametrize(("name", "given", "message"), WRONG)
def test_a_wrong_input_is_the_same_error_on_both_libraries(
    loaded: Any, name: str, given: dict[str, object], message: str
) -> None:
    for library in ("phalanx", "langgraph"):
        with pytest.raises(ValueError, match=message):
            loaded(name, library).invoke(given)


@pytest.mark.parametrize(("name", "given"), CASES)
def test_an_example_gives_the_same_results_and_updates_on_a_cluster(
    loaded: Any, cluster: InProcessCluster, name: str, given: dict[str, object]
) -> None:
    inline = loaded(name, "phalanx")
    spread = inline.with_cluster(cluster)
    assert spread.invoke(given) == inline.invoke(given)
    assert updates(spread, given) == updates(inline, given)
