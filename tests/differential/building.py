"""Random graphs, built with either library."""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

from tests.differential.plans import (
    NAMES,
    Answer,
    BranchPlan,
    Failure,
    GraphPlan,
    NodePlan,
    Retry,
    Target,
    Turn,
)
from tests.differential.states import LibraryName, canonical, library, schemas, seen

from phalanx.errors import RemoteNodeError

_MOST_GENERATIONS: Final = 2  # a packet's task makes packets only this often, so that fan-outs stay small


class OwnError(Exception):
    """An error of no kind that anybody knows."""


_ERRORS: Final[dict[str, type[Exception]]] = {
    **{kind.__name__: kind for kind in (ValueError, KeyError, RuntimeError, ConnectionError)},
    "OwnError": OwnError,
}


def refusal_from_afar(error: object) -> str | None:
    """The text of pydantic's error, if it came from a cluster: as another one, not being made of its arguments."""
    if isinstance(error, RemoteNodeError) and error.type_name == "pydantic_core._pydantic_core:ValidationError":
        return error.message
    return None


class Book:
    """What the nodes of a graph note down, and are told.

    Attributes:
        executed: the attempts: step, node, what it was given.
        raised: the errors of this run's nodes that were meant to fail.
        healthy: that nobody fails any more.
    """

    def __init__(self) -> None:
        self.executed: list[tuple[int, str, str]] = []
        self.raised: list[tuple[str, str]] = []
        self.healthy = False
        self._lock = threading.Lock()

    def note(self, step: int, name: str, state: object) -> None:
        with self._lock:
            self.executed.append((step, name, canonical(state)))

    def check(self, name: str, failure: Failure | None, attempt: int) -> None:
        """Raise what a node is meant to raise."""
        if failure is not None and not self.healthy and attempt <= failure.attempts:
            error = _ERRORS[failure.error](f"{name} fails")
            with self._lock:
                self.raised.append((type(error).__name__, str(error)))
            raise error


