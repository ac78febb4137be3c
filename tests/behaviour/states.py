"""States and nodes that many tests use."""

import operator
from collections.abc import Callable
from typing import Annotated, Any

from typing_extensions import TypedDict

from phalanx.constants import START
from phalanx.graph import StateGraph

Update = dict[str, Any]


class Words(TypedDict):
    """A list that all nodes add to, a counter that adds up, and two plain keys."""

    words: Annotated[list[str], operator.add]
    count: Annotated[int, operator.add]
    last: str
    other: object


def says(*words: str) -> Callable[[object], Update]:
    """A node that adds words, whatever it is given."""

    def say(_: object) -> Update:
        return {"words": list(words)}

    return say


def gives(answer: object) -> Callable[[object], object]:
    """A node or path that always answers the same."""

    def give(_: object) -> object:
        return answer

    return give


def silent(_: object) -> None:
    """A node that writes nothing."""


def chain(*names: str) -> "StateGraph[Words]":
    """A graph of nodes one after the other; each adds its name to the words."""
    builder = StateGraph(Words)
    before = START
    for name in names:
        builder.add_node(name, says(name))
        builder.add_edge(before, name)
        before = name
    return builder


def fan_out(*names: str) -> "StateGraph[Words]":
    """A graph of nodes side by side; each adds its name to the words."""
    builder = StateGraph(Words)
    for name in names:
        builder.add_node(name, says(name))
        builder.add_edge(START, name)
    return builder
