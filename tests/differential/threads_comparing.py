"""Comparing what two threads show on which the same is done."""

import asyncio
from collections import Counter
from typing import Any

from tests.differential.comparing import Different, check_same, check_same_error
from tests.differential.states import LIBRARIES
from tests.differential.threads_known import Known, is_ambiguous, is_luck
from tests.differential.threads_plans import Act, Thread
from tests.differential.threads_running import Done, Looked, Running, View, blocks


def check_same_acts(plan: Thread, mine: Running, theirs: Running) -> None:
    """Do the same on two threads.

    Raises:
        Different: they do not show the same.
    """
    known = Known(plan)
    for number, planned in enumerate(plan.acts):
        act = known.fitting(planned, mine.looked, theirs.looked)
        if act is None:
            return
        here, there = mine.act(number, act), theirs.act(number, act)
        try:
            if not check_same_act(known, act, here, there):
                return
        except Different as error:
            raise Different(f"act {number}, {act}: {error}") from None


def check_same_act(known: Known, act: Act, mine: Done, theirs: Done) -> bool:
    """Compare what an act shows. Returns whether the threads are the same after it."""
    if is_ambiguous(act, mine, theirs):
        return False
    if is_luck(known.plan, act, mine, theirs):
        check_same("whether it failed", mine.error is not None, theirs.error is not None)
        return False
    check_same_error(mine.error, theirs.error)
    result, result_there = (View(done.looked, {}).shown(done.result) for done in (mine, theirs))
    check_same("result", known.told(result), known.told(result_there))
    _check_same_stream(known, act, mine, theirs)
    ran = Counter(theirs.ran)
    if act.do == "answers" and Counter(mine.ran) <= ran:
        ran = Counter(mine.ran)  # theirs runs all again that ask, whether they are answered or not
    check_same("executed", Counter(mine.ran), ran)
    check_same_look(known, mine.looked, theirs.looked)
    return True


def _check_same_stream(known: Known, act: Act, mine: Done, theirs: Done) -> None:
    shown, shown_there = (blocks(done, act.way == "deep") for done in (mine, theirs))
    if act.do == "answers":  # theirs runs all again that ask
        shown_there = {namespace: shown_there[namespace] for namespace in shown if namespace in shown_there}
    check_same("streaming namespaces", sorted(shown), sorted(shown_there))
    for namespace in shown:
        end = -1 if mine.error is not None else None  # which tasks show anything beside one that fails, is luck
        here, there = (known.told(str(each[namespace][:end])) for each in (shown, shown_there))
        check_same(f"stream of {namespace!r}", here, there)


def check_same_look(known: Known, mine: Looked, theirs: Looked) -> None:
    check_same("namespaces", sorted(mine.histories), sorted(theirs.histories))
    for namespace, history in mine.histories.items():
        check_same_snapshots(known, f"history of {namespace!r}", history, theirs.histories[namespace])
    check_same_snapshots(known, "state", [mine.state], [theirs.state], live=True)
    check_same_snapshots(known, "shallow state", [mine.shallow], [theirs.shallow], live=True)


def check_same_snapshots(known: Known, what: str, mine: list[Any], theirs: list[Any], *, live: bool = False) -> None:
    if len(mine) != len(theirs):
        short = [[(each["source"], each["step"], each["parent"]) for each in side] for side in (mine, theirs)]
        check_same(what, *short)
    for here, there in zip(mine, theirs, strict=True):
        if here is None or there is None:
            check_same(what, here, there)
            continue
        shown, shown_there = (known.comparable(each, live=live) for each in (here, there))
        for key in shown:
            check_same(f"{key} of {what} at {here['at']}", shown[key], shown_there[key])


def difference(plan: Thread, loop: asyncio.Runner | None = None) -> str | None:
    """How a thread differs, if it does."""
    mine, theirs = (Running(name, plan, loop) for name in LIBRARIES)
    try:
        check_same_acts(plan, mine, theirs)
    except Different as error:
        return str(error)
    return None
