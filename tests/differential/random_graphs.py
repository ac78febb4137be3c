"""Graphs as data, and what running one shows. The same description is built with either library and run inline.

A graph of at most five nodes over a small state: plain keys, reducers, edges, joins, conditional edges, packets,
commands, loops that end by a counter, loops that end by the recursion limit, deferred nodes, and a node that fails the
first time.
"""

# pyright: reportMissingTypeStubs=false

import importlib
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from hypothesis import strategies as st
from typing_extensions import TypedDict

LibraryName = Literal["langgraph", "phalanx"]

NAMES: Final = ("a", "b", "c", "d", "e")
RECURSION_LIMIT: Final = 8
_MOST_GENERATIONS: Final = 2  # a packet's task makes packets only this often, so that fan-outs stay small


class State(TypedDict, total=False):
    """The state of every random graph."""

    value: int
    other: str
    log: Annotated[list[str], operator.add]
    count: Annotated[int, operator.add]


@dataclass(frozen=True)
class Target:
    """Where a command or a path leads: a node by number, the end, a name nobody has, or a packet for a node."""

    kind: Literal["node", "end", "unknown", "send"]
    node: int = 0


@dataclass(frozen=True)
class NodePlan:
    """What a node does: the writes it makes, the form in which it returns them, and where its command leads."""

    writes: tuple[str, ...]
    form: Literal["dict", "command", "pairs", "list", "nothing", "number"]
    gotos: tuple[Target, ...] = ()
    defer: bool = False


@dataclass(frozen=True)
class BranchPlan:
    """A conditional edge: ``early`` while the counter is below ``limit``, then ``late``."""

    source: int  # -1 is the start
    early: tuple[Target, ...]
    late: tuple[Target, ...]
    limit: int
    mapped: bool


@dataclass(frozen=True)
class GraphPlan:
    """A graph, and the inputs it is run with."""

    nodes: tuple[NodePlan, ...]
    entries: tuple[int, ...]
    edges: tuple[tuple[int, int], ...] = ()  # to -1 is to the end
    joins: tuple[tuple[tuple[int, ...], int], ...] = ()
    branches: tuple[BranchPlan, ...] = ()
    fails: int | None = None
    inputs: tuple[dict[str, Any], ...] = ({},)


@dataclass
class Shown:
    """What can be seen of one run: the streams, the error, the state afterwards and the tasks it ran."""

    values: list[Any] = field(default_factory=list[Any])
    updates: list[list[str]] = field(default_factory=lambda: [[]])  # sorted, between two ``values``
    executed: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])
    error: tuple[str, str] | None = None
    state: Any = None
    history: Any = None


# --- descriptions -----------------------------------------------------------------------------------------------------

WRITES: Final = ("value", "other", "log", "count", "overwrite", "unknown")


def _targets(size: int, most: int) -> st.SearchStrategy[tuple[Target, ...]]:
    number = st.integers(0, size - 1)
    one = st.one_of(
        st.builds(Target, st.just("node"), number),
        st.builds(Target, st.just("send"), number),
        st.just(Target("end")),
        st.just(Target("unknown")),
    )
    return st.lists(one, max_size=most).map(tuple)


@st.composite
def graph_plans(draw: st.DrawFn) -> GraphPlan:
    """Any graph."""
    size = draw(st.integers(1, len(NAMES)))
    number = st.integers(0, size - 1)
    form = st.sampled_from(["dict", "dict", "dict", "command", "command", "pairs", "list", "nothing"])
    node = st.builds(
        NodePlan,
        st.lists(st.sampled_from(WRITES), max_size=3, unique=True).map(tuple),
        form,
        _targets(size, 2),
        st.sampled_from([False, False, False, True]),
    )
    nodes = draw(st.lists(node, min_size=size, max_size=size))
    # At most one kind of failure, so that it is not a matter of timing which one is raised.
    fails = draw(st.one_of(st.none(), st.none(), number))
    if fails is None and draw(st.sampled_from([False] * 15 + [True])):
        nodes[draw(number)] = NodePlan((), "number")
    branch = st.builds(
        BranchPlan, st.integers(-1, size - 1), _targets(size, 2), _targets(size, 2), st.integers(0, 3), st.booleans()
    )
    join = st.tuples(st.lists(number, min_size=1, max_size=3, unique=True).map(tuple), number)
    given = st.fixed_dictionaries(
        {},
        optional={
            "value": st.integers(0, 9),
            "log": st.lists(st.sampled_from(["x", "y"]), max_size=2),
            "count": st.integers(0, 2),
            "strange": st.just(1),
        },
    )
    return GraphPlan(
        tuple(nodes),
        tuple(draw(st.lists(number, min_size=1, max_size=2, unique=True))),
        tuple(draw(st.lists(st.tuples(number, st.integers(-1, size - 1)), max_size=size + 1, unique=True))),
        tuple(draw(st.lists(join, max_size=2))),
        tuple(draw(st.lists(branch, max_size=2))),
        fails,
        tuple(draw(st.lists(given, min_size=1, max_size=2))),
    )


