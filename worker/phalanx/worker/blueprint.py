"""A compiled graph as the engine sees it: nodes, channels, and an index from triggers to nodes. Shared by runs.

Everything that can be worked out once is worked out here, so that a superstep costs what it touches.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from phalanx.cache.base import BaseCache
from phalanx.channels import BaseChannel, DeltaChannel, NamedBarrierValue, NamedBarrierValueAfterFinish
from phalanx.managed import ManagedValueSpec
from phalanx.types import CachePolicy, RetryPolicy, TimeoutPolicy, Update
from phalanx.worker.functions import UserFunction

Channel = BaseChannel[object, object, object]
"""A channel of any kind. The engine never looks into values."""


@dataclass(frozen=True, slots=True)
class Reader:
    """How a node's or path's input is made from channels.

    Attributes:
        keys: the channels to read into a dict, or the one channel whose bare value is the input.
        build: makes the schema's instance from what was read.
        managed: keys of that dict whose value no channel holds.
    """

    keys: tuple[str, ...] | str
    build: Callable[[object], object] | None = None
    managed: tuple[tuple[str, ManagedValueSpec], ...] = ()

    @property
    def channels(self) -> tuple[str, ...]:
        """The names of all channels it reads."""
        return (self.keys,) if isinstance(self.keys, str) else self.keys


@dataclass(frozen=True, slots=True)
class Branch:
    """A conditional edge: a path function, what it reads, and the writes its answer means.

    Attributes:
        ends: where its answers lead, if they are translated; part of the graph's version.
        sees_output: whether it also sees what its node returned that is no key of the state; not if it says itself what
            it reads.
    """

    name: str
    path: UserFunction
    reader: Reader
    route: Callable[[object], Iterable[Update]]
    ends: Mapping[object, str] | None = None
    sees_output: bool = True


@dataclass(frozen=True, slots=True)
class Policies:
    """What happens to a node's task that fails, hangs, or was run before.

    Attributes:
        retry: the first policy that matches an error decides; empty for the graph's own.
        timeout: how long one attempt may take.
        cache: how its writes are remembered.
        error_handler: the node that runs in its place once it has failed for good.
    """

    retry: tuple[RetryPolicy, ...] = ()
    timeout: TimeoutPolicy | None = None
    cache: CachePolicy | None = None
    error_handler: str | None = None


NO_POLICIES = Policies()


@dataclass(frozen=True, slots=True)
class Node:
    """A node: what triggers it, what it reads, what it does, and the writes its output means.

    Attributes:
        triggers: the channels that can trigger it; sorted. An error handler has none.
        reader: how its input is made when a channel triggered it. A packet brings its own.
        actions: the user's functions, each given what the one before returned; with none, the output is the input.
        writes: the writes that an output means: state, gotos, plain edges.
        branches: its conditional edges, in the order they were added.
        hidden: left out of streams.
        edges: the channels that its plain edges write; part of the graph's version.
        policies: what happens when it fails, hangs, or was run before.
        deferred: whether it waits until nothing else is left to run.
        destinations: the nodes its commands may lead to, with labels; for drawings.
        tags, metadata: labels, for streams, tracing and drawings.
    """

    name: str
    triggers: tuple[str, ...]
    reader: Reader
    actions: tuple[UserFunction, ...]
    writes: Callable[[object], list[Update]]
    branches: tuple[Branch, ...] = ()
    hidden: bool = False
    edges: tuple[str, ...] = ()
    policies: Policies = NO_POLICIES
    deferred: bool = False
    destinations: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def is_async(self) -> bool:
        """Whether some part of it can only run on an event loop."""
        return any(function.is_async for function in self.functions)

    @property
    def functions(self) -> list[UserFunction]:
        """The user's functions in it."""
        return [*self.actions, *(branch.path for branch in self.branches)]

    @property
    def cache_namespace(self) -> tuple[str, ...]:
        """Which entries of a cache are this node's: its name, and where its function is defined."""
        source: Any = self.actions[0].source if self.actions else None
        target = source if hasattr(source, "__qualname__") else cast("Any", type(source))
        return ("writes", f"{target.__module__}.{target.__qualname__}", self.name)

    @property
    def runs_user_code(self) -> bool:
        """Whether a task of it must go where the user's code may run: of any but a hidden node without functions.

        A node over bare channels may have functions among its writes, and even without one a packet's argument is its
        output, which a coordinator has in serialized form only.
        """
        return not self.hidden or bool(self.actions or self.branches)


