"""Answers find the tasks that they are for."""

from collections.abc import Sequence

import pytest

from phalanx.coordinator.answers import NO_ANSWERS, Asked, inherited_answers, is_map, match_answers, open_questions
from phalanx.coordinator.plan import Task
from phalanx.errors import UnknownInterruptError
from phalanx.protocol.names import PULL
from phalanx.types import Interrupt
from phalanx.worker.lineage import task_namespace
from phalanx.worker.questions import question_id

A, B = (Task(f"id-{name}", name, (PULL, name), ("t",)) for name in "ab")
STRANGER = "f" * 32


def asks(task: Task, number: int = 0) -> Interrupt:
    """The question that a task asks for the n-th time."""
    return Interrupt(f"{task.name}{number}?", question_id(task_namespace("", task.name, task.id), number))


def asked(
    *questions: tuple[Task, Sequence[Interrupt]], answers: dict[str, Sequence[object]] | None = None, finished: str = ""
) -> Asked:
    done = frozenset([finished] if finished else [])
    return Asked("", {task.id: each for task, each in questions}, answers or {}, done)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [({}, True), ({STRANGER: 1}, True), ({STRANGER: 1, "a": 1}, False), ({1: 1}, False), ({"F" * 32: 1}, False)],
)
def test_a_dict_whose_keys_are_all_ids_is_addressed(answer: object, expected: bool) -> None:
    assert is_map(answer) is expected


def test_an_answer_is_for_the_only_question() -> None:
    found = match_answers("yes", [A, B], asked((A, [asks(A)])), again=False)

    assert found.own == {A.id: ["yes"]}
    assert found.by_id == {asks(A).id: "yes"}
    assert found.tasks == {A.id}


def test_an_answer_comes_behind_those_that_the_task_has() -> None:
    known = asked((A, [asks(A, 1)]), answers={A.id: ["first"]})

    assert match_answers("second", [A], known, again=False).own == {A.id: ["first", "second"]}


def test_an_answer_is_for_nobody_in_particular_where_nothing_is_asked() -> None:
    found = match_answers("early", [A], asked(), again=False)

    assert (found.loose, found.own, found.tasks) == (("early",), {}, frozenset())


def test_an_answer_that_may_be_for_several_is_refused_and_names_them() -> None:
    with pytest.raises(RuntimeError, match="multiple pending interrupts") as caught:
        match_answers("yes", [A, B], asked((A, [asks(A)]), (B, [asks(B)])), again=False)

    assert asks(A).id in str(caught.value)
    assert asks(B).id in str(caught.value)


def test_addressed_answers_find_their_tasks_and_leave_others_alone() -> None:
    found = match_answers({asks(B).id: "b"}, [A, B], asked((A, [asks(A)]), (B, [asks(B)])), again=False)

    assert found.own == {B.id: ["b"]}
    assert found.tasks == {B.id}


def test_a_question_of_a_graph_inside_concerns_its_task_and_is_no_answer_of_its_own() -> None:
    inner = Interrupt("inside?", "1" * 32)
    found = match_answers({inner.id: "yes"}, [A, B], asked((A, [inner])), again=False)

    assert found.own == {}
    assert found.tasks == {A.id}
    assert found.by_id == {inner.id: "yes"}


def test_an_answer_to_nobody_is_refused_and_one_for_a_graph_around_is_not() -> None:
    known = asked((A, [asks(A)]))
    with pytest.raises(UnknownInterruptError, match=STRANGER):
        match_answers({asks(A).id: 1, STRANGER: 2}, [A], known, again=False)

    assert inherited_answers({asks(A).id: 1, STRANGER: 2}, [A], known, again=False).own == {A.id: [1]}
    assert inherited_answers({}, [A], known, again=False) is NO_ANSWERS


def test_a_finished_task_is_answered_only_where_the_thread_has_gone_on() -> None:
    known = asked((A, [asks(A)]), answers={A.id: ["old"]}, finished=A.id)
    with pytest.raises(UnknownInterruptError):
        match_answers({asks(A).id: "new"}, [A], known, again=False)

    assert match_answers({asks(A).id: "new"}, [A], known, again=True).own == {A.id: ["new"]}
    assert match_answers("new", [A], known, again=True).own == {A.id: ["new"]}


def test_an_earlier_question_may_be_answered_anew_and_what_came_after_it_is_forgotten() -> None:
    known = asked((A, [asks(A, 2)]), answers={A.id: ["one", "two"]})

    assert match_answers({asks(A, 0).id: "another"}, [A], known, again=False).own == {A.id: ["another"]}


def test_a_question_is_open_until_it_is_answered() -> None:
    first = asked((A, [asks(A)]))
    answered = asked((A, [asks(A)]), answers={A.id: ["yes"]})
    finished = asked((A, [asks(A)]), finished=A.id)

    assert open_questions(A, first) == [asks(A)]
    assert not open_questions(A, answered)
    assert not open_questions(A, finished)
    assert open_questions(A, finished, again=True) == [asks(A)]
    assert not open_questions(B, first)
