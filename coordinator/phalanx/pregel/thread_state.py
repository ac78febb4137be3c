"""Looking at the state that threads keep, that of graphs inside of tasks included."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from phalanx.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from phalanx.config import RunnableConfig
from phalanx.coordinator.opening import histories_at
from phalanx.coordinator.saver_access import SaverAccess, SaverHere, SaverOnLoop
from phalanx.pregel.nested import nested_graph
from phalanx.pregel.snapshot import TaskStates, no_snapshot, planned_tasks, snapshot_of
from phalanx.types import StateSnapshot
from phalanx.worker.lineage import NAMESPACE_SEPARATOR, lasting, node_names, task_namespace
from phalanx.worker.run_task import run_to_end

if TYPE_CHECKING:
    from phalanx.pregel.pregel import Pregel


@dataclass(frozen=True, slots=True)
class ThreadView:
    """A graph's state in a thread.

    Attributes:
        graph: the graph, or one inside of it.
        config: addresses the thread, the graph's namespace in it, and maybe a checkpoint.
        nth: how many tasks of the node whose graph it is come before the task in its superstep.
    """

    graph: "Pregel"
    config: RunnableConfig
    nth: int = 0

    @classmethod
    def of(cls, graph: "Pregel", config: RunnableConfig) -> "ThreadView":
        """The view that a config asks for: of the graph itself, or of the one inside that its namespace names.

        Raises:
            ValueError: there is no such graph inside.
        """
        namespace = str(config.get("configurable", {}).get("checkpoint_ns") or "")
        if not namespace:
            return cls(graph, config)
        names = node_names(namespace)
        inside = graph_inside(graph, names)
        if inside is None:
            known = [name for name, _ in graph.get_subgraphs(recurse=True)]
            raise ValueError(
                f"Subgraph {NAMESPACE_SEPARATOR.join(names)} not found: the namespace {namespace!r} leads to no graph "
                f"inside {graph.blueprint.called}; there are: {', '.join(known) or 'none'}"
            )
        return cls(inside, config).at(namespace)

    def at(self, namespace: str) -> "ThreadView":
        """The same graph at a namespace; one whose state lasts keeps it where no task is named."""
        here = lasting(namespace, self.nth) if self.graph.checkpointer is True else namespace
        configurable = {**self.config.get("configurable", {}), "checkpoint_ns": here}
        return replace(self, config={**self.config, "configurable": configurable})

    @property
    def chosen(self) -> bool:
        """Whether one checkpoint is asked for, rather than the latest."""
        return "checkpoint_id" in self.config.get("configurable", {})

    async def snapshot(self, access: SaverAccess, *, deep: bool) -> StateSnapshot:
        """The state.

        Args:
            access: the saver.
            deep: whether to show the states of graphs inside, rather than where to ask for them.
        """
        config = self.at(str(self.config.get("configurable", {}).get("checkpoint_ns") or "")).config
        found = await access.get(config)
        if found is None:
            return no_snapshot(config)
        states = await self._states(access, found, deep=deep)
        blueprint = self.graph.blueprint
        histories = await histories_at(access, blueprint, found)
        return snapshot_of(blueprint, found, chosen=self.chosen, states=states, histories=histories)

    async def from_history(self, access: SaverAccess, found: CheckpointTuple) -> StateSnapshot:
        """A state of the past."""
        states = {task: view.address for task, view in self._inside(found).items()}
        blueprint = self.graph.blueprint
        histories = await histories_at(access, blueprint, found)
        return snapshot_of(blueprint, found, chosen=True, states=states, histories=histories)

    @property
    def address(self) -> RunnableConfig:
        """Where to ask for this state."""
        configurable = self.config.get("configurable", {})
        return {"configurable": {key: configurable[key] for key in ("thread_id", "checkpoint_ns")}}

    async def _states(self, access: SaverAccess, found: CheckpointTuple, *, deep: bool) -> TaskStates:
        inside = self._inside(found)
        if not deep:
            return {task: view.address for task, view in inside.items()}
        return {task: await view.snapshot(access, deep=True) for task, view in inside.items()}

    def _inside(self, found: CheckpointTuple) -> Mapping[str, "ThreadView"]:
        """The graphs inside of the tasks that start from a checkpoint, by task id."""
        blueprint = self.graph.blueprint
        graphs = {name: inner for name, node in blueprint.nodes.items() if (inner := nested_graph(node)) is not None}
        if not graphs:
            return {}
        here: dict[str, Any] = found.config.get("configurable", {})
        outer = str(here.get("checkpoint_ns", ""))
        return {
            task.id: ThreadView(
                graphs[task.name],
                {
                    "configurable": {
                        "thread_id": here["thread_id"],
                        "checkpoint_ns": task_namespace(outer, task.name, task.id),
                    }
                },
                task.nth,
            )
            for task in planned_tasks(blueprint, found)
            if task.name in graphs
        }


def graph_inside(graph: "Pregel", names: list[str]) -> "Pregel | None":
    """The graph inside of a graph's node, and inside of that one's, and so on."""
    inside: Pregel | None = graph
    for name in names:
        node = None if inside is None else inside.blueprint.nodes.get(name)
        inside = None if node is None else nested_graph(node)
    return inside


def history(
    view: ThreadView,
    saver: BaseCheckpointSaver,
    wanted: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> Iterator[StateSnapshot]:
    """The states of a thread, newest first."""
    _check_filter(wanted)
    for found in saver.list(_in_namespace(view.config), filter=wanted, before=before, limit=limit):
        yield run_to_end(view.from_history(SaverHere(saver), found))


async def ahistory(
    view: ThreadView,
    saver: BaseCheckpointSaver,
    wanted: dict[str, Any] | None,
    before: RunnableConfig | None,
    limit: int | None,
) -> AsyncIterator[StateSnapshot]:
    """:func:`history` without blocking the event loop."""
    _check_filter(wanted)
    async for found in saver.alist(_in_namespace(view.config), filter=wanted, before=before, limit=limit):
        yield await view.from_history(SaverOnLoop(saver), found)


def _check_filter(wanted: object) -> None:
    if wanted is not None and not isinstance(wanted, dict):
        raise TypeError(f"filter is a dict of metadata entries, such as {{'source': 'update'}}; got {wanted!r}")


def _in_namespace(config: RunnableConfig) -> RunnableConfig:
    """The config with its namespace named: without, a saver lists those of all namespaces."""
    return {**config, "configurable": {"checkpoint_ns": "", **config.get("configurable", {})}}
