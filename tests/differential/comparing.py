"""Comparing what two runs of one random graph show."""

import asyncio
import re
from dataclasses import replace
from typing import Any

from tests.differential.plans import NAMES, GraphPlan
from tests.differential.running import AnyPlan, ErrorText, Running, Shown
from tests.differential.states import LIBRARIES

_OF_A_STEP = ("At key", "Can receive only one Overwrite")
_NO_KEY = "At key ''"  # channels of bare graphs do not know their names there
_HANDLER = "error_handler__"
_CACHED = "'__metadata__': {'cached': True}"
_OF_A_PATH = re.compile(r"(?P<inside>(\w/)*)\w+'s handler of (?P<node>\w): (TypeError$|\d+ validation error)")
_OF_A_RUN = ("GraphRecursionError", "EmptyInputError")


class Different(AssertionError):
    """Two runs of one graph show different things."""


def check_same(what: str, mine: object, theirs: object) -> None:
    if mine != theirs:
        raise Different(f"{what}:\n  mine:   {mine}\n  theirs: {theirs}")


def step_of_a_handled_path(plan: AnyPlan, shown: Shown) -> int | None:
    """The step in which an error handler was told that a path could not be given the state, if one was.

    With theirs, what the path's node wrote is kept, although its handler has answered for it; so all that follows
    differs. No node raises such an error. That of a path inside a graph inside may have come in the first step.
    """
    steps = [
        0 if told["inside"] else step
        for step, name, _ in shown.executed
        if (told := _OF_A_PATH.match(name)) and _has_path(plan, told["inside"], told["node"])
    ]
    return min(steps, default=None)


def _has_path(plan: AnyPlan, inside: str, name: str) -> bool:
    """Whether a node has a conditional edge; ``inside`` names the nodes around it."""
    if not isinstance(plan, GraphPlan):
        return False
    for place in map(NAMES.index, inside.replace("/", "")):
        plan = plan.nodes[place].inner or plan
    sources = [branch.source % len(plan.nodes) for branch in plan.branches if branch.source >= 0]
    return NAMES.index(name) in sources


def check_same_error(mine: ErrorText | None, theirs: ErrorText | None) -> None:
    """The same kind; our text begins with the first sentence of theirs and may say more."""
    if mine is None or theirs is None or mine[0] != theirs[0]:
        check_same("error", mine, theirs)
    elif not mine[1].startswith(theirs[1].split(". ")[0].rstrip(".")) and not theirs[1].startswith(_NO_KEY):
        check_same("text of the error", mine, theirs)


def in_a_task(plan: AnyPlan, shown: Shown) -> bool:
    """Whether a node failed, rather than a superstep's writes or the run; with graphs inside, it may have."""
    error = shown.error
    if error is None or plan.nests:
        return error is not None
    return error[0] not in _OF_A_RUN and not error[1].startswith(_OF_A_STEP)


def check_same_run(plan: AnyPlan, mine: Shown, theirs: Shown) -> None:
    """Compare two runs."""
    step = step_of_a_handled_path(plan, mine)
    if step is not None:
        # Of all that is shown, only this tells of which step it is.
        if not plan.caches:
            check_same("executed before a path failed", _before(mine, step), _before(theirs, step))
        return
    _check_same_failure(plan, mine, theirs)
    _check_same_values(mine, theirs)
    if _cannot_be_read(theirs):
        return
    if in_a_task(plan, mine):
        check_same("updates before the failure", _updates(plan, mine)[:-1], _updates(plan, theirs)[:-1])
        if not plan.caches:
            last = max(_last_step(mine), _last_step(theirs))
            check_same("executed before the failure", _before(mine, last), _before(theirs, last))
        return
    shown, shown_there = _updates(plan, mine), _updates(plan, theirs)
    if mine.error is not None and len(shown) == len(shown_there) and {*shown_there[-1]} <= {*shown[-1]}:
        # Theirs may lose the last update of a step whose writes contradict each other.
        shown, shown_there = shown[:-1], shown_there[:-1]
    check_same("updates", shown, shown_there)
    luck = plan.goes_up or bool(mine.raised or theirs.raised)
    ran, ran_there = _executed(plan, mine, luck), _executed(plan, theirs, luck)
    if not (plan.caches and (ran <= ran_there or ran_there <= ran)):
        check_same("executed", ran, ran_there)
    if theirs.state is not None and (mine.error is None or not plan.unclear_next):
        check_same("state", _shown_there(plan, mine.state), _shown_there(plan, theirs.state))


def _check_same_failure(plan: AnyPlan, mine: Shown, theirs: Shown) -> None:
    """Compare errors. When several tasks of a step fail, which error theirs raises is a matter of timing."""
    meant = theirs.error in [*mine.raised, *theirs.raised] or _cannot_be_read(theirs)
    either = plan.nests and (_graphs_beside(plan, mine) or mine.error in mine.raised or theirs.error in theirs.raised)
    if not (mine.error in mine.raised and meant) and not (either and mine.error and theirs.error):
        check_same_error(mine.error, theirs.error)


