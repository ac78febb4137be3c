"""Nodes and conditional edges as they were added, before a graph is compiled."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, cast

from phalanx.types import CachePolicy, RetryPolicy, TimeoutPolicy
from phalanx.worker.functions import UserFunction

DEFAULT_ERROR_HANDLER: Final = "__default_error_handler__"
"""The node that the error handler of ``set_node_defaults`` becomes."""


def error_handler_name(node: str) -> str:
    """The node that the error handler of ``node`` becomes."""
    return f"__error_handler__{node}"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node as it was added.

    Attributes:
        input_schema: what it reads.
        retry: empty for the graph's default.
        error_handler: the node that runs in its place when it has failed for good.
        destinations: where its commands may lead, with labels for drawings.
        is_error_handler: no channel triggers it; it is run when a node that names it has failed.
    """

    function: UserFunction
    input_schema: object
    defer: bool = False
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    error_handler: str | None = None
    destinations: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    is_error_handler: bool = False


@dataclass(frozen=True, slots=True)
class BranchSpec:
    """A conditional edge as it was added."""

    path: UserFunction
    ends: Mapping[object, str] | None
    input_schema: object | None


@dataclass(frozen=True, slots=True)
class NodeDefaults:
    """What applies to nodes that have no such policy of their own."""

    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    error_handler: UserFunction | None = None

    def updated_by(self, later: "NodeDefaults") -> "NodeDefaults":
        """These defaults with those that were set later over them."""
        return NodeDefaults(
            later.retry or self.retry,
            later.cache or self.cache,
            later.timeout or self.timeout,
            later.error_handler or self.error_handler,
        )

    def applied_to(self, spec: NodeSpec) -> NodeSpec:
        """The node with the defaults it lacks. An error handler is never cached and has no handler itself."""
        changed = replace(spec, retry=spec.retry or self.retry, timeout=spec.timeout or self.timeout)
        if spec.is_error_handler:
            return changed
        fallback = None if self.error_handler is None else DEFAULT_ERROR_HANDLER
        return replace(changed, cache=spec.cache or self.cache, error_handler=spec.error_handler or fallback)


def guarded(name: str, spec: NodeSpec, error_handler: object, taken: Mapping[str, NodeSpec]) -> dict[str, NodeSpec]:
    """A node by its name, and before it the node that its error handler becomes, if it has one.

    Raises:
        ValueError: the handler's name is taken.
        TypeError: the handler cannot be called.
    """
    if error_handler is None:
        return {name: spec}
    handler = error_handler_name(name)
    if handler in taken:
        raise ValueError(
            f"Auto-generated error handler node `{handler}` already exists. The error handler of node {name!r} takes "
            f"that name; give the node that has it another one"
        )
    function = UserFunction.of(error_handler, handler)
    guard = NodeSpec(function, spec.input_schema, metadata={}, is_error_handler=True)
    return {handler: guard, name: replace(spec, error_handler=handler)}


def labelled(destinations: Mapping[str, str] | Iterable[str], where: str) -> dict[str, str | None]:
    """Destinations with their labels, if they have any.

    Raises:
        TypeError: they are a single text, or not names.
    """
    if isinstance(destinations, str):
        raise TypeError(f"destinations of {where} must be a tuple or dict of node names; got {destinations!r}")
    if isinstance(destinations, Mapping):
        return {str.__str__(name): label for name, label in cast("Mapping[str, str]", destinations).items()}
    return {str.__str__(name): None for name in destinations}
