"""Where a run begins: which stored checkpoint it takes up, and how.

An outermost run takes up the thread's latest checkpoint, or the one it is pointed to. If the thread has gone on from
that one, there are three ways to go on differently: with new input, which simply branches off; with an answer to a
question that was asked there, which is dealt with anew; or with nothing new, which runs from a copy of the checkpoint,
so that every task after it is a new one and runs again.

A graph inside belongs to one task of the run around it. If its namespace holds a checkpoint that was made for that very
task, it goes on there: the task was begun before, and its input is not new.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from phalanx.checkpoint.base import CheckpointTuple
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.coordinator.commands import as_command
from phalanx.coordinator.recorder import NO_HISTORIES, Histories, missing_deltas, pending_of
from phalanx.coordinator.saver_access import SaverAccess
from phalanx.coordinator.terms import ANEW, Beginning
from phalanx.types import Interrupt
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.lineage import Lineage


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a thread a run belongs.

    Attributes:
        thread_id: the thread.
        namespace: the graph's place in it.
        checkpoint_id: the checkpoint to begin from; ``None`` for the latest.
        taken_from: the namespace of that checkpoint, where it is not the run's own.
        around: the run around it; ``None`` for an outermost one.
        parent: the namespace of the run around it, and the checkpoint that one stands at.
        lasts: whether its state outlives the task that it is called in.
    """

    thread_id: str
    namespace: str = ""
    checkpoint_id: str | None = None
    taken_from: str | None = None
    around: Lineage | None = None
    parent: tuple[str, str] = ("", "")
    lasts: bool = False

    def address(self, checkpoint_id: str | None = None, namespace: str | None = None) -> CheckpointAddress:
        """A checkpoint in this thread; by default the latest of this place."""
        return CheckpointAddress(self.thread_id, self.namespace if namespace is None else namespace, checkpoint_id)


@dataclass(frozen=True, slots=True)
class Opened:
    """What a run begins with.

    Attributes:
        histories: what the values of delta channels are made of that the checkpoint does not hold.
    """

    found: CheckpointTuple | None = None
    beginning: Beginning = field(default_factory=lambda: ANEW)
    histories: Histories = field(default_factory=lambda: NO_HISTORIES)


def opened_anew(lineage: Lineage) -> Opened:
    """What a run begins with that nobody keeps: nothing, but for what a graph inside was answered when it last ran."""
    return Opened(beginning=Beginning(answers=lineage.answers)) if lineage.answers and lineage.namespace else Opened()


async def histories_at(access: SaverAccess, blueprint: Blueprint, found: CheckpointTuple) -> Histories:
    """What the values of delta channels are made of that a checkpoint does not hold."""
    missing = missing_deltas(blueprint, found)
    return await access.history(found.config, missing) if missing else NO_HISTORIES


async def open_place(access: SaverAccess, blueprint: Blueprint, place: Place, given: object) -> Opened:
    """Find the checkpoint that a run begins from, and what is in it.

    Args:
        access: the saver.
        blueprint: the graph.
        place: where the run belongs.
        given: its input.

    Raises:
        ValueError: it is to begin from a checkpoint that the thread does not have.
    """
    opened = await _open(access, place, given)
    if opened.found is None or not blueprint.deltas:
        return opened
    return replace(opened, histories=await histories_at(access, blueprint, opened.found))


async def _open(access: SaverAccess, place: Place, given: object) -> Opened:
    if place.around is not None:
        return await _open_inside(access, place, place.around)
    if place.checkpoint_id is None:
        return Opened(await access.get(place.address().config()))
    found = await _pointed_to(access, place)
    latest = await access.get(place.address().config())
    command = as_command(given)
    answers = command is not None and command.resume is not None
    if latest is None or _id_of(latest) == _id_of(found):
        if answers or (given is not None and command is None):
            return Opened(found)
        if found.metadata.get("source") in ("update", "fork"):
            return Opened(found, _after_update(found) if given is None else ANEW)
        return Opened(found, Beginning(fork=True, latest=True))
    if given is not None and command is None:
        return Opened(found)
    if answers and pending_of(found).questions:
        return Opened(found, Beginning(again=True))
    return Opened(found, Beginning(fork=True))


def _after_update(found: CheckpointTuple) -> Beginning:
    """How a run begins from the latest checkpoint, if that is what an update from outside has made."""
    above = found.parent_config
    if above is None or found.metadata.get("source") not in ("update", "fork"):
        return ANEW
    parent_id = CheckpointAddress.of(above).checkpoint_id
    return ANEW if parent_id is None else Beginning(before=(parent_id, _id_of(found)))


async def _open_inside(access: SaverAccess, place: Place, around: Lineage) -> Opened:
    if place.checkpoint_id is not None:
        return Opened(await _pointed_to(access, place), Beginning(fork=True, continues=True))
    here = place.address().config()
    found = await access.get(here)
    if found is not None and around.before is not None:
        left, copy = around.before
        if left < _id_of(found) < copy:  # of what happened after the point that the thread was set back to
            found = await access.newest(here, lambda _: True, place.address(left).config())
    if found is None:
        return Opened(None)
    if around.again:  # the state may have lasted until now, and be of a later task
        asked = await access.newest(here, lambda each: _is_for(each, place) and _asked_in(each, around.answers))
        if asked is not None:
            again = _id_of(asked) != _id_of(found)
            return Opened(asked, Beginning(again=again, continues=True, answers=around.answers))
    if not _is_for(found, place):
        return Opened(found)
    return Opened(found, Beginning(continues=True, answers=around.answers))


async def _pointed_to(access: SaverAccess, place: Place) -> CheckpointTuple:
    found = await access.get(place.address(place.checkpoint_id, place.taken_from).config())
    if found is None:
        raise ValueError(
            f"thread {place.thread_id!r} has no checkpoint {place.checkpoint_id!r}"
            + (f" in namespace {place.namespace!r}" if place.namespace else "")
            + "; get_state_history lists those it has"
        )
    return found


def _is_for(found: CheckpointTuple, place: Place) -> bool:
    """Whether a checkpoint of a graph inside was made for the task that it is called in now."""
    namespace, checkpoint_id = place.parent
    return not checkpoint_id or found.metadata.get("parents", {}).get(namespace) == checkpoint_id


def _asked_in(found: CheckpointTuple, answers: Mapping[str, object]) -> bool:
    questions: list[Interrupt] = [each for asked in pending_of(found).questions.values() for each in asked]
    return any(question.id in answers for question in questions)


def _id_of(found: CheckpointTuple) -> str:
    return found.checkpoint["id"]
