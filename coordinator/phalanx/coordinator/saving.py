"""What a run gives to its saver, and when: its durability.

========  ==============================================================================================================
sync      each checkpoint, and what each task wrote, before the run goes on
async     the same in the background, in order; the run goes on, but not further ahead than :data:`MOST_AHEAD`
exit      the last checkpoint, and what tasks have written since, once the run has come to its end
========  ==============================================================================================================

What is stored later than it was made must not change in between, and nodes may change values in place. So a value that
has to wait is encoded at once, by the saver's own serializer, and decoded when its turn comes.

A graph inside of a task, whose state does not outlive the task, stores nothing with ``exit`` if it ends well.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from phalanx.channels.base import MISSING
from phalanx.checkpoint.base import BaseCheckpointSaver, ChannelVersions
from phalanx.constants import START
from phalanx.coordinator.messages import Commit, SaveWrites
from phalanx.coordinator.recorder import Recorder
from phalanx.coordinator.saver_access import PutArguments, PutWritesArguments, SaverAccess
from phalanx.coordinator.state import GraphState
from phalanx.errors import UnserializableError
from phalanx.protocol import names
from phalanx.types import Durability, Send, Update

MOST_AHEAD: Final = 64
"""How many things a run may have handed to its saver that are not stored yet."""


@dataclass(slots=True)
class _Frozen:
    """A value that waits to be stored, encoded.

    Attributes:
        thawed: the value again, once it was wanted: nodes never see it, so nobody changes it.
    """

    typed: object
    thawed: object = MISSING

    @classmethod
    def of(cls, value: object, saver: BaseCheckpointSaver) -> object:
        serde = getattr(saver, "serde", None)
        if hasattr(serde, "dumps_typed"):
            return cls(cast("Any", serde).dumps_typed(value))
        return copy.deepcopy(value)


def _thawed(value: object, saver: BaseCheckpointSaver) -> object:
    if not isinstance(value, _Frozen):
        return value
    if value.thawed is MISSING:
        value.thawed = saver.serde.loads_typed(cast("tuple[str, bytes]", value.typed))
    return value.thawed


@dataclass(frozen=True, slots=True)
class Saved:
    """One thing to store: a checkpoint, or writes pending on one.

    Attributes:
        waits: whether it has to wait, so that values in it are encoded.
    """

    put: PutArguments | None = None
    writes: PutWritesArguments | None = None
    waits: bool = True

    async def store(self, access: SaverAccess) -> None:
        """Store it."""
        if not self.waits:
            if self.put is not None:
                await access.put(self.put)
            elif self.writes is not None:
                await access.put_writes(self.writes)
        elif self.put is not None:
            config, checkpoint, metadata, versions = self.put
            values = {name: _thawed(value, access.saver) for name, value in checkpoint["channel_values"].items()}
            await access.put((config, {**checkpoint, "channel_values": values}, metadata, versions))
        elif self.writes is not None:
            config, writes, task_id, path = self.writes
            await access.put_writes((config, [(key, _thawed(v, access.saver)) for key, v in writes], task_id, path))


def explained(
    error: UnserializableError, order: Commit | SaveWrites, saver: BaseCheckpointSaver, state: GraphState
) -> UnserializableError:
    """The error of a value that cannot be stored, saying whose and which it is."""
    if isinstance(order, SaveWrites):
        values = [(_of_node(order.task.name, key, value), value) for key, value in order.writes]
    else:
        values = [(_of_input(key), state.channels[key].transfer()) for key in sorted(order.changed)]
    for where, value in values:
        try:
            saver.serde.dumps_typed(value)
        except UnserializableError as found:
            return UnserializableError(found.type_name, found.path, found.hint, where)
    return error


def _of_node(node: str, key: str, value: object) -> str:
    match key:
        case names.INTERRUPT:
            return f"what node {node!r} asks"
        case names.RESUME:
            return f"the answer to node {node!r}"
        case names.TASKS:
            return f"node {node!r}, the argument of its Send to {cast('Send', value).node!r}"
        case _:
            return f"node {node!r}, state key {key!r}"


def _of_input(key: str) -> str:
    return "the run's input" if key == START else f"state key {key!r}"


@dataclass(slots=True)
class Saving:
    """Decides what is stored when.

    Attributes:
        durability: when a checkpoint is stored.
        lasts: whether the state outlives the task that the graph is called in; always that of an outermost graph.
    """

    recorder: Recorder
    saver: BaseCheckpointSaver
    durability: Durability = "sync"
    lasts: bool = True
    _put: PutArguments | None = None
    _versions: ChannelVersions = field(default_factory=ChannelVersions)
    _writes: list[PutWritesArguments] = field(default_factory=list[PutWritesArguments])

    def take(self, order: Commit | SaveWrites, state: GraphState) -> list[Saved]:
        """What to store because of an order."""
        if isinstance(order, SaveWrites):
            writes = self.recorder.put_writes_arguments(order)
            if self.durability == "sync":
                return [Saved(writes=writes, waits=False)]
            return self._hold_writes((writes[0], self._frozen_writes(writes[1]), *writes[2:]))
        before = self._put
        put = self.recorder.put_arguments(order, state)
        if self.durability == "sync":
            return [Saved(put, waits=False)]
        return self._hold(self._frozen(put, order), before)

    def _hold_writes(self, writes: PutWritesArguments) -> list[Saved]:
        if self.durability == "async":
            return [Saved(writes=writes)]
        self._writes.append(writes)
        return []

    def _hold(self, put: PutArguments, before: PutArguments | None) -> list[Saved]:
        if self.durability == "async":
            return [Saved(put)]
        config, checkpoint, metadata, versions = put
        self._versions = {**self._versions, **versions}
        parent = config if before is None else before[0]  # the last that is stored
        self._put, self._writes = (parent, checkpoint, metadata, self._versions), []
        return []

    def _frozen(self, put: PutArguments, order: Commit) -> PutArguments:
        """The same with the values that changed encoded; the recorder keeps them so for the checkpoints to come."""
        config, checkpoint, metadata, versions = put
        kept = self.recorder.values
        for name in order.changed:
            if name in kept:
                kept[name] = _Frozen.of(kept[name], self.saver)
        return config, {**checkpoint, "channel_values": {**kept}}, metadata, versions

    def _frozen_writes(self, writes: Sequence[Update]) -> list[Update]:
        return [(channel, _Frozen.of(value, self.saver)) for channel, value in writes]

    def at_end(self, *, ended_well: bool) -> list[Saved]:
        """What to store now that the run is over.

        Args:
            ended_well: whether it came to its end, rather than to a question, a breakpoint or an error.
        """
        put, writes = self._put, self._writes
        self._put, self._versions, self._writes = None, {}, []
        if ended_well and not self.lasts:
            return []
        return [*([] if put is None else [Saved(put)]), *(Saved(writes=each) for each in writes)]
