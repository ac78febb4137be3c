"""From a graph's description to the blueprint that the engine runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, cast

from phalanx.cache.base import BaseCache
from phalanx.channels import (
    EphemeralValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
)
from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.checkpoint.serde import default_registry
from phalanx.constants import END, START
from phalanx.graph.annotations import plain
from phalanx.graph.schema import builder_of
from phalanx.graph.specs import DEFAULT_ERROR_HANDLER, NodeSpec
from phalanx.graph.writes import router_for, writer_for
from phalanx.protocol.names import INPUT, ROOT, TASKS, branch_channel, join_channel
from phalanx.types import All, Send, Update
from phalanx.worker.blueprint import Blueprint, Branch, Channel, Node, Policies, Reader

if TYPE_CHECKING:
    from phalanx.graph.state import StateGraph


def blueprint_of(
    builder: "StateGraph[Any, Any, Any, Any]", name: str, cache: BaseCache[Any] | None, store: object
) -> Blueprint:
    """The blueprint of a graph that is whole. The classes in its schemas may travel from now on."""
    for schema in (*builder.schemas, builder.context_schema):
        if schema is not None:
            default_registry().register_schema(schema)
    return _Compilation(builder).blueprint(name, cache, store)


class _Compilation:
    """One graph on its way; defaults are applied to its nodes, and the builder stays as it is."""

    def __init__(self, builder: "StateGraph[Any, Any, Any, Any]") -> None:
        self.builder = builder
        self.nodes = _with_defaults(builder)

    def blueprint(self, name: str, cache: BaseCache[Any] | None, store: object) -> Blueprint:
        builder = self.builder
        output = self._keys(builder.output_schema)
        everything = self._keys(*builder.schemas)
        return Blueprint(
            name=name,
            nodes={START: self._start(), **{name: self._node(name, spec) for name, spec in self.nodes.items()}},
            channels=self._channels(),
            input_channels=START,
            output_channels=ROOT if output == (ROOT,) else output,
            stream_channels=ROOT if everything == (ROOT,) else everything,
            command_writes=writer_for(INPUT, frozenset(builder.channels), (), what="the command given as"),
            managed=dict(builder.managed),
            context_schema=builder.context_schema,
            store=store,
            cache=cache,
        )

    # --- channels and what is read of them ----------------------------------------------------------------------------

    def _channels(self) -> dict[str, Channel]:
        channels = {key: channel.copy() for key, channel in self.builder.channels.items()}
        start = EphemeralValue[object](cast("type[object]", self.builder.input_schema))
        added: dict[str, object] = {START: start, TASKS: Topic(Send, accumulate=False)}
        for name, spec in self.nodes.items():
            after_all, at_once = LastValueAfterFinish[object], EphemeralValue[object]
            if not spec.is_error_handler:
                added[branch_channel(name)] = after_all(object) if spec.defer else at_once(object, guard=False)
        for starts, end in self.builder.waiting_edges:
            if end != END:
                barrier = NamedBarrierValueAfterFinish if self.nodes[end].defer else NamedBarrierValue
                added[join_channel(starts, end)] = barrier(str, set(starts))
        for key, channel in cast("dict[str, Channel]", added).items():
            channel.key = key
            channels[key] = channel
        return channels

    def _keys(self, *schemas: object) -> tuple[str, ...]:
        """The keys of the schemas that have a channel."""
        declared = dict.fromkeys(key for schema in schemas for key in self.builder.schemas[schema])
        return tuple(key for key in declared if key not in self.builder.managed)

    def _reader(self, schema: object) -> Reader:
        keys = self._keys(schema)
        if keys == (ROOT,):
            return Reader(ROOT)
        managed = self.builder.managed
        present = tuple((key, managed[key]) for key in self.builder.schemas[schema] if key in managed)
        return Reader(keys, builder_of(schema), present)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _start(self) -> Node:
        builder, static = self.builder, self._static_writes(START)
        keys = frozenset(self._keys(builder.input_schema))
        return Node(
            START,
            (START,),
            Reader(START),
            actions=(),
            writes=writer_for(START, keys, static, what="the input of"),
            branches=self._branches(START, builder.state_schema),
            hidden=True,
            edges=tuple(channel for channel, _ in static),
        )

    def _node(self, name: str, spec: NodeSpec) -> Node:
        static = self._static_writes(name)
        joins = [join_channel(starts, end) for starts, end in self.builder.waiting_edges if end == name]
        keys = frozenset(self.builder.channels)
        return Node(
            name,
            () if spec.is_error_handler else tuple(sorted([branch_channel(name), *joins])),
            self._reader(spec.input_schema),
            (spec.function,),
            writer_for(name, keys, static, what="the return value of node", managed=frozenset(self.builder.managed)),
            self._branches(name, spec.input_schema),
            edges=tuple(channel for channel, _ in static),
            policies=Policies(spec.retry, spec.timeout, spec.cache, spec.error_handler),
            deferred=spec.defer,
            destinations=spec.destinations,
            metadata=spec.metadata,
        )

    def _static_writes(self, node: str) -> list[Update]:
        edges, joins = sorted(self.builder.edges), sorted(self.builder.waiting_edges)
        plain = [(branch_channel(end), None) for start, end in edges if start == node and end != END]
        return [*plain, *((join_channel(s, e), node) for s, e in joins if node in s and e != END)]

    def _branches(self, source: str, schema: object) -> tuple[Branch, ...]:
        return tuple(
            Branch(
                name,
                spec.path,
                self._reader(spec.input_schema or schema),
                router_for(source, name, spec.ends),
                spec.ends,
                sees_output=spec.input_schema is None,
            )
            for name, spec in self.builder.branches.get(source, {}).items()
        )


def _with_defaults(builder: "StateGraph[Any, Any, Any, Any]") -> dict[str, NodeSpec]:
    """The nodes with the defaults they lack, and behind them the default error handler, if there is one."""
    defaults = builder.node_defaults
    nodes = dict(builder.nodes)
    if defaults.error_handler is not None:
        nodes[DEFAULT_ERROR_HANDLER] = NodeSpec(defaults.error_handler, builder.state_schema, is_error_handler=True)
    return {name: defaults.applied_to(spec) for name, spec in nodes.items()}


# --- what compile() was asked for -------------------------------------------------------------------------------------


def _hint_for(checkpointer: object) -> str:
    if isinstance(checkpointer, type):
        return "; call the class"
    if hasattr(checkpointer, "__enter__") or hasattr(checkpointer, "__aenter__"):
        return "; enter it first: with … as saver"
    return ""


def saver_of(checkpointer: object) -> BaseCheckpointSaver | bool | None:
    """What ``compile`` was given to keep threads with.

    Raises:
        TypeError: it is no saver, ``True``, ``False`` or ``None``.
    """
    if checkpointer is None or isinstance(checkpointer, bool):
        return checkpointer
    if isinstance(checkpointer, type) or not hasattr(checkpointer, "get_tuple"):
        raise TypeError(
            f"Invalid checkpointer provided. Expected a saver (such as InMemorySaver()), True, False or None, "
            f"got {checkpointer!r} of type {type(checkpointer).__name__}{_hint_for(checkpointer)}"
        )
    return cast("BaseCheckpointSaver", checkpointer)


def stops_of(given: All | Sequence[str] | None) -> Sequence[str]:
    """The nodes to stop at; ``*`` stands for all of them."""
    if isinstance(given, str) and given != "*":
        raise TypeError(f"interrupts are a list of node names, or '*' for every node; got {given!r}")
    return [plain(name) for name in given or ()]


def not_there_yet(what: str, instead: str) -> NoReturn:
    """Refuse what was asked for.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError(f"{what} not there yet; {instead}")
