"""What went wrong on the way of tasks to workers and back: processes that died, and messages that got lost."""

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from phalanx.coordinator.batches import Address
from phalanx.coordinator.broker import Broker
from phalanx.coordinator.handout import HandOut
from phalanx.coordinator.observe import RunObserver
from phalanx.coordinator.roster import Roster
from phalanx.errors import NodeLostError

LOOK_EVERY_S: Final = 1.0
"""How often a loop looks for what no doorbell tells."""

UNCLAIMED_AFTER_S: Final = 5.0
"""How long a task may stay unclaimed, with nothing in the queue, before its message counts as lost."""

MAX_LOST: Final = 3
"""How many worker processes a task may take down."""

Claims = Mapping[str, tuple[int, str]]
"""By task id, the attempt that is claimed, and the worker process that claimed it."""


@dataclass(frozen=True, slots=True)
class LostTasks:
    """Finds the tasks of a loop that are lost, and has them handed out again."""

    handout: HandOut
    roster: Roster
    broker: Broker
    address: Address
    log: logging.LoggerAdapter[logging.Logger]

    def old(self, now: float) -> list[str]:
        """The tasks that have been on their way long enough to be looked after."""
        return [flight.task.id for flight in self.handout.older_than(LOOK_EVERY_S, now)]

    def standing(self, found: Claims) -> dict[str, tuple[int, str]]:
        """Those claims that are for a task's present attempt, or for one after it.

        The claim of an attempt before says nothing: its process was found dead already.
        """
        flights = self.handout.flights
        return {task_id: claim for task_id, claim in found.items() if claim[0] >= flights[task_id].attempt}

    def dead(self, claims: Claims) -> dict[str, tuple[int, str]]:
        """Those claims whose worker process is gone."""
        dead = self.roster.dead(worker for _, worker in claims.values())
        return {task_id: claim for task_id, claim in claims.items() if claim[1] in dead}

    def hand_out_again(self, lost: Claims, observer: RunObserver) -> Iterator[tuple[str, NodeLostError]]:
        """Have tasks handed out again whose worker process is gone; those with which that happened too often are given
        up, with an error each."""
        left = {task_id: claim for task_id, claim in lost.items() if task_id in self.handout.flights}
        for worker, number in Counter(worker for _, worker in left.values()).items():
            self.log.warning(
                "worker process %s is gone; run %s hands its %d tasks out again", worker, self.address.run_id, number
            )
            observer.worker_lost(worker, number)
        for task_id, (attempt, worker) in left.items():
            flight = self.handout.lost(task_id, worker, attempt)
            if len(flight.lost_on) >= MAX_LOST:
                self.handout.give_up(task_id)
                yield task_id, NodeLostError(flight.task.name, task_id, len(flight.lost_on), flight.lost_on)

    def resend(self, task_ids: Sequence[str], now: float) -> None:
        """Hand tasks out again that nobody claimed although nothing waits in the queue: their message is gone."""
        flights = self.handout.flights
        stale = [each for each in task_ids if each in flights and now - flights[each].since >= UNCLAIMED_AFTER_S]
        if not stale or self.broker.depth(self.address.queue):
            return
        self.log.warning("run %s: %d tasks were never claimed; handing them out again", self.address.run_id, len(stale))
        for task_id in stale:
            self.handout.unclaimed(task_id)
