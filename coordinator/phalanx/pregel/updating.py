"""Updating a thread's state from outside, as if a node had run.

An update makes a checkpoint of its own. What the thread's unfinished superstep has finished is taken into it, and what
the node would have led to is due next. Some names of nodes stand for something else: ``__end__`` ends what was due,
``__input__`` is a run's input, ``__copy__`` copies the checkpoint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from phalanx.checkpoint.base import CheckpointTuple
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.ids import checkpoint_id
from phalanx.config import RunnableConfig
from phalanx.constants import END, START
from phalanx.coordinator.apply import TaskWrites, apply_writes
from phalanx.coordinator.commands import apply_command
from phalanx.coordinator.messages import Commit, SaveWrites, Source
from phalanx.coordinator.opening import histories_at
from phalanx.coordinator.plan import Task, outside_task
from phalanx.coordinator.recorder import NO_HISTORIES, Recorder, deltas_of, now, open_run, pending_of
from phalanx.coordinator.run import Run
from phalanx.coordinator.saver_access import SaverAccess
from phalanx.coordinator.state import NextVersion
from phalanx.coordinator.terms import RunSettings
from phalanx.errors import InvalidUpdateError
from phalanx.pregel.snapshot import with_map
from phalanx.pregel.thread_state import ThreadView
from phalanx.protocol.names import INPUT, INTERRUPT, NO_WRITES, PULL
from phalanx.types import StateUpdate, Update
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.run_task import Caller, StateView, run_task
from phalanx.worker.task_context import RunContext, TaskContext

COPY: Final = "__copy__"
"""The node in whose name an update copies the checkpoint."""


async def update_thread(
    view: ThreadView,
    access: SaverAccess,
    call: Caller,
    next_version: NextVersion,
    supersteps: Sequence[Sequence[StateUpdate]],
) -> RunnableConfig:
    """Make one checkpoint for each superstep of updates, and return the address of the last.

    Raises:
        ValueError: there are no updates.
        TypeError: something among them is none.
        InvalidUpdateError: they do not go together, name no node, or the state cannot take them.
    """
    if not supersteps:
        raise ValueError("No supersteps provided: bulk_update_state takes a list of lists of StateUpdate")
    for updates in supersteps:
        if not updates:
            raise ValueError("No updates provided: a superstep without updates would change nothing")
    for number, updates in enumerate(supersteps):
        for each in cast("Sequence[object]", updates if isinstance(updates, (list, tuple)) else [updates]):
            if not isinstance(each, StateUpdate):
                raise TypeError(
                    f"bulk_update_state takes a list of lists of StateUpdate(values, as_node); "
                    f"superstep {number} has {each!r}"
                )
    for updates in supersteps:
        update = await _Superstep.begin(view, access, call, next_version)
        config = await update.make(updates)
        view = replace(view, config=config)
    return view.config


@dataclass(slots=True)
class _Superstep:
    """One superstep of updates.

    Attributes:
        run: stands where the thread does.
        saved: the checkpoint there.
        latest: whether that is the thread's latest, so that what its tasks have finished counts.
    """

    view: ThreadView
    access: SaverAccess
    call: Caller
    next_version: NextVersion
    run: Run
    recorder: Recorder
    saved: CheckpointTuple | None
    latest: bool

    @classmethod
    async def begin(
        cls, view: ThreadView, access: SaverAccess, call: Caller, next_version: NextVersion
    ) -> "_Superstep":
        saved = await access.get(view.config)
        address = CheckpointAddress.of(view.config)
        if saved is None and address.checkpoint_id is not None:
            raise ValueError(
                f"thread {address.thread_id!r} has no checkpoint {address.checkpoint_id!r} to update; "
                f"get_state_history lists those it has"
            )
        blueprint = view.graph.blueprint
        histories = NO_HISTORIES if saved is None else await histories_at(access, blueprint, saved)
        settings = RunSettings(1, frozenset(), ())
        run, values = open_run(blueprint, settings, saved, address.namespace, histories=histories)
        parents = {} if saved is None else saved.metadata.get("parents", {})
        where = CheckpointAddress(address.thread_id, address.namespace, None)
        deltas = deltas_of(blueprint, saved, run.state)
        recorder = Recorder(where, view.config, parents, values, blueprint.untracked, deltas)
        return cls(view, access, call, next_version, run, recorder, saved, address.checkpoint_id is None)

    @property
    def blueprint(self) -> Blueprint:
        return self.view.graph.blueprint

    async def make(self, updates: Sequence[StateUpdate]) -> RunnableConfig:
        """Make the checkpoint and return its address."""
        names = [update.as_node for update in updates]
        alone = len(updates) == 1
        if COPY in names:
            if not alone:
                raise InvalidUpdateError("Cannot copy checkpoint with multiple updates")
            return await self._copy(updates[0])
        if INPUT in names:
            if not alone:
                raise InvalidUpdateError("Cannot apply multiple updates when updating as input")
            return await self._as_input(updates[0].values)
        if any(update.as_node == END and update.values is None for update in updates):
            if not alone:
                raise InvalidUpdateError("Cannot apply multiple updates when clearing state")
            return await self._clear()
        return await self._as_nodes(updates)

    async def _copy(self, update: StateUpdate) -> RunnableConfig:
        """Make a sibling of the checkpoint; then, if values are given as ``[(values, node), …]``, update that one."""
        saved = self.saved
        if saved is None:
            raise InvalidUpdateError("Cannot copy a non-existent checkpoint: nothing has run on this thread yet")
        above = CheckpointAddress.of(saved.parent_config).checkpoint_id if saved.parent_config else None
        copied = await self._commit("fork", frozenset(self.run.state.versions), above)
        further = cast("Sequence[Any]", update.values)
        if not isinstance(update.values, list) or not further:
            return copied
        view = replace(self.view, config=copied)
        updates = [each if isinstance(each, StateUpdate) else StateUpdate(*each) for each in further]
        return await update_thread(view, self.access, self.call, self.next_version, [updates])

    async def _as_input(self, values: object) -> RunnableConfig:
        if values is None:
            raise InvalidUpdateError(
                f"Received no input writes for {self.blueprint.input_channels}: as {INPUT}, the values are the input"
            )
        writes = self.run.input_writes(values)
        changed = self._take_commands()
        first = TaskWrites((), INPUT, (), writes)
        changed |= apply_writes(self.blueprint, self.run.state, [first], self.next_version)
        return await self._commit("input", changed, self._here)

    async def _clear(self) -> RunnableConfig:
        """End what was due: what has finished counts, the rest is dropped."""
        latest = self.saved if self.latest else None
        finished: Mapping[str, Sequence[Update]] = {} if latest is None else pending_of(latest).finished
        changed = self._take_commands()
        tasks = self.run.plan()
        writes = [TaskWrites(task.path, task.name, task.triggers, finished.get(task.id, ())) for task in tasks]
        changed |= apply_writes(self.blueprint, self.run.state, writes, self.next_version)
        self._skip_input()
        return await self._commit("update", changed, self._here)

    async def _as_nodes(self, updates: Sequence[StateUpdate]) -> RunnableConfig:
        named = [self._named(update, alone=len(updates) == 1) for update in updates]
        due = self.run.plan()
        changed = self._take_finished(due)
        made = [(task, await self._writes(task.name, values)) for task, values in self._tasks(named, due)]
        outcomes = [TaskWrites((), task.name, (INTERRUPT,), writes) for task, writes in made]
        changed |= apply_writes(self.blueprint, self.run.state, outcomes, self.next_version)
        shown = self.saved is not None and await self._is_newest(self.saved)
        before = self.run.position.checkpoint_id
        self._skip_input()
        stored = await self._commit("update", changed, self._here)
        if shown:
            await self._show(made, before)
        return stored

    async def _show(self, made: Sequence[tuple[Task, Sequence[Update]]], checkpoint_id: str) -> None:
        """Let the history show what was written in the place of which task.

        Only after the update is stored: were it the other way round, an update made again, since nobody knew whether it
        had been made, would find those tasks finished, and count twice.
        """
        for task, writes in made:
            if all(channel == NO_WRITES for channel, _ in writes):
                continue
            order = SaveWrites(checkpoint_id, task, writes)
            await self.access.put_writes(self.recorder.put_writes_arguments(order))

    async def _is_newest(self, saved: CheckpointTuple) -> bool:
        """Whether the thread has not gone on from the checkpoint: what it knows of an older one stays as it is."""
        address = CheckpointAddress.of(saved.config)
        newest = await self.access.get(replace(address, checkpoint_id=None).config())
        return newest is not None and newest.checkpoint["id"] == saved.checkpoint["id"]

    def _skip_input(self) -> None:
        """A thread begins with an input, which an update in a node's name does without."""
        if self.run.position.step < 0:
            self.run.position = replace(self.run.position, step=0)

    def _named(self, update: StateUpdate, *, alone: bool) -> StateUpdate:
        """The update with the node it is made for."""
        if update.as_node is not None:
            if update.as_node == END:
                raise InvalidUpdateError(
                    f"Node {END} does not exist: as {END}, the values are None, and what is due ends"
                )
            if update.as_node not in self.blueprint.nodes:
                visible = ", ".join(name for name, node in self.blueprint.nodes.items() if not node.hidden)
                raise InvalidUpdateError(
                    f"Node {update.as_node} does not exist in {self.blueprint.called}; its nodes are: {visible}"
                )
            return update
        if not alone:
            raise InvalidUpdateError("as_node is required when applying multiple updates")
        return update._replace(as_node=self._last_node())

    def _last_node(self) -> str:
        """The node that ran last, if that is clear."""
        nodes, seen = self.blueprint.nodes, self.run.state.seen
        if len(nodes) == 1:
            return next(iter(nodes))
        if START in nodes and not any(seen.get(name) for name in nodes):
            return START
        ran = sorted(
            ((version, name) for name in nodes for version in seen.get(name, {}).values()),
            key=lambda each: each[0],
        )
        last = {name for version, name in ran if version == ran[-1][0]}
        if len(last) != 1:
            raise InvalidUpdateError(
                f"Ambiguous update, specify as_node: "
                f"{', '.join(sorted(last)) + ' ran last, side by side' if last else 'no node has run on this thread'}"
            )
        return last.pop()

    def _take_finished(self, due: Sequence[Task]) -> frozenset[str]:
        """Take what the thread's unfinished superstep has finished, unless an older checkpoint was asked for."""
        if self.saved is None or not self.latest:
            return frozenset()
        pending = pending_of(self.saved)
        changed = self._take_commands()
        finished = [
            TaskWrites(task.path, task.name, task.triggers, pending.finished[task.id])
            for task in due
            if task.id in pending.finished
        ]
        if finished:
            changed |= apply_writes(self.blueprint, self.run.state, finished, self.next_version)
        return changed

    def _take_commands(self) -> frozenset[str]:
        """Take what commands wrote that were given where the thread is."""
        changed = frozenset[str]()
        if self.saved is not None and self.latest:
            for writes in pending_of(self.saved).commands:
                changed |= apply_command(self.blueprint, self.run.state, writes, self.next_version)
        return changed

    def _tasks(self, updates: Sequence[StateUpdate], due: Sequence[Task]) -> list[tuple[Task, object]]:
        """The tasks in whose place the updates are made: those that are due, or made up."""
        left = {task.id: task for task in due}
        chosen: list[tuple[Task, object]] = []
        for number, update in enumerate(updates):
            node = cast("str", update.as_node)
            task = self._due_task(update, left) or outside_task(self.run.position.checkpoint_id, node, number)
            left.pop(task.id, None)
            chosen.append((task, update.values))
        return chosen

    def _due_task(self, update: StateUpdate, left: dict[str, Task]) -> Task | None:
        if update.task_id is not None:
            task = left.get(update.task_id)
            if task is None or task.name != update.as_node:
                raise InvalidUpdateError(
                    f"no task {update.task_id} of node {update.as_node} is due at this checkpoint; "
                    f"due are: {', '.join(f'{each.name} ({each.id})' for each in left.values()) or 'none'}"
                )
            return task
        return next((task for task in left.values() if task.name == update.as_node), None)

    async def _writes(self, node: str, values: object) -> list[Update]:
        """What the node would have written, its conditional edges included."""
        spec = replace(self.blueprint.nodes[node], actions=())
        run = RunContext(self.view.config)
        context = TaskContext(run, node, "", (PULL, node), (), self.run.position.step)
        view = StateView(self.run.state.channels, self.run.limits)
        return await run_task(spec, values, view, self.call, context)

    @property
    def _here(self) -> str | None:
        return None if self.saved is None else self.run.position.checkpoint_id

    async def _commit(self, source: Source, changed: frozenset[str], parent_id: str | None) -> RunnableConfig:
        position, state = self.run.position, self.run.state
        state.updated = None  # whoever goes on from here has to look at every node
        identity = checkpoint_id(position.step, position.checkpoint_id)
        order = Commit(now(identity), parent_id, source, position.step, changed)
        arguments = self.recorder.put_arguments(order, state)
        stored = await self.access.put(arguments)
        metadata = arguments[2]
        return with_map(stored, CheckpointTuple(stored, arguments[1], metadata))
