"""What a compiled graph offers to look at the state of its threads, and to change it."""

from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, cast

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.config import RunnableConfig, merge_configs
from phalanx.coordinator.busy import alone_on
from phalanx.coordinator.saver_access import SaverHere, SaverOnLoop
from phalanx.coordinator.state import next_version_of
from phalanx.pregel.thread_state import ThreadView, ahistory, history
from phalanx.pregel.updating import update_thread
from phalanx.types import StateSnapshot, StateUpdate
from phalanx.worker.run_task import call_here, run_to_end

if TYPE_CHECKING:
    from phalanx.coordinator.cluster import Cluster
    from phalanx.pregel.pregel import Pregel


class ThreadApi:
    """The part of a graph that is about the state of its threads."""

    checkpointer: BaseCheckpointSaver | bool | None
    config: RunnableConfig

    def _cluster(self) -> "Cluster | None":
        """The cluster that the graph runs on."""
        raise NotImplementedError

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """The state of a thread: its values, what runs next, and what is known of tasks that already finished.

        Args:
            config: ``configurable.thread_id``, ``checkpoint_id`` for an older state, and ``checkpoint_ns`` for that of
                a graph inside.
            subgraphs: show the states of graphs inside of tasks, rather than where to ask for them.

        Raises:
            ValueError: the graph keeps no state, since it has no checkpointer; or it has no such graph inside.
        """
        view = self._view(config)
        return run_to_end(view.snapshot(SaverHere(self._saver_for_state()), deep=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """:meth:`get_state` without blocking the event loop."""
        view = self._view(config)
        return await view.snapshot(SaverOnLoop(self._saver_for_state()), deep=subgraphs)

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
            config: ``configurable.thread_id``, and ``checkpoint_ns`` for the states of a graph inside.
            filter: metadata entries that must be equal.
            before: only states older than the one this addresses.
            limit: the most to return.

        Raises:
            ValueError: as :meth:`get_state`.
        """
        return history(self._view(config), self._saver_for_state(), filter, before, limit)

    def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the public name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """:meth:`get_state_history` without blocking the event loop."""
        return ahistory(self._view(config), self._saver_for_state(), filter, before, limit)

    def update_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """Change a thread's state as if a node had returned ``values``, and return the address of the new state.

        Args:
            config: ``configurable.thread_id``; with a ``checkpoint_id``, the change makes a branch there.
            values: what the node would have returned; ``None`` changes nothing but makes a state of its own.
            as_node: the node; the one that ran last unless given. What its edges lead to is due next.
            task_id: the task in whose place it is, where several of the node are due.

        Raises:
            InvalidUpdateError: there is no such node, it is not clear which ran last, or the state cannot take it.
            ValueError: the graph keeps no state, since it has no checkpointer.
        """
        return self.bulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    async def aupdate_state(
        self,
        config: RunnableConfig,
        values: Any,
        as_node: str | None = None,
        task_id: str | None = None,
    ) -> RunnableConfig:
        """:meth:`update_state` without blocking the event loop."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    def bulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """Make one state for each superstep of updates; see :meth:`update_state`.

        Raises:
            ValueError: there are no updates, or the graph keeps no state.
            InvalidUpdateError: updates do not go together, or as :meth:`update_state`.
        """
        view, saver = self._view(config), self._saver_for_state()
        with self._alone_on(view):
            return run_to_end(update_thread(view, SaverHere(saver), call_here, next_version_of(saver), supersteps))

    async def abulk_update_state(
        self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]
    ) -> RunnableConfig:
        """:meth:`bulk_update_state` without blocking the event loop."""
        from phalanx.worker.call_on_loop import call_on_loop

        view, saver = self._view(config), self._saver_for_state()
        with self._alone_on(view):
            return await update_thread(view, SaverOnLoop(saver), call_on_loop, next_version_of(saver), supersteps)

    def _view(self, config: RunnableConfig) -> ThreadView:
        return ThreadView.of(cast("Pregel", self), merge_configs(self.config, config))

    @contextmanager
    def _alone_on(self, view: ThreadView) -> Generator[None, None, None]:
        """Keep runs from the thread in the meantime: those of this process, and those on the cluster."""
        cluster, saver = self._cluster(), self._saver_for_state()
        with ExitStack() as held:
            if cluster is None or saver is not cluster.saver:
                held.enter_context(alone_on(saver, CheckpointAddress.of(view.config).thread_id))
            if cluster is not None:
                held.enter_context(cluster.alone_on(view.config, saver))
            yield

    def _saver_for_state(self) -> BaseCheckpointSaver:
        if self.checkpointer is not None and not isinstance(self.checkpointer, bool):
            return self.checkpointer
        cluster = self._cluster()
        if cluster is None:
            raise ValueError("No checkpointer set: compile(checkpointer=InMemorySaver()) keeps the state of threads")
        return cluster.saver
