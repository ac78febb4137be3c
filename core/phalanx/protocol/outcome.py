"""What a worker records about a task: its outcome, packed. The hash of them is the truth of the barrier."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import inf
from typing import Any

from phalanx.protocol.batch import Ref, expect_ref
from phalanx.protocol.limits import timeout_from_plain, timeout_to_plain
from phalanx.protocol.plain import expect, expect_list, pack, unpack
from phalanx.types import TimeoutPolicy


class OutcomeKind(IntEnum):
    """How an attempt ended: with writes, its own or from the cache; with an error that is final, or that the node's
    error handler deals with, or after which the task is to be tried again, or that says that an answer did not fit; or
    with questions to be answered."""

    WRITES = 0
    ERROR = 1
    CACHED = 2
    HANDED_OVER = 3
    RETRY = 4
    INTERRUPTED = 5
    INVALID_ANSWER = 6


@dataclass(frozen=True, slots=True)
class PackedWrite:
    """A write to ``channel``. For a packet, ``node`` is whom it is for, ``value`` its argument, ``timeout`` its own."""

    channel: str
    value: Ref
    node: str | None = None
    timeout: TimeoutPolicy | None = None

    def to_plain(self) -> list[object]:
        """The stored form."""
        if self.node is None:
            return [self.channel, self.value]
        if self.timeout is None:
            return [self.channel, self.value, self.node]
        return [self.channel, self.value, self.node, timeout_to_plain(self.timeout)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attempt of a task ended.

    Attributes:
        worker: the worker process that ran it.
        seconds: how long the node took.
        writes: what it wrote, if it finished.
        error: the encoded exception, if it failed; the encoded list of questions, if it asked.
        retry_after_s: how long to wait before the next attempt, if it is to be tried again.
        first_try_at: when it was first tried, in seconds since the epoch, if it is to be tried again.
        tries: how often its node was tried, this time included.
        drain: why its node asked the run to stop, if it did.
        answers: the encoded list of what it was answered, if it took an answer to no question.
        path: what its writes are sorted by among those of its superstep.
    """

    kind: OutcomeKind
    attempt: int
    worker: str
    seconds: float
    writes: Sequence[PackedWrite] = ()
    error: bytes = b""
    retry_after_s: float = 0.0
    first_try_at: float = 0.0
    tries: int = 1
    drain: str | None = None
    answers: bytes = b""
    path: str = ""

    @property
    def is_final(self) -> bool:
        """Whether this is the last word on its task."""
        return self.kind is not OutcomeKind.RETRY

    def pack(self) -> bytes:
        """The stored form."""
        writes = [write.to_plain() for write in self.writes]
        unusual = not self.is_final or self.drain is not None or self.answers or self.path
        more = [self.retry_after_s, self.first_try_at, self.tries, self.drain] if unusual else []
        last = [self.answers, self.path] if self.answers or self.path else []
        return pack([int(self.kind), self.attempt, self.worker, self.seconds, writes, self.error, *more, *last])

    @classmethod
    def unpack(cls, data: bytes) -> "Outcome":
        """Read the stored form.

        Raises:
            CorruptDataError: it is not one.
        """

        def read(record: Any) -> Outcome:
            kind, attempt, worker, seconds, writes, error, *more = expect_list(record)
            retry_after_s, first_try_at, tries, drain = more[:4] or (0.0, 0.0, 1, None)
            answers, path = more[4:] or (b"", "")
            for time_s in (seconds, retry_after_s, first_try_at):
                if not 0 <= time_s < inf:
                    raise ValueError(f"{time_s!r} is no time")
            return cls(
                OutcomeKind(kind),
                expect(int, attempt),
                expect(str, worker),
                seconds,
                [_write(*expect_list(write)) for write in expect_list(writes)],
                expect(bytes, error),
                retry_after_s,
                first_try_at,
                expect(int, tries),
                None if drain is None else expect(str, drain),
                expect(bytes, answers),
                expect(str, path),
            )

        return unpack(data, "an outcome", read)


def _write(channel: object, value: object, node: object = None, timeout: object = None) -> PackedWrite:
    if node is None:
        return PackedWrite(expect(str, channel), expect(bytes, value))
    return PackedWrite(expect(str, channel), expect_ref(value), expect(str, node), timeout_from_plain(timeout))
