"""The team of threads, seen from outside: who runs what, how many at once, and how it ends."""

import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import pytest
from tests.support import wait_until

from phalanx.coordinator.messages import Emit, Event, TaskFailed, TaskFinished
from phalanx.coordinator.plan import Task
from phalanx.coordinator.threads import ThreadTeam
from phalanx.protocol.names import PUSH

LONG_S: Final = 20.0  # longer than anything here takes; only a failing test waits for it


def tasks(count: int) -> list[Task]:
    return [Task(str(index), "n", (PUSH, index), (PUSH,)) for index in range(count)]


def done(task: Task) -> Event:
    return TaskFinished(task.id, [("thread", threading.get_ident())])


def run(team: ThreadTeam, jobs: Sequence[Task], execute: Callable[[Task], Event]) -> Iterator[Event]:
    """Have the team execute these tasks; their events as they come, and one for each."""
    team.submit([(task.id, partial(execute, task)) for task in jobs])
    events = (team.next() for _ in jobs)
    return (event for event in events if event is not None and not isinstance(event, Emit))


def team_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("phalanx-task-")}


@pytest.fixture
def before() -> set[threading.Thread]:
    """Threads that other tests have left; they may end at any time."""
    return team_threads()


@pytest.fixture
def team() -> Iterator[ThreadTeam]:
    made = ThreadTeam()
    yield made
    made.close()


def test_a_lone_task_runs_in_the_calling_thread(team: ThreadTeam, before: set[threading.Thread]) -> None:
    (event,) = run(team, tasks(1), done)

    assert event == TaskFinished("0", [("thread", threading.get_ident())])
    assert team_threads() <= before


def test_no_task_is_no_event(team: ThreadTeam) -> None:
    assert list(run(team, [], done)) == []


def test_several_tasks_run_in_other_threads_and_each_gives_one_event(team: ThreadTeam) -> None:
    events = list(run(team, tasks(500), done))

    assert sorted(int(event.task_id) for event in events) == list(range(500))
    assert threading.get_ident() not in {event.writes[0][1] for event in events if isinstance(event, TaskFinished)}


def test_a_team_serves_one_superstep_after_the_other(team: ThreadTeam) -> None:
    for count in (3, 1, 20, 2):
        assert len(list(run(team, tasks(count), done))) == count


def test_tasks_that_wait_for_one_another_all_run_at_once(team: ThreadTeam) -> None:
    together = threading.Barrier(8)

    def meet(task: Task) -> Event:
        together.wait(LONG_S)
        return done(task)

    events = list(run(team, tasks(8), meet))

    assert all(isinstance(event, TaskFinished) for event in events)
    assert len(events) == 8


def test_the_default_is_many_at_once(team: ThreadTeam) -> None:
    together = threading.Barrier(40)

    def meet(task: Task) -> Event:
        together.wait(LONG_S)
        return done(task)

    assert len(list(run(team, tasks(40), meet))) == 40


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_tasks_run_at_once_than_the_limit(limit: int) -> None:
    team = ThreadTeam(limit)
    lock = threading.Lock()
    running, most = 0, 0
    full = threading.Barrier(limit)

    def count(task: Task) -> Event:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        full.wait(LONG_S)  # the limit is reached, too
        with lock:
            running -= 1
        return done(task)

    assert len(list(run(team, tasks(limit * 4), count))) == limit * 4
    assert most == limit
    team.close()


def test_events_come_as_tasks_end_and_not_in_the_order_of_tasks(team: ThreadTeam) -> None:
    release = threading.Event()

    def first_waits(task: Task) -> Event:
        if task.id == "0":
            assert release.wait(LONG_S)
        return done(task)

    events = run(team, tasks(3), first_waits)

    assert {next(events).task_id, next(events).task_id} == {"1", "2"}
    release.set()
    assert next(events).task_id == "0"


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), ValueError("no")])
def test_a_task_that_raises_whatever_it_may_be_fails_and_the_others_go_on(
    team: ThreadTeam, error: BaseException
) -> None:
    def raise_it(task: Task) -> Event:
        if task.id == "1":
            raise error
        return done(task)

    events = {event.task_id: event for event in run(team, tasks(5), raise_it)}

    assert events["1"] == TaskFailed("1", error)
    assert len(events) == 5
    assert len(list(run(team, tasks(3), done))) == 3


name: contextvars.ContextVar[str] = contextvars.ContextVar("name")


def test_each_task_sees_the_caller_s_context_and_none_sees_what_another_sets(team: ThreadTeam) -> None:
    def set_it(task: Task) -> Event:
        found = name.get()
        name.set(task.id)
        return TaskFinished(task.id, [("found", found)])

    token = name.set("caller")
    events = list(run(team, tasks(50), set_it))

    assert all(event.writes == [("found", "caller")] for event in events if isinstance(event, TaskFinished))
    assert name.get() == "caller"
    name.reset(token)


def test_closing_drops_the_tasks_that_have_not_started_and_ends_the_threads(before: set[threading.Thread]) -> None:
    team = ThreadTeam(2)
    started: list[str] = []
    both, release = threading.Barrier(3), threading.Event()

    def wait(task: Task) -> Event:
        started.append(task.id)
        if len(started) <= 2:
            both.wait(LONG_S)
        assert release.wait(LONG_S)
        return done(task)

    events = run(team, tasks(10), wait)
    reader = threading.Thread(target=lambda: next(events), daemon=True)
    reader.start()
    both.wait(LONG_S)

    team.close()
    release.set()

    reader.join(LONG_S)
    wait_until(lambda: team_threads() <= before, "the threads of the team to end")
    assert len(started) == 2


def test_a_closed_team_can_be_used_again_and_gives_nothing_of_before() -> None:
    team = ThreadTeam()
    events = run(team, tasks(3), done)
    next(events)

    team.close()

    again = run(team, [Task("new", "n", (), ()), Task("newer", "n", (), ())], done)
    assert {event.task_id for event in again} == {"new", "newer"}
    team.close()
