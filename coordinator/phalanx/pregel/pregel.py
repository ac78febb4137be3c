"""``Pregel``: run a compiled graph, stream what happens, and look at the state its threads keep."""

import copy
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, cast

from typing_extensions import Unpack

from phalanx.cache.base import BaseCache
from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.config import SURROUNDINGS, RunnableConfig, merge_configs
from phalanx.coordinator.default_cluster import default_cluster
from phalanx.coordinator.inline import InlineDriver
from phalanx.coordinator.output import Keys
from phalanx.coordinator.stops import NO_STOPS, Stops
from phalanx.pregel import schemas
from phalanx.pregel.bare import BareGraph, check_bare, check_step_timeout
from phalanx.pregel.call import Call, Callee, CallOptions, Modes, stops_at
from phalanx.pregel.nested import nested_graph
from phalanx.pregel.thread_api import ThreadApi
from phalanx.types import All, CachePolicy, RetryPolicy, StreamMode
from phalanx.worker.blueprint import Blueprint, Channel, Node
from phalanx.worker.task_context import TaskContext

if TYPE_CHECKING:
    from pydantic import BaseModel

    from phalanx.coordinator.cluster import Cluster
    from phalanx.coordinator.cluster_driver import ClusterDriver
    from phalanx.coordinator.observe import RunObserver
    from phalanx.coordinator.on_loop import LoopDriver
    from phalanx.coordinator.opening import Place
    from phalanx.coordinator.terms import RunSettings
    from phalanx.pregel.drawing.graph import Graph
    from phalanx.pregel.node_builder import NodeBuilder
    from phalanx.worker.task_context import RunContext


