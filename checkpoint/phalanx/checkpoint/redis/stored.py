"""The stored form of writes that are pending on a checkpoint.

A hash holds them. Beside single writes, which savers put there one by one, it has the outcomes of whole tasks, which
workers record; a worker's outcome is the write of its task.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.checkpoint.base import writes_sort_key
from phalanx.checkpoint.packing import Packer
from phalanx.protocol.batch import Ref, expect_ref
from phalanx.protocol.limits import timeout_from_plain, timeout_to_plain
from phalanx.protocol.names import ERROR, HANDED_OVER, INTERRUPT, TASKS
from phalanx.protocol.outcome import Outcome, OutcomeKind
from phalanx.protocol.plain import expect, expect_list, pack, unpack
from phalanx.types import Send, TimeoutPolicy


@dataclass(frozen=True, slots=True)
class StoredWrite:
    """A pending write whose value is still serialized.

    Attributes:
        order: what the writes of a checkpoint are sorted by.
        value: the value; for a packet its argument.
        node, timeout: of a packet.
        is_error: whether the value is an encoded exception, of which readers see the ``repr``.
    """

    order: tuple[object, ...]
    task_id: str
    channel: str
    value: Ref
    node: str | None = None
    timeout: TimeoutPolicy | None = None
    is_error: bool = False


def write_field(task_id: str, index: int) -> str:
    """The field of a single write beside the outcomes of whole tasks."""
    return f"{task_id}\x00{index:08d}" if index >= 0 else f"{task_id}\x00{index}"


def pack_write(
    channel: str, value: Ref, path: str = "", node: str | None = None, timeout: TimeoutPolicy | None = None
) -> bytes:
    """A single write as it is stored.

    Args:
        value: the value; for a packet its argument.
        path: where the task stands among those of its superstep.
        node, timeout: of a packet.
    """
    if node is not None:
        return pack([channel, value, path, node, None if timeout is None else timeout_to_plain(timeout)])
    return pack([channel, value, path] if path else [channel, value])


def pack_value(packer: Packer, channel: str, value: object, path: str) -> bytes:
    """A write that a saver was given. A packet's argument that is given many times is serialized once."""
    if channel == TASKS and type(value) is Send:
        return pack_write(channel, packer.ref_to_parts(value.arg), path, value.node, value.timeout)
    return pack_write(channel, packer.ref(value), path)


def stored_writes(fields: Mapping[bytes, bytes]) -> list[StoredWrite]:
    """All that is pending on a checkpoint, in order.

    Raises:
        CorruptDataError: it cannot be read.
    """
    found: list[StoredWrite] = []
    for field, data in fields.items():
        task_id, single, index = field.decode().partition("\x00")
        if single:
            found.append(_unpack_write(task_id, int(index), data))
        else:
            found += _writes_of(task_id, Outcome.unpack(data))
    return sorted(found, key=lambda write: write.order)


def _unpack_write(task_id: str, index: int, data: bytes) -> StoredWrite:
    def read(record: Any) -> StoredWrite:
        channel, value, *more = expect_list(record)
        path, node, timeout = more if len(more) == 3 else [*more, None, None] if more else ["", None, None]
        return StoredWrite(
            (*writes_sort_key(expect(str, path), task_id), 0, index),
            task_id,
            expect(str, channel),
            expect_ref(value),
            None if node is None else expect(str, node),
            timeout_from_plain(timeout),
        )

    return unpack(data, "a pending write", read)


def _writes_of(task_id: str, outcome: Outcome) -> Iterator[StoredWrite]:
    # After single writes: among those are the errors of earlier runs, and an outcome is newer.
    def order(index: int) -> tuple[object, ...]:
        return (*writes_sort_key(outcome.path, task_id), 1, index)

    if outcome.kind in (OutcomeKind.ERROR, OutcomeKind.HANDED_OVER, OutcomeKind.INVALID_ANSWER):
        yield StoredWrite(order(-2), task_id, ERROR, outcome.error, is_error=True)
        if outcome.kind is OutcomeKind.HANDED_OVER:
            yield StoredWrite(order(-1), task_id, HANDED_OVER, outcome.error)
    if outcome.kind is OutcomeKind.INTERRUPTED:
        yield StoredWrite(order(-1), task_id, INTERRUPT, outcome.error)
    for index, write in enumerate(outcome.writes):
        yield StoredWrite(order(index), task_id, write.channel, write.value, write.node, write.timeout)
