"""``StateGraph``: describe a graph of nodes over a shared state, then compile it into something that runs."""

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeAlias, cast

from typing_extensions import TypeVar

from phalanx.cache.base import BaseCache, check_cache
from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.config import RunnableConfig
from phalanx.constants import END, START
from phalanx.coordinator.stops import NO_STOPS, Stops
from phalanx.graph.annotations import destinations_of, ends_of, node_name, path_name, plain, schema_read_by
from phalanx.graph.compiling import blueprint_of, not_there_yet, saver_of, stops_of
from phalanx.graph.declarations import Declarations
from phalanx.graph.specs import DEFAULT_ERROR_HANDLER, BranchSpec, NodeDefaults, NodeSpec, guarded, labelled
from phalanx.graph.validation import check_interrupts, check_name, check_whole
from phalanx.managed import ManagedValueSpec
from phalanx.pregel import Pregel
from phalanx.pregel.schemas import Side, state_json_schema
from phalanx.types import All, CachePolicy, RetryPolicy, TimeoutPolicy
from phalanx.worker.blueprint import Blueprint, Channel
from phalanx.worker.functions import Invokable, UserFunction
from phalanx.worker.policies import cache_policy_of, retry_policies_of, timeout_policy_of

StateT = TypeVar("StateT", default=dict[str, Any])
ContextT = TypeVar("ContextT", default=Any)
InputT = TypeVar("InputT", default=StateT)
OutputT = TypeVar("OutputT", default=StateT)

NodeAction: TypeAlias = Callable[..., object] | Invokable
"""A node: takes the state (and what else it asks for by name), returns an update, a ``Command``, or ``None``; may be
async. Or a compiled graph."""

PathMap: TypeAlias = Mapping[Hashable, str] | Sequence[str]
Timeout: TypeAlias = float | timedelta | TimeoutPolicy
Checkpointer: TypeAlias = BaseCheckpointSaver | bool | None

_log: Final = logging.getLogger("phalanx.graph")


