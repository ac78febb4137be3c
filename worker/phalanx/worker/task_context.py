"""What a task knows about itself and its run, and what its errors say about it."""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from phalanx.config import RunnableConfig
from phalanx.errors import GraphInterrupt, NodeError
from phalanx.protocol.batch import Batch, BatchTask
from phalanx.runtime import ExecutionInfo, RunControl, Runtime, beat_nothing, write_nothing
from phalanx.types import Interrupt, StreamWriter
from phalanx.worker.functions import UserFunction
from phalanx.worker.injection import Wanted
from phalanx.worker.lineage import Lineage, call_namespace, lasting, task_namespace
from phalanx.worker.questions import AnswerSchema, is_answer, question_id
from phalanx.worker.timeouts import Clockwork

Error = TypeVar("Error", bound=BaseException)

_TOLD_IN_METADATA: Final = (
    *("thread_id", "checkpoint_id", "checkpoint_ns"),
    *("task_id", "run_id", "assistant_id", "graph_id"),
)
"""What of ``configurable`` a node also finds in ``metadata``, where tracing looks for it."""

_OF_THE_RUN: Final = frozenset({"run_id", "run_name"})
"""What of a config names the run, and so is not for a graph that is called with a node's config."""

_COUNTING: Final = threading.Lock()
"""A task may ask, and call graphs, from several threads."""

_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class RunContext:
    """What all tasks of a run share.

    Attributes:
        config: the run's.
        context: what the caller passed as ``context``.
        store: the graph's store.
        control: the run's switch.
        writer: takes what nodes stream.
        lineage: what graphs called inside of the tasks are to know.
    """

    config: RunnableConfig
    context: object = None
    store: object = None
    control: RunControl | None = None
    writer: StreamWriter = write_nothing
    lineage: Lineage = field(default_factory=Lineage)


