"""States and nodes that many tests use."""

import operator
import time
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


def alone(action: Any, **options: Any) -> "StateGraph[Words]":
    """A graph of one node, ``a``; ``options`` are those of ``add_node``."""
    builder = StateGraph(Words)
    builder.add_node("a", action, **options)
    builder.add_edge(START, "a")
    return builder


class Flaky:
    """A node that raises what it is told to, one error a call, and then answers.

    Attributes:
        calls: what it was given, call by call.
        times: when each call began, in seconds of the monotonic clock.
    """

    def __init__(self, *errors: type[BaseException], answer: object = None) -> None:
        self.errors = list(errors)
        self.answer = {"words": ["ok"]} if answer is None else answer
        self.calls: list[Any] = []
        self.times: list[float] = []

    def __call__(self, given: Any) -> Any:
        self.calls.append(given)
        self.times.append(time.monotonic())
        if self.errors:
            raise self.errors.pop(0)("not yet")
        return self.answer
