"""The examples with a person in the middle, and with a team of teams."""

import re
from typing import Any

import pytest
from tests.unit.examples.test_census import load

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.config import RunnableConfig
from phalanx.types import Command

approval = load("approval")
team = load("research_team")

LETTER: RunnableConfig = {"configurable": {"thread_id": "letter"}}


@pytest.fixture
def letters() -> Any:
    return approval.builder.compile(checkpointer=InMemorySaver())


def test_a_letter_waits_until_a_person_says_yes(letters: Any) -> None:
    (asked,) = letters.invoke({"customer": "Ms Hale"}, LETTER)["__interrupt__"]
    assert asked.value["letter"] == "Dear Ms Hale,\nyour order is on its way."
    assert letters.invoke(Command(resume=" Yes "), LETTER)["outcome"] == "sent to Ms Hale"


def test_a_wish_makes_another_draft_and_all_wishes_so_far_count(letters: Any) -> None:
    letters.invoke({}, LETTER)
    letters.invoke(Command(resume="say when it arrives"), LETTER)
    (asked,) = letters.invoke(Command(resume="bring cake"), LETTER)["__interrupt__"]
    assert asked.value["letter"].splitlines()[2:] == ["It will be with you within three days.", "PS: bring cake"]


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_the_next_letter_of_a_thread_begins_without_wishes(letters: Any, answer: str) -> None:
    letters.invoke({}, LETTER)
    letters.invoke(Command(resume="say sorry"), LETTER)
    letters.invoke(Command(resume=answer), LETTER)
    (asked,) = letters.invoke({}, LETTER)["__interrupt__"]
    assert "sorry" not in asked.value["letter"]


def test_a_letter_that_is_dropped_is_not_sent(letters: Any) -> None:
    letters.invoke({"customer": "Ms Hale"}, LETTER)
    assert letters.invoke(Command(resume="NO"), LETTER)["outcome"] == "dropped"


def test_every_sentence_of_a_report_is_one_of_a_source_and_has_the_word() -> None:
    lines = team.graph.invoke({})["report"].splitlines()[1:]
    sources = {title: text for shelf in team.SHELVES.values() for title, text in shelf.items()}
    found = [re.fullmatch(r"- (.+) \((.+); supported by \d\)", line) for line in lines]
    assert len(found) == 6
    for match in found:
        assert match is not None
        assert match[1] in sources[match[2]]
        assert "oil" in match[1].lower()


def test_what_other_sources_say_too_comes_first() -> None:
    lines = team.graph.invoke({"question": "oil"})["report"].splitlines()[1:]
    support = [int(line[-2]) for line in lines]
    assert support == sorted(support, reverse=True)
    assert support[0] == 1


def test_a_team_that_finds_nothing_says_so() -> None:
    assert team.graph.invoke({"question": "zebra"})["report"] == "About zebra:\nnothing was found."
