"""The graphs of random threads, built with either library."""

import threading
from collections.abc import Callable, Generator, Sequence
from typing import Annotated, Any, Final

from tests.differential.states import LibraryName, canonical, library
from tests.differential.threads_plans import LEAD_ON, NAMES, Change, Graph, Kept, Node
from typing_extensions import TypedDict

_LONGEST_LOG: Final = 12
_SAVERS: Final[dict[Kept, bool | None]] = {"inherited": None, "lasting": True, "none": False}
ANSWERS: Final = ("yes", "no", 0, "", False, ["l"], {"k": 1}, "maybe")


def joined(log: list[str], more: list[str]) -> list[str]:
    """A log with more at its end, and without what is far back: a graph inside gives back all it was given."""
    return (log + more)[-_LONGEST_LOG:]


def added(count: int, more: int) -> int:
    """A counter that does not run away, since graphs inside give back what they were given."""
    return min(count + more, 99)


def newest(_: int, value: int) -> int:
    """What was written last, so that tasks may write side by side."""
    return value


class State(TypedDict, total=False):
    """The state of every graph."""

    log: Annotated[list[str], joined]
    value: Annotated[int, newest]
    count: Annotated[int, added]


class NodeFails(Exception):
    """What nodes fail with."""


class Notes:
    """What nodes note down, and are told.

    Attributes:
        ran: the node, and what it saw.
        healthy: that no node fails.
    """

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.healthy = False
        self._lock = threading.Lock()

    def note(self, name: str, state: object) -> None:
        with self._lock:
            self.ran.append(f"{name} {canonical(state)}")


class Build:
    """Builds one graph, and those inside it.

    Args:
        name: whose ``StateGraph`` to use.
        plan: the graph.
        notes: what its nodes note.
        inside: the names of the nodes around it, each with a slash.
    """

    def __init__(self, name: LibraryName, plan: Graph, notes: Notes, inside: str = "") -> None:
        self.name: LibraryName = name
        self.library = library(name)
        self.types = self.library.types
        self.plan, self.notes, self.inside = plan, notes, inside

    def compiled(self, checkpointer: object, **options: Any) -> Any:
        """The graph, ready to run."""
        plan, end = self.plan, self.library.graph.END
        builder = self.library.graph.StateGraph(State)
        for number, node in enumerate(plan.nodes):
            builder.add_node(NAMES[number], self._action(NAMES[number], node), defer=node.defer)
        for number in plan.entries:
            builder.add_edge(self.library.graph.START, self.node(number))
        for source, target in plan.edges:
            builder.add_edge(self.node(source), self.node(target))
        for sources, target in plan.joins:
            builder.add_edge(list(dict.fromkeys(map(self.node, sources))), self.node(target))
        for place, (source, target) in enumerate(plan.loops):
            builder.add_conditional_edges(self.node(source), self._loop(place, target), [self.node(target), end])
        options |= {"interrupt_before": self.stops(plan.before), "interrupt_after": self.stops(plan.after)}
        return builder.compile(checkpointer=checkpointer, **options)

    def node(self, number: int) -> str:
        """A node's name; there is one for every number."""
        return NAMES[number % len(self.plan.nodes)]

    def stops(self, numbers: Sequence[int]) -> Any:
        """Breakpoints as the libraries take them."""
        return "*" if -1 in numbers else list(dict.fromkeys(map(self.node, numbers)))

    def values(self, values: Sequence[tuple[str, int]], by: str) -> dict[str, Any]:
        """A state made of numbers."""
        return {key: [f"{by}{number}"] if key == "log" else number for key, number in values}

    def change(self, change: Change, number: int) -> tuple[Any, str | None]:
        """An update from outside: the values, and in whose name."""
        values = None if change.values is None else self.values(change.values, f"update {number}.")
        if isinstance(change.node, int):
            return values, self.node(change.node)
        match change.node:
            case "none":
                return values, None
            case "end":
                return values, str(self.library.graph.END)
            case "copy":
                return (None if values is None else [(values, self.node(0))]), "__copy__"
            case _:
                return values, f"__{change.node}__"

    def _action(self, name: str, node: Node) -> Any:
        inner: Any = None
        if node.inner is not None:
            inside = Build(self.name, node.inner, self.notes, f"{self.inside}{name}/")
            inner = inside.compiled(_SAVERS[node.inner.kept])
            if "call" not in node.body:
                return inner

        def action(state: Any) -> Any:
            doing = self._doing(name, node, state)
            result: Any = None
            while True:
                try:
                    given = doing.send(result)
                except StopIteration as stop:
                    return stop.value
                result = inner.invoke(given)

        async def acoroutine(state: Any) -> Any:
            doing = self._doing(name, node, state)
            result: Any = None
            while True:
                try:
                    given = doing.send(result)
                except StopIteration as stop:
                    return stop.value
                result = await inner.ainvoke(given)

        action.__annotations__ = acoroutine.__annotations__ = {}
        return acoroutine if node.waits else action

    def _doing(self, name: str, node: Node, state: dict[str, Any]) -> Generator[Any, dict[str, Any] | None, Any]:
        """What a node does: yields what the graph inside is to be given, and is sent what that returns."""
        full = self.inside + name
        self.notes.note(full, state)
        heard: list[str] = []
        number = f" in {state['generation']}" if "generation" in state else ""
        for place, step in enumerate(node.body):
            if step == "ask":
                heard.append(str(self.types.interrupt(f"{full}{place}{number}, {state.get('value')}")))
            elif step == "call" and node.inner is None:
                continue
            elif step == "call":
                result: dict[str, Any] | None
                result = yield {"log": [f"to {full}"], "value": state.get("value", 0), "count": place}
                kept = {key: result.get(key) for key in ("log", "count")} if result else "nothing"
                heard.append(canonical(kept))
            elif not self.notes.healthy:
                raise NodeFails(f"{full} fails")
        return self._written(name, node, state, heard)

    def _written(self, name: str, node: Node, state: dict[str, Any], heard: list[str]) -> Any:
        told = f"{name}{state.get('generation', '')}: {'; '.join(heard)}"
        update: dict[str, Any] = {"log": [told[:200]]}
        if "value" in node.writes:
            update["value"] = (ord(name) + state.get("value", 0)) % 10
        if "count" in node.writes or node.gotos or any(self.node(source) == name for source, _ in self.plan.loops):
            update["count"] = 1
        generation = state.get("generation", state.get("count", 0))
        if not (node.packets or node.gotos) or generation >= LEAD_ON:
            return update
        sent = [
            self.types.Send(self.node(number), {"generation": generation + 1, "value": place})
            for place, number in enumerate(node.packets)
        ]
        return self.types.Command(update=update, goto=[*sent, *map(self.node, node.gotos)])

    def _loop(self, place: int, target: int) -> Callable[..., Any]:
        end = self.library.graph.END

        def path(state: Any) -> Any:
            return self.node(target) if state.get("count", 0) < LEAD_ON else end

        path.__name__ = f"path{place}"
        path.__annotations__ = {}
        return path
