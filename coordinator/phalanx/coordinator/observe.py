"""Hooks into a run for progress, logs and metrics: a class of methods that do nothing.

Subclass it and override what you need. Hooks are called in the thread that drives the run, between its steps; they
should return soon and must not raise.
"""

from collections.abc import Sequence


class RunObserver:
    """What happens to a run, as it happens."""

    def step_started(self, step: int, tasks: int, nodes: Sequence[str]) -> None:
        """Superstep ``step`` begins with ``tasks`` tasks of ``nodes``."""

    def task_ended(self, step: int, node: str, task_id: str, *, worker: str | None, failed: bool) -> None:
        """A task has its outcome. ``worker`` is the worker process that ran it; ``None`` when that was this process."""

    def workers_changed(self, queue: str, processes: int, hosts: Sequence[str]) -> None:
        """The worker processes that serve ``queue`` have changed."""

    def waiting_for_workers(self, queue: str, waited_s: float) -> None:
        """No live worker serves ``queue``; the run waits. Called after a second, then every three."""

    def worker_lost(self, worker: str, tasks: int) -> None:
        """A worker process missed its heartbeat; its ``tasks`` are handed out again."""


SILENT = RunObserver()
"""An observer that does nothing."""