@dataclass(slots=True)
class TaskContext:
    """One attempt of one task, for whoever runs inside it. Config and runtime are built when first wanted.

    Attributes:
        checkpoint_id: the checkpoint its superstep started from.
        attempt: from 1; how often it was tried, not how often it was handed out.
        first_attempt_at: when the first one began, in seconds since the epoch.
        error: what an error handler is to handle.
        answers: to what it asks, in the order of its questions; it grows by an answer that was given without one.
        clockwork: the attempt's clocks, if its time is limited.
        nth: how many tasks of its node come before it in the superstep.
    """

    run: RunContext
    node: str
    task_id: str
    path: tuple[str | int, ...]
    triggers: tuple[str, ...]
    step: int
    checkpoint_id: str = ""
    attempt: int = 1
    first_attempt_at: float = field(default_factory=time.time)
    error: NodeError | None = None
    answers: Sequence[object] = ()
    clockwork: Clockwork | None = None
    nth: int = 0
    _asked: int = 0
    _called: int = 0
    _config: RunnableConfig | None = None
    _runtime: Runtime[Any] | None = None

    @classmethod
    def of_batch(cls, run: RunContext, batch: Batch, task: BatchTask, began_at: float) -> "TaskContext":
        """An attempt of a task that came in a batch.

        Args:
            began_at: when this attempt began, in seconds since the epoch.
        """
        return cls(
            run,
            task.node,
            task.id,
            task.path,
            task.triggers,
            batch.step,
            batch.checkpoint_id,
            task.tries,
            task.first_try_at or began_at,
            nth=task.nth,
        )

    @property
    def config(self) -> RunnableConfig:
        """The run's config, and where in the run this task is."""
        if self._config is None:
            self._config = self._build_config()
        return self._config

    @property
    def runtime(self) -> Runtime[Any]:
        """What is injected as ``runtime``."""
        if self._runtime is None:
            self._runtime = self._build_runtime()
        return self._runtime

    def arguments_for(self, function: UserFunction) -> Mapping[str, Any]:
        """What to pass to a user's function by name."""
        return {wanted: self._value_of(wanted) for wanted in function.wants} if function.wants else _NOTHING

    def _value_of(self, wanted: Wanted) -> object:
        match wanted:
            case "config":
                return self.config
            case "runtime":
                return self.runtime
            case "writer":
                return self.runtime.stream_writer
            case "store":
                return self.run.store
            case "previous":
                return self.runtime.previous
            case "error":
                return self.error

    @property
    def namespace(self) -> str:
        """The task's place in its thread."""
        return task_namespace(self.run.lineage.namespace, self.node, self.task_id)

    def next_call(self) -> tuple[str, str]:
        """The place of the graph that the task is about to call; and what it is if the graph's state lasts.

        A state that lasts is that of all attempts of the task.
        """
        with _COUNTING:
            call, self._called = self._called, self._called + 1
        lasts = lasting(call_namespace(self.namespace, 1, call), self.nth)
        return call_namespace(self.namespace, self.attempt, call), lasts

    def ask(self, value: object, response_schema: object) -> object:
        """The answer to the task's next question; see :func:`phalanx.types.interrupt`."""
        with _COUNTING:
            number, self._asked = self._asked, self._asked + 1
            if number >= len(self.answers):
                self.answers = [*self.answers, *self.run.lineage.loose.take()]
        schema = AnswerSchema.of(response_schema)
        if number >= len(self.answers) or not is_answer(self.answers[number]):
            question = Interrupt(value, question_id(self.namespace, number), schema.shown)
            raise GraphInterrupt((question,))
        return schema.checked(self.answers[number])

    def _build_config(self) -> RunnableConfig:
        where = {
            "langgraph_step": self.step,
            "langgraph_node": self.node,
            "langgraph_triggers": self.triggers,
            "langgraph_path": self.path,
            "langgraph_checkpoint_ns": self.namespace,
        }
        config: dict[str, Any] = {key: value for key, value in self.run.config.items() if key not in _OF_THE_RUN}
        configurable = self.run.config.get("configurable", {})
        told = {name: value for name in _TOLD_IN_METADATA if (value := configurable.get(name))}
        config["metadata"] = {**told, **self.run.config.get("metadata", {}), **where}
        config["configurable"] = {key: value for key, value in configurable.items() if key != "checkpoint_id"}
        config["configurable"]["checkpoint_ns"] = self.namespace
        return cast("RunnableConfig", config)

    def _build_runtime(self) -> Runtime[Any]:
        run = self.run
        configurable = run.config.get("configurable", {})
        thread_id, run_id = configurable.get("thread_id"), run.config.get("run_id")
        info = ExecutionInfo(
            checkpoint_id=self.checkpoint_id,
            checkpoint_ns=self.namespace,
            task_id=self.task_id,
            thread_id=None if thread_id is None else str(thread_id),
            run_id=None if run_id is None else str(run_id),
            node_attempt=self.attempt,
            node_first_attempt_time=self.first_attempt_at,
        )
        clockwork = self.clockwork
        return Runtime(
            context=run.context,
            store=run.store,
            stream_writer=self._writer(),
            heartbeat=beat_nothing if clockwork is None else clockwork.beat,
            execution_info=info,
            control=run.control,
        )

    def _writer(self) -> StreamWriter:
        clockwork, write = self.clockwork, self.run.writer
        if clockwork is None or not clockwork.counts_streams:
            return write

        def write_and_beat(data: Any) -> None:
            clockwork.beat()
            write(data)

        return write_and_beat


def nested_config(config: RunnableConfig) -> RunnableConfig:
    """What a graph that is called inside a task inherits of the task's config: all but where in its run the task is."""
    metadata = config.get("metadata", {})
    return {
        **config,
        "configurable": dict(config.get("configurable", {})),
        "metadata": {key: value for key, value in metadata.items() if not key.startswith("langgraph_")},
    }


def note_task(error: Error, node: str, task_id: str) -> Error:
    """Say on the error itself which task it came from, if it can be changed."""
    with suppress(Exception):  # such as one that is a frozen dataclass
        error.add_note(f"During task with name {node!r} and id {task_id!r}")
    return error
