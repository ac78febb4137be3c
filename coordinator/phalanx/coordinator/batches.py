"""From tasks that are handed out to the message that takes them to a worker."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from phalanx.checkpoint.serde import encode_exception
from phalanx.coordinator.handout import HandedOut, Waiting
from phalanx.coordinator.keeping import StateRefs
from phalanx.coordinator.plan import Task
from phalanx.coordinator.run import Run
from phalanx.errors import UnserializableError
from phalanx.protocol.batch import Batch, BatchTask
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.lineage import lineage_to_plain
from phalanx.worker.task_context import RunContext


@dataclass(frozen=True, slots=True)
class Address:
    """Which run this is, to workers.

    Attributes:
        graph, fingerprint: the graph by name, and its version.
        thread_id: the thread its keys are under.
        inbox: the key workers ring at.
        queue: where its tasks go.
        ttl_s: how long what workers store may stay; 0 for a thread that is kept.
    """

    graph: str
    fingerprint: str
    run_id: str
    thread_id: str
    inbox: str
    queue: str
    ttl_s: int


@dataclass(slots=True)
class BatchMaker:
    """Makes the batches of one run.

    Attributes:
        refs: references to what the tasks read; it also knows the blobs that must be stored before a batch is sent.
        namespace: what the keys of the run's supersteps are under.
        outputs: what came of tasks whose node is a graph of its own and has run, by task id.
        loose: what was answered without a question, by the id of the task that may take it.

    Raises:
        UnserializableError: the run's config or context cannot travel.
    """

    blueprint: Blueprint
    context: RunContext
    address: Address
    refs: StateRefs
    namespace: str = ""
    outputs: dict[str, object] = field(default_factory=dict[str, object])
    loose: dict[str, Sequence[object]] = field(default_factory=dict[str, Sequence[object]])
    _around: tuple[str | None, bytes] = field(init=False)
    _reads: dict[tuple[str, bool, str], frozenset[str]] = field(
        default_factory=dict[tuple[str, bool, str], frozenset[str]]
    )

    def __post_init__(self) -> None:
        self._around = (None, self._pack_around(None))

    def pack_again(self) -> None:
        """What all tasks share has changed."""
        self._around = (self._around[0], self._pack_around(self._around[0]))

    def batch(self, handed: HandedOut, run: Run, token: int) -> Batch:
        """The message for tasks of the running superstep.

        Args:
            token: the fencing token of the run's lease.
        """
        read: set[str] = set()
        tasks: list[BatchTask] = []
        for waiting in handed.tasks:
            read |= self._channels_read(waiting.task)
            tasks.append(self._task(waiting, run))
        self.refs.packer.forget()
        where, at = self.address, run.position
        return Batch(
            graph=where.graph,
            fingerprint=where.fingerprint,
            run_id=where.run_id,
            thread_id=where.thread_id,
            namespace=self.namespace,
            checkpoint_id=at.checkpoint_id,
            step=at.step,
            token=token,
            state={name: self.refs.refs[name] for name in read if name in self.refs.refs},
            around=self._told_around(run),
            stop=run.limits.stop,
            ttl_s=where.ttl_s,
            tasks=tasks,
        )

    def _task(self, waiting: Waiting, run: Run) -> BatchTask:
        task, packer = waiting.task, self.refs.packer
        own_limit = task.timeout != self.blueprint.nodes[task.name].policies.timeout
        handles = task.error
        ran = task.id in self.outputs
        arg = self.outputs[task.id] if ran else task.arg
        return BatchTask(
            task.id,
            task.name,
            waiting.attempt,
            task.path,
            task.triggers,
            packer.ref_to_parts(arg) if ran or task.is_push else None,
            waiting.tries,
            waiting.first_try_at,
            task.timeout if own_limit else None,
            b"" if handles is None else packer.serializer.dumps(encode_exception(handles.error)),
            "" if handles is None else handles.node,
            self._answers(run.answers_to(task.id)),
            self._answers(self.loose.get(task.id, ())),
            ran,
            task.nth,
        )

    def _answers(self, answers: Sequence[object]) -> bytes:
        return self.refs.packer.serializer.dumps([*answers]) if answers else b""

    def _channels_read(self, task: Task) -> frozenset[str]:
        failed = "" if task.error is None else task.error.node
        kind = (task.name, task.is_push, failed)
        found = self._reads.get(kind)
        if found is None:
            read = self.blueprint.channels_read(task.name, pushed=task.is_push, failed=failed)
            found = self._reads[kind] = frozenset(read)
        return found

    def _told_around(self, run: Run) -> bytes:
        """What every task of the run is told of it: packed once, and again when the run is asked to stop."""
        reason = run.settings.drain_reason()
        if reason != self._around[0]:
            self._around = (reason, self._pack_around(reason))
        return self._around[1]

    def _pack_around(self, drain_reason: str | None) -> bytes:
        serializer = self.refs.packer.serializer
        config = {key: value for key, value in self.context.config.items() if key != "callbacks"}
        for what, value in (("config", config), ("context", self.context.context)):
            try:
                serializer.dumps(value)
            except UnserializableError as error:
                where = f"the run's {what} cannot go to workers"
                raise UnserializableError(error.type_name, error.path, error.hint, where) from error
        told = lineage_to_plain(self.context.lineage)
        return serializer.dumps([config, self.context.context, drain_reason, told])
