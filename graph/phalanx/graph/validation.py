"""What makes a graph whole: every edge joins nodes that exist, and there is a way in."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from phalanx.constants import END, START
from phalanx.graph.specs import DEFAULT_ERROR_HANDLER

if TYPE_CHECKING:
    from phalanx.graph.state import StateGraph

RESERVED_CHARACTERS = ("|", ":")


def check_name(name: str, taken: Iterable[str]) -> None:
    """Check that a node may have this name.

    Raises:
        ValueError: the name is taken, reserved, or holds ``|`` or ``:``.
    """
    if name in taken:
        raise ValueError(
            f"Node `{name}` already present. Give one of the two another name: add_node('other', function)"
        )
    if name in (START, END):
        raise ValueError(f"Node `{name}` is reserved. It stands for the start or the end of every graph")
    for character in RESERVED_CHARACTERS:
        if character in name:
            raise ValueError(
                f"'{character}' is a reserved character and is not allowed in the node names. Got {name!r}: "
                f"it separates names in namespaces and channels"
            )


def check_whole(builder: "StateGraph[Any, Any, Any, Any]") -> None:
    """Check all that can be checked about edges.

    Raises:
        ValueError: naming the edge and what is there instead.
    """
    known = f"; the nodes are: {', '.join(builder.nodes) or 'none'}"
    for source in _sources(builder):
        if source not in builder.nodes and source != START:
            raise ValueError(f"Found edge starting at unknown node '{source}'{known}")
    if START not in {start for start, _ in builder.edges} and START not in builder.branches:
        raise ValueError(
            "Graph must have an entrypoint: add at least one edge from START to another node, such as "
            "add_edge(START, 'first')"
        )
    for target in _plain_targets(builder):
        _check_target(builder, target, f"Found edge ending at unknown node `{target}`{known}")
    for source, branches in builder.branches.items():
        for name, branch in branches.items():
            for target in (branch.ends or {}).values():
                message = f"At '{source}' node, '{name}' branch found unknown target '{target}'{known}"
                _check_target(builder, target, message)
    if builder.node_defaults.error_handler is not None and DEFAULT_ERROR_HANDLER in builder.nodes:
        raise ValueError(
            f"Auto-generated default error handler node `{DEFAULT_ERROR_HANDLER}` already exists. "
            f"The error handler of set_node_defaults() takes that name; give your node another one"
        )


def check_interrupts(builder: "StateGraph[Any, Any, Any, Any]", names: Sequence[str]) -> None:
    """Check that all names are nodes.

    Raises:
        ValueError: one is not.
        TypeError: they are one text instead of a list.
    """
    if isinstance(names, str):
        raise TypeError(f"interrupts are a list of node names, or '*' for every node in compile(); got {names!r}")
    for name in names:
        if name not in builder.nodes:
            raise ValueError(f"Interrupt node `{name}` not found; the nodes are: {', '.join(builder.nodes) or 'none'}")


def _sources(builder: "StateGraph[Any, Any, Any, Any]") -> list[str]:
    joined = {(start, end) for starts, end in builder.waiting_edges for start in starts}
    return [*(start for start, _ in sorted(builder.edges | joined)), *builder.branches]


def _plain_targets(builder: "StateGraph[Any, Any, Any, Any]") -> list[str]:
    """Where edges end and where commands may lead."""
    edges = [end for _, end in sorted(builder.edges)] + [end for _, end in sorted(builder.waiting_edges)]
    return [*edges, *(end for spec in builder.nodes.values() for end in spec.destinations)]


def _check_target(builder: "StateGraph[Any, Any, Any, Any]", target: str, message: str) -> None:
    if target == END:
        return
    spec = builder.nodes.get(target)
    if spec is None:
        raise ValueError(message)
    if spec.is_error_handler:
        raise ValueError(
            f"Found edge ending at error handler `{target}`: it runs when its node has failed, and no edge leads "
            f"to it. Add its function as a node of its own to reach it otherwise"
        )
