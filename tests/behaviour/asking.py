"""Nodes that ask, graphs of them, and what tests read of their questions."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tests.behaviour.drivers import Drive, Graph
from tests.behaviour.states import Update, Words, says

from phalanx.config import RunnableConfig
from phalanx.constants import START
from phalanx.graph import StateGraph
from phalanx.types import Command, Interrupt, StateSnapshot, interrupt

Ran = Counter[str]
"""How often each node ran."""


def asks(*questions: Any, ran: Ran | None = None, name: str = "asks") -> Callable[[object], Update]:
    """A node that asks one question after the other and adds the answers, as text, to the words."""

    def ask(_: object) -> Update:
        if ran is not None:
            ran[name] += 1
        return {"words": [str(interrupt(question)) for question in questions]}

    return ask


def counted(ran: Ran, name: str) -> Callable[[object], Update]:
    """A node that adds its name to the words, and is counted."""

    def run(_: object) -> Update:
        ran[name] += 1
        return {"words": [name]}

    return run


def in_a_row(ran: Ran | None = None, /, **nodes: Any) -> StateGraph[Words]:
    """A graph of nodes one after the other. A text is the question of a node that asks; ``None`` is a node that says
    its name; anything else is the node itself."""
    builder = StateGraph(Words)
    before = START
    for name, node in nodes.items():
        _add(builder, name, node, Ran() if ran is None else ran)
        builder.add_edge(before, name)
        before = name
    return builder


def side_by_side(ran: Ran | None = None, /, **nodes: Any) -> StateGraph[Words]:
    """A graph of such nodes side by side, and then ``end``."""
    builder = StateGraph(Words)
    for name, node in nodes.items():
        _add(builder, name, node, Ran() if ran is None else ran)
        builder.add_edge(START, name)
    builder.add_node("end", says("end"))
    builder.add_edge([*nodes], "end")
    return builder


def _add(builder: StateGraph[Words], name: str, node: Any, ran: Ran) -> None:
    if isinstance(node, str):
        builder.add_node(name, asks(node, ran=ran, name=name))
    else:
        builder.add_node(name, counted(ran, name) if node is None else node)


def asked(result: Any) -> list[Any]:
    """What a run's result says is to be answered."""
    questions: list[Interrupt] = result.get("__interrupt__", [])
    return [question.value for question in questions]


def ids(result: Mapping[str, Any]) -> dict[Any, str]:
    """The ids of a run's questions, by what is asked."""
    questions: list[Interrupt] = result["__interrupt__"]
    return {question.value: question.id for question in questions}


def resume(drive: Drive, graph: Graph, config: RunnableConfig, answer: Any) -> Any:
    """Go on with an answer."""
    return drive.invoke(graph, Command[str](resume=answer), config)


def steps(states: list[StateSnapshot]) -> list[tuple[str, int]]:
    """What made each of some states, and their steps."""
    found = [each.metadata or {} for each in states]
    return [(each["source"], each["step"]) for each in found]


def identity(state: StateSnapshot) -> str:
    """The id of a state's checkpoint."""
    return str(state.config["configurable"]["checkpoint_id"])  # pyright: ignore[reportTypedDictNotRequiredAccess]
