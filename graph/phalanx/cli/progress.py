"""What is known of a run while it runs. Views show it; this only keeps count."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Self

from phalanx.constants import START
from phalanx.coordinator.observe import RunObserver

_LOCAL_START_S: Final = 15.0
_NODES_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Place:
    """Where a run's tasks go, for messages.

    Attributes:
        local_workers: how many workers a local cluster has; 0 if it is not one.
        start_hint: the command that starts a worker for the graph.
    """

    local_workers: int = 0
    start_hint: str = ""


class Progress(RunObserver):
    """Counts what happens to a run. The step that only takes the input is left out.

    Args:
        name: the run's graph.
        place: where its tasks go.
        clock: monotonic seconds.
    """

    def __init__(self, name: str, place: Place, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self.place = place
        self.clock = clock
        self.began = clock()
        self.step = 0
        self.nodes: Sequence[str] = ()
        self.tasks = 0
        self.done = 0
        self.failed = 0
        self.step_began = self.began
        self.steps_seen = 0
        self.tasks_seen = 0
        self.processes = 0
        self.hosts: Sequence[str] = ()
        self.used = set[str]()
        self.queue = ""
        self.waiting_since: float | None = self.began if place.local_workers else None

    # --- what views do ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Take the view away."""

    def note(self, text: str) -> None:
        """Show a line that stays."""

    def above(self) -> AbstractContextManager[object]:
        """While in this context, something else may write to the terminal."""
        return nullcontext()

    # --- hooks --------------------------------------------------------------------------------------------------------

    def step_started(self, step: int, tasks: int, nodes: Sequence[str]) -> None:
        if is_input_step(nodes):
            return
        self.step, self.tasks, self.nodes = step, tasks, nodes
        self.done = self.failed = 0
        self.step_began = self.clock()
        self.steps_seen += 1

    def task_ended(self, step: int, node: str, task_id: str, *, worker: str | None, failed: bool) -> None:
        self.waiting_since = None
        if node == START:
            return
        self.done += 1
        self.failed += failed
        self.tasks_seen += 1
        if worker is not None:
            self.used.add(worker)

    def workers_changed(self, queue: str, processes: int, hosts: Sequence[str]) -> None:
        self.queue, self.processes, self.hosts = queue, processes, hosts
        if processes:
            self.waiting_since = None

    def waiting_for_workers(self, queue: str, waited_s: float) -> None:
        self.queue = queue
        self.processes, self.hosts = 0, ()
        self.waiting_since = self.clock() - waited_s

    # --- texts --------------------------------------------------------------------------------------------------------

    @property
    def step_s(self) -> float:
        """How long the superstep has taken."""
        return self.clock() - self.step_began

    @property
    def rate(self) -> str:
        """Tasks a second in this superstep; empty while nothing can be said."""
        seconds = self.step_s
        if not self.done or seconds < 0.05:
            return ""
        rate = self.done / seconds
        return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s"

    @property
    def shown_nodes(self) -> str:
        """The superstep's nodes; many are cut short."""
        more = len(self.nodes) - _NODES_SHOWN
        return ", ".join(self.nodes[:_NODES_SHOWN]) + (f" and {more} more" if more > 0 else "")

    @property
    def workers(self) -> str:
        """The live worker processes and their hosts; empty for a run in this process."""
        if not self.processes:
            return ""
        where = self.hosts[0] if len(self.hosts) == 1 else count(len(self.hosts), "host")
        return f"{count(self.processes, 'worker')} on {where}"

    @property
    def waiting(self) -> str:
        """What the run waits for, and what to do about it; empty when it does not wait."""
        if self.waiting_since is None:
            return ""
        waited_s = self.clock() - self.waiting_since
        local = self.place.local_workers
        if local and not self.used and waited_s < _LOCAL_START_S:
            return f"starting {count(local, 'local worker')} ({waited_s:.0f} s)"
        what = f"no live worker serves queue {self.queue!r} (waited {waited_s:.0f} s)"
        return what if local else f"{what}; start one: {self.place.start_hint}"

    @property
    def summary(self) -> str:
        """What the whole run was."""
        where = f" on {count(len(self.used), 'worker process', 'worker processes')}" if self.used else ""
        steps, tasks = count(self.steps_seen, "superstep"), count(self.tasks_seen, "task")
        return f"{self.name}: {steps}, {tasks} in {duration(self.clock() - self.began)}{where}"


def is_input_step(nodes: Sequence[str]) -> bool:
    """Whether a superstep does nothing but take the input."""
    return list(nodes) == [START]


def lost_text(worker: str, tasks: int) -> str:
    """What to say of a worker process that is gone."""
    return f"worker process {worker} is gone; {count(tasks, 'task')} handed out again"


def count(number: int, noun: str, plural: str = "") -> str:
    """``1 task``, ``2 tasks``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration(seconds: float) -> str:
    """``0.42 s``, ``12.3 s``, ``3:07``, ``2:00:05``."""
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"