class StateGraph(Generic[StateT, ContextT, InputT, OutputT]):
    """A builder. Nodes read the state and return partial updates; reducers say how updates of one key are combined.

    Args:
        state_schema: a TypedDict, dataclass or pydantic model; its annotated keys are the state.
        context_schema: the class of what a run is given as ``context=``.
        input_schema: the keys a run's input may have; the whole state unless given.
        output_schema: the keys a run returns; the whole state unless given.

    Raises:
        ValueError: two schemas declare one key differently, a reducer does not take two arguments, or a managed value
            is in the input or output schema.
        NameError: an annotation names what cannot be found.

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
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: type[InputT] | None = None,
        output_schema: type[OutputT] | None = None,
    ) -> None:
        self.state_schema = state_schema
        self.context_schema = context_schema
        self.input_schema: object = input_schema or state_schema
        self.output_schema: object = output_schema or state_schema
        self.nodes: dict[str, NodeSpec] = {}
        self.edges: set[tuple[str, str]] = set()
        self.waiting_edges: set[tuple[tuple[str, ...], str]] = set()
        self.branches: defaultdict[str, dict[str, BranchSpec]] = defaultdict(dict)
        self._declarations = Declarations()
        self.channels: dict[str, Channel] = self._declarations.channels
        self.managed: dict[str, ManagedValueSpec] = self._declarations.managed
        self.schemas: dict[object, tuple[str, ...]] = self._declarations.keys
        self.node_defaults = NodeDefaults()
        self.compiled = False
        self._declarations.add(state_schema)
        self._declarations.add(self.input_schema, managed_allowed=False)
        self._declarations.add(self.output_schema, managed_allowed=False)

    if not TYPE_CHECKING:  # a type checker knows better without it

        def __getattr__(self, name: str) -> object:
            hint = "; did you forget .compile()?" if hasattr(Pregel, name) else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    # --- nodes --------------------------------------------------------------------------------------------------------

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: NodeAction | None = None,
        timeout: Timeout | None = None,
    ) -> Self:
        """What applies to every node that has no such policy of its own, whenever it is added.

        Retries and timeouts hold for error handlers too. Graphs inside this one have their own defaults.

        Args:
            retry_policy: when a failed node is tried again; of several, the first that matches decides.
            cache_policy: that nodes' writes are remembered.
            error_handler: what runs in the place of a node that failed for good.
            timeout: how long one attempt may take; a number is seconds.

        Raises:
            ValueError, TypeError: an argument is wrong.
        """
        where = "set_node_defaults()"
        later = NodeDefaults(
            retry_policies_of(retry_policy, where),
            cache_policy_of(cache_policy, where),
            timeout_policy_of(timeout, where),
            None if error_handler is None else UserFunction.of(error_handler, DEFAULT_ERROR_HANDLER),
        )
        self._warn_if_compiled("Changing the node defaults of")
        self.node_defaults = self.node_defaults.updated_by(later)
        return self

    def add_node(
        self,
        node: str | NodeAction,
        action: NodeAction | None = None,
        *,
        defer: bool = False,
        metadata: dict[str, Any] | None = None,
        input_schema: type[Any] | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: NodeAction | None = None,
        destinations: Mapping[str, str] | tuple[str, ...] | None = None,
        timeout: Timeout | None = None,
    ) -> Self:
        """Add a node.

        Args:
            node: its name, or the action itself, whose name is then used.
            action: a function of the state, sync or async, or a compiled graph.
            defer: run it only when nothing else is left to run.
            metadata: labels for streams and drawings.
            input_schema: what it reads; by default what its first parameter is annotated with, else the whole state.
            retry_policy: when it is tried again after it failed; of several policies the first that matches decides.
            cache_policy: that its writes are remembered and used again for the same input.
            error_handler: runs in its place once it has failed for good. It is given what the node was given, and
                ``error``, a ``NodeError``. It becomes a node named ``__error_handler__<node>``; only what it returns,
                and its own edges, say what follows.
            destinations: the nodes its commands may lead to, for drawings; a dict gives them labels. By default those
                in its return annotation ``Command[Literal["a", "b"]]``.
            timeout: how long one attempt may take; a number is seconds. It holds for synchronous nodes too.

        Raises:
            ValueError: the name is taken, reserved, or holds ``|`` or ``:``; a key of the schema is declared
                differently elsewhere; the timeout is not greater than 0.
            TypeError: the action cannot be called, or a policy is none.
        """
        if isinstance(node, str):
            name = plain(node)
        else:
            action, name = node, node_name(node)
        if action is None:
            raise TypeError(f"node {name!r} has no action: add_node({name!r}, function)")
        check_name(name, self.nodes)
        self._warn_if_compiled("Adding a node to")
        where = f"node {name!r}"
        schema = input_schema or schema_read_by(action) or self.state_schema
        spec = NodeSpec(
            UserFunction.of(action, name),
            schema,
            defer,
            dict(metadata or {}),
            retry_policies_of(retry_policy, where),
            cache_policy_of(cache_policy, where),
            timeout_policy_of(timeout, where),
            destinations=destinations_of(action) if destinations is None else labelled(destinations, where),
        )
        self._declarations.add(schema)
        self.nodes |= guarded(name, spec, error_handler, self.nodes)
        return self

    def add_sequence(self, nodes: Sequence[NodeAction | tuple[str, NodeAction]]) -> Self:
        """Add nodes and an edge from each to the next.

        Raises:
            ValueError: there are none, or a name is there already.
        """
        if not nodes:
            raise ValueError("Sequence requires at least one node. Give functions or (name, function) tuples")
        before: str | None = None
        for item in nodes:
            name, action = _named(item)
            if name in self.nodes:
                raise ValueError(
                    f"Node names must be unique: node with the name '{name}' already exists. Give functions of the "
                    f"same name, such as lambdas, as (name, function) tuples"
                )
            self.add_node(name, action)
            if before is not None:
                self.add_edge(before, name)
            before = name
        return self

    # --- edges --------------------------------------------------------------------------------------------------------

    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> Self:
        """Add an edge: ``end_key`` runs after ``start_key``; with a list of starts, once after all of them have run.

        Raises:
            ValueError: it starts at ``END``, ends at ``START``, or a list is empty or names a node that is not there
                yet.
        """
        joined = not isinstance(start_key, str)
        starts = tuple(plain(start) for start in ([start_key] if isinstance(start_key, str) else start_key))
        end = plain(end_key)
        if END in starts:
            raise ValueError("END cannot be a start node")
        if end == START:
            raise ValueError("START cannot be an end node")
        if not starts:
            raise ValueError(f"an edge to {end!r} needs at least one start; got an empty list")
        self._warn_if_compiled("Adding an edge to")
        if not joined:
            self.edges.add((starts[0], end))
            return self
        for name in [*starts, *([] if end == END else [end])]:
            if name not in self.nodes:
                why = (
                    "START cannot be one of several starts"
                    if name == START
                    else "an edge with several starts needs all its nodes"
                )
                raise ValueError(f"Need to add_node `{name}` first; {why}")
        self.waiting_edges.add((starts, end))
        return self

    def add_conditional_edges(
        self,
        source: str,
        path: Callable[..., object] | Invokable,
        path_map: PathMap | None = None,
    ) -> Self:
        """Add a conditional edge: after ``source``, ``path`` looks at the state and says where to go.

        Args:
            source: the node it leaves, or ``START``.
            path: returns a node's name, ``END``, a ``Send``, or a list of them; may be async.
            path_map: from answers to node names; a list of names allows just these. By default the names in its return
                annotation ``Literal["a", "b"]``.

        Raises:
            ValueError: this node already has a conditional edge with a path of that name.
        """
        source, name = plain(source), path_name(path)
        if name in self.branches[source]:
            raise ValueError(
                f"Branch with name `{name}` already exists for node `{source}`. Name the paths of one node "
                f"differently; all lambdas have one name"
            )
        self._warn_if_compiled("Adding a conditional edge to")
        function = UserFunction.of(path, name)
        schema = schema_read_by(path)
        if schema is not None:
            self._declarations.add(schema)
        self.branches[source][name] = BranchSpec(function, ends_of(path, path_map), schema)
        return self

    def set_entry_point(self, key: str) -> Self:
        """The same as ``add_edge(START, key)``."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(
        self, path: Callable[..., object] | Invokable, path_map: PathMap | None = None
    ) -> Self:
        """The same as ``add_conditional_edges(START, …)``."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """The same as ``add_edge(key, END)``."""
        return self.add_edge(key, END)

    # --- compiling ----------------------------------------------------------------------------------------------------

    def validate(self, interrupt: Sequence[str] | None = None) -> Self:
        """Check that every edge joins nodes that exist and that there is a way in.

        Args:
            interrupt: names that must be nodes.

        Raises:
            ValueError: naming the edge or name, and what is there instead.
        """
        check_whole(self)
        check_interrupts(self, interrupt or ())
        return self

    def compile(
        self,
        checkpointer: Checkpointer = None,
        *,
        cache: BaseCache[Any] | None = None,
        store: Any = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        debug: bool = False,
        name: str | None = None,
    ) -> "CompiledStateGraph[StateT, ContextT, InputT, OutputT]":
        """Freeze the graph into one that runs. It may be compiled several times, and changed in between.

        Args:
            checkpointer: keeps the threads' state; without one, or with ``False``, each run stands alone.
            cache: where the writes of nodes with a cache policy are remembered.
            store: what nodes are given as their store.
            interrupt_before, interrupt_after: nodes to stop at; ``"*"`` for all. ``input=None`` goes on.
            debug: print what happens; not there yet.
            name: what workers know the graph by; needed to run it on a cluster.

        Raises:
            ValueError: the graph is not whole; see :meth:`validate`.
            TypeError: the checkpointer is not a saver, or the cache is none.
            NotImplementedError: what was asked for is not there yet.
        """
        saver = saver_of(checkpointer)
        check_cache(cache)
        before, after = stops_of(interrupt_before), stops_of(interrupt_after)
        self.validate(interrupt=[stop for stop in (*before, *after) if stop != "*"])
        if debug:
            not_there_yet("debug=True is", "look at stream(..., stream_mode='updates') instead")
        self.compiled = True
        blueprint = blueprint_of(self, name or "", cache, store)
        stops = Stops("*" if "*" in before else frozenset(before), "*" if "*" in after else frozenset(after))
        return CompiledStateGraph(blueprint, checkpointer=saver, builder=self, stops=stops)

    def _warn_if_compiled(self, doing: str) -> None:
        if self.compiled:
            _log.warning("%s a graph that was compiled already. Compile it again for this to take effect", doing)


class CompiledStateGraph(Pregel, Generic[StateT, ContextT, InputT, OutputT]):
    """A graph that runs: inline in this process, or on a cluster with :meth:`with_cluster`. Made by ``compile``.

    Attributes:
        builder: the graph it was compiled from.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        *,
        checkpointer: BaseCheckpointSaver | bool | None = None,
        builder: StateGraph[StateT, ContextT, InputT, OutputT],
        stops: Stops = NO_STOPS,
    ) -> None:
        self._settle(blueprint, checkpointer, "updates", stops)
        self.builder = builder

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """The JSON schema of the graph's input schema."""
        return self._json_schema("input", self.builder.input_schema)

    def get_output_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """The JSON schema of the graph's output schema."""
        return self._json_schema("output", self.builder.output_schema)

    def _json_schema(self, side: Side, schema: object) -> dict[str, Any]:
        keys = [key for key in self.builder.schemas[schema] if key in self.blueprint.channels]
        return state_json_schema(self.blueprint, side, schema, keys)


def _named(item: NodeAction | tuple[str, NodeAction]) -> tuple[str, NodeAction]:
    if isinstance(item, tuple):
        pair = cast("tuple[str, NodeAction]", item)  # type: ignore[redundant-cast]
        if len(pair) != 2:
            raise TypeError(f"a tuple in a sequence is (name, function); got {pair!r}")
        return plain(pair[0]), pair[1]
    return node_name(item), item
