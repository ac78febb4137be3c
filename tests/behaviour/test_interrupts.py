"""Nodes that ask their caller something and go on with the answer."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportTypedDictNotRequiredAccess=false

import asyncio
from typing import Any

import pytest
from tests.behaviour.asking import Ran, asked, asks, ids, in_a_row, resume, side_by_side, steps
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Update, Words, alone, says

from phalanx.constants import START
from phalanx.graph import StateGraph
from phalanx.types import Command, Interrupt, RetryPolicy, Send, interrupt


@pytest.mark.rule("ask-1")
def test_a_node_that_asks_stops_the_run_and_runs_again_from_its_first_line_with_the_answer(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(in_a_row(ran, a=None, b="name?", c=None)), thread("one question")
    first = drive_kept.invoke(graph, {}, config)

    assert asked(first) == ["name?"]
    assert resume(drive_kept, graph, config, "Ann") == {"words": ["a", "Ann", "c"], "count": 0}
    assert ran == {"a": 1, "b": 2, "c": 1}


@pytest.mark.rule("ask-1")
def test_a_coroutine_node_asks_too(drive_kept: Drive) -> None:
    if drive_kept.name == "inline":
        pytest.skip("a coroutine cannot run in a thread without an event loop")

    async def node(_: Words) -> Update:
        await asyncio.sleep(0)
        return {"words": [interrupt("name?")]}

    graph, config = drive_kept.keeping(alone(node)), thread("a coroutine asks")

    assert asked(drive_kept.invoke(graph, {}, config)) == ["name?"]
    assert resume(drive_kept, graph, config, "Ann")["words"] == ["Ann"]


@pytest.mark.rule("ask-1")
def test_the_questions_of_a_node_are_answered_in_their_order_one_run_at_a_time(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(alone(asks("1?", "2?", "3?", ran=ran))), thread("three questions")

    assert asked(drive_kept.invoke(graph, {}, config)) == ["1?"]
    assert asked(resume(drive_kept, graph, config, "one")) == ["2?"]
    assert asked(resume(drive_kept, graph, config, "two")) == ["3?"]
    assert resume(drive_kept, graph, config, "three")["words"] == ["one", "two", "three"]
    assert ran == {"asks": 4}


@pytest.mark.rule("ask-1")
def test_going_on_without_an_answer_asks_again(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(alone(asks("name?"))), thread("no answer")
    first = ids(drive_kept.invoke(graph, {}, config))

    assert ids(drive_kept.invoke(graph, None, config)) == first
    assert resume(drive_kept, graph, config, "Ann")["words"] == ["Ann"]


@pytest.mark.rule("ask-1")
@pytest.mark.ours_only("there, the answer to the first question is taken for the second one too")
def test_an_answer_is_for_one_question_however_often_the_run_goes_on(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(alone(asks("1?", "2?"))), thread("one answer, one question")
    drive_kept.invoke(graph, {}, config)
    second = resume(drive_kept, graph, config, "one")

    assert drive_kept.invoke(graph, None, config) == second
    assert resume(drive_kept, graph, config, "two")["words"] == ["one", "two"]


@pytest.mark.rule("ask-1")
@pytest.mark.parametrize("answer", ["", False, 0, 0.0, [], [None], {"a": 1}], ids=repr)
def test_an_answer_may_be_anything_but_none(drive_kept: Drive, answer: Any) -> None:
    def node(_: Words) -> Update:
        return {"other": interrupt("?")}

    graph, config = drive_kept.keeping(alone(node)), thread(f"answer {answer!r}")
    drive_kept.invoke(graph, {}, config)
    given = resume(drive_kept, graph, config, answer)["other"]

    assert given == answer
    assert type(given) is type(answer)


@pytest.mark.rule("ask-1")
def test_a_node_may_ask_in_a_loop_as_often_as_it_likes(drive_kept: Drive) -> None:
    def node(_: Words) -> Update:
        words: list[str] = []
        while (word := interrupt(len(words))) != "enough":
            words.append(word)
        return {"words": words}

    graph, config = drive_kept.keeping(alone(node)), thread("a loop of questions")
    drive_kept.invoke(graph, {}, config)
    for number, word in enumerate(["a", "b", "c"], 1):
        assert asked(resume(drive_kept, graph, config, word)) == [number]

    assert resume(drive_kept, graph, config, "enough")["words"] == ["a", "b", "c"]


@pytest.mark.rule("ask-2")
def test_each_question_has_an_id_of_its_own_that_stays_until_it_is_answered(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(alone(asks("1?", "2?"))), thread("ids")
    first = ids(drive_kept.invoke(graph, {}, config))
    again = ids(drive_kept.invoke(graph, None, config))
    second = ids(resume(drive_kept, graph, config, "one"))

    assert first == again
    assert first["1?"] != second["2?"]
    assert all(len(each) == 32 and int(each, 16) for each in [*first.values(), *second.values()])


@pytest.mark.rule("ask-2")
def test_the_state_of_a_thread_shows_what_is_to_be_answered(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=asks("1?", "2?"))), thread("shown questions")
    drive_kept.invoke(graph, {}, config)
    second = resume(drive_kept, graph, config, "one")["__interrupt__"]
    state = drive_kept.get_state(graph, config)

    assert state.next == ("b",)
    assert state.values["words"] == ["a"]
    assert state.interrupts == tuple(second)
    assert [(task.name, task.interrupts, task.result, task.error) for task in state.tasks] == [
        ("b", tuple(second), None, None)
    ]
    resume(drive_kept, graph, config, "two")
    assert drive_kept.get_state(graph, config).interrupts == ()


@pytest.mark.rule("ask-2")
def test_a_run_that_stops_at_a_question_makes_no_state_of_its_own(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b=asks("1?", "2?"))), thread("no new state")
    drive_kept.invoke(graph, {}, config)
    resume(drive_kept, graph, config, "one")

    assert steps(drive_kept.history(graph, config)) == [("loop", 1), ("loop", 0), ("input", -1)]
    resume(drive_kept, graph, config, "two")
    assert steps(drive_kept.history(graph, config))[0] == ("loop", 2)


# --- what a run returns -----------------------------------------------------------------------------------------------


@pytest.mark.rule("ask-3")
def test_a_run_returns_the_state_and_what_is_to_be_answered(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b="name?")), thread("what it returns")
    result = drive_kept.invoke(graph, {"last": "x"}, config)
    (question,) = result["__interrupt__"]

    assert {**result, "__interrupt__": 0} == {"words": ["a"], "count": 0, "last": "x", "__interrupt__": 0}
    assert isinstance(question, Interrupt)
    assert question.value == "name?"


@pytest.mark.rule("ask-3")
def test_a_run_returns_what_finished_beside_the_question(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(side_by_side(a="name?", b=None)), thread("finished beside")
    result = drive_kept.invoke(graph, {}, config)

    assert (result["words"], asked(result)) == (["b"], ["name?"])
    assert drive_kept.get_state(graph, config).values["words"] == ["b"]
    stored = drive_kept.get_state(graph, drive_kept.history(graph, config)[0].config)
    assert (stored.values["words"], stored.next) == ([], ("a", "b"))


@pytest.mark.rule("ask-3")
def test_a_run_whose_output_is_no_dict_returns_the_questions_alone(drive_kept: Drive) -> None:
    builder = StateGraph(str)
    builder.add_node("a", lambda _: interrupt("name?"))
    builder.add_edge(START, "a")
    graph, config = drive_kept.keeping(builder), thread("no dict")
    result = drive_kept.invoke(graph, "text", config)

    assert [*result] == ["__interrupt__"]
    assert asked(result) == ["name?"]
    assert resume(drive_kept, graph, config, "Ann") == "Ann"


@pytest.mark.rule("ask-3")
@pytest.mark.ours_only("there, in the order in which they were asked, by chance of timing")
def test_questions_are_returned_in_the_order_of_their_tasks(drive_kept: Drive) -> None:
    builder = StateGraph(Words)
    builder.add_node("work", lambda arg: {"words": [interrupt(arg)]})
    builder.add_conditional_edges(START, lambda _: [Send("work", number) for number in (3, 1, 2)], ["work"])
    graph, config = drive_kept.keeping(builder), thread("order of questions")

    assert asked(drive_kept.invoke(graph, {}, config)) == [3, 1, 2]


@pytest.mark.rule("ask-4")
def test_without_a_thread_a_question_stops_the_run_and_cannot_be_answered(drive: Drive) -> None:
    graph = compiled(in_a_row(a=None, b="name?"))
    result = drive.invoke(graph, {})

    assert (result["words"], asked(result)) == (["a"], ["name?"])
    with pytest.raises(RuntimeError, match=r"^Cannot use Command\(resume=...\) without checkpointer"):
        drive.invoke(graph, Command(resume="Ann"))


# --- what does not get in the way -------------------------------------------------------------------------------------


@pytest.mark.rule("ask-5")
def test_a_question_is_no_failure_to_retry_or_to_handle(drive_kept: Drive) -> None:
    ran = Ran()
    policy = RetryPolicy(max_attempts=3, initial_interval=0.001, retry_on=BaseException)  # type: ignore[arg-type]
    builder = alone(asks("name?", ran=ran), retry_policy=policy, error_handler=says("handled"))
    graph, config = drive_kept.keeping(builder), thread("no failure")

    assert asked(drive_kept.invoke(graph, {}, config)) == ["name?"]
    assert resume(drive_kept, graph, config, "Ann")["words"] == ["Ann"]
    assert ran == {"asks": 2}


@pytest.mark.rule("ask-5")
def test_an_attempt_after_a_failure_has_the_answers_of_the_one_before(drive_kept: Drive) -> None:
    attempts = Ran()

    def node(_: Words) -> Update:
        words = [interrupt("1?"), interrupt("2?")]
        attempts["answered"] += 1
        if attempts["answered"] < 3:
            raise ConnectionError("not yet")
        return {"words": words}

    policy = RetryPolicy(max_attempts=3, initial_interval=0.001)
    graph, config = drive_kept.keeping(alone(node, retry_policy=policy)), thread("answers and attempts")
    drive_kept.invoke(graph, {}, config)
    resume(drive_kept, graph, config, "one")

    assert resume(drive_kept, graph, config, "two")["words"] == ["one", "two"]
    assert attempts["answered"] == 3


@pytest.mark.rule("ask-5")
def test_a_task_that_fails_after_it_was_answered_keeps_its_answers(drive_kept: Drive) -> None:
    failing = [True]

    def node(_: Words) -> Update:
        words = [interrupt("1?"), interrupt("2?")]
        if failing:
            raise ValueError("not yet")
        return {"words": words}

    graph, config = drive_kept.keeping(alone(node)), thread("answered and failed")
    drive_kept.invoke(graph, {}, config)
    resume(drive_kept, graph, config, "one")
    with pytest.raises(ValueError, match="not yet"):
        resume(drive_kept, graph, config, "two")
    failing.clear()

    assert drive_kept.invoke(graph, None, config)["words"] == ["one", "two"]


@pytest.mark.rule("ask-5")
def test_an_error_handler_may_ask(drive_kept: Drive) -> None:
    ran = Ran()

    def fails(_: Words) -> None:
        ran["fails"] += 1
        raise ValueError("on purpose")

    graph = drive_kept.keeping(alone(fails, error_handler=asks("what now?", ran=ran)))
    config = thread("a handler asks")

    assert asked(drive_kept.invoke(graph, {}, config)) == ["what now?"]
    assert resume(drive_kept, graph, config, "go on")["words"] == ["go on"]
    assert ran == {"fails": 1, "asks": 2}


@pytest.mark.rule("ask-6")
def test_what_finished_beside_a_question_is_not_run_again(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(side_by_side(ran, a="name?", b=None, c=None)), thread("not run again")
    drive_kept.invoke(graph, {}, config)

    assert resume(drive_kept, graph, config, "Ann")["words"] == ["Ann", "b", "c", "end"]
    assert ran == {"a": 2, "b": 1, "c": 1}


@pytest.mark.rule("ask-6")
def test_a_failure_beside_a_question_is_raised_and_the_question_stays(drive_kept: Drive) -> None:
    failing = [True]

    def fails(_: Words) -> Update:
        if failing:
            raise ValueError("not yet")
        return {"words": ["b"]}

    graph, config = drive_kept.keeping(side_by_side(a="name?", b=fails)), thread("a failure beside")
    with pytest.raises(ValueError, match="not yet"):
        drive_kept.invoke(graph, {}, config)
    failing.clear()

    assert asked(drive_kept.invoke(graph, None, config)) == ["name?"]
    assert resume(drive_kept, graph, config, "Ann")["words"] == ["Ann", "b", "end"]


@pytest.mark.rule("ask-6")
def test_a_new_input_abandons_what_waits_for_an_answer(drive_kept: Drive) -> None:
    ran = Ran()
    graph, config = drive_kept.keeping(in_a_row(ran, a=None, b="name?")), thread("abandoned questions")
    first = ids(drive_kept.invoke(graph, {"words": ["1"]}, config))
    second = drive_kept.invoke(graph, {"words": ["2"]}, config)

    assert second["words"] == ["1", "a", "2", "a"]
    assert ids(second)["name?"] != first["name?"]
    assert resume(drive_kept, graph, config, "Ann")["words"] == ["1", "a", "2", "a", "Ann"]


@pytest.mark.rule("ask-6")
def test_an_answer_may_come_with_an_update(drive_kept: Drive) -> None:
    def node(state: Words) -> Update:
        return {"words": [f"{interrupt('name?')} {state['last']}"]}

    graph, config = drive_kept.keeping(alone(node)), thread("answer and update")
    drive_kept.invoke(graph, {"last": "old"}, config)

    assert drive_kept.invoke(graph, Command(resume="Ann", update={"last": "new"}), config) == {
        "words": ["Ann new"],
        "count": 0,
        "last": "new",
    }


@pytest.mark.rule("ask-6")
def test_an_answer_that_nobody_has_asked_for_yet_is_taken_by_the_first_who_asks(drive_kept: Drive) -> None:
    failing = [True]

    def fails(_: Words) -> Update:
        if failing:
            raise ValueError("not yet")
        return {"words": [interrupt("1?"), interrupt("2?")]}

    graph, config = drive_kept.keeping(alone(fails)), thread("an early answer")
    with pytest.raises(ValueError, match="not yet"):
        drive_kept.invoke(graph, {}, config)
    failing.clear()

    assert asked(resume(drive_kept, graph, config, "early")) == ["2?"]
    assert resume(drive_kept, graph, config, "two")["words"] == ["early", "two"]
