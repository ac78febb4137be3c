"""The article example: its text functions, and the review loop of the graph."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

EXAMPLES = Path(__file__).parents[3] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # the annotations of the state are looked up there
    spec.loader.exec_module(module)
    return module


article = load("article")

LONG = "one two " * 8 + "here, and then " + "three four " * 8 + "end."


def test_headings_make_sections_and_their_paragraphs_join() -> None:
    notes = "# Oil\nFirst line\nsecond line.\n\nMore oil.\n\n## Wicks\nFlat."
    assert article.outline(notes) == [
        {"title": "Oil", "text": "First line second line. More oil."},
        {"title": "Wicks", "text": "Flat."},
    ]


def test_a_heading_may_stand_alone_above_its_paragraph() -> None:
    assert article.outline("# Oil\n\nIt burns.") == [{"title": "Oil", "text": "It burns."}]


def test_a_paragraph_without_heading_is_titled_by_its_most_frequent_word() -> None:
    titles = [section["title"] for section in article.outline("The keeper and the keeper's lamp.\n\nIt is so.")]
    assert titles == ["Keeper", "Notes"]


@pytest.mark.parametrize("notes", ["", "  \n\n ", "# Only a heading"])
def test_notes_that_say_nothing_have_no_sections(notes: str) -> None:
    assert article.outline(notes) == []


def test_sentences_end_where_a_capital_follows() -> None:
    assert article.sentences("It was 3.5 m. Was it? Yes! no more.") == ["It was 3.5 m.", "Was it?", "Yes! no more."]


def test_a_summary_keeps_the_weightiest_sentences_in_their_order() -> None:
    text = "Lanterns guide sailors. Nothing else. Sailors trust lanterns. Gulls."
    weights = article.word_weights([{"title": "", "text": text}])
    assert article.summarise(text, 2, weights) == "Lanterns guide sailors. Sailors trust lanterns."


@given(st.lists(st.sampled_from(["Alpha beta.", "Lanterns glow.", "No."]), min_size=1), st.integers(1, 5))
def test_a_summary_only_quotes(every: list[str], number: int) -> None:
    text = " ".join(every)
    summary = article.sentences(article.summarise(text, number, article.word_weights([{"title": "", "text": text}])))
    assert len(summary) == min(number, len(every))
    assert set(summary) <= set(every)


@pytest.mark.parametrize(
    ("sentence", "about"),
    [
        ("It rose through the the flame.", ["repeated word"]),
        ("It was very bright.", ["filler"]),
        (LONG, ["long sentence"]),
        ("Every lamp is bright.", []),
    ],
)
def test_the_reviewer_names_the_fault(sentence: str, about: list[str]) -> None:
    assert [complaint["about"] for complaint in article.criticise(sentence)] == about


def test_a_word_said_twice_is_said_once() -> None:
    assert article.say_once("It rose through the the  the flame.") == "It rose through the flame."


def test_fillers_go_and_the_sentence_still_begins_with_a_capital() -> None:
    assert article.strip_fillers("In truth, it moved in order to turn.") == "It moved to turn."


@pytest.mark.parametrize(
    ("sentence", "halves"),
    [
        (
            "the lamp was lit at dusk, and the keeper wound the clock",
            "the lamp was lit at dusk. The keeper wound the clock",
        ),
        ("the lamp was lit at dusk, but the fog hid it all", "the lamp was lit at dusk. But the fog hid it all"),
        (
            "it rained on us that night, which put the whole fire out",
            "it rained on us that night. This put the whole fire out",
        ),
        ("they burned the whale oil, rape oil, and paraffin", "they burned the whale oil, rape oil, and paraffin"),
        ("he bent the flat wick round, so that air could pass", "he bent the flat wick round, so that air could pass"),
    ],
)
def test_a_long_sentence_breaks_only_where_both_halves_can_stand(sentence: str, halves: str) -> None:
    assert article.split_in_two(sentence) == halves


def test_a_sentence_breaks_at_the_joint_nearest_its_middle() -> None:
    sentence = "a b c d e, and f g h i j k l m n, and o p q r s t u v w x y z"
    assert article.split_in_two(sentence) == "a b c d e, and f g h i j k l m n. O p q r s t u v w x y z"


def write(notes: str) -> dict[str, Any]:
    result: dict[str, Any] = article.graph.invoke({"topic": "Lights", "notes": notes})
    return result


def test_the_sample_notes_become_an_accepted_article() -> None:
    result = write((EXAMPLES / "data" / "notes.txt").read_text(encoding="utf-8"))
    assert result["article"].startswith("# Lights\n\n")
    assert result["article"].count("\n## ") == 6
    assert result["rounds"] == len(result["reviews"]) == 3
    assert [review["round"] for review in result["reviews"]] == [1, 2, 3]
    complaints = [len(review["complaints"]) for review in result["reviews"]]
    assert complaints == sorted(complaints, reverse=True)
    assert complaints[-1] == 0
    lengths = [review["words_per_sentence"] for review in result["reviews"]]
    assert lengths == sorted(lengths, reverse=True)


def test_good_notes_pass_the_first_review() -> None:
    result = write("# Oil\nLamps burn oil. Keepers carry it.")
    assert result["rounds"] == 1
    assert result["reviews"][0]["complaints"] == []
    assert set(result) == {"article", "reviews", "rounds"}


def test_a_sentence_nobody_can_mend_ends_the_loop_after_three_rounds() -> None:
    result = write("# Oil\n" + "Lamps " + "word other " * 20 + "burn.")
    assert result["rounds"] == 3
    assert [complaint["about"] for complaint in result["reviews"][-1]["complaints"]] == ["long sentence"]


def test_the_body_does_not_repeat_the_introduction() -> None:
    text = write("# Oil\nLamps burn oil. Keepers carry lamps upstairs. The stairs are steep.")["article"]
    every = [sentence for line in text.splitlines() for sentence in article.sentences(line) if sentence]
    assert len(every) == len(set(every))


def test_empty_notes_are_a_clear_error() -> None:
    with pytest.raises(ValueError, match="the notes on 'Lights' are empty"):
        write(" \n")
