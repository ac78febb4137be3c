"""The ways to run a graph, behind one small interface, so that a test says its rule once."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.config import RunnableConfig
from phalanx.graph import CompiledStateGraph, StateGraph
from phalanx.testing.in_process import InProcessCluster
from phalanx.types import StateSnapshot, StateUpdate

T = TypeVar("T")
Graph = CompiledStateGraph[Any]
Supersteps = Sequence[Sequence[StateUpdate]]

_numbers: Final = itertools.count(1)


def compiled(builder: StateGraph[Any], checkpointer: BaseCheckpointSaver | bool | None = None, **options: Any) -> Graph:
    """The graph under a name of its own, since the workers of a cluster tell graphs apart by name."""
    return builder.compile(checkpointer, name=f"graph-{next(_numbers)}", **options)


def thread(thread_id: str, **more: Any) -> RunnableConfig:
    """The config of a thread; ``more`` are other entries of the config."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
    return {**config, **more}  # type: ignore[typeddict-item]


class Drive(Protocol):
    """One way to run graphs."""

    name: str

    def invoke(self, graph: Graph, given: object, config: RunnableConfig | None = None, **options: Any) -> Any:
        """Run a graph and return what it returns."""
        ...

    def stream(self, graph: Graph, given: object, config: RunnableConfig | None = None, **options: Any) -> list[Any]:
        """Run a graph and return all that it streams."""
        ...

    def read(self, graph: Graph, given: object, reader: Callable[[Any], None]) -> None:
        """Run a graph and give each item of its stream to ``reader`` as it comes."""
        ...

    def get_state(self, graph: Graph, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """The state of a thread."""
        ...

    def history(self, graph: Graph, config: RunnableConfig, **options: Any) -> list[StateSnapshot]:
        """The states of a thread, newest first."""
        ...

    def update(self, graph: Graph, config: RunnableConfig, values: Any, as_node: str | None = None) -> RunnableConfig:
        """Change a thread's state from outside."""
        ...

    def bulk_update(self, graph: Graph, config: RunnableConfig, supersteps: Supersteps) -> RunnableConfig:
        """Change a thread's state from outside, superstep by superstep."""
        ...

    def keeping(self, builder: StateGraph[Any], **options: Any) -> Graph:
        """The graph, compiled so that its threads are kept."""
        ...


class Inline:
    """In the calling thread."""

    name = "inline"

    def invoke(self, graph: Graph, given: object, config: RunnableConfig | None = None, **options: Any) -> Any:
        return graph.invoke(given, config, **options)

    def stream(self, graph: Graph, given: object, config: RunnableConfig | None = None, **options: Any) -> list[Any]:
        return [*graph.stream(given, config, **options)]

    def read(self, graph: Graph, given: object, reader: Callable[[Any], None]) -> None:
        for item in graph.stream(given):
            reader(item)

    def get_state(self, graph: Graph, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        return graph.get_state(config, subgraphs=subgraphs)

    def history(self, graph: Graph, config: RunnableConfig, **options: Any) -> list[StateSnapshot]:
        return [*graph.get_state_history(config, **options)]

    def update(self, graph: Graph, config: RunnableConfig, values: Any, as_node: str | None = None) -> RunnableConfig:
        return graph.update_state(config, values, as_node)

    def bulk_update(self, graph: Graph, config: RunnableConfig, supersteps: Supersteps) -> RunnableConfig:
        return graph.bulk_update_state(config, supersteps)

    def keeping(self, builder: StateGraph[Any], **options: Any) -> Graph:
        return compiled(builder, InMemorySaver(), **options)


class InlineAsync(Inline):
    """On an event loop."""

    name = "inline-async"

    def invoke(self, graph: Graph, given: object, config: RunnableConfig | None = None, **options: Any) -> Any:
        return asyncio.run(graph.ainvoke(given, config, **options))

    def stream(self, graph: Graph, given: object, config: RunnableConfig | None = None, **options: Any) -> list[Any]:
        return asyncio.run(_gathered(graph.astream(given, config, **options)))

    def read(self, graph: Graph, given: object, reader: Callable[[Any], None]) -> None:
        async def read_all() -> None:
            async for item in graph.astream(given):
                reader(item)

        asyncio.run(read_all())

    def get_state(self, graph: Graph, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        return asyncio.run(graph.aget_state(config, subgraphs=subgraphs))

    def history(self, graph: Graph, config: RunnableConfig, **options: Any) -> list[StateSnapshot]:
        return asyncio.run(_gathered(graph.aget_state_history(config, **options)))

    def update(self, graph: Graph, config: RunnableConfig, values: Any, as_node: str | None = None) -> RunnableConfig:
        return asyncio.run(graph.aupdate_state(config, values, as_node))

    def bulk_update(self, graph: Graph, config: RunnableConfig, supersteps: Supersteps) -> RunnableConfig:
        return asyncio.run(graph.abulk_update_state(config, supersteps))


async def _gathered(items: AsyncIterator[T]) -> list[T]:
    return [item async for item in items]


class OnCluster(Inline):
    """On the workers of a cluster. Threads are kept in the cluster's own server unless the graph has a saver."""

    name = "cluster"

    def __init__(self, cluster: InProcessCluster) -> None:
        self.cluster = cluster

    def invoke(self, graph: Graph, given: object, config: RunnableConfig | None = None, **options: Any) -> Any:
        return graph.with_cluster(self.cluster).invoke(given, config, **options)

    def stream(self, graph: Graph, given: object, config: RunnableConfig | None = None, **options: Any) -> list[Any]:
        return [*graph.with_cluster(self.cluster).stream(given, config, **options)]

    def read(self, graph: Graph, given: object, reader: Callable[[Any], None]) -> None:
        super().read(graph.with_cluster(self.cluster), given, reader)

    def get_state(self, graph: Graph, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        return super().get_state(graph.with_cluster(self.cluster), config, subgraphs=subgraphs)

    def history(self, graph: Graph, config: RunnableConfig, **options: Any) -> list[StateSnapshot]:
        return super().history(graph.with_cluster(self.cluster), config, **options)

    def update(self, graph: Graph, config: RunnableConfig, values: Any, as_node: str | None = None) -> RunnableConfig:
        return super().update(graph.with_cluster(self.cluster), config, values, as_node)

    def bulk_update(self, graph: Graph, config: RunnableConfig, supersteps: Supersteps) -> RunnableConfig:
        return super().bulk_update(graph.with_cluster(self.cluster), config, supersteps)

    def keeping(self, builder: StateGraph[Any], **options: Any) -> Graph:
        return compiled(builder, **options)


class OnClusterWithSaver(OnCluster):
    """On the workers of a cluster, with threads kept by the graph's own saver in this process."""

    name = "cluster-own-saver"

    def keeping(self, builder: StateGraph[Any], **options: Any) -> Graph:
        return compiled(builder, InMemorySaver(), **options)


def keys_left(cluster: InProcessCluster) -> Iterator[tuple[str, int]]:
    """Every key in the cluster's server but the broker's own, and its seconds to live; -1 is for ever."""
    client: Any = cluster.saver.client
    for raw in client.scan_iter(count=1000):
        key = raw.decode(errors="replace")
        if not key.startswith(("_kombu", "unacked", "phalanx:workers", "phalanx:worker:")):
            yield key, int(client.ttl(raw))
