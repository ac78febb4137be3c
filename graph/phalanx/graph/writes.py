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
    if isinstance(output, dict):
        return [(key, value) for key, value in cast("dict[str, object]", output).items() if key in keys]
    if isinstance(output, Command):
        return _command_update(cast("AnyCommand", output), keys)
    if isinstance(output, (list, tuple)) and any(
        isinstance(item, Command) for item in cast("Sequence[object]", output)
    ):
        return [write for item in cast("Sequence[object]", output) for write in _state_update(item, keys, node, what)]
    update = update_of_instance(output)
    if update is None:
        raise InvalidUpdateError(
            create_error_message(
                message=f"Expected dict, got {output!r} (type {type(output).__name__}) as {what} {node!r}; "
                f"return a dict of state keys, a Command, or None",
                error_code=ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE,
            )
        )
    return [(key, value) for key, value in update if key in keys]


def _command_update(command: AnyCommand, keys: frozenset[str]) -> list[Update]:
    if command.graph == Command.PARENT:
        raise ParentCommand(command)
    given = command.update
    if given is None:
        return []
    if isinstance(given, dict):
        pairs: Iterable[Update] = cast("dict[str, object]", given).items()
    elif isinstance(given, (list, tuple)) and all(
        isinstance(item, tuple) and len(cast("tuple[object, ...]", item)) == 2
        for item in cast("Sequence[object]", given)
    ):
        pairs = cast("Sequence[Update]", given)
    else:
        pairs = update_of_instance(given) or [(ROOT, given)]
    return [(key, value) for key, value in pairs if key in keys]


def _root_update(output: object) -> list[Update]:
    if isinstance(output, Command):
        command = cast("AnyCommand", output)
        if command.graph == Command.PARENT:
            raise ParentCommand(command)
        return [] if command.update is None else [(ROOT, command.update)]
    if isinstance(output, (list, tuple)) and any(
        isinstance(item, Command) for item in cast("Sequence[object]", output)
    ):
        return [write for item in cast("Sequence[object]", output) for write in _root_update(item)]
    return [] if output is None else [(ROOT, output)]


def _gotos(output: object) -> Iterable[Update]:
    commands: Sequence[object] = ()
    if isinstance(output, Command):
        commands = (cast("AnyCommand", output),)
    elif isinstance(output, (list, tuple)):
        commands = cast("Sequence[object]", output)
    for command in commands:
        if isinstance(command, Command):
            goto = cast("AnyCommand", command).goto
            targets = (goto,) if isinstance(goto, (Send, str)) else goto
            yield from destination_writes(targets)


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
        answers = cast("Sequence[object]", answer) if isinstance(answer, (list, tuple)) else [answer]
        return destination_writes([_destination(item, source, path, ends) for item in answers])

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
