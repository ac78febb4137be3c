"""From what a node or a path returns to writes: state updates, gotos, packets."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, cast

from phalanx.constants import END, START
from phalanx.coordinator.commands import as_command, targets_of
from phalanx.errors import ErrorCode, InvalidUpdateError, ParentCommand, create_error_message
from phalanx.graph.annotations import plain
from phalanx.graph.instances import update_of_instance
from phalanx.protocol.names import ROOT, TASKS, branch_channel
from phalanx.types import Command, Send, Update

AnyCommand = Command[str]

_log: Final = logging.getLogger("phalanx.graph")


def writer_for(
    node: str, keys: frozenset[str], static: Sequence[Update], *, what: str, managed: Collection[str] = ()
) -> Callable[[object], list[Update]]:
    """A function from a node's output to its writes: the state update, gotos, then the plain edges' ``static`` writes.

    Args:
        node: the node, for messages.
        keys: the state keys it may write; others are dropped.
        what: what to call the output in messages.
        managed: keys that nobody can write; a warning says so.
    """
    one_value = keys == frozenset({ROOT})
    what = f"{what} {node!r}"

    def writes(output: object) -> list[Update]:
        updates: list[Update] = []
        gotos: list[Update] = []
        for part in _parts(output):
            command = as_command(part)
            if command is not None:
                _check_graph(command, what)
                given: object = command.update
                updates += _root_pairs(given) if one_value else _command_pairs(given, what)
                gotos += destination_writes(_targets(command, what))
            elif isinstance(part, Send):
                gotos += destination_writes([part])
            elif part is not None:
                updates += [(ROOT, part)] if one_value else _state_pairs(part, what)
        for key, value in updates:
            if key in managed:
                _log.warning("%s writes %r to %r, a managed value; nothing can be written to it", what, value, key)
        return [*(update for update in updates if update[0] in keys), *gotos, *static]

    return writes


def _parts(output: object) -> list[object]:
    """The parts of an output: those of a list that holds commands, in its order; of anything else itself."""
    parts = _as_sequence(output)
    if parts is None or not any(isinstance(part, Command) for part in parts):
        return [output]
    return [inner for part in parts for inner in _parts(part)]


def _check_graph(command: AnyCommand, what: str) -> None:
    if command.graph == Command.PARENT:
        raise ParentCommand(command)
    if command.graph is not None:
        raise InvalidUpdateError(
            f"Command(graph={command.graph!r}) as {what}: a command is for this graph, with graph=None, or for the one "
            f"above, with graph=Command.PARENT"
        )


def _targets(command: AnyCommand, what: str) -> Iterable[Send | str]:
    goto = cast("object", command.goto)
    for target in () if goto is None else targets_of(command):
        if not isinstance(target, (Send, str)):
            raise InvalidUpdateError(
                f"Command(goto={goto!r}) as {what}: {target!r} is no destination; a goto is a node's name, a Send, or "
                f"a list of them"
            )
        yield target


def _state_pairs(output: object, what: str) -> Iterable[Update]:
    """The keys and values of a dict or of an object with annotated keys."""
    update = _as_dict(output)
    pairs = update_of_instance(output) if update is None else update.items()
    if pairs is None:
        raise InvalidUpdateError(
            create_error_message(
                message=f"Expected dict, got {output!r} (type {type(output).__name__}) as {what}; "
                f"it must be a dict of state keys, a Command, or None",
                error_code=ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE,
            )
        )
    return pairs


def _command_pairs(given: object, what: str) -> Iterable[Update]:
    """The keys and values of a command's update, in whichever form it was given."""
    if given is None:
        return ()
    pairs = _as_pairs(given)
    return _state_pairs(given, f"the update of a Command in {what}") if pairs is None else pairs


def _root_pairs(given: object) -> Iterable[Update]:
    """The same where the state is one value: the update is that value, unless it names ``__root__`` itself."""
    named = _as_dict(given)
    pairs = _as_pairs(given) if named is None else [*named.items()]
    if pairs and all(key == ROOT for key, _ in pairs):
        return pairs
    return () if given is None else [(ROOT, given)]


def _as_pairs(value: object) -> list[Update] | None:
    """The pairs, if the value is a list of ``(key, value)``."""
    found = _as_sequence(value)
    if found is None:
        return None
    pairs: list[Update] = []
    for pair in map(_as_sequence, found):
        if pair is None or len(pair) != 2 or not isinstance(pair[0], str):
            return None
        pairs.append((pair[0], pair[1]))
    return pairs


def destination_writes(targets: Iterable[Send | str]) -> Iterable[Update]:
    """The writes that start ``targets`` in the next superstep; ``END`` starts nothing.

    Raises:
        InvalidUpdateError: a packet is for ``END``.
    """
    for target in targets:
        if isinstance(target, Send):
            if target.node == END:
                raise InvalidUpdateError("Cannot send a packet to the END node")
            yield TASKS, _plain_packet(target)
        elif target != END:
            yield branch_channel(plain(target)), None


def _plain_packet(packet: Send) -> Send:
    """The packet, for a node whose name is a plain text: another process may not know the enum it is a member of."""
    node = packet.node
    return packet if type(node) is str else Send(plain(node), packet.arg, timeout=packet.timeout)


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
