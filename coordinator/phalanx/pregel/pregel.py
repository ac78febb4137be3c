"""``Pregel``: run a compiled graph, stream what happens, and look at the state its threads keep."""

import copy
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, cast

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.config import DEFAULT_RECURSION_LIMIT, RunnableConfig, merge_configs
from phalanx.coordinator.default_cluster import default_cluster
from phalanx.coordinator.inline import InlineDriver
from phalanx.coordinator.observe import SILENT, RunObserver
from phalanx.coordinator.output import Keys, as_names
from phalanx.coordinator.run import RunSettings
from phalanx.coordinator.state import count_up
from phalanx.pregel.snapshot import snapshot_of
from phalanx.types import STREAM_MODES, StateSnapshot, StreamMode
from phalanx.worker.blueprint import Blueprint, Channel, Node

if TYPE_CHECKING:
    from phalanx.coordinator.cluster import Cluster
    from phalanx.coordinator.cluster_driver import ClusterDriver
    from phalanx.coordinator.on_loop import LoopDriver

Modes = StreamMode | Sequence[StreamMode] | None


@dataclass(frozen=True, slots=True)
class _Call:
    """One call of ``stream`` or ``invoke``, checked."""

    config: RunnableConfig
    settings: RunSettings
    observer: RunObserver


