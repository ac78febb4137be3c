"""From what a node or a path returns to writes: state updates, gotos, packets."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from phalanx.constants import END, START
from phalanx.errors import ErrorCode, InvalidUpdateError, ParentCommand, create_error_message
from phalanx.graph.schema import update_of_instance
from phalanx.protocol.names import ROOT, TASKS, branch_channel
from phalanx.types import Command, Send, Update

AnyCommand = Command[str]


def writer_for(
    node: str, keys: frozenset[str], static: Sequence[Update], *, what: str
) -> Callable[[object], list[Update]]:
    """A function from a node's output to its writes: the state update, gotos, then the plain edges' ``static`` writes.

    Args:
        node: the node, for messages.
        keys: the state keys it may write; others are dropped.
        what: what to call the output in messages.
    """

    def writes(output: object) -> list[Update]:
        update = _root_update(output) if ROOT in keys else _state_update(output, keys, node, what)
        return [*update, *_gotos(output), *static]

    return writes


def _state_update(output: object, keys: frozenset[str], node: str, what: str) -> list[Update]:
    if output is None:
        return []
    update = _as_dict(output)
    if update is not None:
        return [(key, value) for key, value in update.items() if key in keys]
    command = _as_command(output)
    if command is not None:
        return [(key, value) for key, value in _command_pairs(command) if key in keys]
    parts = _as_sequence(output)
    if parts is not None and any(_as_command(part) for part in parts):
        return [write for part in parts for write in _state_update(part, keys, node, what)]
    pairs = update_of_instance(output)
    if pairs is None:
        raise InvalidUpdateError(
            create_error_message(
                message=f"Expected dict, got {output!r} (type {type(output).__name__}) as {what} {node!r}; "
                f"return a dict of state keys, a Command, or None",
                error_code=ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE,
            )
        )
    return [(key, value) for key, value in pairs if key in keys]


def _command_pairs(command: AnyCommand) -> Iterable[Update]:
    """The keys and values of a command's update, in whichever form it was given."""
    if command.graph == Command.PARENT:
        raise ParentCommand(command)
    given: object = command.update
    if given is None:
        return ()
    update = _as_dict(given)
    if update is not None:
        return update.items()
    pairs = _as_sequence(given)
    if pairs is not None and all(len(_as_sequence(pair) or ()) == 2 for pair in pairs):
        return cast("Sequence[Update]", pairs)
    return update_of_instance(given) or [(ROOT, given)]


def _root_update(output: object) -> list[Update]:
    command = _as_command(output)
    if command is not None:
        if command.graph == Command.PARENT:
            raise ParentCommand(command)
        return [] if command.update is None else [(ROOT, command.update)]
    parts = _as_sequence(output)
    if parts is not None and any(_as_command(part) for part in parts):
        return [write for part in parts for write in _root_update(part)]
    return [] if output is None else [(ROOT, output)]


def _gotos(output: object) -> Iterable[Update]:
    for part in _as_sequence(output) or (output,):
        command = _as_command(part)
        if command is not None:
            goto = command.goto
            yield from destination_writes((goto,) if isinstance(goto, (Send, str)) else goto)


def destination_writes(targets: Iterable[Send | str]) -> Iterable[Update]:
    """The writes that start ``targets`` in the next superstep; ``END`` starts nothing.

    Raises:
        InvalidUpdateError: a packet is for ``END``.
    """
    for target in targets:
        if isinstance(target, Send):
            if target.node == END:
                raise InvalidUpdateError("Cannot send a packet to the END node")
            yield TASKS, target
        elif target != END:
            yield branch_channel(target), None


def router_for(source: str, path: str, ends: Mapping[object, str] | None) -> Callable[[object], Iterable[Update]]:
    """A function from a path's answer to writes.

    Args:
        source, path: the node and the path function, for messages.
        ends: translates answers to node names, if given.
    """

    def route(answer: object) -> Iterable[Update]:
        answers = _as_sequence(answer)
        each = [answer] if answers is None else answers
        return destination_writes([_destination(item, source, path, ends) for item in each])

    return route


def _destination(answer: object, source: str, path: str, ends: Mapping[object, str] | None) -> Send | str:
    if isinstance(answer, Send):
        return answer
    if ends is not None:
        if answer not in ends:
            raise KeyError(
                f"path {path!r} of node {source!r} answered {answer!r}, which is not in its path_map; "
                f"it has: {', '.join(map(repr, ends))}"
            )
        return ends[answer]
    if answer is None or answer == START or not isinstance(answer, str):
        raise ValueError(
            f"Branch did not return a valid destination: path {path!r} of node {source!r} returned {answer!r}; "
            f"return a node's name, END, a Send, or a list of them"
        )
    return answer


# What follows narrows a user's value without guessing at the types inside it.


def _as_dict(value: object) -> dict[str, object] | None:
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _as_sequence(value: object) -> Sequence[object] | None:
    return cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else None


def _as_command(value: object) -> AnyCommand | None:
    return cast("AnyCommand", value) if isinstance(value, Command) else None
