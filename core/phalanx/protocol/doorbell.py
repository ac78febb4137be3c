"""The doorbell: what a worker process rings at a run's inbox. A hint; the outcomes themselves are stored."""

from collections.abc import Sequence
from typing import Any

from phalanx.protocol.plain import expect, expect_list, pack, unpack


def ring(checkpoint_id: str, task_ids: Sequence[str]) -> bytes:
    """A doorbell: look at these tasks of the step that starts from this checkpoint."""
    return pack([checkpoint_id, task_ids])


def read_ring(data: bytes) -> tuple[str, list[str]]:
    """What a doorbell says: the checkpoint's id, and the tasks'.

    Raises:
        CorruptDataError: it is not one.
    """

    def read(record: Any) -> tuple[str, list[str]]:
        checkpoint_id, task_ids = expect_list(record)
        return expect(str, checkpoint_id), [expect(str, task_id) for task_id in expect_list(task_ids)]

    return unpack(data, "a doorbell", read)
