"""One run of one graph, as a state machine: facts in, orders out.

A run does no I/O, reads no clock and makes no ids. Its life:

1. :meth:`Run.start` applies the input (or picks up where the thread stopped) and orders the first superstep.
2. :meth:`Run.handle` takes what happened to tasks, in any order; what arrives twice, late or for another superstep
   changes nothing.
3. When :attr:`Run.barrier_full`, the driver calls :meth:`Run.close_step`, which applies all writes at once, orders the
   commit and then the next superstep, or the end.

Whoever carries the orders out decides only *where and when* tasks execute. The results cannot depend on it: writes are
applied in path order, and nothing is applied before the barrier is full.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from phalanx.coordinator.apply import TaskWrites, apply_writes
from phalanx.coordinator.messages import (
    Abandon,
    Commit,
    Dispatch,
    Emit,
    Event,
    Fail,
    Finish,
    Order,
    SaveWrites,
    Source,
    Stamp,
    TaskFailed,
    TaskFinished,
)
from phalanx.coordinator.output import Keys, as_names, read_values, shown_update
from phalanx.coordinator.plan import Task, path_order, plan
from phalanx.coordinator.state import GraphState, NextVersion, count_up
from phalanx.errors import (
    EmptyInputError,
    ErrorCode,
    GraphRecursionError,
    InvalidUpdateError,
    create_error_message,
)
from phalanx.protocol.names import ERROR, INPUT
from phalanx.types import Command, StreamMode, Update
from phalanx.worker.blueprint import Blueprint


@dataclass(frozen=True, slots=True)
class Position:
    """Where in a thread's history a run stands.

    Attributes:
        checkpoint_id: the checkpoint it goes on from; made up for a fresh thread.
        stored: whether that checkpoint exists in storage, so that it can be a parent.
        step: the number of the next superstep; -1 on a fresh thread, for the input.
    """

    checkpoint_id: str
    stored: bool
    step: int


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What the caller chose.

    Attributes:
        recursion_limit: the most supersteps.
        modes: the stream modes to emit.
        output: what ``values`` and ``updates`` show.
        eager_failure: whether the first failure abandons its siblings (event loop), or they run to their end (threads,
            cluster).
        next_version: how versions are counted.
    """

    recursion_limit: int
    modes: frozenset[StreamMode]
    output: Keys
    eager_failure: bool = False
    next_version: NextVersion = count_up


