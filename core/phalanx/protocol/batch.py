"""The message from a coordinator to a worker: a batch of tasks of one superstep, by ids and references.

It holds no class name, no callable and no state larger than a few kilobytes. A value travels as a :data:`Ref`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from phalanx.errors import CorruptDataError
from phalanx.protocol.plain import expect, expect_list

Ref: TypeAlias = bytes | str
"""A serialized value: the bytes themselves, or as text the digest of the thread's blob that holds them."""

RUN_BATCH: Final = "phalanx.run_batch"
"""The name of the Celery task; the coordinator dispatches by it."""

DEFAULT_QUEUE: Final = "phalanx"
FORMAT: Final = 1
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
    "config": bytes,
    "ttl_s": int,
}
"""The fields of a batch in the order they travel, between the format and the tasks."""


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One task of a batch. ``arg`` is a packet's argument; ``None`` for a task whose input is read from the state."""

    id: str
    node: str
    attempt: int
    path: tuple[str | int, ...]
    triggers: tuple[str, ...]
    arg: Ref | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Tasks of one superstep, with all that is needed to run them.

    Attributes:
        graph, fingerprint: which graph, in which version.
        run_id, thread_id, namespace, checkpoint_id, step: where in which run.
        token: the fencing token of the coordinator that sent it; a worker refuses the batch once it is stale.
        state: what the tasks may read, by channel.
        config: the run's config, serialized.
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
    config: bytes
    ttl_s: int
    tasks: Sequence[BatchTask]

    def to_wire(self) -> list[object]:
        """Plain values for the message's serializer."""
        tasks = [[t.id, t.node, t.attempt, list(t.path), list(t.triggers), t.arg] for t in self.tasks]
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
            self.config,
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


def _task(task_id: object, node: object, attempt: object, path: object, triggers: object, arg: object) -> BatchTask:
    return BatchTask(
        expect(str, task_id),
        expect(str, node),
        expect(int, attempt),
        tuple(part if isinstance(part, int) else expect(str, part) for part in expect_list(path)),
        tuple(expect(str, trigger) for trigger in expect_list(triggers)),
        None if arg is None else expect_ref(arg),
    )
