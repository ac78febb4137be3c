"""The ids of questions, and what answers must be."""

from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from phalanx.errors import is_invalid_resume
from phalanx.types import Interrupt
from phalanx.worker.questions import NO_SCHEMA, AnswerSchema, question_id


def test_a_question_s_id_is_32_hexadecimal_digits_and_always_the_same() -> None:
    assert question_id("a:1", 0) == question_id("a:1", 0) == Interrupt.from_ns(None, "a:1").id
    assert len(question_id("a:1", 0)) == 32
    assert int(question_id("a:1", 0), 16)


def test_questions_of_other_places_and_later_ones_have_other_ids() -> None:
    places = ["a:1", "a:2", "a:1|b:1", "", "🦜", "\ud800"]

    assert len({question_id(place, number) for place in places for number in range(5)}) == 30


class Person(BaseModel):
    """What an answer may have to be."""

    name: str


def test_a_type_checks_answers_and_is_shown_as_a_json_schema() -> None:
    schema = AnswerSchema.of(Person)

    assert schema.shown == Person.model_json_schema()
    assert schema.checked({"name": "Ann"}) == Person(name="Ann")


def test_a_json_schema_is_shown_and_checks_nothing() -> None:
    shown = {"type": "integer"}

    assert AnswerSchema.of(shown).shown is shown
    assert AnswerSchema.of(shown).checked("text") == "text"


def test_without_a_schema_every_answer_fits() -> None:
    assert AnswerSchema.of(None) is NO_SCHEMA
    assert NO_SCHEMA.checked(5) == 5


def test_the_error_of_an_answer_that_does_not_fit_says_that_it_is_about_an_answer() -> None:
    with pytest.raises(ValidationError) as caught:
        AnswerSchema.of(int).checked("many")

    assert is_invalid_resume(caught.value)
    assert not is_invalid_resume(ValueError())


@pytest.mark.parametrize("schema", [5, [int], "Nobody", object()], ids=["number", "list", "text", "object"])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(TypeError, match="response_schema"):
        AnswerSchema.of(schema)
