"""The message from a coordinator to a worker: a batch of tasks of one superstep, by ids and references.

It holds no class name, no callable and no state larger than a few kilobytes. A value travels as a :data:`Ref`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from phalanx.errors import CorruptDataError
from phalanx.protocol.limits import timeout_from_plain, timeout_to_plain
from phalanx.protocol.plain import expect, expect_list
from phalanx.types import TimeoutPolicy

Ref: TypeAlias = bytes | str
"""A serialized value: the bytes themselves, or as text the digest of the thread's blob that holds them."""

RUN_BATCH: Final = "phalanx.run_batch"
"""The name of the Celery task; the coordinator dispatches by it."""

DEFAULT_QUEUE: Final = "phalanx"
FORMAT: Final = 3
_FIELDS: Final[Mapping[str, type[Any]]] = {
    "graph": str,
    "fingerprint": str,
    "run_id": str,
    "thread_id": str,
    "namespace": str,
    "checkpoint_id": str,
    "step": int,
    "token": int,
    "state": dict,
    "around": bytes,
    "stop": int,
    "ttl_s": int,
}
"""The fields of a batch in the order they travel, between the format and the tasks."""


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One task of a batch.

    Attributes:
        attempt: how often it was handed out.
        arg: a packet's argument; ``None`` for a task whose input is read from the state.
        tries: how often it was tried, this time included: less than ``attempt`` if worker processes were lost with it.
        first_try_at: when it was first tried, in seconds since the epoch; 0 if this is the first time.
        timeout: the packet's own time limit.
        error: the encoded exception that it is to handle, if it is an error handler's; ``failed`` is the node.
        answers: the encoded list of what it was answered.
        loose: the same of what was answered without a question.
        ran: whether its node ran already, as a graph of its own: then ``arg`` is what came of it, and only what follows
            from that is left to do.
        nth: how many tasks of its node come before it in the superstep.
    """

    id: str
    node: str
    attempt: int
    path: tuple[str | int, ...]
    triggers: tuple[str, ...]
    arg: Ref | None
    tries: int = 1
    first_try_at: float = 0.0
    timeout: TimeoutPolicy | None = None
    error: bytes = b""
    failed: str = ""
    answers: bytes = b""
    loose: bytes = b""
    ran: bool = False
    nth: int = 0

    def to_plain(self) -> list[object]:
        """Plain values for the message's serializer; what is as usual is left out."""
        usual: list[object] = [self.id, self.node, self.attempt, list(self.path), list(self.triggers), self.arg]
        tried = [self.tries, self.first_try_at, timeout_to_plain(self.timeout), self.error, self.failed]
        if self.answers or self.loose or self.ran or self.nth:
            return [*usual, *tried, self.answers, self.loose, self.ran, self.nth]
        if self.tries == 1 and self.timeout is None and not self.failed:
            return usual
        return [*usual, *tried]


@dataclass(frozen=True, slots=True)
class Batch:
    """Tasks of one superstep, with all that is needed to run them.

    Attributes:
        graph, fingerprint: which graph, in which version.
        run_id, thread_id, namespace, checkpoint_id, step: where in which run.
        token: the fencing token of the coordinator that sent it; a worker refuses the batch once it is stale.
        state: what the tasks may read, by channel.
        around: what all tasks of the run share, serialized: its config, its context, whether it is to stop, and what
            graphs inside of them are to know.
        stop: the superstep at which the run must have ended.
        ttl_s: how long what is stored for this run may stay; 0 for a thread that is kept.
    """

    graph: str
    fingerprint: str
    run_id: str
    thread_id: str
    namespace: str
    checkpoint_id: str
    step: int
    token: int
    state: Mapping[str, Ref]
    around: bytes
    stop: int
    ttl_s: int
    tasks: Sequence[BatchTask]

    def to_wire(self) -> list[object]:
        """Plain values for the message's serializer."""
        tasks = [task.to_plain() for task in self.tasks]
        return [
            FORMAT,
            self.graph,
            self.fingerprint,
            self.run_id,
            self.thread_id,
            self.namespace,
            self.checkpoint_id,
            self.step,
            self.token,
            dict(self.state),
            self.around,
            self.stop,
            self.ttl_s,
            tasks,
        ]

    @classmethod
    def from_wire(cls, wire: object) -> "Batch":
        """Read a message.

        Raises:
            CorruptDataError: it is not a batch of this format.
        """
        try:
            version, *fields, tasks = expect_list(wire)
            if version != FORMAT:
                raise ValueError(f"format {version!r} instead of {FORMAT}")
            checked: dict[str, Any] = {
                name: expect(kind, value) for (name, kind), value in zip(_FIELDS.items(), fields, strict=True)
            }
            batch = cls(**checked, tasks=[_task(*expect_list(task)) for task in expect_list(tasks)])
            for name, ref in batch.state.items():
                expect(str, name)
                expect_ref(ref)
            return batch
        except (TypeError, ValueError) as error:
            raise CorruptDataError(f"a message that is not a batch of tasks: {error}") from error


def expect_ref(value: object) -> Ref:
    """``value``, which must be a reference.

    Raises:
        TypeError: it is not.
    """
    return value if isinstance(value, str) else expect(bytes, value)


def _task(
    task_id: object,
    node: object,
    attempt: object,
    path: object,
    triggers: object,
    arg: object,
    tries: object = 1,
    first_try_at: object = 0.0,
    timeout: object = None,
    error: object = b"",
    failed: object = "",
    answers: object = b"",
    loose: object = b"",
    ran: object = False,
    nth: object = 0,
) -> BatchTask:
    return BatchTask(
        expect(str, task_id),
        expect(str, node),
        expect(int, attempt),
        tuple(part if isinstance(part, int) else expect(str, part) for part in expect_list(path)),
        tuple(expect(str, trigger) for trigger in expect_list(triggers)),
        None if arg is None else expect_ref(arg),
        expect(int, tries),
        expect(float, first_try_at),
        timeout_from_plain(timeout),
        expect(bytes, error),
        expect(str, failed),
        expect(bytes, answers),
        expect(bytes, loose),
        expect(bool, ran),
        expect(int, nth),
    )
