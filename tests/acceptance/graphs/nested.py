"""Graphs in graphs, over real worker processes. Nodes note in files that they ran, and in which process."""

# Short paths are lambdas, and all who run these graphs give a folder.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportTypedDictNotRequiredAccess=false

import asyncio
import operator
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, cast

from typing_extensions import TypedDict

from phalanx.cache.memory import InMemoryCache
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.errors import NodeError
from phalanx.graph import START, CompiledStateGraph, StateGraph
from phalanx.types import CachePolicy, Command, RetryPolicy, Send

Graph = CompiledStateGraph[Any]
Node = Callable[..., Any]


class State(TypedDict, total=False):
    """``folder`` is where nodes note that they ran."""

    folder: str
    log: Annotated[list[str], operator.add]
    item: str


class Wrote(TypedDict, total=False):
    """What a graph inside gives back."""

    log: Annotated[list[str], operator.add]


class Given(TypedDict, total=False):
    """What a graph inside is given."""

    folder: str
    item: str


class Other(TypedDict, total=False):
    """The state of a graph inside that shares two keys with the one around it."""

    folder: str
    log: Annotated[list[str], operator.add]
    secret: int


def note(state: Any, what: str) -> int:
    """Note in a file of its own that something ran; returns how often it has."""
    folder = Path(state["folder"])
    (folder / f"{what}-{os.getpid()}-{time.monotonic_ns()}").touch()
    return len([*folder.glob(f"{what}-*")])


def processes(folder: Path, what: str) -> set[int]:
    """The processes in which something ran."""
    return {int(path.name.split("-")[1]) for path in folder.glob(f"{what}-*")}


def wait_for(condition: Callable[[], object]) -> None:
    """Wait, as a node that depends on something outside."""
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("in vain")
        time.sleep(0.01)


def says(what: str) -> Callable[[State], State]:
    """A node that notes that it ran, and writes so."""

    def node(state: State) -> State:
        note(state, what)
        return {"log": [what + state.get("item", "")]}

    return node


def row(schema: Any = State, /, *, given: Any = None, output: Any = None, **nodes: Any) -> StateGraph[Any]:
    """A graph of nodes one after the other; ``None`` is a node that says its name."""
    builder: StateGraph[Any] = StateGraph(schema, input_schema=given, output_schema=output)
    before = START
    for name, node in nodes.items():
        action, options = cast("tuple[Any, dict[str, Any]]", node) if isinstance(node, tuple) else (node, {})
        builder.add_node(name, says(name) if action is None else action, **options)
        builder.add_edge(before, name)
        before = name
    return builder


def inside(**nodes: Any) -> Graph:
    """Such a graph, to be a node."""
    return row(State, given=Given, output=Wrote, **nodes).compile()


# --- over several processes -------------------------------------------------------------------------------------------


def meets(state: State) -> State:
    """Waits until it has run in two processes, so that a run on one would never end."""
    note(state, "meets")
    wait_for(lambda: len(processes(Path(state["folder"]), "meets")) > 1)
    return {"log": [f"met {state['item']}"]}


def packets(state: State) -> list[Send]:
    return [Send("work", {"folder": state["folder"], "item": each}) for each in "abcd"]


def _spread(work: Graph) -> StateGraph[Any]:
    builder = row(plan=None)
    builder.add_node("work", work)
    builder.add_node("end", says("end"))
    builder.add_conditional_edges("plan", packets, ["work"])
    builder.add_edge("work", "end")
    return builder


spread = _spread(inside(meets=meets, then=None)).compile(name="spread")
deep = _spread(inside(one=inside(two=_spread(inside(three=None)).compile()))).compile(name="deep")


def waits(state: State) -> State:
    """Waits until it may go on, so that a process can be killed meanwhile."""
    note(state, "waits")
    wait_for((Path(state["folder"]) / "go").exists)
    return {"log": ["waited" + state.get("item", "")]}


slow = _spread(inside(first=None, waits=waits, last=None)).compile(name="slow")

_waiting = inside(first=None, waits=waits, last=None)


