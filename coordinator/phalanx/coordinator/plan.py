"""Planning a superstep: which tasks run next. Pure; the same state and checkpoint id always give the same tasks.

Packets first, one PUSH task each in the order they were sent; then PULL tasks, found through the index from the
channels that the last superstep updated to the nodes they can trigger. Without that knowledge (after a load) every
node is a candidate. A candidate runs when one of its triggers holds a value and is newer than what the node has seen.

A task's id is a hash of everything that makes it this task, so that whoever plans again from the same checkpoint finds
the same ids, and outcomes that were recorded before a crash find their tasks.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from xxhash import xxh3_128_hexdigest

from phalanx.coordinator.state import GraphState
from phalanx.errors import NodeError
from phalanx.protocol.names import PULL, PUSH, TASKS
from phalanx.types import Send, TimeoutPolicy
from phalanx.worker.blueprint import Blueprint, Node

TaskPath = tuple[str | int, ...]
"""``(PULL, node)`` or ``(PUSH, index)``: where a task stands in the order of its superstep."""


@dataclass(frozen=True, slots=True)
class Task:
    """One execution of a node in one superstep.

    Attributes:
        triggers: the channels that triggered it, sorted; ``(PUSH,)`` for a packet.
        arg: a packet's argument; nothing for a PULL task, whose input is read from the state.
        timeout: what limits each attempt: the packet's policy, or the node's.
        error: what it is to handle, if it is an error handler's; then ``stands_for`` is the id of the task that failed.
        nth: how many tasks of its node come before it in the superstep.
    """

    id: str
    name: str
    path: TaskPath
    triggers: tuple[str, ...]
    arg: object = None
    timeout: TimeoutPolicy | None = None
    error: NodeError | None = None
    stands_for: str = ""
    nth: int = 0

    @property
    def is_push(self) -> bool:
        """Whether a packet made it."""
        return self.path[0] == PUSH


def plan(blueprint: Blueprint, state: GraphState, *, checkpoint_id: str, namespace: str, step: int) -> list[Task]:
    """The tasks of superstep ``step``: packets in the order they were sent, then nodes by name.

    Args:
        blueprint: the graph.
        state: its state after the superstep before.
        checkpoint_id: the checkpoint this superstep starts from.
        namespace: the graph's place in the thread; empty at the root.
        step: the superstep's number.
    """
    prefix = f"{checkpoint_id}\x1f{namespace}\x1f{step}\x1f"
    packets: dict[str, int] = {}
    return [*_push_tasks(blueprint, state, prefix, packets), *_pull_tasks(blueprint, state, prefix, packets)]


def _push_tasks(blueprint: Blueprint, state: GraphState, prefix: str, packets: dict[str, int]) -> Iterable[Task]:
    topic = state.channels.get(TASKS)
    if topic is None or not topic.is_available():
        return
    triggers = (PUSH,)
    for index, packet in enumerate(cast("Sequence[Send]", topic.get())):
        name = packet.node
        node = blueprint.nodes.get(name)
        if node is not None:
            identity, timeout = f"{prefix}{name}\x1f{PUSH}\x1f{index}", packet.timeout or node.policies.timeout
            nth = packets[name] = packets.get(name, -1) + 1
            yield Task(_task_id(identity), name, (PUSH, index), triggers, packet.arg, timeout, nth=nth)


def _pull_tasks(blueprint: Blueprint, state: GraphState, prefix: str, packets: dict[str, int]) -> Iterable[Task]:
    for name in _candidates(blueprint, state):
        node = blueprint.nodes[name]
        triggers = due_triggers(node, state)
        if triggers:
            # All that can trigger it, not what is due: a command may make more due, and the task is still the same.
            identity = f"{prefix}{name}\x1f{PULL}\x1f{chr(31).join(node.triggers)}"
            nth = packets.get(name, -1) + 1
            yield Task(_task_id(identity), name, (PULL, name), triggers, timeout=node.policies.timeout, nth=nth)


def handler_task(blueprint: Blueprint, failed: Task, error: BaseException) -> Task:
    """The task of the error handler of the node whose task failed. It takes that task's place in the order of writes.

    Its id is made from the failed task's, so that whoever plans it again finds the same.
    """
    name = blueprint.nodes[failed.name].policies.error_handler
    assert name is not None
    return Task(
        _task_id(f"{failed.id}\x1f{name}"),
        name,
        failed.path,
        failed.triggers,
        failed.arg,
        blueprint.nodes[name].policies.timeout,
        NodeError(failed.name, error),
        failed.id,
    )


def outside_task(checkpoint_id: str, node: str, number: int) -> Task:
    """The task in whose name the writes of an update from outside are kept, where none of that node is due."""
    return Task(_task_id(f"{checkpoint_id}\x1foutside\x1f{node}\x1f{number}"), node, (PULL, node), ())


def _candidates(blueprint: Blueprint, state: GraphState) -> Iterable[str]:
    if state.updated is None:
        return sorted(blueprint.nodes)
    found: set[str] = set()
    for channel in state.updated:
        found.update(blueprint.trigger_to_nodes.get(channel, ()))
    return sorted(found)


def due_triggers(node: Node, state: GraphState) -> tuple[str, ...]:
    """The node's triggers that hold a value and are newer than what the node has seen."""
    seen = state.seen.get(node.name, {})
    return tuple(
        trigger
        for trigger in node.triggers
        if (version := state.versions.get(trigger))  # not one that no write has had
        and (trigger not in seen or version > seen[trigger])  # type: ignore[operator]
        and state.channels[trigger].is_available()
    )


def _task_id(identity: str) -> str:
    digest = xxh3_128_hexdigest(identity.encode("utf-8", "surrogatepass"))
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"


def path_order(path: TaskPath) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts paths: PULL before PUSH, names as text, indexes as numbers."""
    return tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in path)
