"""Storing in the background, in order: a thread that stores what a run hands to it.

The run waits when it is too far ahead. Once storing has failed nothing more is stored, so that there is no gap in what
is, and the run is told at the next opportunity.
"""

import contextvars
import threading
from queue import Queue

from phalanx.coordinator.saver_access import SaverHere
from phalanx.coordinator.saving import MOST_AHEAD, Saved
from phalanx.worker.run_task import run_to_end


class Backlog:
    """What waits to be stored.

    Args:
        access: the saver.
    """

    def __init__(self, access: SaverHere) -> None:
        self._access = access
        self._error: BaseException | None = None
        self._told = False
        self._queue: Queue[Saved | None] = Queue(MOST_AHEAD)
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._work,), name="phalanx-saver", daemon=True)
        self._thread.start()

    def add(self, saved: Saved) -> None:
        """Have something stored after all that was added before.

        Raises:
            Exception: what was added before could not be stored.
        """
        self._raise()
        self._queue.put(saved)

    def close(self) -> None:
        """Wait until everything is stored.

        Raises:
            Exception: it could not be.
        """
        self._queue.put(None)
        self._thread.join()
        self._raise()

    def _raise(self) -> None:
        if self._error is not None and not self._told:
            self._told = True
            raise self._error

    def _work(self) -> None:
        while (saved := self._queue.get()) is not None:
            if self._error is None:
                try:
                    run_to_end(saved.store(self._access))
                except BaseException as error:
                    self._error = error
