"""Which graphs a worker knows."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.blueprints import graph, node

from phalanx.errors import GraphNotRegisteredError, GraphVersionError
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.fingerprint import fingerprint
from phalanx.worker.registry import GraphRegistry, NotAGraphError, targets_in_file
from phalanx.worker.targets import TargetError


@dataclass
class Compiled:
    """What ``compile`` returns, as far as a registry cares."""

    blueprint: Blueprint


class Builder:
    """Something that was not compiled."""

    def compile(self) -> Compiled:
        return Compiled(graph())


def test_a_graph_is_found_by_its_name_and_version() -> None:
    registry, blueprint = GraphRegistry(), graph(node("a"))
    added = registry.add("census", Compiled(blueprint))

    assert registry.find("census", fingerprint(blueprint), "w") is added
    assert added.blueprint is blueprint
    assert "census" in registry
    assert registry.names == ["census"]


def test_a_graph_that_is_not_known_is_refused_with_those_that_are() -> None:
    registry = GraphRegistry()
    registry.add("b", Compiled(graph()))
    registry.add("a", Compiled(graph()))

    with pytest.raises(GraphNotRegisteredError) as caught:
        registry.find("census", "version", "worker-1")

    assert (caught.value.graph, caught.value.known, caught.value.worker) == ("census", ("a", "b"), "worker-1")


def test_another_version_is_refused_with_both() -> None:
    registry, blueprint = GraphRegistry(), graph(node("a"))
    registry.add("census", Compiled(blueprint))

    with pytest.raises(GraphVersionError) as caught:
        registry.find("census", "other", "worker-1")

    assert (caught.value.expected, caught.value.found) == ("other", fingerprint(blueprint))


def test_a_graph_added_again_replaces_the_one_before() -> None:
    registry, newer = GraphRegistry(), graph(node("a"), node("b"))
    registry.add("census", Compiled(graph(node("a"))))
    registry.add("census", Compiled(newer))

    assert registry.find("census", fingerprint(newer), "w").blueprint is newer


def test_what_is_not_a_compiled_graph_is_refused_with_a_hint() -> None:
    registry = GraphRegistry()

    with pytest.raises(NotAGraphError, match=r"'x' is not a compiled graph but a Builder; did you forget .compile"):
        registry.add("x", Builder())
    with pytest.raises(NotAGraphError, match=r"'x' is not a compiled graph but a int$"):
        registry.add("x", 5)
    assert registry.names == []


def test_a_target_is_loaded_and_registered() -> None:
    registry = GraphRegistry()

    with pytest.raises(NotAGraphError, match="a function"):
        registry.add_target("x", "json:dumps")
    with pytest.raises(TargetError):
        registry.add_target("x", "json")


def test_an_unknown_graph_is_looked_for_among_more_targets_once() -> None:
    asked: list[int] = []

    def more() -> dict[str, str]:
        asked.append(1)
        return {"late": "tests.unit.worker.late_graph:compiled"}

    registry = GraphRegistry(more)
    with pytest.raises(GraphNotRegisteredError):
        registry.find("never", "version", "w")
    assert asked == [1]

    found = registry.find("late", fingerprint(graph(node("late"))), "w")
    assert registry.find("late", found.fingerprint, "w") is found
    assert asked == [1, 1]


def test_targets_are_read_anew_from_a_file_that_need_not_be_there_yet(tmp_path: Path) -> None:
    file = tmp_path / "graphs.json"
    read = targets_in_file(file)

    assert read() == {}
    for targets in ({"a": "m:a"}, {"a": "m:a", "b": "m:b"}):
        file.write_text(json.dumps(targets), encoding="utf-8")
        assert read() == targets