# --- building ---------------------------------------------------------------------------------------------------------

AnyState: TypeAlias = dict[str, Any]


class Built:
    """A graph built with one library, which notes what it runs.

    Args:
        library: whose ``StateGraph`` to use.
        plan: the graph.
        keep: whether it gets a saver.
    """

    def __init__(self, library: LibraryName, plan: GraphPlan, *, keep: bool) -> None:
        self.plan = plan
        self.graphs: Any = importlib.import_module(f"{library}.graph")
        self.types: Any = importlib.import_module(f"{library}.types")
        memory: Any = importlib.import_module(f"{library}.checkpoint.memory")
        self.executed: list[tuple[int, str, str]] = []
        self._lock = threading.Lock()
        self._failed = False
        self.keep = keep
        # Theirs stores in the background what the next step may already have changed.
        self.options = {"durability": "sync"} if keep and library == "langgraph" else {}
        self.graph: Any = self._builder().compile(checkpointer=memory.InMemorySaver() if keep else None)

    def _builder(self) -> Any:
        plan = self.plan
        builder = self.graphs.StateGraph(State)
        for number, node in enumerate(plan.nodes):
            builder.add_node(NAMES[number], self._action(number, node), defer=node.defer)
        for number in plan.entries:
            builder.add_edge(self.graphs.START, NAMES[number])
        for source, target in plan.edges:
            builder.add_edge(NAMES[source], self.graphs.END if target < 0 else NAMES[target])
        for sources, target in plan.joins:
            builder.add_edge([NAMES[source] for source in sources], NAMES[target])
        for place, branch in enumerate(plan.branches):
            start = self.graphs.START if branch.source < 0 else NAMES[branch.source]
            builder.add_conditional_edges(start, self._path(place, branch), self._path_map(branch))
        return builder

    def _action(self, number: int, node: NodePlan) -> Callable[..., Any]:
        name = NAMES[number]

        def action(state: Any, config: Any) -> Any:
            with self._lock:
                self.executed.append((config["metadata"]["langgraph_step"], name, canonical(state)))
                fails_now = number == self.plan.fails and not self._failed
                self._failed |= fails_now
            if fails_now:
                raise ValueError(f"{name} fails the first time")
            return self._returned(name, node, cast("AnyState", state))

        # Without a hint that names our own config type both libraries pass the config by the parameter's name.
        action.__annotations__ = {}
        return action

    def _returned(self, name: str, node: NodePlan, state: AnyState) -> Any:
        updates = [self._write(kind, name, state) for kind in node.writes]
        merged = dict(updates)
        command = self.types.Command(update=merged, goto=self._targets(node.gotos, state))
        match node.form:
            case "dict":
                return merged
            case "command":
                return command
            case "pairs":
                return self.types.Command(update=updates)
            case "list":
                return [command, {"log": [f"{name}+"]}]
            case "nothing":
                return None
            case "number":
                return 5

    def _write(self, kind: str, name: str, state: AnyState) -> tuple[str, Any]:
        match kind:
            case "value":
                return "value", ord(name) + state.get("value", 0) % 7
            case "other":
                return "other", f"{name} saw {state.get('value')}"
            case "log":
                return "log", [f"{name}{state.get('count')}{state.get('generation', '')}"]
            case "count":
                return "count", 1
            case "overwrite":
                only = [f"only {name}"]
                return "log", self.types.Overwrite(only) if name in "ace" else {"__overwrite__": only}
            case _:
                return "nowhere", name

    def _targets(self, targets: Sequence[Target], state: AnyState) -> list[Any]:
        generation = cast("int", state.get("generation", 0))
        if generation >= _MOST_GENERATIONS:
            return []
        return [self._target(target, place, generation) for place, target in enumerate(targets)]

    def _target(self, target: Target, place: int, generation: int) -> Any:
        match target.kind:
            case "node":
                return NAMES[target.node]
            case "end":
                return self.graphs.END
            case "unknown":
                return "nobody"
            case "send":
                return self.types.Send(NAMES[target.node], {"generation": generation + 1, "value": place})

    def _path(self, place: int, branch: BranchPlan) -> Callable[..., Any]:
        def path(state: Any, config: Any) -> Any:
            seen = cast("AnyState", state)
            # A path reads no generation, so packets of paths would multiply without end.
            if config["metadata"]["langgraph_step"] % 4 > 1:
                seen = {**seen, "generation": _MOST_GENERATIONS}
            targets = branch.early if seen.get("count", 0) < branch.limit else branch.late
            if not branch.mapped:
                found = [t for t in self._targets(targets, seen) if t != self.graphs.END or len(targets) > 1]
                return found if len(found) != 1 else found[0]
            return [NAMES[target.node].upper() if target.kind != "end" else "STOP" for target in targets]

        path.__name__ = f"path{place}"
        path.__annotations__ = {}
        return path

    def _path_map(self, branch: BranchPlan) -> dict[str, str] | None:
        if not branch.mapped:
            return None
        return {**{name.upper(): name for name in NAMES[: len(self.plan.nodes)]}, "STOP": self.graphs.END}

    # --- running ------------------------------------------------------------------------------------------------------

    @property
    def config(self) -> dict[str, Any]:
        """A thread of its own, and a limit that ends endless loops soon."""
        return {"recursion_limit": RECURSION_LIMIT, "configurable": {"thread_id": "t"}}

    def run(self, given: object, *, history: bool = False) -> Shown:
        """Stream one run, and look at the state after it."""
        shown = Shown()
        self.executed.clear()
        try:
            for mode, data in self.graph.stream(given, self.config, stream_mode=["values", "updates"], **self.options):
                if mode == "values":
                    shown.values.append(data)
                    shown.updates.append([])
                else:
                    shown.updates[-1].append(canonical(data))
        except Exception as error:
            shown.error = (type(error).__name__, str(error).split("\n")[0])
        shown.executed = sorted(self.executed)
        shown.updates = [sorted(block) for block in shown.updates]
        if self.keep:
            shown.state = self._state()
            if history:
                shown.history = [_snapshot(each) for each in self.graph.get_state_history(self.config)]
        return shown

    def _state(self) -> dict[str, Any] | None:
        """The thread's state; ``None`` where theirs cannot show it, since finished tasks wrote the same key."""
        try:
            return _snapshot(self.graph.get_state(self.config))
        except Exception as error:
            if type(error).__module__.startswith("langgraph"):
                return None
            raise

    def invoke(self, given: object) -> tuple[object, tuple[str, str] | None]:
        """What one run returns, and its error."""
        try:
            return self.graph.invoke(given, self.config), None
        except Exception as error:
            return None, (type(error).__name__, str(error).split("\n")[0])


def _snapshot(state: Any) -> dict[str, Any]:
    return {
        "values": state.values,
        "next": state.next,
        "source": state.metadata and state.metadata["source"],
        "step": state.metadata and state.metadata["step"],
        "tasks": [(task.name, task.path[0], task.error is None) for task in state.tasks],
        "parent": state.parent_config is not None,
    }


def canonical(value: object) -> str:
    """A text that is the same for equal values, whichever library's classes they hold."""
    if isinstance(value, dict):
        items = cast("dict[object, object]", value).items()
        return "{" + ", ".join(sorted(f"{canonical(key)}: {canonical(item)}" for key, item in items)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(canonical(item) for item in cast("list[object]", value)) + "]"
    return repr(value)
