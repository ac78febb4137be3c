"""What random threads leave out, since it is known to differ: docs/differences.md says why.

An act that would meet such a difference is changed until it does not, or ends the thread; what a snapshot shows
otherwise is left out of it.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from tests.differential.threads_plans import Act, Thread
from tests.differential.threads_running import Done, Looked


@dataclass
class Known:
    """What is known of a thread on which the same is done with both libraries.

    Attributes:
        answered: the checkpoints at which answers were given, by their place in the history.
        loose: the checkpoint at which an answer was last given without an id.
        commanded: the checkpoints on which commands were given.
    """

    answered: set[int] = field(default_factory=set[int])
    loose: int = -1
    commanded: set[int] = field(default_factory=set[int])

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
        if act.do != "input" and mine.foreign:
            return None  # theirs takes a graph inside whose state lasts for begun, and drops its input
        if act.do == "command" and not mine.configs:
            act = replace(act, do="input")  # theirs applies the update twice
        if act.at == 0 and not mine.due:
            act = replace(act, at=None)  # theirs makes a copy that nothing comes of
        if act.at == 0 and act.do in ("nothing", "command") and mine.updated and mine.begun:
            act = replace(act, at=None)  # theirs forgets what has been answered there, and keeps what it is to forget
        if act.do in ("answer", "answers"):
            if len(mine.questions) != len(theirs.questions):
                return None  # theirs still shows a question that was answered, if its node failed then
            at = act.at or 0
            if old and (not mine.asked[at] or mine.ended[at] or place in self.answered):
                # An answer to nobody goes on from there with theirs; what has finished runs again; and of several
                # answers the first counts.
                act = replace(act, do="nothing")
        if act.do in ("nothing", "answers") and not old and self.loose == place:
            if len(mine.questions) > 1:
                return None
            act = replace(act, do="answer")  # theirs would give the last one again, to another question
        if act.do in ("answer", "answers"):
            self.answered.add(place)
            if act.do == "answer" or not mine.questions:
                self.loose = place
        return act

    def _update(self, act: Act, mine: Looked) -> Act:
        """Theirs loses what has finished, unless the update is the end; of an older checkpoint, nobody takes it."""
        ends = act.changes[0][0].node == "end" and act.changes[0][0].values is None
        if ends and mine.configs and (mine.finished or mine.ended[act.at or 0]):
            return replace(act, at=None)
        if not mine.finished or act.inside:
            return act
        return act if act.at is not None else replace(act, at=0)


def comparable(snapshot: dict[str, Any]) -> dict[str, Any]:
    """A snapshot without what is known to differ."""
    tasks = [_task(task) for task in snapshot["tasks"]]
    asked = snapshot["interrupts"] if tasks == snapshot["tasks"] else []
    namespace, at, around = snapshot["at"]
    # Theirs keeps in the outermost graph's address where a graph inside was, if a run was pointed to that one.
    here = namespace, at, around if namespace else []
    parents = snapshot["parents"] if namespace else []
    above = snapshot["parent"] and (*snapshot["parent"][:2], here[2] and snapshot["parent"][2])
    count = snapshot["count"] if tasks == snapshot["tasks"] else 0
    return {
        **snapshot,
        "count": count,
        "at": here,
        "parent": above,
        "parents": parents,
        "tasks": tasks,
        "interrupts": asked,
    }


def _task(task: dict[str, Any]) -> dict[str, Any]:
    state = task["state"]
    if isinstance(state, dict):
        state = comparable(state)  # pyright: ignore[reportUnknownArgumentType]
    # Theirs still shows a question that was answered, if its node failed then.
    asked = task["interrupts"] if task["error"] is None else []
    return {**task, "state": state, "interrupts": asked}


def is_ambiguous(act: Act, mine: Done, theirs: Done) -> bool:
    """Whether theirs does not know in whose name an update is made, where we do.

    So it is where breakpoints or replays have left their mark, but no node has.
    """
    unnamed = act.do == "update" and any(change.node == "none" for step in act.changes for change in step)
    return unnamed and mine.error is None and theirs.error is not None and theirs.error[1].startswith("Ambiguous")


def is_luck(plan: Thread, mine: Done, theirs: Done) -> bool:
    """Whether a node failed beside others: which of them come to their end, and which fails first, is luck."""
    if mine.error is None and theirs.error is None:
        return False
    hidden = [inner for inner in plan.graph.graphs[1:] if len(inner.nodes) > 1]
    return bool(hidden) or not (mine.looked.alone and theirs.looked.alone)
