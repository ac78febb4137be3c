"""Answers to what tasks have asked: whom each is for. Pure.

A task's answers are kept as a list, in the order of its questions, among the writes pending on its checkpoint; the id
of its n-th question is worked out from its place in the thread. So an answer finds its task without a record of who
asked what. Only what a graph inside of a task asked is known from the task's own record; that graph finds its task in
turn.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from phalanx.coordinator.plan import Task
from phalanx.errors import UnknownInterruptError
from phalanx.types import Interrupt
from phalanx.worker.lineage import task_namespace
from phalanx.worker.questions import NOT_ANSWERED, is_answer, question_id

MOST_PASSED_OVER: Final = 64
"""Questions of one task that may be asked, and not shown, before one that is shown."""

_ID: Final = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is known of the questions of a checkpoint's tasks.

    Attributes:
        namespace: of the graph.
        questions: what each task has asked and waits for, that of graphs inside of it included.
        answers: what each task was answered before.
        finished: the tasks that have come to their end.
    """

    namespace: str
    questions: Mapping[str, Sequence[Interrupt]]
    answers: Mapping[str, Sequence[object]]
    finished: frozenset[str]


@dataclass(frozen=True, slots=True)
class Answers:
    """What a run was answered.

    Attributes:
        by_id: by the id of the question.
        own: the tasks that were answered themselves, with all their answers so far.
        tasks: the tasks that were answered, or in which a graph was.
        loose: an answer without a question, if there is one.
    """

    by_id: Mapping[str, object] = field(default_factory=dict[str, object])
    own: Mapping[str, Sequence[object]] = field(default_factory=dict[str, Sequence[object]])
    tasks: frozenset[str] = frozenset()
    loose: tuple[object, ...] = ()


NO_ANSWERS: Final = Answers()


def is_map(resume: object) -> bool:
    """Whether an answer is addressed: a dict whose keys are all ids of questions."""
    if not isinstance(resume, dict):
        return False
    keys = cast("dict[object, object]", resume)
    return all(isinstance(key, str) and _ID.fullmatch(key) for key in keys)


def match_answers(resume: object, tasks: Sequence[Task], asked: Asked, *, again: bool) -> Answers:
    """Find out whom an answer is for.

    Args:
        resume: one answer, or answers by id.
        tasks: those of the superstep.
        asked: what is known of their questions.
        again: whether the thread has gone on from here before, so that questions answered then may be answered anew.

    Raises:
        UnknownInterruptError: nobody waits for the answer to a question of that id.
        RuntimeError: the answer is not addressed, and several wait for one.
    """
    if is_map(resume):
        given = cast("dict[str, object]", resume)
        return _matched(given, tasks, asked, again=again, lenient=False)
    waiting = {question.id for task in tasks for question in open_questions(task, asked, again=again)}
    if len(waiting) > 1:
        raise RuntimeError(
            "When there are multiple pending interrupts, you must specify the interrupt id when resuming: "
            f"Command(resume={{id: answer}}); pending are {', '.join(sorted(waiting))}"
        )
    if not waiting:
        return Answers(loose=(resume,))
    return _matched({waiting.pop(): resume}, tasks, asked, again=again, lenient=False)


def inherited_answers(given: Mapping[str, object], tasks: Sequence[Task], asked: Asked, *, again: bool) -> Answers:
    """What a graph inside has of the answers its outermost run was given; others are for others."""
    return _matched(given, tasks, asked, again=again, lenient=True) if given else NO_ANSWERS


def open_questions(task: Task, asked: Asked, *, again: bool = False) -> Sequence[Interrupt]:
    """What a task waits for an answer to.

    Args:
        task: the task.
        asked: what is known of questions.
        again: whether it may be answered anew: then what it has last asked.
    """
    questions = asked.questions.get(task.id, ())
    if again:
        return questions
    if task.id in asked.finished:
        return ()
    known = asked.answers.get(task.id, ())
    answered = {_own_id(task, asked, number) for number, answer in enumerate(known) if is_answer(answer)}
    return [question for question in questions if question.id not in answered]


def _own_id(task: Task, asked: Asked, number: int) -> str:
    return question_id(task_namespace(asked.namespace, task.name, task.id), number)


def _with_answer(known: Sequence[object], number: int, answer: object) -> Sequence[object]:
    """A task's answers, with one more: what was answered after it is asked again, unless it was only passed over."""
    if number >= len(known):
        return [*known, *[NOT_ANSWERED] * (number - len(known)), answer]
    after = () if is_answer(known[number]) else known[number + 1 :]
    return [*known[:number], answer, *after]


def _matched(
    given: Mapping[str, object], tasks: Sequence[Task], asked: Asked, *, again: bool, lenient: bool
) -> Answers:
    own: dict[str, Sequence[object]] = {}
    concerned: set[str] = set()
    left = {*given}
    for task in tasks:
        known = asked.answers.get(task.id, ())
        if task.id in asked.finished and not again:
            continue
        inside = {question.id for question in asked.questions.get(task.id, ())} & given.keys()
        most = len(known) + (MOST_PASSED_OVER if inside else 1)
        for number in range(most):
            identity = _own_id(task, asked, number)
            if identity in given:
                own[task.id] = _with_answer(known, number, given[identity])
                concerned.add(task.id)
                left.discard(identity)
                break
        if inside:
            concerned.add(task.id)
            left -= inside
    if left and not lenient:
        waiting = sorted({question.id for task in tasks for question in open_questions(task, asked)})
        raise UnknownInterruptError(
            f"no question with the id {', '.join(sorted(left))} waits for an answer (it is unknown, or answered and "
            f"dealt with); pending are: {', '.join(waiting) or 'none'}"
        )
    return Answers(given, own, frozenset(concerned))
