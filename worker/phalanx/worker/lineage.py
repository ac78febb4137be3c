"""What a run hands down to graphs that are called inside of its tasks: where they belong in the thread, and what was
answered."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.types import Durability, StreamMode

NAMESPACE_SEPARATOR: Final = "|"
"""Between the levels of a namespace: ``node:task id|inner node:task id``."""

_CALLS_AN_ATTEMPT: Final = 1000
"""More calls of graphs than one attempt of a task makes, so that each attempt has namespaces of its own."""

Below = Callable[[tuple[str, ...], StreamMode, object], None]
"""Takes what a graph inside streams: its namespace, the mode, the data."""


class LooseAnswer:
    """An answer that was given while nothing was asked: whatever asks first takes it. Threads may share it."""

    def __init__(self, *values: object) -> None:
        self._values = [*values]
        self._lock = threading.Lock()

    def take(self) -> list[object]:
        """The answer, the first time; after that nothing."""
        with self._lock:
            taken, self._values = self._values, []
            return taken


@dataclass(slots=True)
class Lineage:
    """Where a run stands among runs.

    Attributes:
        namespace: its own place in the thread; empty for the outermost.
        saver: keeps the threads of graphs inside that have no saver of their own.
        elsewhere: whether that is the outermost graph's own saver, although it runs on a cluster.
        durability: when their checkpoints are stored.
        parents: the checkpoints that the runs around it, and it itself, stand at, by namespace.
        answers: what was answered, by the id of the question.
        loose: what was answered without a question.
        again: whether those questions were answered before, and the thread has gone on since.
        seeds: the checkpoints that graphs inside begin from, by namespace, when the past of one is gone back to.
        moved: where namespaces of those seeds are now, since their tasks have new ids.
        before: the checkpoint the outermost run was set back to, and the one it went on with: what graphs inside did
            in between is not for this run.
        below: takes what graphs inside stream; ``None`` when nobody wants to know.
        below_modes: the modes of what it takes.
    """

    namespace: str = ""
    saver: BaseCheckpointSaver | None = None
    durability: Durability | None = None
    parents: Mapping[str, str] = field(default_factory=dict[str, str])
    answers: Mapping[str, object] = field(default_factory=dict[str, object])
    loose: LooseAnswer = field(default_factory=LooseAnswer)
    again: bool = False
    seeds: Mapping[str, str] = field(default_factory=dict[str, str])
    moved: Mapping[str, str] = field(default_factory=dict[str, str])
    before: tuple[str, str] | None = None
    below: Below | None = None
    below_modes: frozenset[StreamMode] = frozenset()
    elsewhere: bool = False


def task_namespace(outer: str, node: str, task_id: str) -> str:
    """The place of a task, and of the first graph called in it."""
    own = f"{node}:{task_id}"
    return f"{outer}{NAMESPACE_SEPARATOR}{own}" if outer else own


def call_namespace(task: str, attempt: int, call: int) -> str:
    """The place of a graph that a task calls.

    Args:
        task: the place of the task.
        attempt: which attempt of the task calls it, from 1.
        call: how many graphs this attempt has called before.
    """
    number = (attempt - 1) * _CALLS_AN_ATTEMPT + call
    return f"{task}{NAMESPACE_SEPARATOR}{number}" if number else task


_TASKS_APART: Final = 1_000_000
"""Of a number in a namespace, what tells the tasks of one node apart, rather than the calls of one task."""


def lasting(namespace: str, nth: int = 0) -> str:
    """The place of a graph that keeps its state over runs: the nodes without the ids of their tasks.

    Args:
        namespace: the place of the task that calls it.
        nth: how many tasks of that node come before the task in its superstep: each has a state of its own.
    """
    place = NAMESPACE_SEPARATOR.join(part.partition(":")[0] for part in namespace.split(NAMESPACE_SEPARATOR))
    return f"{place}{NAMESPACE_SEPARATOR}{nth * _TASKS_APART}" if nth else place


def node_names(namespace: str) -> list[str]:
    """The nodes that a namespace leads through. A number behind a node says which of several calls it is."""
    names: list[str] = []
    for part in namespace.split(NAMESPACE_SEPARATOR):
        node, named, _ = part.partition(":")
        if named or not names or not part.isdigit():
            names.append(node)
    return names


def levels(namespace: str) -> tuple[str, ...]:
    """The namespace as streams show it: one part for each graph in a graph."""
    return tuple(namespace.split(NAMESPACE_SEPARATOR)) if namespace else ()


def lineage_to_plain(lineage: Lineage) -> list[object]:
    """What workers are told of a lineage: all but what belongs to one process or one task."""
    return [
        lineage.namespace,
        lineage.saver is not None,
        lineage.durability,
        {**lineage.parents},
        {**lineage.answers},
        lineage.again,
        {**lineage.seeds},
        {**lineage.moved},
        None if lineage.before is None else [*lineage.before],
        lineage.elsewhere,
    ]


def lineage_from_plain(told: object, savers: "Savers") -> Lineage:
    """The lineage in a worker.

    Args:
        told: what :func:`lineage_to_plain` made.
        savers: what keeps threads from here.
    """
    namespace, kept, durability, parents, answers, again, seeds, moved, before, elsewhere = cast("list[Any]", told)
    return Lineage(
        namespace,
        savers.chosen(elsewhere=elsewhere) if kept else None,
        durability,
        parents,
        answers,
        again=again,
        seeds=seeds,
        moved=moved,
        before=None if before is None else tuple(before),
        elsewhere=elsewhere,
    )


@dataclass(frozen=True, slots=True)
class Savers:
    """What keeps the threads of graphs that are called inside of tasks in a worker process.

    Attributes:
        cluster: the cluster's saver.
        working: the same, for what is to be forgotten some time after it was last used.
        own: the outermost graph's own saver, as it is in this process.
    """

    cluster: BaseCheckpointSaver | None = None
    working: BaseCheckpointSaver | None = None
    own: object = None

    def chosen(self, *, elsewhere: bool) -> BaseCheckpointSaver | None:
        """The one to use.

        What a graph's own saver holds in memory, it holds in the process that made the run, which is not this one.
        """
        if not elsewhere:
            return self.cluster
        own = self.own
        if not hasattr(own, "get_tuple") or type(own).__name__ == "InMemorySaver":
            return self.working
        return cast("BaseCheckpointSaver", own)
