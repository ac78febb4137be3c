"""``NodeBuilder``: nodes over bare channels, for graphs that are no state graphs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Self, cast

from phalanx.types import CachePolicy, RetryPolicy, TimeoutPolicy, Update
from phalanx.worker.blueprint import Node, Policies, Reader
from phalanx.worker.functions import UserFunction
from phalanx.worker.policies import cache_policy_of, retry_policies_of


class _Output:
    """Says that a channel is written what the node returned."""

    def __repr__(self) -> str:
        return "<the output>"


_OUTPUT: Final = _Output()


@dataclass(frozen=True, slots=True)
class ChannelWriteEntry:
    """One write of a node.

    Args:
        channel: where to.
        value: what; the node's output unless given.
        skip_none: write nothing when the value is ``None``.
        mapper: makes the value from the node's output.
    """

    channel: str
    value: object = _OUTPUT
    skip_none: bool = False
    mapper: Callable[[Any], object] | None = None

    def writes(self, output: object) -> list[Update]:
        """The write that an output of the node means, if any."""
        value = output if self.value is _OUTPUT else self.value
        if self.mapper is not None:
            value = self.mapper(value)
        return [] if value is None and self.skip_none else [(self.channel, value)]


class NodeBuilder:
    """Describes a node: the channels it waits for, what it does, and where its output goes. Every method returns it.

    Example:
        >>> node = NodeBuilder().subscribe_only("question").do(str.upper).write_to("answer")
        >>> channels = {"question": LastValue(str), "answer": LastValue(str)}
        >>> graph = Pregel(
        ...     nodes={"shout": node}, channels=channels, input_channels="question", output_channels="answer"
        ... )
        >>> graph.invoke("why?")
        'WHY?'
    """

    def __init__(self) -> None:
        self._single: str | None = None
        self._triggers: list[str] = []
        self._reads: list[str] = []
        self._actions: list[UserFunction] = []
        self._entries: list[ChannelWriteEntry] = []
        self._tags: list[str] = []
        self._metadata: dict[str, object] = {}
        self._retry: list[RetryPolicy] = []
        self._cache: CachePolicy | None = None
        self._timeout: TimeoutPolicy | None = None

    def subscribe_only(self, channel: str) -> Self:
        """Run when this channel is updated, with its bare value as input.

        Raises:
            ValueError: it subscribes to something already.
        """
        if self._single is not None or self._triggers:
            raise ValueError(
                f"Cannot subscribe to single channels when other channels are already subscribed to: "
                f"{channel!r} besides {', '.join(self._triggers)}"
            )
        self._single = channel
        self._triggers.append(channel)
        return self

    def subscribe_to(self, *channels: str, read: bool = True) -> Self:
        """Run when one of these channels is updated, with a dict of channels as input.

        Args:
            channels: by name.
            read: whether they are in that dict.

        Raises:
            ValueError: it subscribes to a single channel already.
        """
        if self._single is not None:
            raise ValueError(
                f"Cannot subscribe to channels when subscribed to a single channel: {self._single!r} is the whole input"
            )
        self._triggers += [channel for channel in channels if channel not in self._triggers]
        return self.read_from(*channels) if read else self

    def read_from(self, *channels: str) -> Self:
        """Have these channels in the input as well; they do not make the node run.

        Raises:
            ValueError: it subscribes to a single channel.
        """
        if self._single is not None:
            raise ValueError(
                f"Cannot read additional channels when subscribed to single channels: "
                f"{self._single!r} is the whole input; use subscribe_to({self._single!r})"
            )
        self._reads += [channel for channel in channels if channel not in self._reads]
        return self

    def do(self, node: object) -> Self:
        """Call this with the input; with what the function before it returned, if there is one.

        Raises:
            TypeError: it cannot be called.
        """
        self._actions.append(UserFunction.of(node))
        return self

    def write_to(self, *channels: str | ChannelWriteEntry, **kwargs: object) -> Self:
        """Write the output to channels, or something else to others.

        Args:
            channels: names, or entries that say more.
            kwargs: by channel, a value, or a function from the output to one.
        """
        for channel in channels:
            self._entries.append(ChannelWriteEntry(channel) if isinstance(channel, str) else channel)
        for channel, value in kwargs.items():
            if callable(value):
                self._entries.append(ChannelWriteEntry(channel, mapper=cast("Callable[[Any], object]", value)))
            else:
                self._entries.append(ChannelWriteEntry(channel, value))
        return self

    def meta(self, *tags: str, **metadata: object) -> Self:
        """Labels."""
        self._tags += tags
        self._metadata |= metadata
        return self

    def add_retry_policies(self, *policies: RetryPolicy) -> Self:
        """When to try again; the first that matches an error decides.

        Raises:
            TypeError, ValueError: one is no policy, or a number in it means nothing.
        """
        self._retry += retry_policies_of(policies, "a NodeBuilder")
        return self

    def add_cache_policy(self, policy: CachePolicy) -> Self:
        """How the node's writes are remembered.

        Raises:
            TypeError: it is no policy.
        """
        self._cache = cache_policy_of(policy, "a NodeBuilder")
        return self

    def set_timeout(self, timeout: float | timedelta | TimeoutPolicy | None) -> Self:
        """How long one attempt may take; a number is seconds.

        Raises:
            ValueError: it is not greater than 0.
        """
        self._timeout = TimeoutPolicy.coerce(timeout)
        return self

    def build(self, name: str = "") -> Node:
        """The node.

        Args:
            name: what the graph calls it.
        """
        entries = tuple(self._entries)

        def writes(output: object) -> list[Update]:
            return [write for entry in entries for write in entry.writes(output)]

        return Node(
            name,
            tuple(sorted(self._triggers)),
            Reader(self._single if self._single is not None else tuple(self._reads)),
            tuple(self._actions),
            writes,
            edges=tuple(entry.channel for entry in entries),
            policies=Policies(tuple(self._retry), self._timeout, self._cache),
            tags=tuple(self._tags),
            metadata=dict(self._metadata),
        )


def built(nodes: Mapping[str, "Node | NodeBuilder"]) -> dict[str, Node]:
    """The nodes by the names that the graph gives them.

    Raises:
        TypeError: one is neither a node nor a builder.
    """
    made: dict[str, Node] = {}
    for name, node in nodes.items():
        if isinstance(node, NodeBuilder):
            made[name] = node.build(name)
        elif isinstance(node, Node):  # pyright: ignore[reportUnnecessaryIsInstance]
            made[name] = replace(node, name=name)
        else:
            raise TypeError(f"node {name!r} must be a NodeBuilder or what build() returns; got {node!r}")
    return made
