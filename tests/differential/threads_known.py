"""What random threads leave out, since it is known to differ: docs/differences.md says why.

An act that would meet such a difference is changed until it does not, or ends the thread; what a snapshot shows
otherwise is left out of it.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from tests.differential.threads_plans import NAMES, Act, Change, Thread
from tests.differential.threads_running import Done, Looked

_Where = tuple[str, Any, list[Any]]
"""A namespace, a place in its history, and those of the graphs around it."""

_POSITION: Final = re.compile(" <[^>]*>")


@dataclass
class Known:
    """What is known of a thread on which the same is done with both libraries.

    Attributes:
        plan: the thread.
        answered: the checkpoints at which answers were given, by their place in the history.
        loose: those at which one was given without an id.
        commanded: the checkpoints on which commands were given; ``led`` whether one led anywhere.
        updated_inside: those at which the state of a graph inside was updated.
    """

    plan: Thread
    answered: set[int] = field(default_factory=set[int])
    loose: set[int] = field(default_factory=set[int])
    commanded: set[int] = field(default_factory=set[int])
    led: bool = False
    updated_inside: set[int] = field(default_factory=set[int])

    def fitting(self, act: Act, mine: Looked, theirs: Looked) -> Act | None:
        """An act that is the same on both threads, or ``None`` if there is none."""
        newest = len(mine.configs) - 1
        if act.at is not None and mine.configs:
            act = replace(act, at=act.at % len(mine.configs))
        old = act.at is not None and act.at > 0
        place = newest - (act.at or 0)
        if act.do == "update":
            return self._update(act, mine)
        act = replace(act, inside=False)  # theirs begins with the first node of the graph inside
        if act.do != "input" and len(mine.questions) != len(theirs.questions):
            return None  # theirs still shows a question that was answered, if its node failed then, or asks it again
        if act.do != "input" and mine.foreign:
            return None  # theirs takes a graph inside whose state lasts for begun, and drops its input
        if act.do == "command" and not mine.ran:
            act = replace(act, do="input")  # theirs applies the update twice
        if act.at == 0 and not mine.due:
            act = replace(act, at=None)  # theirs makes a copy that nothing comes of
        if act.at == 0 and act.do in ("nothing", "command") and mine.updated and mine.begun:
            act = replace(act, at=None)  # theirs forgets what has been answered there, and keeps what it is to forget
        if act.do in ("answer", "answers") and not mine.questions and not (mine.alone and not self.plan.graph.nests):
            act = replace(act, do="nothing")  # who takes an answer to nobody is luck
        if act.at is not None and act.durability == "exit" and self.plan.graph.nests:
            act = replace(act, durability="sync")  # theirs hangs the state of a graph that begins anew below another
        if act.do in ("nothing", "answers") and not old and place in self.loose:
            if len(mine.questions) > 1:
                return None
            act = replace(act, do="answer")  # theirs would give the last one again, to another question
        if act.do in ("answer", "answers") and place in self.updated_inside:
            act = replace(act, do="nothing")  # theirs runs the graph inside again, which may not ask any more
        if act.do in ("answer", "answers"):
            if self.led and place in self.commanded:
                return None  # theirs does not show who asks
            if mine.failed and place in self.answered:
                return None  # theirs takes the first answer again
            at = act.at or 0
            if old and (not mine.asked[at] or mine.ended[at] or place in self.answered):
                # An answer to nobody goes on from there with theirs; what has finished runs again; and of several
                # answers the first counts.
                act = replace(act, do="nothing")
        if act.do in ("answer", "answers"):
            self.answered.add(place)
            if act.do == "answer" or not mine.questions:
                self.loose.add(place)
        return self._command(act, place) if act.do == "command" else act

    def _command(self, act: Act, place: int) -> Act | None:
        if place in self.commanded:
            return None  # theirs forgets the first of two
        if act.at is not None:
            return act
        if self.plan.graph.nests:
            act = replace(act, gotos=())  # theirs does not show the tasks that it leads to
        self.led = self.led or bool(act.gotos)
        self.commanded.add(place)
        return act

    def _update(self, act: Act, mine: Looked) -> Act | None:
        """Theirs loses what has finished, unless the update is the end; of an older checkpoint, nobody takes it."""
        newest = len(mine.configs) - 1
        if act.inside and mine.inner:
            self.updated_inside.add(newest)
        commanded = newest in self.commanded
        ends = act.changes[0][0].node == "end" and act.changes[0][0].values is None
        if ends and commanded:
            return None
        if ends and mine.configs and (mine.finished or mine.ended[act.at or 0]):
            return replace(act, at=None)
        if not (mine.finished or commanded) or (act.inside and mine.inner):
            return act
        if not act.at and any(self._has_finished(change, mine) for step in act.changes for change in step):
            return None  # theirs makes one result of that task's and the update's
        return act if act.at is not None else replace(act, at=0)

    def _has_finished(self, change: Change, mine: Looked) -> bool:
        """Whether an update may be made in the name of a task that has finished."""
        if not isinstance(change.node, int):
            return change.node in ("none", "copy")
        return NAMES[change.node % len(self.plan.graph.nodes)] in mine.finished

    def told(self, text: str) -> str:
        """What was streamed or returned, without what is known to differ: the positions of questions that theirs does
        not show, since a command has led to who asks them."""
        return _POSITION.sub("", text) if self.led else text

    def comparable(self, snapshot: dict[str, Any], *, live: bool = False) -> dict[str, Any]:
        """A snapshot without what is known to differ."""
        tasks = [self._task(task) for task in snapshot["tasks"]]
        asked: list[str] = snapshot["interrupts"] if tasks == snapshot["tasks"] else []
        namespace, at, around = cast("_Where", snapshot["at"])
        if not namespace and at in self.commanded:
            # Theirs does not show where a command leads that is an input.
            snapshot, tasks, asked = {**snapshot, "next": ()}, [], []
            if live and self.led:
                snapshot["values"] = None
        # Theirs keeps in the outermost graph's address where a graph inside was, if a run was pointed to that one.
        nowhere: list[Any] = []
        above = cast("_Where | None", snapshot["parent"])
        if above is not None:
            above = (*above[:2], above[2] if namespace else nowhere)
        count = snapshot["count"] if asked else 0
        return {
            **snapshot,
            "count": count,
            "at": (namespace, at, around if namespace else nowhere),
            "parent": above,
            "parents": snapshot["parents"] if namespace else nowhere,
            "tasks": tasks,
            "interrupts": asked,
        }

    def _task(self, task: dict[str, Any]) -> dict[str, Any]:
        state = task["state"]
        if isinstance(state, dict):
            state = self.comparable(cast("dict[str, Any]", state))
        # Theirs still shows a question that was answered, if its node failed then, or a breakpoint came next inside.
        stops = state is not None and any(graph.before or graph.after for graph in self.plan.graph.graphs[1:])
        asked: list[str] = task["interrupts"] if task["error"] is None and not stops else []
        return {**task, "state": state, "interrupts": asked}


def is_ambiguous(act: Act, mine: Done, theirs: Done) -> bool:
    """Whether theirs does not know in whose name an update is made, where we do.

    So it is where breakpoints or replays have left their mark, but no node has.
    """
    unnamed = act.do == "update" and any(change.node == "none" for step in act.changes for change in step)
    return unnamed and mine.error != theirs.error and "Ambiguous" in str(theirs.error)


def is_luck(plan: Thread, act: Act, mine: Done, theirs: Done) -> bool:
    """Whether a node failed beside others: which of them come to their end, and which fails first, is luck."""
    if mine.error is None and theirs.error is None:
        return False
    if (
        act.durability == "exit"
        and plan.graph.nests
        and mine.error is not None
        and mine.error[0] == "GraphRecursionError"
    ):
        return True  # theirs does not keep the state of a graph inside that has gone round too often
    hidden = [inner for inner in plan.graph.graphs[1:] if len(inner.nodes) > 1]
    return bool(hidden) or not (mine.looked.alone and theirs.looked.alone)
