"""What a task asks: the ids that answers are addressed to, and what an answer must be."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from xxhash import xxh3_128_hexdigest

from phalanx.errors import mark_invalid_resume
from phalanx.types import Interrupt

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def question_id(namespace: str, number: int) -> str:
    """The id of a task's n-th question, from 0: the same whenever the task runs, and of no other question."""
    place = namespace if number == 0 else f"{namespace}|{number}"
    return xxh3_128_hexdigest(place.encode("utf-8", "surrogatepass"))


NOT_ANSWERED: Final = Interrupt(None, id="")
"""Among a task's answers, for a question that was passed over: a later one of the task was answered first."""


def is_answer(kept: object) -> bool:
    """Whether what is kept for a question is an answer to it."""
    return not (isinstance(kept, Interrupt) and kept.id == NOT_ANSWERED.id)


@dataclass(frozen=True, slots=True)
class AnswerSchema:
    """What an answer must be.

    Attributes:
        shown: as a JSON schema, for whoever answers.
        adapter: checks an answer; ``None`` when nothing is checked.
    """

    shown: dict[str, Any] | None
    adapter: "TypeAdapter[Any] | None"

    @classmethod
    def of(cls, schema: object) -> "AnswerSchema":
        """The schema that ``interrupt`` was given: a type, a JSON schema, or nothing.

        Raises:
            TypeError: it is none of these, or no schema can be made of the type.
        """
        if schema is None:
            return NO_SCHEMA
        if isinstance(schema, dict):
            return cls(schema, None)  # pyright: ignore[reportUnknownArgumentType]
        from pydantic import TypeAdapter  # not quick to import, and few questions have a schema

        try:
            adapter: TypeAdapter[Any] = TypeAdapter(cast("type[Any]", schema))
            return cls(adapter.json_schema(), adapter)
        except Exception as error:
            raise TypeError(
                f"response_schema must be a JSON schema (a dict) or a type that pydantic can check; got {schema!r}"
            ) from error

    def checked(self, answer: object) -> object:
        """The answer as what it must be.

        Raises:
            pydantic.ValidationError: it does not fit.
        """
        if self.adapter is None:
            return answer
        from pydantic import ValidationError

        try:
            return self.adapter.validate_python(answer)
        except ValidationError as error:
            mark_invalid_resume(error)
            raise


NO_SCHEMA: Final = AnswerSchema(None, None)
