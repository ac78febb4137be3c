"""Where graphs inside of tasks belong, and what of it workers are told."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.worker.lineage import (
    Lineage,
    LooseAnswer,
    Savers,
    call_namespace,
    lasting,
    levels,
    lineage_from_plain,
    lineage_to_plain,
    node_names,
    task_namespace,
)


def test_a_task_s_place_is_its_node_and_id_behind_those_of_the_tasks_around_it() -> None:
    assert task_namespace("", "a", "1") == "a:1"
    assert task_namespace("a:1", "b", "2") == "a:1|b:2"


@pytest.mark.parametrize(
    ("attempt", "call", "expected"), [(1, 0, "a:1"), (1, 1, "a:1|1"), (1, 2, "a:1|2"), (2, 0, "a:1|1000")]
)
def test_each_call_of_a_graph_has_a_place_of_its_own_and_so_has_each_attempt(
    attempt: int, call: int, expected: str
) -> None:
    assert call_namespace("a:1", attempt, call) == expected


@pytest.mark.parametrize(
    ("namespace", "expected"), [("a:1", "a"), ("a:1|b:2", "a|b"), ("a:1|2", "a|2"), ("a", "a"), ("a:1|1000", "a|1000")]
)
def test_a_state_that_lasts_is_where_no_task_is_named(namespace: str, expected: str) -> None:
    assert lasting(namespace) == expected


def test_streams_show_a_namespace_level_by_level() -> None:
    assert levels("") == ()
    assert levels("a:1|b:2") == ("a:1", "b:2")


def test_a_loose_answer_is_taken_once_whoever_asks_first() -> None:
    loose = LooseAnswer("answer")
    with ThreadPoolExecutor(8) as pool:
        taken = [each.result() for each in [pool.submit(loose.take) for _ in range(50)]]

    assert sorted(taken) == [[]] * 49 + [["answer"]]
    assert LooseAnswer().take() == []


def test_workers_are_told_all_that_is_not_one_process_s_own() -> None:
    here = Lineage(
        "a:1",
        InMemorySaver(),
        "exit",
        parents={"": "c1"},
        answers={"f" * 32: "yes"},
        again=True,
        seeds={"a:0": "c0"},
        moved={"a:0": "a:1"},
        before=("c0", "c1"),
    )
    saver = InMemorySaver()
    there = lineage_from_plain(lineage_to_plain(here), Savers(saver))

    assert there.saver is saver
    for name in ("namespace", "durability", "parents", "answers", "again", "seeds", "moved", "before"):
        assert getattr(there, name) == getattr(here, name), name


def test_what_nobody_keeps_is_kept_by_no_worker() -> None:
    there = lineage_from_plain(lineage_to_plain(Lineage()), Savers(InMemorySaver()))

    assert there.saver is None
    assert there.before is None


@pytest.mark.parametrize(
    ("namespace", "names"),
    [
        ("node:1-2", ["node"]),
        ("node:1-2|1", ["node"]),
        ("1:1-2|1|2:3", ["1", "2"]),
        ("node:1|1000|inner:2|3", ["node", "inner"]),
        ("node|inner", ["node", "inner"]),
        ("1", ["1"]),
        ("node|2000000", ["node"]),
    ],
)
def test_a_namespace_leads_through_nodes_whatever_they_are_called(namespace: str, names: list[str]) -> None:
    assert node_names(namespace) == names