@dataclass(frozen=True)
class Blueprint:
    """Nodes and channels of one graph.

    Attributes:
        name: the name workers know it by; may be empty for a graph that only runs inline.
        nodes: by name.
        channels: an empty channel of the right kind by name.
        input_channels: the channel a run's input is written to; or several, which it is a dict for.
        output_channels: what a run returns; one name gives the bare value.
        stream_channels: what streams and snapshots show.
        command_writes: the writes that a command as a run's input means; without it no command may be one.
        managed: state keys that no channel holds.
        context_schema: what the ``context`` of a run must be.
        store: the store that nodes are given.
        cache: where the writes of nodes with a cache policy are remembered.
        retry: what applies to nodes without a retry policy of their own.
        step_timeout_s: how long a superstep may take.
    """

    name: str
    nodes: Mapping[str, Node]
    channels: Mapping[str, Channel]
    input_channels: Sequence[str] | str
    output_channels: Sequence[str] | str
    stream_channels: Sequence[str] | str
    command_writes: Callable[[object], list[Update]] | None = None
    managed: Mapping[str, ManagedValueSpec] = field(default_factory=dict[str, "ManagedValueSpec"])
    context_schema: object = None
    store: object = None
    cache: BaseCache[Any] | None = None
    retry: tuple[RetryPolicy, ...] = ()
    step_timeout_s: float | None = None

    def reader_of(self, node: str, failed: str = "") -> Reader:
        """What a task of a node reads.

        Args:
            failed: the node that failed, for a task of an error handler: it is given what that one was given.
        """
        return self.nodes[failed or node].reader

    def channels_read(self, node: str, *, pushed: bool, failed: str = "") -> set[str]:
        """The channels a task of a node may read; a packet's task reads only for its paths.

        Args:
            failed: the node that failed, for a task of an error handler.
        """
        read = set[str]() if pushed else set(self.reader_of(node, failed).channels)
        for branch in self.nodes[node].branches:
            read.update(branch.reader.channels)
        return read

    @property
    def called(self) -> str:
        """The graph in a message."""
        return f"graph {self.name!r}" if self.name else "this graph"

    @cached_property
    def trigger_to_nodes(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes that each channel can trigger, in name order."""
        index: dict[str, list[str]] = {}
        for name in sorted(self.nodes):
            for trigger in self.nodes[name].triggers:
                index.setdefault(trigger, []).append(name)
        return {trigger: tuple(names) for trigger, names in index.items()}

    @cached_property
    def untracked(self) -> frozenset[str]:
        """The state keys that are never stored, nor as keys of a packet's argument."""
        return frozenset(name for name, channel in self.channels.items() if not channel.stored)

    @cached_property
    def deltas(self) -> tuple[str, ...]:
        """The state keys that are stored as what was written to them, rather than whole."""
        return tuple(name for name, channel in self.channels.items() if isinstance(channel, DeltaChannel))

    @cached_property
    def joins(self) -> Mapping[str, str]:
        """The node that each barrier channel triggers."""
        kinds = (NamedBarrierValue, NamedBarrierValueAfterFinish)
        barriers = {name for name, channel in self.channels.items() if isinstance(channel, kinds)}
        return {name: self.trigger_to_nodes[name][0] for name in sorted(barriers) if name in self.trigger_to_nodes}

    @cached_property
    def async_nodes(self) -> tuple[str, ...]:
        """The nodes that only run on an event loop."""
        return tuple(name for name, node in self.nodes.items() if node.is_async)
