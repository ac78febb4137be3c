"""A command as a run's input: an update of a thread's state, and where to go on. Pure.

Until the superstep that follows is applied, what a command wrote is kept as pending writes of the checkpoint it was
given on, each command under an id of its own, so that a run that is cut off does not lose it.
"""

from collections.abc import Sequence
from typing import Final, cast

from phalanx.coordinator.apply import TaskWrites, apply_writes
from phalanx.coordinator.plan import Task
from phalanx.coordinator.state import GraphState, NextVersion
from phalanx.errors import EmptyInputError, InvalidUpdateError
from phalanx.protocol.names import INPUT
from phalanx.types import Command, Interrupt, Send, Update
from phalanx.worker.blueprint import Blueprint

_ID_START: Final = "00000000-0000-0000-0000-"


def command_task(number: int) -> Task:
    """The task in whose name the writes of a checkpoint's n-th command are kept, from 0."""
    return Task(f"{_ID_START}{number:012d}", INPUT, (), ())


def is_command_task(task_id: str) -> bool:
    """Whether writes under this id are a command's."""
    return task_id.startswith(_ID_START)


def as_command(given: object) -> "Command[str] | None":
    """A value, if it is a command: a run's input, or what a node returned."""
    return cast("Command[str]", given) if isinstance(given, Command) else None


def targets_of(command: "Command[str]") -> Sequence[object]:
    """Where a command leads: its ``goto`` as a sequence, unchecked."""
    goto: object = command.goto
    return cast("Sequence[object]", goto) if isinstance(goto, (list, tuple)) else (goto,)


def check_command(command: "Command[str]", *, kept: bool) -> None:
    """Refuse what cannot be a run's input.

    Args:
        kept: whether the run's thread is kept, so that there may be questions to answer.

    Raises:
        InvalidUpdateError: it is for a graph above, of which there is none.
        TypeError: its ``goto`` names no nodes.
        RuntimeError: it answers questions, and no thread is kept that could have asked.
        EmptyInputError: it says nothing.
    """
    if command.graph is not None:
        raise InvalidUpdateError(
            f"There is no parent graph: a Command given as a run's input is for the graph itself; got {command!r}"
        )
    targets = targets_of(command)
    for target in targets:
        if not isinstance(target, (str, Send)):
            raise TypeError(
                f"the goto of a Command must be a node's name, a Send, or a sequence of them; "
                f"got {target!r} of type {type(target).__name__}"
            )
    if command.resume is not None:
        if not kept:
            raise RuntimeError(
                "Cannot use Command(resume=...) without checkpointer: no thread is kept that could have asked; compile "
                "with a checkpointer, or on a cluster pass a thread_id"
            )
        answers = cast("object", command.resume)
        addressed = cast("dict[object, object]", answers) if isinstance(answers, dict) else {}
        if any(isinstance(key, Interrupt) for key in addressed):
            raise TypeError("answers are addressed by the ids of questions: Command(resume={interrupt.id: answer})")
    elif not says_more(command):
        raise EmptyInputError(
            "Received an empty Command as input: give it an update, a goto, or an answer (None is none)"
        )


def says_more(command: "Command[str]") -> bool:
    """Whether a command says something beside what it answers."""
    return command.update is not None or bool(targets_of(command))


def apply_command(
    blueprint: Blueprint, state: GraphState, writes: Sequence[Update], next_version: NextVersion
) -> frozenset[str]:
    """Apply a command's writes to the state between two supersteps; what was due before stays due.

    Returns the channels it changed, which the next checkpoint has to store.
    """
    due_before = state.updated
    changed = apply_writes(blueprint, state, [TaskWrites((), INPUT, (), writes)], next_version)
    state.updated = None if due_before is None else due_before | (state.updated or frozenset())
    return changed