@dataclass(slots=True)
class Run:
    """The state machine. See the module's header for how it is driven."""

    blueprint: Blueprint
    state: GraphState
    position: Position
    settings: RunSettings
    namespace: str = ""
    pending: Mapping[str, Sequence[Update]] = field(default_factory=dict[str, Sequence[Update]])
    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    writes: dict[str, Sequence[Update]] = field(default_factory=dict[str, Sequence[Update]])
    failures: dict[str, BaseException] = field(default_factory=dict[str, BaseException])
    last_step: int = field(init=False)
    _showed: bool = False

    def __post_init__(self) -> None:
        self.last_step = self.position.step + self.settings.recursion_limit + 1

    # --- facts --------------------------------------------------------------------------------------------------------

    def start(self, given: object, stamp: Stamp) -> list[Order]:
        """Begin with an input, or go on where the thread stopped when it is ``None``.

        Raises:
            EmptyInputError: there is neither an input nor anything to go on from.
            InvalidUpdateError: the input is a ``Command``.
        """
        if given is None:
            if not self.state.versions:
                raise EmptyInputError(
                    f"Received no input for {self.blueprint.input_channels}: the input is None, and the thread has no "
                    f"state to go on from; pass a dict of state keys"
                )
            return [*self._values(), *self._next_step()]
        if isinstance(given, Command):
            raise InvalidUpdateError(
                "a Command as a run's input (resume, update, goto) is not there yet; "
                "pass a dict of state keys, or None to go on where the thread stopped"
            )
        abandoned = [TaskWrites(task.path, task.name, task.triggers, ()) for task in self._plan()]
        first = TaskWrites((), INPUT, (), self._input_writes(given))
        changed = apply_writes(self.blueprint, self.state, [*abandoned, first], self.settings.next_version)
        return [self._commit("input", stamp, changed), *self._next_step()]

    def handle(self, event: Event) -> list[Order]:
        """Take a fact about a task of the current superstep. A task's first outcome counts; others change nothing."""
        task = self.tasks.get(event.task_id)
        if task is None or event.task_id in self.writes or event.task_id in self.failures:
            return []
        match event:
            case TaskFinished(writes=writes):
                return self._finished(task, writes, restored=event.restored)
            case TaskFailed(error=error):
                self.failures[task.id] = error
                orders: list[Order] = [SaveWrites(self.position.checkpoint_id, task, [(ERROR, repr(error))])]
                return [*orders, Abandon()] if self.settings.eager_failure else orders

    @property
    def barrier_full(self) -> bool:
        """Whether every task of the superstep has an outcome, or one failure settles it."""
        if self.settings.eager_failure and self.failures:
            return True
        return len(self.writes) + len(self.failures) == len(self.tasks)

    def close_step(self, stamp: Stamp) -> list[Order]:
        """The barrier is full: apply the superstep and order what comes next."""
        assert self.barrier_full, f"step {self.position.step} closed with {len(self.tasks)} tasks before all had ended"
        if self.failures:
            return [Fail(self._first_failure())]
        outcomes = [TaskWrites(t.path, t.name, t.triggers, self.writes[t.id]) for t in self.tasks.values()]
        try:
            changed = apply_writes(self.blueprint, self.state, outcomes, self.settings.next_version)
        except Exception as error:  # a channel refused, or the user's reducer raised: the step is not applied
            error.add_note(f"While applying the writes of superstep {self.position.step}; the checkpoint is as before")
            return [Fail(error)]
        updated = self.state.updated or frozenset()
        shown = [] if updated.isdisjoint(as_names(self.settings.output)) else self._values()
        return [*shown, self._commit("loop", stamp, changed), *self._next_step()]

    def output(self) -> object:
        """What the run returns: the output channels as they are now; ``None`` if it wrote to none of them."""
        return read_values(self.state, self.settings.output) if self._showed else None

    def _input_writes(self, given: object) -> list[Update]:
        """The writes that a run's input means.

        Raises:
            InvalidUpdateError: several channels take the input, and it is no dict.
        """
        channels = self.blueprint.input_channels
        if isinstance(channels, str):
            return [(channels, given)]
        if not isinstance(given, dict):
            raise InvalidUpdateError(
                f"Expected a dict for the input channels {', '.join(channels)}; got {given!r} ({type(given).__name__})"
            )
        values = cast("dict[str, object]", given)
        return [(name, values[name]) for name in channels if name in values]

    # --- inside -------------------------------------------------------------------------------------------------------

    def _emits(self, mode: StreamMode) -> bool:
        return mode in self.settings.modes

    def _values(self) -> list[Order]:
        """Show the state, to whoever wants to see it."""
        self._showed = True
        return [Emit("values", read_values(self.state, self.settings.output))] if self._emits("values") else []

    def _plan(self) -> list[Task]:
        where = self.position
        return plan(
            self.blueprint,
            self.state,
            checkpoint_id=where.checkpoint_id,
            namespace=self.namespace,
            step=where.step,
        )

    def _commit(self, source: Source, stamp: Stamp, changed: frozenset[str]) -> Commit:
        before = self.position
        self.position = Position(stamp.checkpoint_id, True, before.step + 1)
        return Commit(
            stamp,
            before.checkpoint_id if before.stored else None,
            source,
            before.step,
            changed,
        )

    def _next_step(self) -> list[Order]:
        self.tasks, self.writes, self.failures = {}, {}, {}
        limit = self.settings.recursion_limit
        if self.position.step > self.last_step:
            message = (
                f"Recursion limit of {limit} reached without hitting a stop condition. "
                f"You can increase the limit by setting the `recursion_limit` config key."
            )
            error = GraphRecursionError(
                create_error_message(message=message, error_code=ErrorCode.GRAPH_RECURSION_LIMIT)
            )
            due = sorted({task.name for task in self._plan()})
            error.add_note(f"Nodes still due in graph {self.blueprint.name!r}: {', '.join(due) or 'none'}")
            return [Fail(error)]
        self.tasks = {task.id: task for task in self._plan()}
        if not self.tasks:
            return [Finish()]
        orders: list[Order] = []
        for task_id, writes in self.pending.items():  # finished before a crash or a failed sibling: not run again
            if task_id in self.tasks:
                orders += self.handle(TaskFinished(task_id, writes, restored=True))
        self.pending = {}
        left = [task for task in self.tasks.values() if task.id not in self.writes]
        return [*orders, Dispatch(self.position.step, left)]

    def _finished(self, task: Task, writes: Sequence[Update], *, restored: bool) -> list[Order]:
        self.writes[task.id] = writes
        orders: list[Order] = []
        if not restored:
            orders.append(SaveWrites(self.position.checkpoint_id, task, writes))
        if self._emits("updates") and not self.blueprint.nodes[task.name].hidden:
            shown: dict[str, object] = {task.name: shown_update(writes, self.settings.output)}
            if restored:
                shown["__metadata__"] = {"cached": True}
            orders.append(Emit("updates", shown))
        return orders

    def _first_failure(self) -> BaseException:
        failed = sorted(self.failures, key=lambda task_id: path_order(self.tasks[task_id].path))
        first = self.failures[failed[0]]
        if len(failed) > 1:
            others = ", ".join(sorted({self.tasks[task_id].name for task_id in failed[1:]}))
            first.add_note(f"{len(failed) - 1} more tasks of this superstep failed (nodes: {others})")
        return first
