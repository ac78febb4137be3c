"""Comparing what two threads show on which the same is done."""

import asyncio
from collections import Counter
from typing import Any

from tests.differential.comparing import Different, check_same, check_same_error
from tests.differential.states import LIBRARIES
from tests.differential.threads_known import Known, comparable, is_ambiguous, is_luck
from tests.differential.threads_plans import Act, Thread
from tests.differential.threads_running import Done, Looked, Running, View, blocks


def check_same_acts(plan: Thread, mine: Running, theirs: Running) -> None:
    """Do the same on two threads.

    Raises:
        Different: they do not show the same.
    """
    known = Known()
    for number, planned in enumerate(plan.acts):
        act = known.fitting(planned, mine.looked, theirs.looked)
        if act is None:
            return
        here, there = mine.act(number, act), theirs.act(number, act)
        try:
            if not check_same_act(plan, act, here, there):
                return
        except Different as error:
            raise Different(f"act {number}, {act}: {error}") from None


def check_same_act(plan: Thread, act: Act, mine: Done, theirs: Done) -> bool:
    """Compare what an act shows. Returns whether the threads are the same after it."""
    if is_ambiguous(act, mine, theirs):
        return False
    if is_luck(plan, mine, theirs):
        check_same("kind of error", mine.error and mine.error[0], theirs.error and theirs.error[0])
        return False
    check_same_error(mine.error, theirs.error)
    check_same("result", View(mine.looked, {}).shown(mine.result), View(theirs.looked, {}).shown(theirs.result))
    _check_same_stream(act, mine, theirs)
    ran = Counter(theirs.ran)
    if act.do == "answers" and Counter(mine.ran) <= ran:
        ran = Counter(mine.ran)  # theirs runs all again that ask, whether they are answered or not
    check_same("executed", Counter(mine.ran), ran)
    check_same_look(mine.looked, theirs.looked)
    return True


def _check_same_stream(act: Act, mine: Done, theirs: Done) -> None:
    shown, shown_there = (blocks(done, act.way == "deep") for done in (mine, theirs))
    check_same("streaming namespaces", sorted(shown), sorted(shown_there))
    for namespace in shown:
        end = -1 if mine.error is not None else None  # which tasks show anything beside one that fails, is luck
        check_same(f"stream of {namespace!r}", shown[namespace][:end], shown_there[namespace][:end])


def check_same_look(mine: Looked, theirs: Looked) -> None:
    check_same("namespaces", sorted(mine.histories), sorted(theirs.histories))
    for namespace, history in mine.histories.items():
        check_same_snapshots(f"history of {namespace!r}", history, theirs.histories[namespace])
    check_same_snapshots("state", [mine.state], [theirs.state])
    check_same_snapshots("shallow state", [mine.shallow], [theirs.shallow])


def check_same_snapshots(what: str, mine: list[Any], theirs: list[Any]) -> None:
    if len(mine) != len(theirs):
        short = [[(each["source"], each["step"], each["parent"]) for each in side] for side in (mine, theirs)]
        check_same(what, *short)
    for here, there in zip(mine, theirs, strict=True):
        for key in here or ():
            check_same(f"{key} of {what} at {here['at']}", comparable(here)[key], comparable(there)[key])


def difference(plan: Thread, loop: asyncio.Runner | None = None) -> str | None:
    """How a thread differs, if it does."""
    mine, theirs = (Running(name, plan, loop) for name in LIBRARIES)
    try:
        check_same_acts(plan, mine, theirs)
    except Different as error:
        return str(error)
    return None
