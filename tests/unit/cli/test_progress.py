"""What the views say of a run."""

import io

import pytest
from rich.console import Console

from phalanx.cli.lines import LineView
from phalanx.cli.live import LiveView
from phalanx.cli.progress import Place, Progress, duration


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lines(place: Place | None = None) -> tuple[LineView, list[str], Clock]:
    written: list[str] = []
    clock = Clock()
    return LineView("g", place or Place(), written.append, clock), written, clock


def end(view: Progress, times: int = 1, *, failed: bool = False) -> None:
    for number in range(times):
        view.task_ended(view.step, "work", f"{number}", worker="host:1", failed=failed)


def test_a_step_has_a_line_at_its_start_and_one_at_its_end() -> None:
    view, written, clock = lines()
    view.step_started(1, 2, ["work"])
    clock.now += 0.5
    end(view, 2)
    assert written == ["g: superstep 1 (work): 2 tasks", "g: superstep 1 (work): done, 2 tasks in 0.50 s"]


def test_a_long_step_has_a_line_every_two_seconds_at_most() -> None:
    view, written, clock = lines()
    view.step_started(1, 100, ["work"])
    for _ in range(45):
        clock.now += 0.125
        end(view)
    assert written[1:] == [
        "g: superstep 1 (work): 16 of 100 tasks, 8.0/s, 2.00 s",
        "g: superstep 1 (work): 32 of 100 tasks, 8.0/s, 4.00 s",
    ]


def test_the_step_that_takes_the_input_is_not_shown() -> None:
    view, written, _ = lines()
    view.step_started(0, 1, ["__start__"])
    view.task_ended(0, "__start__", "0", worker=None, failed=False)
    assert written == []
    assert view.summary.startswith("g: 0 supersteps, 0 tasks")


def test_failures_are_counted() -> None:
    view, written, _ = lines()
    view.step_started(1, 1, ["work"])
    end(view, failed=True)
    assert written[-1].endswith("1 failed")


def test_waiting_says_for_what_how_long_and_what_to_do() -> None:
    view, written, _ = lines(Place(start_hint="phalanx worker --url redis://h:1"))
    view.waiting_for_workers("fast", 6.0)
    assert written == [
        "g: no live worker serves queue 'fast' (waited 6 s); start one: phalanx worker --url redis://h:1"
    ]


def test_the_workers_of_a_local_cluster_are_starting_before_they_are_missing() -> None:
    view, written, clock = lines(Place(local_workers=2))
    clock.now += 1
    view.waiting_for_workers("phalanx", 1.0)
    view.workers_changed("phalanx", 2, ["vm"])
    assert written == ["g: starting 2 local workers (1 s)", "g: 2 workers on vm"]
    assert view.waiting == ""


def test_lost_workers_are_told_of() -> None:
    view, written, _ = lines()
    view.worker_lost("vm:12:ab", 1)
    assert written == ["g: worker process vm:12:ab is gone; 1 task handed out again"]


def test_many_nodes_are_cut_short() -> None:
    view, _, _ = lines()
    view.step_started(1, 6, list("abcdef"))
    assert view.shown_nodes == "a, b, c, d and 2 more"


@pytest.mark.parametrize(("seconds", "text"), [(0.4242, "0.42 s"), (12.34, "12.3 s"), (187, "3:07"), (7205, "2:00:05")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_lines_tell_the_first_supersteps_one_by_one_and_then_only_once_in_a_while() -> None:
    view, written, clock = lines()
    for step in range(1, 1001):
        clock.now += 0.01
        view.step_started(step, 1, ["work"])
        end(view, 1)
    assert sum("superstep 20 " in line for line in written) == 2
    assert len(written) < 2 * 20 + 10


def test_the_live_view_shows_step_tasks_workers_and_what_it_waits_for() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=140, color_system=None)
    view = LiveView("census", Place(start_hint="phalanx worker"), console)
    view.step_started(2, 10, ["count"])
    view.workers_changed("phalanx", 4, ["a", "b"])
    end(view, 3)
    with console.capture() as captured:
        console.print(view.render())
    for part in ("census", "superstep 2", "count", "3/10", "4 workers on 2 hosts"):
        assert part in captured.get()
    view.waiting_for_workers("phalanx", 6.0)
    with console.capture() as captured:
        console.print(view.render())
    assert "no live worker serves queue 'phalanx' (waited 6 s)" in captured.get()


def test_the_live_view_takes_itself_away() -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80)
    with LiveView("g", Place(), console) as view:
        view.step_started(1, 1, ["work"])
        view.note("a line that stays \x1b[31m")
        with view.above():
            output.write("OUT")
    written = output.getvalue()
    assert "a line that stays \\x1b[31m" in written
    assert written.endswith("\x1b[2K")
