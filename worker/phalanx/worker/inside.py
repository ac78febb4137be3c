"""Finding a graph inside of a graph by its namespace."""

from phalanx.errors import CorruptDataError
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.lineage import node_names


def blueprint_at(blueprint: Blueprint, namespace: str) -> Blueprint:
    """The graph at a namespace: that of a node, or of a node inside of it, and so on.

    Raises:
        CorruptDataError: there is none.
    """
    if not namespace:
        return blueprint
    inside = blueprint
    for name in node_names(namespace):
        node = inside.nodes.get(name)
        found = getattr(node.actions[0].source, "blueprint", None) if node is not None and node.actions else None
        if not isinstance(found, Blueprint):
            raise CorruptDataError(f"{blueprint.called} has no graph inside at {namespace!r}")
        inside = found
    return inside