class Build:
    """Builds one graph, and those inside it.

    Args:
        name: whose ``StateGraph`` to use.
        plan: the graph.
        book: what its nodes note.
        cache: what it remembers writes with.
        inside: the name of the node it is, with a slash; empty for the outermost.
        above: the plan of the graph it is in.
    """

    def __init__(
        self, name: LibraryName, plan: GraphPlan, book: Book, cache: object, inside: str = "", above: Any = None
    ) -> None:
        self.library = library(name)
        self.name: LibraryName = name
        self.plan, self.book, self.cache = plan, book, cache
        self.inside = inside
        self.above: GraphPlan = above or plan
        self.types = self.library.types
        self.schemas = schemas(name, plan.state, plan.managed)

    # --- the graph ----------------------------------------------------------------------------------------------------

    def compiled(self, checkpointer: object, **options: Any) -> Any:
        """The graph, ready to run."""
        builder = self._builder()
        return builder.compile(checkpointer=checkpointer, cache=self.cache, **options)

    def _builder(self) -> Any:
        plan, graph = self.plan, self.library.graph
        narrowed: dict[str, Any] = {}
        if plan.narrow_input:
            narrowed["input_schema"] = self.schemas.given
        if plan.narrow_output:
            narrowed["output_schema"] = self.schemas.returned
        builder = graph.StateGraph(self.schemas.state, **narrowed)
        if plan.default_retries:
            builder.set_node_defaults(retry_policy=self._retries(plan.default_retries))
        if plan.default_handler:
            builder.set_node_defaults(error_handler=self._handler("any", plan.default_handler))
        if plan.default_cached:
            builder.set_node_defaults(cache_policy=self._cache_policy())
        for number, node in enumerate(plan.nodes):
            builder.add_node(NAMES[number], self._action(NAMES[number], node), **self._node_options(number, node))
        for number in plan.entries:
            builder.add_edge(graph.START, self._node(number))
        for source, target in plan.edges:
            builder.add_edge(self._node(source), graph.END if target < 0 else self._node(target))
        for sources, target in plan.joins:
            builder.add_edge(list(dict.fromkeys(map(self._node, sources))), self._node(target))
        for place, branch in enumerate(plan.branches):
            start = graph.START if branch.source < 0 else self._node(branch.source)
            builder.add_conditional_edges(start, self._path(place, branch), self._path_map(branch))
        return builder

    def _node(self, number: int) -> str:
        return NAMES[number % len(self.plan.nodes)]

    def _node_options(self, number: int, node: NodePlan) -> dict[str, Any]:
        options: dict[str, Any] = {"defer": node.defer}
        if node.narrow:
            options["input_schema"] = self.schemas.narrow
        if node.retries:
            options["retry_policy"] = self._retries(node.retries)
        if node.cached:
            options["cache_policy"] = self._cache_policy()
        if node.handler:
            options["error_handler"] = self._handler(NAMES[number], node.handler)
        return options

    def _retries(self, retries: Sequence[Retry]) -> list[Any]:
        return [self._retry(retry) for retry in retries]

    def _retry(self, retry: Retry) -> Any:
        chosen = {"retry_on": tuple(_ERRORS[error] for error in retry.on)} if retry.on else {}
        return self.types.RetryPolicy(0.0001, 1.0, 0.0001, retry.most, False, **chosen)

    def _cache_policy(self) -> Any:
        """One cache serves the graphs inside too, and nodes of one name in several of them are not kept apart."""

        def key(given: object) -> str:
            return f"{self.inside} {canonical(given)}"

        return self.types.CachePolicy(key_func=key)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _action(self, name: str, node: NodePlan) -> Any:
        if node.inner is not None:
            inner = Build(self.name, node.inner, self.book, self.cache, f"{self.inside}{name}/", self.plan)
            return inner.compiled(False)

        def action(state: Any, config: Any, runtime: Any) -> Any:
            return self._acted(name, node.answer, state, config, runtime)

        return self._plain(action, node.coroutine)

    def _handler(self, name: str, answer: Answer) -> Any:
        def handle(state: Any, config: Any, runtime: Any, error: Any) -> Any:
            # Theirs knows only the text of an error from an earlier run.
            known: str | None = error.error if isinstance(error.error, str) else refusal_from_afar(error.error)
            told = known or repr(error.error)
            name_seen = f"{name}'s handler of {error.node}: {told.partition('(')[0]}"
            return self._acted(name_seen, answer, state, config, runtime)

        handle.__annotations__ = {"error": self.library.errors.NodeError}
        return handle

    def _plain(self, action: Callable[..., Any], coroutine: bool) -> Any:
        """Without a hint that names our own config type both libraries pass the config by the parameter's name."""

        async def acoroutine(state: Any, config: Any, runtime: Any) -> Any:
            return action(state, config, runtime)

        acoroutine.__annotations__ = action.__annotations__ = {}
        return acoroutine if coroutine else action

    def _acted(self, name: str, answer: Answer, state: object, config: Any, runtime: Any) -> Any:
        self.book.note(config["metadata"]["langgraph_step"], self.inside + name, state)
        self.book.check(self.inside + name, answer.failure, runtime.execution_info.node_attempt)
        if answer.form == "number":
            self.book.raised.append(("InvalidUpdateError", "Expected dict, got 5"))
        return self._returned(name[0], answer, seen(state), runtime)

    def _returned(self, name: str, answer: Answer, state: dict[str, Any], runtime: Any) -> Any:
        if self.plan.state == "root":
            return self._returned_of_root(name, answer, state)
        updates = [self._write(kind, name, state, runtime) for kind in answer.writes]
        merged = dict(updates)
        command = self.types.Command(update=merged, goto=self._targets(answer.gotos, state))
        match answer.form:
            case "dict":
                return merged
            case "command":
                return command
            case "pairs":
                # Keys with a reducer may be there several times, others not.
                pairs = [pair for pair in updates if pair[0] == "log"]
                return self.types.Command(update=[*pairs, *((key, merged[key]) for key in merged if key != "log")])
            case "list":
                return [command, {"log": [f"{name}+"]}]
            case "nothing":
                return None
            case "number":
                return 5
            case "instance":
                kept = {key: value for key, value in merged.items() if key == "value" and isinstance(value, int)}
                return self.instance(kept)
            case "up":
                targets = self._targets(answer.gotos, state, self.above)
                return self.types.Command(graph=self.types.Command.PARENT, update=merged, goto=targets)

    def _returned_of_root(self, name: str, answer: Answer, state: dict[str, Any]) -> Any:
        update = [f"{name}{len(state.get('log', []))}"]
        command = self.types.Command(update=update, goto=self._targets(answer.gotos, state))
        match answer.form:
            case "command" | "pairs" | "up":
                return command
            case "list":
                return [command, update]
            case "nothing":
                return None
            case "number":
                return 5
            case _:
                return update

    def instance(self, values: dict[str, Any]) -> Any:
        """An instance of the state's class."""
        return self.schemas.state(**values)

    def _write(self, kind: str, name: str, state: dict[str, Any], runtime: Any) -> tuple[str, Any]:
        value = state.get("value", 0)
        match kind:
            case "value":
                return "value", ord(name) + (value % 7 if isinstance(value, int) else 0)
            case "other":
                return "other", f"{name} saw {value} {state.get('secret')} {state.get('left')}"
            case "log":
                return "log", [f"{name}{state.get('count')}{state.get('generation', '')}"]
            case "count":
                return "count", 1
            case "overwrite":
                only = [f"only {name}"]
                return "log", self.types.Overwrite(only) if name in "ace" else {"__overwrite__": only}
            case "runtime":
                attempt = "any" if self.plan.caches else runtime.execution_info.node_attempt
                return "other", f"{name} for {runtime.context}, attempt {attempt}"
            case "secret":
                return "secret", f"{name}'s"
            case "bad":
                return "value", f"{name}'s" if name in "bd" else len(name)
            case _:
                return "nowhere", name

    # --- ways ---------------------------------------------------------------------------------------------------------

    def _targets(self, targets: Sequence[Target], state: dict[str, Any], plan: GraphPlan | None = None) -> list[Any]:
        generation: int = state.get("generation", 0)
        if generation >= _MOST_GENERATIONS:
            return []
        size = len((plan or self.plan).nodes)
        return [self._target(target, size, place, generation) for place, target in enumerate(targets)]

    def _target(self, target: Target, size: int, place: int, generation: int) -> Any:
        match target.kind:
            case "node":
                return NAMES[target.node % size]
            case "end":
                return self.library.graph.END
            case "unknown":
                return "nobody"
            case "send":
                arg: Any = {"generation": generation + 1, "value": place}
                return self.types.Send(NAMES[target.node % size], arg)

    def _path(self, place: int, branch: BranchPlan) -> Callable[..., Any]:
        end = self.library.graph.END

        def path(state: Any, config: Any) -> Any:
            known = seen(state)
            # A path reads no generation, so packets of paths would multiply without end. What is remembered of a node
            # includes its paths' answers, which must then be the same in every step.
            if self.plan.caches or config["metadata"]["langgraph_step"] % 4 > 1:
                known = {**known, "generation": _MOST_GENERATIONS}
            targets = branch.early if known.get("count", 0) < branch.limit else branch.late
            if not branch.mapped:
                found = [t for t in self._targets(targets, known) if t != end or len(targets) > 1]
                return found if len(found) != 1 else found[0]
            return [self._node(target.node).upper() if target.kind != "end" else "STOP" for target in targets]

        path.__name__ = f"path{place}"
        path.__annotations__ = {}
        return path

    def _path_map(self, branch: BranchPlan) -> dict[str, str] | None:
        if not branch.mapped:
            return None
        return {**{name.upper(): name for name in NAMES[: len(self.plan.nodes)]}, "STOP": self.library.graph.END}

    # --- inputs -------------------------------------------------------------------------------------------------------

    def given(self, turn: Turn, *, fresh: bool) -> Any:
        """The input of a turn.

        Theirs applies the update of a command to a fresh thread twice, so there it has none; and dies of a command that
        says nothing, so that is none.
        """
        if turn.given is None:
            return None
        values: Any = dict(turn.given)
        if self.plan.state == "root":
            values = values.get("log", ["in"])
        elif turn.as_instance:
            values = self.instance(values)
        updates = bool(turn.given and values) and not fresh
        if not turn.as_command or not (updates or any(target.kind != "end" for target in turn.gotos)):
            return values
        return self.types.Command(update=values if updates else None, goto=self._targets(turn.gotos, {}))
