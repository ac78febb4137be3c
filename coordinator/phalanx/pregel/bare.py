"""From bare nodes and channels to a blueprint: a graph that no ``StateGraph`` has made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from phalanx.cache.base import BaseCache, check_cache
from phalanx.channels import Topic
from phalanx.constants import END
from phalanx.coordinator.commands import as_command, targets_of
from phalanx.coordinator.output import Keys, as_names
from phalanx.errors import InvalidUpdateError
from phalanx.managed import ManagedValue, ManagedValueSpec
from phalanx.pregel.node_builder import NodeBuilder, built
from phalanx.protocol.names import TASKS, branch_channel
from phalanx.types import CachePolicy, RetryPolicy, Send, Update
from phalanx.worker.blueprint import Blueprint, Channel, Node, Reader
from phalanx.worker.policies import cache_policy_of, retry_policies_of

_RESERVED: frozenset[str] = frozenset({TASKS, "__input__", "__interrupt__", "__resume__", "__error__", "__no_writes__"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BareGraph:
    """What :class:`~phalanx.pregel.Pregel` is given.

    Attributes:
        nodes: by name.
        channels: by name: channels, and classes of managed values.
        input_channels, output_channels, stream_channels: names; one alone means its bare value.
        retry_policy, cache_policy: for nodes without one of their own.
    """

    name: str
    nodes: "Mapping[str, Node | NodeBuilder]"
    channels: Mapping[str, object]
    input_channels: Keys
    output_channels: Keys
    stream_channels: Keys | None
    retry_policy: RetryPolicy | Sequence[RetryPolicy]
    cache_policy: CachePolicy | None
    context_schema: object
    store: object
    cache: BaseCache[Any] | None
    step_timeout: float | None

    def blueprint(self, *, check: bool) -> Blueprint:
        """The graph as the engine sees it.

        Args:
            check: whether to look for mistakes first.

        Raises:
            ValueError: a node or an argument names a channel that is not there, or nobody waits for the input.
            TypeError: a node, a channel or a policy is none.
        """
        check_step_timeout(self.step_timeout)
        cache_policy_of(self.cache_policy, "the graph")
        check_cache(self.cache)
        managed = {name: kind for name, kind in self.channels.items() if _is_managed(kind)}
        channels = {name: _named(name, kind) for name, kind in self.channels.items() if name not in managed}
        channels[TASKS] = _named(TASKS, Topic(Send, accumulate=False))
        specs = cast("dict[str, ManagedValueSpec]", managed)
        nodes = {name: self._completed(node, specs) for name, node in built(self.nodes).items()}
        made = Blueprint(
            name=self.name,
            nodes=nodes,
            channels=channels,
            command_writes=command_writes,
            input_channels=self.input_channels,
            output_channels=self.output_channels,
            stream_channels=self.stream_channels or tuple(name for name in channels if name != TASKS),
            managed=specs,
            context_schema=self.context_schema,
            store=self.store,
            cache=self.cache,
            retry=retry_policies_of(self.retry_policy, "the graph"),
            step_timeout_s=self.step_timeout,
        )
        if check:
            check_bare(made)
        return made

    def _completed(self, node: Node, managed: Mapping[str, ManagedValueSpec]) -> Node:
        """The node with the graph's cache policy, and with managed values read as such."""
        policies = node.policies
        if policies.cache is None and self.cache_policy is not None:
            policies = replace(policies, cache=self.cache_policy)
        reader = node.reader
        if not isinstance(reader.keys, str):
            worked_out = tuple((key, managed[key]) for key in reader.keys if key in managed)
            reader = Reader(tuple(key for key in reader.keys if key not in managed), reader.build, worked_out)
        return replace(node, policies=policies, reader=reader)


def command_writes(given: object) -> list[Update]:
    """The writes that a command as the input of a bare graph means: to its channels, and packets.

    Raises:
        InvalidUpdateError: its update is not one.
    """
    command = as_command(given)
    assert command is not None
    pairs = _pairs(command.update)
    goto = cast("Sequence[Send | str]", targets_of(command))
    gotos = [(TASKS, each) if isinstance(each, Send) else (branch_channel(each), None) for each in goto if each != END]
    return [*pairs, *gotos]


def _pairs(update: object) -> list[Update]:
    if update is None:
        return []
    if isinstance(update, dict):
        return list(cast("dict[str, object]", update).items())
    parts = cast("Sequence[object]", update) if isinstance(update, (list, tuple)) else (update,)
    if any(not isinstance(part, (list, tuple)) or len(cast("Sequence[object]", part)) != 2 for part in parts):
        raise InvalidUpdateError(f"Expected a dict of channels, or pairs, as a Command's update; got {update!r}")
    return [cast("Update", tuple(pair)) for pair in cast("Sequence[Sequence[object]]", parts)]


def check_step_timeout(seconds: object) -> None:
    """Refuse what is no time to wait.

    Raises:
        TypeError, ValueError: it is none.
    """
    if seconds is None:
        return
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise TypeError(f"step_timeout must be a number of seconds; got {seconds!r}")
    if not seconds > 0:
        raise ValueError(f"step_timeout must be greater than 0; got {seconds!r}")


def check_bare(blueprint: Blueprint) -> None:
    """Look for mistakes.

    Raises:
        ValueError: naming the node or the argument, and the channels there are.
    """
    known = f"not in known channels: {sorted(blueprint.channels)}"
    for name in blueprint.channels:
        if name in _RESERVED - {TASKS}:
            raise ValueError(f"Channel name {name!r} is reserved")
    triggers = set[str]()
    for name, node in blueprint.nodes.items():
        if name in _RESERVED:
            raise ValueError(f"Node name {name!r} is reserved")
        for channel in (*node.triggers, *node.reader.channels):
            if channel not in blueprint.channels:
                raise ValueError(f"Node {name} reads channel {channel!r} {known}")
        triggers.update(node.triggers)
    inputs = as_names(blueprint.input_channels)
    for what, names in (
        ("Input", inputs),
        ("Output", as_names(blueprint.output_channels)),
        ("Output", as_names(blueprint.stream_channels)),
    ):
        for channel in names:
            if channel not in blueprint.channels:
                raise ValueError(f"{what} channel {channel!r} {known}")
    if triggers.isdisjoint(inputs):
        which = f"channel {inputs[0]} is" if isinstance(blueprint.input_channels, str) else f"channels {[*inputs]} are"
        raise ValueError(f"Input {which} not subscribed to by any node")


def _is_managed(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, ManagedValue)


def _named(name: str, channel: object) -> Channel:
    if not hasattr(channel, "update") or not hasattr(channel, "from_checkpoint"):
        raise TypeError(f"channel {name!r} must be a channel, such as LastValue(int); got {channel!r}")
    named = cast("Channel", channel).copy()
    named.key = name
    return named
