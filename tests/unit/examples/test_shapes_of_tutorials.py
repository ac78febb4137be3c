"""What the small examples answer."""

from types import ModuleType
from typing import Any

import pytest
from tests.unit.examples.test_census import load

map_reduce: ModuleType = load("map_reduce")
branching: ModuleType = load("branching")
robot: ModuleType = load("plan_and_execute")


def test_there_is_a_verse_for_each_topic_and_the_longest_is_the_best() -> None:
    result = map_reduce.graph.invoke({"theme": "kitchen"})
    assert [verse["topic"] for verse in result["verses"]] == map_reduce.THEMES["kitchen"]
    longest = max(len(verse["text"].split()) for verse in result["verses"])
    assert len(result["best"]["text"].split()) == longest


def test_all_words_of_a_verse_begin_like_its_topic() -> None:
    for verse in map_reduce.graph.invoke({})["verses"]:
        assert {word[0].lower() for word in verse["text"].split()} == {verse["topic"][0]}


def test_a_theme_that_nobody_knows_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="'moon'; there are: kitchen, sea"):
        map_reduce.graph.invoke({"theme": "moon"})


@pytest.mark.parametrize(
    ("order", "answer", "checks"),
    [
        ({}, "1 x rope is on its way to SE", 1),
        ({"amount": 50}, "50 x rope is on its way to SE", 2),
        ({"amount": 51}, "would fewer than 51 x rope do?", 2),
        ({"item": "sail"}, "would fewer than 1 x sail do?", 1),
        ({"amount": 2, "country": "NO"}, "2 x rope is on its way to NO", 3),
        ({"item": "anchor", "country": "NO"}, "anchor cannot be sent to NO", 2),
        ({"item": "anchor", "amount": 9, "country": "NO"}, "anchor cannot be sent to NO", 3),
    ],
)
def test_an_order_goes_where_its_checks_say(order: dict[str, Any], answer: str, checks: int) -> None:
    result = branching.graph.invoke(order)
    assert (result["answer"], result["findings"][-1]) == (answer, f"{checks} checks")


def test_the_robot_gets_there_and_learns_of_walls_on_its_way() -> None:
    result = robot.graph.invoke({})
    walls = sum("wall" in step for step in result["done"])
    assert result["answer"] == f"there after {len(result['done'])} steps"
    assert walls > 0
    assert result["plans"] == walls + 1


def test_without_walls_one_plan_is_enough() -> None:
    assert robot.graph.invoke({"world": "S .\n. G"}) == {
        "answer": "there after 2 steps",
        "done": ["east", "south"],
        "plans": 1,
    }


def test_a_robot_that_is_walled_in_says_so() -> None:
    assert robot.graph.invoke({"world": "S # G"})["answer"] == "there is no way"


@pytest.mark.parametrize(("world", "missing"), [("S .", "G"), ("G .", "S"), ("", "S")])
def test_a_world_without_a_start_or_a_goal_is_an_error(world: str, missing: str) -> None:
    with pytest.raises(ValueError, match=f"the world has no {missing}"):
        robot.graph.invoke({"world": world})