class Pregel:
    """A compiled graph.

    Args:
        blueprint: its nodes and channels.
        checkpointer: keeps the threads' state.

    Attributes:
        name: what workers know it by; empty for a graph that only runs inline.
        nodes, channels: what it is made of.
        config: what its runs start from; see :meth:`with_config`.
        cluster: where its tasks run; ``None`` for inline, or for the default cluster of the context.
    """

    def __init__(self, blueprint: Blueprint, *, checkpointer: BaseCheckpointSaver | None = None) -> None:
        self.blueprint = blueprint
        self.checkpointer = checkpointer
        self.config: RunnableConfig = {}
        self.cluster: Cluster | None = None

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
        *,
        stream_mode: Modes = None,
        output_keys: str | Sequence[str] | None = None,
        observer: RunObserver | None = None,
    ) -> Iterator[Any]:
        """Run the graph and yield what happens.

        Args:
            input: a dict of state keys; ``None`` goes on where the thread stopped.
            config: the run's settings; ``configurable.thread_id`` names the thread.
            stream_mode: ``"updates"`` (default) yields ``{node: update}`` as each task finishes; ``"values"`` the state
                after each step. A list of modes yields ``(mode, data)``.
            output_keys: the state keys to show.
            observer: hooks for progress.

        Raises:
            EmptyInputError: there is nothing to run.
            GraphRecursionError: ``recursion_limit`` was reached.
            InvalidUpdateError: a step's writes contradict each other; the thread is as before the step.
            AsyncOnlyError: inline, the graph has nodes that only run on an event loop; use :meth:`astream`.
            ThreadBusyError: on a cluster, another run drives the thread.
            StaleLeaseError: on a cluster, another run has taken the thread from this one.
            ClusterUnreachableError: the state server or the broker does not answer.
            ValueError: an argument is wrong, or ``thread_id`` is missing where a saver needs it.
            Exception: what a node raised. What finished beside it is kept; ``input=None`` runs only the rest.
        """
        modes: Modes = "updates" if stream_mode is None else stream_mode
        call = self._call(config, modes, output_keys if output_keys is not None else self._stream_keys, observer)
        with closing(self._driver(call).drive(input)) as emits:
            for emit in emits:
                yield emit.data if isinstance(modes, str) else (emit.mode, emit.data)

    async def astream(
        self,
        input: Any,  # noqa: A002 - the public name
        config: RunnableConfig | None = None,
        *,
        stream_mode: Modes = None,
        output_keys: str | Sequence[str] | None = None,
        observer: RunObserver | None = None,
    ) -> AsyncIterator[Any]:
        """:meth:`stream` on the caller's event loop: coroutine nodes run on it, others in threads."""
        modes: Modes = "updates" if stream_mode is None else stream_mode
        call = self._call(config, modes, output_keys if output_keys is not None else self._stream_keys, observer)
        async with aclosing(self._adriver(call).adrive(input)) as emits:
            async for emit in emits:
                yield emit.data if isinstance(modes, str) else (emit.mode, emit.data)

    def invoke(
        self,
        input: Any,  # noqa: A002 - the public name
        config: RunnableConfig | None = None,
        *,
        stream_mode: Modes = "values",
        output_keys: str | Sequence[str] | None = None,
        observer: RunObserver | None = None,
    ) -> Any:
        """Run the graph to its end and return the output keys of its state; see :meth:`stream` for the arguments.

        With a ``stream_mode`` other than ``"values"``, the list of what the stream would yield.
        """
        if stream_mode != "values":
            return [*self.stream(input, config, stream_mode=stream_mode, output_keys=output_keys, observer=observer)]
        call = self._call(config, (), output_keys if output_keys is not None else self._output_keys, observer)
        driver = self._driver(call)
        for _ in driver.drive(input):
            pass
        return driver.output()

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - the public name
        config: RunnableConfig | None = None,
        *,
        stream_mode: Modes = "values",
        output_keys: str | Sequence[str] | None = None,
        observer: RunObserver | None = None,
    ) -> Any:
        """:meth:`invoke` on the caller's event loop."""
        if stream_mode != "values":
            chunks = self.astream(input, config, stream_mode=stream_mode, output_keys=output_keys, observer=observer)
            return [chunk async for chunk in chunks]
        call = self._call(config, (), output_keys if output_keys is not None else self._output_keys, observer)
        driver = self._adriver(call)
        async for _ in driver.adrive(input):
            pass
        return driver.output()

    # --- state --------------------------------------------------------------------------------------------------------

    def get_state(self, config: RunnableConfig) -> StateSnapshot:
        """The state of a thread: its values, what runs next, and what is known of tasks that already finished.

        Args:
            config: ``configurable.thread_id``, and ``checkpoint_id`` for an older state.

        Raises:
            ValueError: the graph keeps no state: it has no checkpointer.
        """
        config = merge_configs(self.config, config)
        return snapshot_of(self.blueprint, config, self._saver_for_state().get_tuple(config))

    async def aget_state(self, config: RunnableConfig) -> StateSnapshot:
        """:meth:`get_state` without blocking the event loop."""
        config = merge_configs(self.config, config)
        return snapshot_of(self.blueprint, config, await self._saver_for_state().aget_tuple(config))

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the public name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The states of a thread, newest first.

        Args:
            config: ``configurable.thread_id``.
            filter: metadata entries that must be equal.
            before: only states older than the one this addresses.
            limit: the most to return.

        Raises:
            ValueError: the graph keeps no state: it has no checkpointer.
        """
        config = merge_configs(self.config, config)
        for found in self._saver_for_state().list(config, filter=filter, before=before, limit=limit):
            yield snapshot_of(self.blueprint, found.config, found, chosen=True)

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def _output_keys(self) -> Keys:
        return self.blueprint.output_channels

    @property
    def _stream_keys(self) -> Keys:
        return self.blueprint.stream_channels

    def _call(self, config: RunnableConfig | None, modes: Modes, output: Keys, observer: RunObserver | None) -> _Call:
        chosen: list[StreamMode] = [modes] if isinstance(modes, str) else list(modes or ())
        for mode in chosen:
            if mode not in STREAM_MODES:
                raise ValueError(f"unknown stream_mode {mode!r}; it must be one of: {', '.join(STREAM_MODES)}")
        for key in as_names(output):
            if key not in self.blueprint.channels:
                known = ", ".join(as_names(self._stream_keys))
                raise ValueError(f"output_keys names {key!r}, which is not a state key; there are: {known}")
        merged = merge_configs(self.config, config)
        limit = merged.get("recursion_limit", DEFAULT_RECURSION_LIMIT)
        if limit < 1:
            raise ValueError(f"recursion_limit must be at least 1; got {limit}")
        saver = self.checkpointer
        next_version = saver.get_next_version if saver is not None else None
        settings = RunSettings(
            limit,
            frozenset(chosen),
            output,
            next_version=(lambda current: next_version(current, None)) if next_version else count_up,
        )
        return _Call(merged, settings, observer or SILENT)

    def _cluster(self) -> "Cluster | None":
        """The cluster to run on: this graph's own, or the default of this context if the graph can run there."""
        if self.cluster is not None:
            return self.cluster
        chosen = default_cluster()
        if chosen is not None:
            chosen.adopt(self)
        return chosen

    def _saver_for_state(self) -> BaseCheckpointSaver:
        if self.checkpointer is not None:
            return self.checkpointer
        cluster = self._cluster()
        if cluster is None:
            raise ValueError("No checkpointer set: compile(checkpointer=InMemorySaver()) keeps the state of threads")
        return cluster.saver

    def _driver(self, call: _Call) -> "InlineDriver | ClusterDriver":
        cluster = self._cluster()
        if cluster is None:
            return InlineDriver(self.blueprint, call.settings, call.config, self.checkpointer, call.observer)
        return cluster.driver(self.blueprint, call.settings, call.config, self.checkpointer, call.observer)

    def _adriver(self, call: _Call) -> "LoopDriver | ClusterDriver":
        cluster = self._cluster()
        if cluster is None:
            from phalanx.coordinator.on_loop import LoopDriver  # with it comes asyncio, which not everybody needs

            return LoopDriver(self.blueprint, call.settings, call.config, self.checkpointer, call.observer)
        return cluster.driver(self.blueprint, call.settings, call.config, self.checkpointer, call.observer)