class Pregel(ThreadApi):
    """A graph that runs: nodes over channels. A ``StateGraph`` makes one by ``compile``; this makes one by hand.

    Args:
        nodes: by name; see :class:`~phalanx.pregel.NodeBuilder`.
        channels: by name; classes of managed values too.
        auto_validate: look for mistakes at once.
        stream_mode: what :meth:`stream` yields unless asked for something else.
        output_channels: what a run returns: a dict of them; the bare value for a single name.
        stream_channels: what streams and snapshots show; every channel unless given.
        input_channels: where a run's input goes: a dict by channel; the input itself for a single name.
        interrupt_before_nodes, interrupt_after_nodes: nodes to stop at; ``"*"`` for all.
        step_timeout: how long a superstep may take, in seconds.
        checkpointer: keeps the threads' state.
        store: given to nodes.
        cache: remembers the writes of nodes with a cache policy.
        retry_policy, cache_policy: for nodes without one of their own.
        context_schema: what a run's ``context`` must be.
        config: what runs start from.
        name: what workers know the graph by; needed to run it on a cluster.

    Raises:
        ValueError: a node or an argument names a channel that is not there, or nobody waits for the input.

    Attributes:
        name: what workers know it by; empty for a graph that only runs inline.
        nodes, channels: what it is made of.
        config: what its runs start from; see :meth:`with_config`.
        cluster: where its tasks run; ``None`` for inline, or for the default cluster of the context.
    """

    blueprint: Blueprint
    checkpointer: BaseCheckpointSaver | bool | None
    stops: Stops
    config: RunnableConfig
    cluster: "Cluster | None"
    stream_mode: StreamMode

    def __init__(
        self,
        *,
        nodes: "Mapping[str, Node | NodeBuilder]",
        channels: Mapping[str, object] | None,
        auto_validate: bool = True,
        stream_mode: StreamMode = "values",
        output_channels: Keys,
        stream_channels: Keys | None = None,
        input_channels: Keys,
        interrupt_before_nodes: All | Sequence[str] = (),
        interrupt_after_nodes: All | Sequence[str] = (),
        step_timeout: float | None = None,
        checkpointer: BaseCheckpointSaver | bool | None = None,
        store: Any = None,
        cache: BaseCache[Any] | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] = (),
        cache_policy: CachePolicy | None = None,
        context_schema: type[Any] | None = None,
        config: RunnableConfig | None = None,
        name: str = "",
    ) -> None:
        given = BareGraph(
            name=name,
            nodes=nodes,
            channels=channels or {},
            input_channels=input_channels,
            output_channels=output_channels,
            stream_channels=stream_channels,
            retry_policy=retry_policy,
            cache_policy=cache_policy,
            context_schema=context_schema,
            store=store,
            cache=cache,
            step_timeout=step_timeout,
        )
        blueprint = given.blueprint(check=auto_validate)
        stops = Stops(stops_at(interrupt_before_nodes, blueprint), stops_at(interrupt_after_nodes, blueprint))
        self._settle(blueprint, checkpointer, stream_mode, stops, config)

    def _settle(
        self,
        blueprint: Blueprint,
        checkpointer: BaseCheckpointSaver | bool | None,
        stream_mode: StreamMode,
        stops: Stops = NO_STOPS,
        config: RunnableConfig | None = None,
    ) -> None:
        """What every graph starts with, whoever makes it."""
        self.blueprint = blueprint
        self.checkpointer = checkpointer
        self.stops = stops
        self.stream_mode = stream_mode
        self.config = merge_configs(config)
        self.cluster = None

    def validate(self) -> Self:
        """Look for mistakes; see the class.

        Raises:
            ValueError: there is one.
        """
        check_bare(self.blueprint)
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name or '(unnamed)'!r} nodes={[*self.nodes]}>"

    @property
    def name(self) -> str:
        return self.blueprint.name

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self.blueprint.nodes

    @property
    def channels(self) -> Mapping[str, Channel]:
        return self.blueprint.channels

    @property
    def input_channels(self) -> Keys:
        """Where a run's input goes."""
        return self.blueprint.input_channels

    @property
    def output_channels(self) -> Keys:
        """What a run returns."""
        return self.blueprint.output_channels

    @property
    def stream_channels(self) -> Keys:
        """What streams and snapshots show."""
        return self.blueprint.stream_channels

    @property
    def store(self) -> Any:
        """The store that nodes are given."""
        return self.blueprint.store

    @property
    def cache(self) -> BaseCache[Any] | None:
        """Where the writes of nodes with a cache policy are remembered."""
        return self.blueprint.cache

    @property
    def step_timeout(self) -> float | None:
        """How long a superstep may take, in seconds; may be set."""
        return self.blueprint.step_timeout_s

    @step_timeout.setter
    def step_timeout(self, seconds: float | None) -> None:
        check_step_timeout(seconds)
        self.blueprint = replace(self.blueprint, step_timeout_s=seconds)

    # --- schemas ------------------------------------------------------------------------------------------------------

    @property
    def InputType(self) -> Any:  # noqa: N802 - the public name
        """The type of a run's input; ``None`` where several channels take it."""
        return schemas.input_type(self.blueprint)

    @property
    def OutputType(self) -> Any:  # noqa: N802 - the public name
        """The type of what a run returns; ``None`` where it is a dict of several keys."""
        return schemas.output_type(self.blueprint)

    def get_input_schema(self, config: RunnableConfig | None = None) -> "type[BaseModel]":
        """A pydantic model of a run's input."""
        return schemas.input_model(self.blueprint)

    def get_output_schema(self, config: RunnableConfig | None = None) -> "type[BaseModel]":
        """A pydantic model of what a run returns."""
        return schemas.output_model(self.blueprint)

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """The JSON schema of a run's input."""
        return self.get_input_schema(config).model_json_schema()

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """The JSON schema of what a run returns."""
        return self.get_output_schema(config).model_json_schema()

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """The JSON schema of a run's ``context``; ``None`` for a graph without a ``context_schema``.

        Raises:
            ValueError: the ``context_schema`` is no TypedDict, dataclass or pydantic model.
        """
        return schemas.context_json_schema(self.blueprint.context_schema)

    # --- copies -------------------------------------------------------------------------------------------------------

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> Self:
        """A copy whose runs start from this config; what a call passes wins over it."""
        changed = copy.copy(self)
        changed.config = merge_configs(self.config, config, cast("RunnableConfig", kwargs))
        return changed

    def with_cluster(self, cluster: "Cluster") -> Self:
        """A copy whose runs spread their tasks over the workers of ``cluster``. Same values, same errors.

        Raises:
            GraphNotNamedError: workers would not know which graph is meant; the text says what to do.
        """
        if not hasattr(cluster, "adopt"):
            raise TypeError(f"with_cluster takes a Cluster, such as Cluster('redis://…'); got {cluster!r}")
        cluster.adopt(self)
        changed = copy.copy(self)
        changed.cluster = cluster
        return changed

    # --- running ------------------------------------------------------------------------------------------------------

    def stream(
        self,
        input: Any,  # noqa: A002 - the public name
        config: RunnableConfig | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[Any]:
        """Run the graph and yield what happens.

        Args:
            input: a dict of state keys; ``None`` goes on where the thread stopped; ``Command(resume=…)`` answers what
                nodes have asked with ``interrupt``.
            config: the run's settings; ``configurable.thread_id`` names the thread, ``checkpoint_id`` an older state of
                it to go on from.
            options: see :class:`~phalanx.pregel.call.CallOptions`.

        Raises:
            EmptyInputError: there is nothing to run.
            GraphRecursionError: ``recursion_limit`` was reached.
            GraphDrained: ``control`` asked the run to stop; ``input=None`` goes on.
            TimeoutError: a superstep took longer than ``step_timeout``.
            InvalidUpdateError: a step's writes contradict each other; the thread is as before the step.
            UnknownInterruptError: an answer is for a question that nobody asks.
            RuntimeError: one answer is given, and several questions wait for one.
            AsyncOnlyError: inline, the graph has nodes that only run on an event loop; use :meth:`astream`.
            ThreadBusyError: on a cluster, another run drives the thread.
            StaleLeaseError: on a cluster, another run has taken the thread from this one.
            ClusterUnreachableError: the state server or the broker does not answer.
            ValueError: an argument is wrong, or ``thread_id`` is missing where a saver needs it.
            Exception: what a node raised. What finished beside it is kept; ``input=None`` runs only the rest.
        """
        call = self._call(config, self._stream_modes(options), self._stream_keys, options)
        driver = self._driver(call)
        with closing(driver.drive(input)) as emits:
            for emit in emits:
                if call.takes(emit):
                    yield call.chunk(emit)
        call.check_ending(driver.run)

    async def astream(
        self,
        input: Any,  # noqa: A002 - the public name
        config: RunnableConfig | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[Any]:
        """:meth:`stream` on the caller's event loop: coroutine nodes run on it, others in threads."""
        call = self._call(config, self._stream_modes(options), self._stream_keys, options)
        driver = self._adriver(call)
        async with aclosing(driver.adrive(input)) as emits:
            async for emit in emits:
                if call.takes(emit):
                    yield call.chunk(emit)
        call.check_ending(driver.run)

    def invoke(
        self,
        input: Any,  # noqa: A002 - the public name
        config: RunnableConfig | None = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """Run the graph to its end and return the output keys of its state; see :meth:`stream` for the arguments.

        If nodes have asked something, the result has the questions under ``__interrupt__``. With a ``stream_mode``
        other than ``"values"``, it is the list of what the stream would yield.
        """
        if options.get("stream_mode", "values") != "values":
            return [*self.stream(input, config, **options)]
        call = self._call(config, (), self._output_keys, options)
        driver = self._driver(call)
        for emit in driver.drive(input):
            call.takes(emit)
        return call.result(driver.run)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - the public name
        config: RunnableConfig | None = None,
        **options: Unpack[CallOptions],
    ) -> Any:
        """:meth:`invoke` on the caller's event loop."""
        if options.get("stream_mode", "values") != "values":
            return [chunk async for chunk in self.astream(input, config, **options)]
        call = self._call(config, (), self._output_keys, options)
        driver = self._adriver(call)
        async for emit in driver.adrive(input):
            call.takes(emit)
        return call.result(driver.run)

    # --- graphs inside ------------------------------------------------------------------------------------------------

    def get_subgraphs(self, *, namespace: str | None = None, recurse: bool = False) -> "Iterator[tuple[str, Pregel]]":
        """The compiled graphs that nodes run, with the node's name.

        Args:
            namespace: only the one at this place, such as ``"node"`` or ``"node|inner"``.
            recurse: those inside them too, with names joined by ``|``.
        """
        for name, node in self.nodes.items():
            inner = nested_graph(node)
            if inner is None or not _leads_to(namespace, name):
                continue
            if namespace is None or namespace == name:
                yield name, inner
            if recurse and namespace != name:
                below = None if namespace is None else namespace.removeprefix(f"{name}|")
                for path, deeper in inner.get_subgraphs(namespace=below, recurse=True):
                    yield f"{name}|{path}", deeper

    async def aget_subgraphs(
        self, *, namespace: str | None = None, recurse: bool = False
    ) -> "AsyncIterator[tuple[str, Pregel]]":
        """:meth:`get_subgraphs` for code on an event loop."""
        for found in self.get_subgraphs(namespace=namespace, recurse=recurse):
            yield found

    # --- the cache ----------------------------------------------------------------------------------------------------

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Forget what was remembered of these nodes; of all unless given.

        Raises:
            ValueError: the graph has no cache, or no such node.
        """
        cache, namespaces = self._cached(nodes)
        cache.clear(namespaces)

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """:meth:`clear_cache` without blocking the event loop."""
        cache, namespaces = self._cached(nodes)
        await cache.aclear(namespaces)

    def _cached(self, nodes: Sequence[str] | None) -> tuple[BaseCache[Any], list[tuple[str, ...]]]:
        if self.cache is None:
            raise ValueError(
                "No cache is set for this graph. Cannot clear cache; compile(cache=InMemoryCache()) sets one."
            )
        chosen = [*self.nodes] if nodes is None else nodes
        unknown = [name for name in chosen if name not in self.nodes]
        if unknown:
            raise ValueError(f"no nodes {', '.join(map(repr, unknown))} in this graph; it has: {', '.join(self.nodes)}")
        return self.cache, [self.nodes[name].cache_namespace for name in chosen]

    # --- drawing ------------------------------------------------------------------------------------------------------

    def get_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> "Graph":
        """The graph to look at: its nodes and edges, with ways to draw them.

        Args:
            config: not used; taken since others take it.
            xray: open up the subgraphs of nodes: ``True`` for all, or how many levels.
        """
        from phalanx.pregel.drawing.build import picture_of  # few runs are drawn

        return picture_of(self, xray)

    async def aget_graph(self, config: RunnableConfig | None = None, *, xray: int | bool = False) -> "Graph":
        """:meth:`get_graph`; it has nothing to wait for."""
        return self.get_graph(config, xray=xray)

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _output_keys(self) -> Keys:
        return self.blueprint.output_channels

    @property
    def _stream_keys(self) -> Keys:
        return self.blueprint.stream_channels

    def _stream_modes(self, options: CallOptions) -> Modes:
        asked = options.get("stream_mode")
        if asked is not None:
            return asked
        return self.stream_mode if SURROUNDINGS.get() is None else "values"  # a graph inside is asked for its state

    def _call(self, config: RunnableConfig | None, modes: Modes, output: Keys, options: CallOptions) -> Call:
        graph = Callee(self.blueprint, self.checkpointer, self.config, self.stops, self._cluster() is not None)
        return Call.of(graph, config, modes, output, options)

    def called_in(self, task: TaskContext) -> Call:
        """The call of this graph by the node of a task, for whoever drives it in the node's place."""
        token = SURROUNDINGS.set(task)
        try:
            return self._call(task.config, (), self._output_keys, {})
        finally:
            SURROUNDINGS.reset(token)

    def _cluster(self) -> "Cluster | None":
        """The cluster to run on: this graph's own, or the default of this context if the graph can run there."""
        if self.cluster is not None:
            return self.cluster
        chosen = default_cluster()
        if chosen is not None:
            chosen.adopt(self)
        return chosen

    def _parts(
        self, call: Call
    ) -> "tuple[Blueprint, RunSettings, RunContext, Place | None, BaseCheckpointSaver | None, RunObserver]":
        return self.blueprint, call.settings, call.context, call.place, call.saver, call.observer

    def _driver(self, call: Call) -> "InlineDriver | ClusterDriver":
        cluster = self._cluster()
        if cluster is None:
            return InlineDriver(*self._parts(call), listens=call.listens, if_busy=call.if_busy)
        return cluster.driver(*self._parts(call), listens=call.listens, if_busy=call.if_busy)

    def _adriver(self, call: Call) -> "LoopDriver | ClusterDriver":
        cluster = self._cluster()
        if cluster is None:
            from phalanx.coordinator.on_loop import LoopDriver  # with it comes asyncio, which not everybody needs

            return LoopDriver(*self._parts(call), listens=call.listens, if_busy=call.if_busy)
        return cluster.driver(*self._parts(call), listens=call.listens, if_busy=call.if_busy)


def _leads_to(namespace: str | None, node: str) -> bool:
    """Whether a place in the graphs inside is at a node, or below it."""
    return namespace is None or namespace == node or namespace.startswith(f"{node}|")
