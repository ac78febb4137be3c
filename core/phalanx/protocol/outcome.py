"""What a worker records about a task: its outcome, packed. The hash of them is the truth of the barrier."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import inf
from typing import Any

from phalanx.protocol.batch import Ref, expect_ref
from phalanx.protocol.plain import expect, expect_list, pack, unpack


class OutcomeKind(IntEnum):
    """How a task ended."""

    WRITES = 0
    ERROR = 1


@dataclass(frozen=True, slots=True)
class PackedWrite:
    """A write to ``channel``. For a packet, ``node`` is whom it is for and ``value`` its argument."""

    channel: str
    value: Ref
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attempt of a task ended.

    Attributes:
        worker: the worker process that ran it.
        seconds: how long the node took.
        writes: what it wrote, if it finished.
        error: the encoded exception, if it failed.
    """

    kind: OutcomeKind
    attempt: int
    worker: str
    seconds: float
    writes: Sequence[PackedWrite] = ()
    error: bytes = b""

    def pack(self) -> bytes:
        """The stored form."""
        writes = [[w.channel, w.value] if w.node is None else [w.channel, w.value, w.node] for w in self.writes]
        return pack([int(self.kind), self.attempt, self.worker, self.seconds, writes, self.error])

    @classmethod
    def unpack(cls, data: bytes) -> "Outcome":
        """Read the stored form.

        Raises:
            CorruptDataError: it is not one.
        """

        def read(record: Any) -> Outcome:
            kind, attempt, worker, seconds, writes, error = expect_list(record)
            if not 0 <= seconds < inf:
                raise ValueError(f"{seconds!r} is no time")
            return cls(
                OutcomeKind(kind),
                expect(int, attempt),
                expect(str, worker),
                seconds,
                [_write(*expect_list(write)) for write in expect_list(writes)],
                expect(bytes, error),
            )

        return unpack(data, "an outcome", read)


def _write(channel: object, value: object, node: object = None) -> PackedWrite:
    if node is None:
        return PackedWrite(expect(str, channel), expect(bytes, value))
    return PackedWrite(expect(str, channel), expect_ref(value), expect(str, node))
