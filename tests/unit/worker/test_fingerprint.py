"""A graph's version: equal for equal graphs, different for graphs that would behave differently."""

import importlib.util
import operator
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.blueprints import graph, node

from phalanx.channels import BinaryOperatorAggregate, LastValue, Topic
from phalanx.managed import IsLastStepManager, RemainingStepsManager
from phalanx.types import RetryPolicy
from phalanx.worker.blueprint import Blueprint, Reader
from phalanx.worker.fingerprint import fingerprint

SOURCE = """
import functools
import operator
from typing import Annotated, TypedDict

from phalanx.graph import END, START, StateGraph


def add(old, new):
    return old + new


class State(TypedDict):
    total: Annotated[int, add]
    name: str


def work(state):
    return {"total": 1}


async def fetch(state):
    return {"name": "x"}


class Checker:
    def __call__(self, state):
        return {"total": 2}


def choose(state):
    return "again"


builder = StateGraph(State)
builder.add_node("work", work)
builder.add_node("fetch", fetch)
builder.add_node("check", Checker())
builder.add_node("late", functools.partial(work), defer=False)
builder.add_edge(START, "work")
builder.add_edge("work", "fetch")
builder.add_edge(["work", "fetch"], "check")
builder.add_conditional_edges("check", choose, {"again": "work", "done": END})
graph = builder.compile(name="graph")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def version_of(source: str, folder: Path, *, name: str = "module") -> str:
    """The fingerprint of the graph in a file with this source, loaded anew."""
    file = folder / f"{name}_{len(list(folder.iterdir()))}.py"
    file.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    try:
        spec.loader.exec_module(module)
        blueprint = module.graph.blueprint
        assert isinstance(blueprint, Blueprint)
        return fingerprint(blueprint)
    finally:
        del sys.modules[file.stem]


def test_the_retries_of_a_graph_and_the_managed_values_of_a_node_are_part_of_the_version() -> None:
    plain = graph(node("a"))
    keys = Reader(("value",), managed=(("steps", RemainingStepsManager),))  # type: ignore[arg-type]
    other = Reader(("value",), managed=(("steps", IsLastStepManager),))  # type: ignore[arg-type]
    graphs = [
        plain,
        replace(plain, retry=(RetryPolicy(),)),
        *(replace(plain, nodes={**plain.nodes, "a": replace(node("a"), reader=each)}) for each in (keys, other)),
    ]

    assert len({fingerprint(each) for each in graphs}) == len(graphs)


def test_it_is_sixteen_hexadecimal_digits() -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", fingerprint(graph(node("a"))))


def test_two_loads_of_the_same_source_have_the_same_version_wherever_the_file_is(folder: Path) -> None:
    (folder / "elsewhere").mkdir()

    assert version_of(SOURCE, folder) == version_of(SOURCE, folder / "elsewhere", name="other")


def test_the_order_in_which_nodes_and_edges_are_added_does_not_matter(folder: Path) -> None:
    lines: list[str] = str(SOURCE).splitlines()
    nodes = [line for line in lines if line.startswith("builder.add_node")]
    start = lines.index(nodes[0])
    swapped = "\n".join([*lines[:start], *nodes[::-1], *lines[start + len(nodes) :]])

    assert version_of(SOURCE, folder) == version_of(swapped, folder)


def test_code_that_no_node_is_made_of_does_not_matter(folder: Path) -> None:
    assert version_of(SOURCE, folder) == version_of(SOURCE + "\n\ndef unused():\n    return 1\n", folder)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param('{"total": 1}', '{"total": 10}', id="a node's source"),
        pytest.param('{"name": "x"}', '{"name": "y"}', id="a coroutine node's source"),
        pytest.param('{"total": 2}', '{"total": 20}', id="a callable object's source"),
        pytest.param('return "again"', 'return "done"', id="a path's source"),
        pytest.param("old + new", "new + old", id="a reducer's source"),
        pytest.param("Annotated[int, add]", "int", id="a channel's kind"),
        pytest.param("    name: str\n", "    name: str\n    more: str\n", id="a state key"),
        pytest.param('add_edge("work", "fetch")', 'add_edge("work", "late")', id="where an edge ends"),
        pytest.param('builder.add_edge("work", "fetch")\n', "", id="an edge that is gone"),
        pytest.param('add_edge(START, "work")', 'add_edge(START, "fetch")', id="the entry"),
        pytest.param('["work", "fetch"], "check"', '["work", "late"], "check"', id="what a join waits for"),
        pytest.param('"again": "work"', '"again": "fetch"', id="where a path's answer leads"),
        pytest.param('"done": END', '"finished": END', id="a path's answers"),
        pytest.param("defer=False", "defer=True", id="whether a node waits for all others"),
        pytest.param('add_node("late"', 'add_node("later"', id="a node's name"),
        pytest.param('name="graph"', 'name="other"', id="the graph's name"),
    ],
)
def test_what_changes_behaviour_changes_the_version(before: str, after: str, folder: Path) -> None:
    assert SOURCE.count(before) == 1

    assert version_of(SOURCE, folder) != version_of(SOURCE.replace(before, after), folder)


def test_a_graph_inside_a_node_is_part_of_the_version(folder: Path) -> None:
    outer = SOURCE + (
        "\nouter = StateGraph(State)\nouter.add_node('inner', graph)\nouter.add_edge(START, 'inner')\n"
        "graph = outer.compile(name='outer')\n"
    )

    assert version_of(outer, folder) == version_of(outer, folder)
    assert version_of(outer, folder) != version_of(outer.replace('{"total": 1}', '{"total": 10}'), folder)


def test_functions_without_source_are_known_by_their_names() -> None:
    def summing(operation: Any) -> str:
        return fingerprint(graph(node("a"), channels={"n": BinaryOperatorAggregate[int](int, operation)}))

    assert summing(operator.add) == summing(operator.add)
    assert summing(operator.add) != summing(operator.mul)


def test_the_settings_of_a_channel_are_part_of_the_version() -> None:
    def mail(accumulate: bool) -> str:
        return fingerprint(graph(node("a"), channels={"mail": Topic[str](str, accumulate)}))

    assert mail(True) != mail(False)
    assert mail(True) != fingerprint(graph(node("a"), channels={"mail": LastValue[object](object)}))
