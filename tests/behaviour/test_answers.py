"""Answers: whom they are for, and what they must be."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportTypedDictNotRequiredAccess=false

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Event
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from tests.behaviour.asking import Ran, asked, asks, ids, in_a_row, resume, side_by_side
from tests.behaviour.drivers import Drive, thread
from tests.behaviour.states import Update, Words, alone, says

from phalanx.constants import START
from phalanx.errors import EmptyInputError, UnknownInterruptError
from phalanx.graph import StateGraph
from phalanx.types import Command, Interrupt, Send, interrupt

NOBODY_S = "0123456789abcdef" * 2
"""An id of the right form that no question has."""


@pytest.mark.rule("answer-1")
def test_several_questions_are_answered_at_once_by_their_ids(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(side_by_side(ran, a="1?", b="2?", c="3?")), thread("answered by ids")
    known = ids(drive_kept.invoke(graph, {}, config))
    result = resume(drive_kept, graph, config, {known["3?"]: "three", known["1?"]: "one", known["2?"]: "two"})

    assert result["words"] == ["one", "two", "three", "end"]
    assert ran == {"a": 2, "b": 2, "c": 2}


@pytest.mark.rule("answer-1")
def test_one_question_may_be_answered_by_its_id_too(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(alone(asks("1?", "2?"))), thread("one by its id")
    first = ids(drive_kept.invoke(graph, {}, config))
    second = ids(resume(drive_kept, graph, config, {first["1?"]: "one"}))

    assert resume(drive_kept, graph, config, {second["2?"]: "two"})["words"] == ["one", "two"]


@pytest.mark.rule("answer-1")
def test_packets_for_one_node_are_answered_one_by_one(drive_kept: Drive) -> None:
    builder = StateGraph(Words)
    builder.add_node("work", lambda arg: {"words": [f"{arg}: {interrupt(arg)}"]})
    builder.add_conditional_edges(START, lambda _: [Send("work", letter) for letter in "cab"], ["work"])
    graph, config = drive_kept.keeping(builder), thread("packets ask")
    known = ids(drive_kept.invoke(graph, {}, config))
    result = resume(drive_kept, graph, config, {known[letter]: letter.upper() for letter in "abc"})

    assert result["words"] == ["c: C", "a: A", "b: B"]


@pytest.mark.rule("answer-2")
def test_questions_without_an_answer_stay_open(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(side_by_side(a="1?", b="2?", c="3?")), thread("some answered")
    known = ids(drive_kept.invoke(graph, {}, config))
    result = resume(drive_kept, graph, config, {known["2?"]: "two"})

    assert sorted(asked(result)) == ["1?", "3?"]
    assert ids(result) == {question: known[question] for question in ("1?", "3?")}
    result = resume(drive_kept, graph, config, {known["1?"]: "one"})
    assert asked(result) == ["3?"]
    assert resume(drive_kept, graph, config, "three")["words"] == ["one", "two", "three", "end"]


@pytest.mark.rule("answer-2")
@pytest.mark.ours_only("there, every node that asked runs again, whether it is answered or not")
def test_a_node_whose_question_stays_open_is_not_run_again(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(side_by_side(ran, a="1?", b="2?", c=None)), thread("open ones wait")
    known = ids(drive_kept.invoke(graph, {}, config))
    resume(drive_kept, graph, config, {known["2?"]: "two"})
    assert ran == {"a": 1, "b": 2, "c": 1}

    assert resume(drive_kept, graph, config, {known["1?"]: "one"})["words"] == ["one", "two", "c", "end"]
    assert ran == {"a": 2, "b": 2, "c": 1}


@pytest.mark.rule("answer-2")
def test_the_state_shows_the_questions_that_are_open(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(side_by_side(a="1?", b="2?", c="3?")), thread("open ones shown")
    known = ids(drive_kept.invoke(graph, {}, config))
    resume(drive_kept, graph, config, {known["2?"]: "two"})
    state = drive_kept.get_state(graph, config)

    assert sorted(question.value for question in state.interrupts) == ["1?", "3?"]
    assert state.next == ("a", "c")
    assert [task.result for task in state.tasks] == [None, {"words": ["two"]}, None]


@pytest.mark.rule("answer-2")
def test_an_answered_node_may_ask_on_beside_open_questions(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(side_by_side(a=asks("1?", "2?"), b="3?")), thread("asks on")
    known = ids(drive_kept.invoke(graph, {}, config))
    result = resume(drive_kept, graph, config, {known["1?"]: "one"})
    assert sorted(asked(result)) == ["2?", "3?"]

    known = ids(result)
    assert resume(drive_kept, graph, config, {known["2?"]: "two", known["3?"]: "three"})["words"] == [
        *("one", "two", "three"),
        "end",
    ]


@pytest.mark.rule("answer-3")
def test_an_answer_without_an_id_is_refused_when_several_questions_are_open(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(side_by_side(ran, a="1?", b="2?")), thread("which question")
    known = ids(drive_kept.invoke(graph, {}, config))
    before = drive_kept.get_state(graph, config)
    with pytest.raises(RuntimeError, match=r"^When there are multiple pending interrupts, you must specify the inter"):
        resume(drive_kept, graph, config, "one")

    assert drive_kept.get_state(graph, config) == before
    assert ran == {"a": 1, "b": 1}
    assert resume(drive_kept, graph, config, {known["1?"]: "one", known["2?"]: "two"})["words"][:2] == ["one", "two"]


@pytest.mark.rule("answer-3")
def test_when_one_question_is_left_it_is_answered_without_an_id(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(side_by_side(a="1?", b="2?")), thread("one is left")
    known = ids(drive_kept.invoke(graph, {}, config))
    resume(drive_kept, graph, config, {known["1?"]: "one"})

    assert resume(drive_kept, graph, config, "two")["words"] == ["one", "two", "end"]


@pytest.mark.rule("answer-3")
@pytest.mark.ours_only("there, answers to nobody are ignored")
@pytest.mark.parametrize("among", [False, True], ids=["alone", "among others"])
def test_an_answer_to_nobody_is_refused_and_nothing_is_written_or_run(drive_kept: Drive, among: bool) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(side_by_side(ran, a="1?", b="2?")), thread(f"answer to nobody {among}")
    known = ids(drive_kept.invoke(graph, {}, config))
    before = drive_kept.get_state(graph, config)
    others = {known["1?"]: "one"} if among else {}
    with pytest.raises(UnknownInterruptError, match=NOBODY_S):
        resume(drive_kept, graph, config, {NOBODY_S: "x", **others})

    assert drive_kept.get_state(graph, config) == before
    assert ran == {"a": 1, "b": 1}


@pytest.mark.rule("answer-3")
@pytest.mark.ours_only("there, answers to nobody are ignored")
def test_a_question_that_was_answered_and_dealt_with_is_answered_by_nobody(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a="1?", b="2?")), thread("answered already")
    known = ids(drive_kept.invoke(graph, {}, config))
    resume(drive_kept, graph, config, "one")

    with pytest.raises(UnknownInterruptError):
        resume(drive_kept, graph, config, {known["1?"]: "another"})


@pytest.mark.rule("answer-4")
@pytest.mark.parametrize(
    "answer",
    [
        {"name": "Ann"},
        {NOBODY_S: "x", "name": "Ann"},
        {NOBODY_S[1:]: "x"},
        pytest.param({1: 2}, marks=pytest.mark.ours_only("there, a TypeError: only texts are looked for")),
        [NOBODY_S],
    ],
    ids=["other keys", "an id among other keys", "too short", "no texts", "a list"],
)
def test_a_dict_whose_keys_are_not_all_ids_is_an_answer(drive_kept: Drive, answer: Any) -> None:
    def node(_: Words) -> Update:
        return {"other": interrupt("?")}

    graph, config = drive_kept.keeping(alone(node)), thread(f"dict as an answer {answer!r}")
    drive_kept.invoke(graph, {}, config)

    assert resume(drive_kept, graph, config, answer)["other"] == answer


@pytest.mark.rule("answer-4")
def test_an_empty_dict_answers_nothing(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(alone(asks("name?"))), thread("an empty dict")
    first = ids(drive_kept.invoke(graph, {}, config))

    assert ids(resume(drive_kept, graph, config, {})) == first


# --- what an answer must be -------------------------------------------------------------------------------------------


class Person(BaseModel):
    """What an answer may have to be."""

    name: str
    age: int


@pytest.mark.rule("answer-5")
def test_an_answer_becomes_an_instance_of_the_type_that_was_asked_for(drive_kept: Drive) -> None:
    def node(_: Words) -> Update:
        person = interrupt("who?", response_schema=Person)
        return {"words": [type(person).__name__, person.name, str(person.age + 1)]}

    graph, config = drive_kept.keeping(alone(node)), thread("answers of a type")
    drive_kept.invoke(graph, {}, config)

    assert resume(drive_kept, graph, config, {"name": "Ann", "age": "41"})["words"] == ["Person", "Ann", "42"]


@pytest.mark.rule("answer-5")
def test_a_question_tells_what_its_answer_must_be(drive_kept: Drive) -> None:
    by_hand = {"type": "string", "enum": ["yes", "no"]}

    def typed(_: Words) -> None:
        interrupt("who?", response_schema=Person)

    def untyped(_: Words) -> None:
        interrupt("sure?", response_schema=by_hand)

    graph, config = drive_kept.keeping(side_by_side(a=typed, b=untyped, c="name?")), thread("told schemas")
    questions: list[Interrupt] = drive_kept.invoke(graph, {}, config)["__interrupt__"]
    schemas = {question.value: question.response_schema for question in questions}

    assert schemas == {"who?": Person.model_json_schema(), "sure?": by_hand, "name?": None}
    shown = drive_kept.get_state(graph, config).interrupts
    assert {question.value: question.response_schema for question in shown} == schemas


@pytest.mark.rule("answer-5")
@pytest.mark.not_on("cluster", "native_errors")
def test_an_answer_that_does_not_fit_is_forgotten_and_another_may_be_given(drive_kept: Drive) -> None:
    def node(_: Words) -> Update:
        first = interrupt("name?")
        return {"words": [first, str(interrupt("age?", response_schema=int))]}

    graph, config = drive_kept.keeping(alone(node)), thread("does not fit")
    drive_kept.invoke(graph, {}, config)
    second = ids(resume(drive_kept, graph, config, "Ann"))
    with pytest.raises(ValidationError):
        resume(drive_kept, graph, config, "many")

    assert ids({"__interrupt__": drive_kept.get_state(graph, config).interrupts}) == second
    assert resume(drive_kept, graph, config, "41")["words"] == ["Ann", "41"]


@pytest.mark.rule("answer-5")
def test_an_answer_that_does_not_fit_is_forgotten_on_every_driver(drive_kept: Drive) -> None:
    def node(_: Words) -> Update:
        return {"words": [str(interrupt("age?", response_schema=int))]}

    graph, config = drive_kept.keeping(alone(node)), thread("does not fit anywhere")
    known = ids(drive_kept.invoke(graph, {}, config))
    for answer in ("many", {known["age?"]: "many"}):
        with pytest.raises(Exception, match="valid integer"):
            resume(drive_kept, graph, config, answer)

    assert resume(drive_kept, graph, config, {known["age?"]: 41})["words"] == ["41"]


@pytest.mark.rule("answer-5")
def test_an_answer_that_does_not_fit_is_handled_as_any_other_error(drive_kept: Drive) -> None:
    def node(_: Words) -> Update:
        return {"words": [str(interrupt("age?", response_schema=int))]}

    graph = drive_kept.keeping(alone(node, error_handler=says("handled")))
    config = thread("does not fit, handled")
    drive_kept.invoke(graph, {}, config)

    assert resume(drive_kept, graph, config, "many")["words"] == ["handled"]


@pytest.mark.rule("answer-5")
@pytest.mark.ours_only("there, an error of pydantic's own")
@pytest.mark.parametrize("schema", [5, "text", [int]], ids=repr)
def test_what_is_no_schema_is_refused(drive_kept: Drive, schema: Any) -> None:
    def node(_: Words) -> None:
        interrupt("?", response_schema=schema)

    with pytest.raises(TypeError):
        drive_kept.invoke(drive_kept.keeping(alone(node)), {}, thread(f"no schema {schema!r}"))


@pytest.mark.rule("answer-5")
def test_a_schema_in_json_is_shown_and_not_checked(drive_kept: Drive) -> None:
    def node(_: Words) -> Update:
        return {"other": interrupt("?", response_schema={"type": "integer"})}

    graph, config = drive_kept.keeping(alone(node)), thread("JSON schema")
    drive_kept.invoke(graph, {}, config)

    assert resume(drive_kept, graph, config, "text")["other"] == "text"


@pytest.mark.rule("answer-3")
@pytest.mark.ours_only("there, the graph starts with nothing and the answer is lost")
def test_an_answer_to_a_thread_on_which_nothing_ran_is_refused(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a="name?")), thread("nothing ran here")

    with pytest.raises(EmptyInputError, match="nothing has run on this thread"):
        drive_kept.invoke(graph, Command[str](resume="Ann"), config)

    assert drive_kept.history(graph, config) == []


@pytest.mark.rule("answer-3")
@pytest.mark.ours_only("there, it is taken for an answer")
def test_answers_are_addressed_by_ids_and_not_by_questions(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a="name?")), thread("addressed by a question")
    (question,) = drive_kept.invoke(graph, {}, config)["__interrupt__"]

    with pytest.raises(TypeError, match="addressed by the ids of questions"):
        drive_kept.invoke(graph, Command[str](resume={question: "Ann"}), config)


@pytest.mark.rule("answer-6")
@pytest.mark.ours_only("there the answer goes to the first question of the task")
def test_an_answer_reaches_its_question_when_an_earlier_one_was_swallowed(drive_kept: Drive) -> None:
    def node(_: Words) -> Update:
        try:
            extra = interrupt("something else?")
        except Exception:  # what stops the node is an exception, and this swallows it
            extra = "nothing"
        return {"words": [extra, interrupt("what?")]}

    graph, config = drive_kept.keeping(alone(node)), thread("swallowed")
    known = ids(drive_kept.invoke(graph, {}, config))

    assert [*known] == ["what?"]
    assert resume(drive_kept, graph, config, {known["what?"]: "this"})["words"] == ["nothing", "this"]


@pytest.mark.rule("answer-6")
@pytest.mark.ours_only("there answers go to the questions in the order in which they were asked")
def test_questions_asked_in_threads_are_answered_one_by_one_whichever_shows_first(drive_kept: Drive) -> None:
    def node(_: Words) -> Update:
        second_has_asked = Event()

        def first() -> Any:
            second_has_asked.wait(30)
            return interrupt("first?")

        def second() -> Any:
            try:
                return interrupt("second?")
            finally:
                second_has_asked.set()

        with ThreadPoolExecutor() as pool:
            asking = [pool.submit(copy_context().run, ask) for ask in (first, second)]
            return {"words": [answer.result() for answer in asking]}

    graph, config = drive_kept.keeping(alone(node)), thread("in threads")
    shown = drive_kept.invoke(graph, {}, config)
    then = resume(drive_kept, graph, config, "one")

    assert (asked(shown), asked(then)) == (["first?"], ["second?"])
    assert resume(drive_kept, graph, config, "two")["words"] == ["one", "two"]