def calls_slow(state: State) -> State:
    """Calls a graph that can be killed in the middle."""
    note(state, "calls")
    return {"log": [*_waiting.invoke({"folder": state["folder"]})["log"]]}


slow_call = row(plan=None, calls=calls_slow, end=None).compile(name="slow_call")

# --- one thing each ---------------------------------------------------------------------------------------------------


def flaky(state: State) -> State:
    """Works the third time."""
    if note(state, "flaky") < 3:
        raise ConnectionError("not yet")
    return {"log": ["at last"]}


def fails(state: State) -> State:
    note(state, "fails")
    raise ValueError("no luck")


def handles(_: State, error: NodeError) -> State:
    return {"log": [f"{error.node}: {error.error!r}"]}


def leaves(state: State) -> Command[str]:
    note(state, "leaves")
    return Command(graph=Command.PARENT, update={"log": ["left"]}, goto="elsewhere")


def keeps_a_secret(state: Other) -> Other:
    return {"secret": len(state["log"]), "log": [f"{sorted(state)}"]}


def where_to(state: State) -> str:
    """A path of the graph around, after a graph."""
    note(state, "path")
    return "yes" if "inner" in state["log"] else "no"


async def coroutine(state: State) -> State:
    await asyncio.sleep(0)
    note(state, "coroutine")
    return {"log": ["coroutine"]}


def sleeps(_: State) -> State:
    time.sleep(1)
    return {}


def goes_round(state: State) -> Command[str]:
    return Command(update={"log": ["round"]}, goto="goes_round")


_inner = inside(inner=None, second=None)
_again = RetryPolicy(initial_interval=0.01, jitter=False, retry_on=ConnectionError)


def calls(state: State) -> State:
    """Calls a graph in the middle of its work."""
    note(state, "calls")
    return {"log": ["calls", *_inner.invoke({"folder": state["folder"], "item": "x"})["log"]]}


def _branched() -> StateGraph[Any]:
    builder = row(graph=_inner)
    builder.add_node("yes", says("yes"))
    builder.add_node("no", says("no"))
    builder.add_conditional_edges("graph", where_to, ["yes", "no"])
    return builder


def _leaving() -> StateGraph[Any]:
    builder = row(graph=inside(before=None, leaves=leaves, never=None))
    builder.add_node("elsewhere", says("elsewhere"))
    return builder


def _timed() -> StateGraph[Any]:
    slow_inside = inside(before=None, sleeps=sleeps)
    slow_inside.step_timeout = 0.2
    return row(graph=slow_inside)


nested = row(before=None, graph=inside(x=None, graph=inside(y=None, z=None)), after=None).compile(name="nested")
schemas = row(graph=row(Other, secret=keeps_a_secret, other=keeps_a_secret).compile(), after=None).compile(
    name="schemas"
)
retried = row(graph=(inside(before=None, flaky=flaky), {"retry_policy": _again})).compile(name="retried")
handled = row(graph=(inside(before=None, fails=fails), {"error_handler": handles})).compile(name="handled")
failing = row(before=None, graph=inside(x=None, graph=inside(fails=fails))).compile(name="failing")
leaving = _leaving().compile(name="leaving")
branched = _branched().compile(name="branched")
timed = _timed().compile(name="timed")
endless = row(graph=inside(goes_round=goes_round)).compile(name="endless")
lasting = row(graph=row(State, output=Wrote, x=None, y=None).compile(True), after=None).compile(name="lasting")
passing = row(graph=row(State, output=Wrote, x=None, y=None).compile(False), after=None).compile(name="passing")
owning = row(graph=row(State, output=Wrote, x=None, y=None).compile(InMemorySaver()), after=None).compile(name="owning")
coroutines = row(graph=inside(coroutine=coroutine, then=None, again=coroutine), after=None).compile(name="coroutines")
calling = row(before=None, calls=calls, after=None).compile(name="calling")
limited = row(graph=(inside(x=None, y=None), {"timeout": 20}), after=None).compile(name="limited")
cached = row(graph=(inside(x=None, y=None), {"cache_policy": CachePolicy()})).compile(
    name="cached", cache=InMemoryCache()
)