def _graphs_beside(plan: AnyPlan, shown: Shown) -> bool:
    """Whether several graphs inside may have failed in one step."""
    if shown.state is None or not isinstance(plan, GraphPlan):
        return plan.nests_often
    inner = {NAMES[number]: node.inner for number, node in enumerate(plan.nodes) if node.inner}
    tasks = [name for name, *_ in shown.state["tasks"] if name in inner]
    return len(tasks) > 1 or any(inner[name].nests_often for name in tasks)


def _updates(plan: AnyPlan, shown: Shown) -> list[list[str]]:
    """The updates without those of error handlers in an earlier run, which theirs does not show again."""
    blocks = [[each for each in block if not (_HANDLER in each and _CACHED in each)] for block in shown.updates]
    if not plan.caches:
        return blocks
    return [sorted(each.replace(f"{_CACHED}, ", "").replace(f", {_CACHED}", "") for each in block) for block in blocks]


def _executed(plan: AnyPlan, shown: Shown, luck: bool) -> Any:
    """The tasks that ran, but for what is luck.

    That is a hit in the same run of a cache, which theirs fills in the background, and what still runs in an inner
    graph that a task beside it ends.
    """
    outer = [each for each in shown.executed if not (luck and "/" in each[1])]
    return {each[1:] for each in outer} if plan.caches else outer


def _shown_there(plan: AnyPlan, state: dict[str, Any]) -> dict[str, Any]:
    """A state without what theirs may not show well."""
    if not plan.unclear_next:
        return state
    return {key: value for key, value in state.items() if key not in ("next", "tasks")}


def _check_same_values(mine: Shown, theirs: Shown) -> None:
    if _cannot_be_read(theirs):
        # Theirs loses what it was about to show when the next step's tasks cannot be given their input.
        check_same("first values", mine.values[: len(theirs.values)], theirs.values)
    else:
        check_same("values", mine.values, theirs.values)


def _cannot_be_read(shown: Shown) -> bool:
    return shown.error is not None and shown.error[0] == "ValidationError"


def _last_step(shown: Shown) -> int:
    """The last step of which a task was seen.

    Whether one that fails in a graph inside is the first of its step to be seen, or the only one, is luck: what runs
    beside it may not have begun.
    """
    return max((step for step, name, _ in shown.executed if "/" not in name), default=0)


def _before(shown: Shown, last: int) -> list[tuple[int, str, str]]:
    return [each for each in shown.executed if each[0] < last and "/" not in each[1]]


def check_same_behaviour(plan: AnyPlan, loop: asyncio.Runner | None = None) -> None:
    """Run a graph with both libraries, over all its turns, and on after failures.

    Raises:
        Different: they do not show the same.
    """
    mine, theirs = (Running(name, plan, loop) for name in LIBRARIES)
    check_same_turns(plan, mine, theirs)


def check_same_turns(plan: AnyPlan, mine: Running, theirs: Running) -> None:
    """Run all turns of a graph in two ways."""
    if not plan.keep:
        for turn in plan.turns:
            check_same_run(plan, mine.turn(turn), theirs.turn(turn))
        return
    step: int | None = None
    failed = False
    for turn in plan.turns:
        # Of two commands that are given on one checkpoint, theirs forgets the first.
        # And it does not run a node again that a command leads to after it finished in a step that failed.
        barred = failed or step == mine.step
        given = replace(turn, as_command=False) if turn.as_command and barred else turn
        if given.as_command:
            step = mine.step
        shown, shown_there = mine.turn(given), theirs.turn(given)
        check_same_run(plan, shown, shown_there)
        failed = shown.error is not None
        if _cannot_be_read(shown) or _cannot_be_read(shown_there):
            # Theirs refuses a new input too, since the old one did not fit the state; and it does not ask a path again.
            return
        if step_of_a_handled_path(plan, shown) is not None:
            return
        if shown.error is not None and (plan.handles or (mine.loop is not None and _many_tasks(shown))):
            # Theirs may run error handlers again that had finished, and, on an event loop, takes what a cancelled task
            # had written by then for all that it writes.
            return
        if not in_a_task(plan, shown):
            continue
        if not turn.recover and not _many_tasks(shown):
            continue
        shown, shown_there = mine.go_on(), theirs.go_on()
        if step_of_a_handled_path(plan, shown) is not None:
            return
        _check_same_failure(plan, shown, shown_there)
        _check_same_values(shown, shown_there)
        if in_a_task(plan, shown):
            return
    shown, shown_there = mine.run(None), theirs.run(None)
    check_same_run(plan, shown, shown_there)
    if step_of_a_handled_path(plan, shown) is not None:
        return
    history, history_there = mine.history() or (), theirs.history()
    if history_there is not None:
        shown_here = [_shown_there(plan, each) for each in history]
        check_same("history", shown_here, [_shown_there(plan, each) for each in history_there])


def _many_tasks(shown: Shown) -> bool:
    state: Any = shown.state
    return state is None or len(state["tasks"]) > 1


def difference(plan: AnyPlan, loop: asyncio.Runner | None = None) -> str | None:
    """How a graph differs, if it does."""
    try:
        check_same_behaviour(plan, loop)
    except Different as error:
        return str(error)
    return None
