"""Hooks into a run for progress, logs and metrics: a class of methods that do nothing. And who calls them.

Subclass it and override what you need. Hooks are called in the thread that drives the run, between its steps; they
should return soon and must not raise.
"""

import logging
from collections.abc import Sequence

from phalanx.coordinator.messages import Dispatch, Event, Launch, Order, TaskFailed, WarnOfJoin
from phalanx.coordinator.plan import Task
from phalanx.worker.blueprint import Blueprint

logger = logging.getLogger("phalanx.coordinator")


class RunObserver:
    """What happens to a run, as it happens."""

    def step_started(self, step: int, tasks: int, nodes: Sequence[str]) -> None:
        """Superstep ``step`` begins with ``tasks`` tasks of ``nodes``."""

    def task_ended(self, step: int, node: str, task_id: str, *, worker: str | None, failed: bool) -> None:
        """A task has its outcome. ``worker`` is the worker process that ran it; ``None`` when that was this process."""

    def task_launched_again(self, step: int, node: str, task_id: str, *, launch: Launch, error: BaseException) -> None:
        """An attempt of a task failed with ``error``, and the superstep goes on: ``launch`` is its next attempt, or its
        node's error handler. The task has no outcome yet."""

    def workers_changed(self, queue: str, processes: int, hosts: Sequence[str]) -> None:
        """The worker processes that serve ``queue`` have changed."""

    def waiting_for_workers(self, queue: str, waited_s: float) -> None:
        """No live worker serves ``queue``; the run waits. Called after a second, then every three."""

    def join_not_released(self, node: str, ran: Sequence[str], missing: Sequence[str]) -> None:
        """The run ended while ``node`` waits at a join: of its sources some ``ran``, and the others are ``missing``."""

    def worker_lost(self, worker: str, tasks: int) -> None:
        """A worker process missed its heartbeat; its ``tasks`` are handed out again."""


def tell_of_step(observer: RunObserver, order: Dispatch) -> None:
    """Tell an observer that a superstep begins."""
    if observer is SILENT:
        return
    observer.step_started(order.step, len(order.tasks), sorted({task.name for task in order.tasks}))


def tell_of_task(
    observer: RunObserver, step: int, task: Task, event: Event, orders: Sequence[Order], *, worker: str | None = None
) -> None:
    """Tell an observer how a task's attempt ended, given what the run ordered because of it."""
    if observer is SILENT:
        return
    launch = next((order for order in orders if isinstance(order, Launch)), None)
    if isinstance(event, TaskFailed) and launch is not None:
        observer.task_launched_again(step, task.name, task.id, launch=launch, error=event.error)
    else:
        observer.task_ended(step, task.name, task.id, worker=worker, failed=isinstance(event, TaskFailed))


def tell_of_join(observer: RunObserver, blueprint: Blueprint, order: WarnOfJoin) -> None:
    """Tell the log and an observer that a join still waits when the run ends."""
    logger.warning(
        "join_not_released: node %r of %s waits for %s, which did not run; %s did",
        order.node,
        blueprint.called,
        ", ".join(map(repr, order.missing)),
        ", ".join(map(repr, order.ran)),
    )
    observer.join_not_released(order.node, order.ran, order.missing)


SILENT = RunObserver()
"""An observer that does nothing."""
