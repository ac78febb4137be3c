"""The view for a log: plain lines, for each of the first supersteps and then once in a while."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from phalanx.cli.progress import Place, Progress, count, duration, is_input_step, lost_text
from phalanx.constants import START

EVERY_S: Final = 2.0
STEPS_IN_FULL: Final = 20
"""The supersteps that are told one by one; a loop goes on for thousands."""


class LineView(Progress):
    """Writes lines.

    Args:
        name: the run's graph.
        place: where its tasks go.
        write: takes a line.
        clock: monotonic seconds.
    """

    def __init__(
        self, name: str, place: Place, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(name, place, clock)
        self.write = write
        self._written_at = self.began

    def note(self, text: str) -> None:
        self.write(text)

    def step_started(self, step: int, tasks: int, nodes: Sequence[str]) -> None:
        super().step_started(step, tasks, nodes)
        if not is_input_step(nodes) and self._is_time(every_step=True):
            self._line(f"{count(tasks, 'task')}")

    def task_ended(self, step: int, node: str, task_id: str, *, worker: str | None, failed: bool) -> None:
        super().task_ended(step, node, task_id, worker=worker, failed=failed)
        if node == START:
            return
        if self.done == self.tasks and (self.failed or self._is_time(every_step=True)):
            failures = f", {self.failed} failed" if self.failed else ""
            self._line(f"done, {count(self.tasks, 'task')} in {duration(self.step_s)}{failures}")
        elif self._is_time():
            parts = [f"{self.done:,} of {count(self.tasks, 'task')}", self.rate, duration(self.step_s)]
            self._line(", ".join(part for part in parts if part))

    def workers_changed(self, queue: str, processes: int, hosts: Sequence[str]) -> None:
        super().workers_changed(queue, processes, hosts)
        if processes:
            self.write(f"{self.name}: {self.workers}")

    def waiting_for_workers(self, queue: str, waited_s: float) -> None:
        super().waiting_for_workers(queue, waited_s)
        self.write(f"{self.name}: {self.waiting}")

    def worker_lost(self, worker: str, tasks: int) -> None:
        self.write(f"{self.name}: {lost_text(worker, tasks)}")

    def _is_time(self, *, every_step: bool = False) -> bool:
        """Whether a line is due: with every step of a short run, else once in a while."""
        in_full = every_step and self.step <= STEPS_IN_FULL
        return in_full or self.clock() - self._written_at >= EVERY_S

    def _line(self, text: str) -> None:
        self._written_at = self.clock()
        self.write(f"{self.name}: superstep {self.step} ({self.shown_nodes}): {text}")
