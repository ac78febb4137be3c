"""``StateGraph``: describe a graph of nodes over a shared state, then compile it into something that runs."""

import inspect
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    Self,
    TypeAlias,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from typing_extensions import TypeVar

from phalanx.channels import (
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
)
from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.checkpoint.serde import default_registry
from phalanx.constants import END, START
from phalanx.graph.schema import builder_of, channels_of, hints_of
from phalanx.graph.writes import router_for, writer_for
from phalanx.pregel import Pregel
from phalanx.protocol.names import ROOT, TASKS, branch_channel, join_channel
from phalanx.types import Send, Update
from phalanx.worker.blueprint import Blueprint, Branch, Channel, Node, Reader
from phalanx.worker.functions import Invokable, UserFunction, name_of

StateT = TypeVar("StateT", default=dict[str, Any])
NodeAction: TypeAlias = Callable[..., object] | Invokable
"""A node: takes the state (and optionally ``config``), returns an update, a ``Command``, or ``None``; may be async.
Or a compiled graph."""

PathMap: TypeAlias = Mapping[Hashable, str] | Sequence[str]
_RESERVED_CHARACTERS: Final = ("|", ":")


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node as it was added."""

    function: UserFunction
    input_schema: object
    defer: bool
    metadata: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """A conditional edge as it was added."""

    path: UserFunction
    ends: Mapping[object, str] | None
    input_schema: object | None


class StateGraph(Generic[StateT]):
    """A builder. Nodes read the state and return partial updates; reducers say how updates of one key are combined.

    Args:
        state_schema: a TypedDict, dataclass or pydantic model; its annotated keys are the state.
        input_schema: the keys a run's input may have; the whole state unless given.
        output_schema: the keys a run returns; the whole state unless given.

    Example:
        >>> class State(TypedDict):
        ...     words: Annotated[list[str], operator.add]
        >>> builder = StateGraph(State)
        >>> builder.add_node("greet", lambda state: {"words": ["hello"]})
        >>> builder.add_edge(START, "greet")
        >>> builder.compile().invoke({"words": []})
        {'words': ['hello']}
    """

    def __init__(
        self,
        state_schema: type[StateT],
        *,
        input_schema: type[Any] | None = None,
        output_schema: type[Any] | None = None,
    ) -> None:
        self.state_schema = state_schema
        self.input_schema: object = input_schema or state_schema
        self.output_schema: object = output_schema or state_schema
        self.nodes: dict[str, NodeSpec] = {}
        self.edges: set[tuple[str, str]] = set()
        self.waiting_edges: set[tuple[tuple[str, ...], str]] = set()
        self.branches: defaultdict[str, dict[str, BranchSpec]] = defaultdict(dict)
        self.channels: dict[str, Channel] = {}
        self.schemas: dict[object, tuple[str, ...]] = {}
        for schema in (state_schema, self.input_schema, self.output_schema):
            self._add_schema(schema)

    if not TYPE_CHECKING:  # a type checker knows better without it

        def __getattr__(self, name: str) -> object:
            hint = "; did you forget .compile()?" if hasattr(Pregel, name) else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    # --- nodes --------------------------------------------------------------------------------------------------------

    def add_node(
        self,
        node: str | NodeAction,
        action: NodeAction | None = None,
        *,
        defer: bool = False,
        metadata: dict[str, Any] | None = None,
        input_schema: type[Any] | None = None,
    ) -> Self:
        """Add a node.

        Args:
            node: its name, or the action itself, whose name is then used.
            action: a function of the state, sync or async, or a compiled graph.
            defer: run it only when nothing else is left to run.
            metadata: labels for streams and drawings.
            input_schema: what it reads; by default what its first parameter is annotated with, else the whole state.

        Raises:
            ValueError: the name is taken, reserved, or holds ``|`` or ``:``.
            TypeError: the action cannot be called.
        """
        if not isinstance(node, str):
            action, node = node, name_of(node)
        if action is None:
            raise TypeError(f"node {node!r} has no action: add_node({node!r}, function)")
        if node in self.nodes:
            raise ValueError(f"Node `{node}` already present.")
        if node in (START, END):
            raise ValueError(f"Node `{node}` is reserved.")
        for character in _RESERVED_CHARACTERS:
            if character in node:
                raise ValueError(f"'{character}' is a reserved character and is not allowed in the node names.")
        function = UserFunction.of(action, node)
        schema = input_schema or _first_parameter_schema(action) or self.state_schema
        self._add_schema(schema)
        self.nodes[node] = NodeSpec(function, schema, defer, dict(metadata or {}))
        return self

    def add_sequence(self, nodes: Sequence[NodeAction | tuple[str, NodeAction]]) -> Self:
        """Add nodes and an edge from each to the next.

        Raises:
            ValueError: there are none, or a name is there twice.
        """
        if not nodes:
            raise ValueError("Sequence requires at least one node.")
        before: str | None = None
        for item in nodes:
            name, action = _named(item)
            self.add_node(name, action)
            if before is not None:
                self.add_edge(before, name)
            before = name
        return self

    # --- edges --------------------------------------------------------------------------------------------------------

    def add_edge(self, start_key: str | list[str], end_key: str) -> Self:
        """Add an edge: ``end_key`` runs after ``start_key``; with a list of starts, once after all of them have run.

        Raises:
            ValueError: it starts at ``END``, ends at ``START``, or a list names a node that is not there yet.
        """
        starts = [start_key] if isinstance(start_key, str) else start_key
        if END in starts:
            raise ValueError("END cannot be a start node")
        if end_key == START:
            raise ValueError("START cannot be an end node")
        if isinstance(start_key, str):
            self.edges.add((start_key, end_key))
            return self
        if START in starts:
            raise ValueError("START cannot be a start node of a join")
        for name in [*starts, *([] if end_key == END else [end_key])]:
            if name not in self.nodes:
                raise ValueError(f"Need to add_node `{name}` first")
        self.waiting_edges.add((tuple(starts), end_key))
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: Callable[..., object],
        path_map: PathMap | None = None,
    ) -> Self:
        """Add a conditional edge: after ``source``, ``path`` looks at the state and says where to go.

        Args:
            source: the node it leaves, or ``START``.
            path: returns a node's name, ``END``, a ``Send``, or a list of them; may be async.
            path_map: from answers to node names; a list of names allows just these.

        Raises:
            ValueError: this node already has a conditional edge with a path of that name.
        """
        function = UserFunction.of(path, None if callable(path) and _has_name(path) else "condition")
        name = function.name
        if name in self.branches[source]:
            raise ValueError(f"Branch with name `{name}` already exists for node `{source}`")
        schema = _first_parameter_schema(path)
        if schema is not None:
            self._add_schema(schema)
        self.branches[source][name] = BranchSpec(function, _ends(path, path_map), schema)
        return self

    def set_entry_point(self, key: str) -> Self:
        """The same as ``add_edge(START, key)``."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(self, path: Callable[..., object], path_map: PathMap | None = None) -> Self:
        """The same as ``add_conditional_edges(START, …)``."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """The same as ``add_edge(key, END)``."""
        return self.add_edge(key, END)

    # --- compiling ----------------------------------------------------------------------------------------------------

    def validate(self) -> Self:
        """Check that every edge joins nodes that exist and that there is a way in.

        Raises:
            ValueError: naming the edge and what is there instead.
        """
        known = f"; the nodes are: {', '.join(self.nodes) or 'none'}"
        joined = [(start, end) for starts, end in self.waiting_edges for start in starts]
        for source in [*(start for start, _ in sorted(self.edges | set(joined))), *self.branches]:
            if source not in self.nodes and source != START:
                raise ValueError(f"Found edge starting at unknown node '{source}'{known}")
        if START not in {start for start, _ in self.edges} and START not in self.branches:
            raise ValueError("Graph must have an entrypoint: add at least one edge from START to another node")
        for _, target in sorted(self.edges):
            if target not in self.nodes and target != END:
                raise ValueError(f"Found edge ending at unknown node `{target}`{known}")
        for source, branches in self.branches.items():
            for name, branch in branches.items():
                for target in (branch.ends or {}).values():
                    if target not in self.nodes and target != END:
                        raise ValueError(f"At '{source}' node, '{name}' branch found unknown target '{target}'{known}")
        return self

    def compile(
        self, checkpointer: BaseCheckpointSaver | None = None, *, name: str | None = None
    ) -> "CompiledStateGraph[StateT]":
        """Freeze the graph into one that runs.

        Args:
            checkpointer: keeps the threads' state; without one each run stands alone.
            name: what workers know the graph by; needed to run it on a cluster.

        Raises:
            ValueError: the graph is not whole; see :meth:`validate`.
            TypeError: the checkpointer is not a saver.
        """
        self.validate()
        if checkpointer is not None and not hasattr(checkpointer, "get_tuple"):
            raise TypeError(
                f"Invalid checkpointer provided: expected a saver (such as InMemorySaver()) or None, "
                f"got {checkpointer!r} of type {type(checkpointer).__name__}"
            )
        for schema in self.schemas:
            default_registry().register_schema(schema)
        output = self._keys(self.output_schema)
        everything = self._keys(*self.schemas)
        blueprint = Blueprint(
            name=name or "",
            nodes={START: self._start_node(), **{name: self._node(name) for name in self.nodes}},
            channels=self._all_channels(),
            input_channels=START,
            output_channels=ROOT if output == (ROOT,) else output,
            stream_channels=ROOT if everything == (ROOT,) else everything,
        )
        return CompiledStateGraph(blueprint, checkpointer=checkpointer, builder=self)

    def _add_schema(self, schema: object) -> None:
        if schema in self.schemas:
            return
        found = channels_of(schema)
        for key, channel in found.items():
            known = self.channels.get(key)
            if known is None:
                self.channels[key] = channel
            elif known != channel and type(channel) is not LastValue:
                if type(known) is not LastValue:
                    raise ValueError(
                        f"Channel '{key}' already exists with a different type: {type(known).__name__} in one schema, "
                        f"{type(channel).__name__} in {schema!r}; declare it with the same reducer or channel in both"
                    )
                self.channels[key] = channel
        self.schemas[schema] = tuple(found)

    def _keys(self, *schemas: object) -> tuple[str, ...]:
        return tuple(dict.fromkeys(key for schema in schemas for key in self.schemas[schema]))

    def _reader(self, schema: object) -> Reader:
        keys = self._keys(schema)
        return Reader(ROOT) if keys == (ROOT,) else Reader(keys, builder_of(schema))

    def _all_channels(self) -> dict[str, Channel]:
        channels = {key: channel.copy() for key, channel in self.channels.items()}
        added: dict[str, object] = {START: EphemeralValue(self.input_schema), TASKS: Topic(Send, accumulate=False)}
        for name, spec in self.nodes.items():
            after_all, at_once = LastValueAfterFinish[object], EphemeralValue[object]
            added[branch_channel(name)] = after_all(object) if spec.defer else at_once(object, guard=False)
        for starts, end in self.waiting_edges:
            if end != END:
                barrier = NamedBarrierValueAfterFinish if self.nodes[end].defer else NamedBarrierValue
                added[join_channel(starts, end)] = barrier(str, set(starts))
        for key, channel in cast("dict[str, Channel]", added).items():
            channel.key = key
            channels[key] = channel
        return channels

    def _static_writes(self, node: str) -> list[Update]:
        plain = [(branch_channel(end), None) for start, end in sorted(self.edges) if start == node and end != END]
        joins = [(join_channel(s, e), node) for s, e in sorted(self.waiting_edges) if node in s and e != END]
        return [*plain, *joins]

    def _start_node(self) -> Node:
        return Node(
            START,
            (START,),
            Reader(START),
            actions=(),
            writes=writer_for(
                START, frozenset(self._keys(self.input_schema)), self._static_writes(START), what="the input of"
            ),
            branches=self._branches(START, self.state_schema),
            hidden=True,
            edges=tuple(channel for channel, _ in self._static_writes(START)),
        )

    def _node(self, name: str) -> Node:
        spec = self.nodes[name]
        joins = [join_channel(starts, end) for starts, end in self.waiting_edges if end == name]
        return Node(
            name,
            tuple(sorted([branch_channel(name), *joins])),
            self._reader(spec.input_schema),
            (spec.function,),
            writer_for(name, frozenset(self.channels), self._static_writes(name), what="the return value of node"),
            self._branches(name, spec.input_schema),
            edges=tuple(channel for channel, _ in self._static_writes(name)),
            deferred=spec.defer,
            metadata=spec.metadata,
        )

    def _branches(self, source: str, schema: object) -> tuple[Branch, ...]:
        return tuple(
            Branch(
                name,
                spec.path,
                self._reader(spec.input_schema or schema),
                router_for(source, name, spec.ends),
                spec.ends,
            )
            for name, spec in self.branches.get(source, {}).items()
        )


class CompiledStateGraph(Pregel, Generic[StateT]):
    """A graph that runs: inline in this process, or on a cluster with :meth:`with_cluster`. Made by ``compile``.

    Attributes:
        builder: the graph it was compiled from.
    """

    def __init__(
        self, blueprint: Blueprint, *, checkpointer: BaseCheckpointSaver | None = None, builder: StateGraph[StateT]
    ) -> None:
        super().__init__(blueprint, checkpointer=checkpointer)
        self.builder = builder


def _named(item: NodeAction | tuple[str, NodeAction]) -> tuple[str, NodeAction]:
    if isinstance(item, tuple):
        return cast("tuple[str, NodeAction]", item)  # type: ignore[redundant-cast]
    return name_of(item), item


def _has_name(path: object) -> bool:
    return getattr(path, "__name__", None) != "<lambda>"


def _first_parameter_schema(action: object) -> type[Any] | None:
    """The state class that the first parameter is annotated with, if it is one."""
    target = action if inspect.isroutine(action) else getattr(action, "__call__", None)  # noqa: B004
    if target is None or hasattr(action, "invoke"):
        return None
    try:
        parameters = [p for p in inspect.signature(target).parameters if p != "self"]
        hint = get_type_hints(target).get(parameters[0]) if parameters else None
    except (NameError, TypeError, ValueError):  # annotations that do not resolve say nothing
        return None
    return cast("type[Any]", hint) if isinstance(hint, type) and hints_of(hint) else None


def _ends(path: object, path_map: PathMap | None) -> Mapping[object, str] | None:
    if isinstance(path_map, Mapping):
        return dict(path_map)
    if path_map is not None:
        return {name: name for name in path_map}
    target = path if inspect.isroutine(path) else getattr(path, "__call__", None)  # noqa: B004
    try:
        hint = get_type_hints(target).get("return") if target is not None else None
    except (NameError, TypeError):
        return None
    return {name: name for name in get_args(hint)} if get_origin(hint) is Literal else None
