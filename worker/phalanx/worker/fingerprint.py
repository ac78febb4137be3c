"""A graph's version, worked out from what it is made of, so that two processes can tell whether they hold the same.

It covers names, edges, channels and their kinds, policies, and the source text of nodes, paths and reducers. Source
text, not byte code: processes may run different releases of Python. What those functions call in turn is not covered.
"""

import functools
import hashlib
import inspect
from collections.abc import Iterable, Sequence
from enum import Enum
from types import NoneType
from typing import cast

from phalanx.types import RetryPolicy
from phalanx.worker.blueprint import Blueprint, Channel, Node, Policies


def fingerprint(blueprint: Blueprint) -> str:
    """Sixteen hexadecimal digits; equal for equal graphs."""
    digest = hashlib.blake2b(digest_size=8)
    for line in _lines(blueprint):
        digest.update(line.encode("utf-8", "surrogatepass"))
        digest.update(b"\x00")
    return digest.hexdigest()


def _lines(blueprint: Blueprint) -> Iterable[str]:
    yield f"graph {blueprint.name} {_retries(blueprint.retry)}"
    for name in sorted(blueprint.channels):
        yield _channel_line(name, blueprint.channels[name])
    for name in sorted(blueprint.nodes):
        yield from _node_lines(blueprint.nodes[name])


def _channel_line(name: str, channel: Channel) -> str:
    reducer = getattr(channel, "operator", None) or getattr(channel, "reducer", None)
    flags = [flag for flag in ("accumulate", "guard") if getattr(channel, flag, False)]
    return f"channel {name} {type(channel).__name__} {flags} {_source(reducer) if reducer else ''}"


def _node_lines(node: Node) -> Iterable[str]:
    managed = [(key, _named(kind)) for key, kind in node.reader.managed]
    yield f"node {node.name} {node.triggers} {node.reader.keys} {managed} {node.edges}"
    yield _policies_line(node.policies)
    for action in node.actions:
        yield _source(action.source)
    for branch in node.branches:
        ends = None if branch.ends is None else sorted((_answer(key), end) for key, end in branch.ends.items())
        yield f"branch {branch.name} {branch.reader.keys} {ends} {_source(branch.path.source)}"


def _policies_line(policies: Policies) -> str:
    cache = policies.cache and (policies.cache.ttl, _named(policies.cache.key_func))
    return f"policies {_retries(policies.retry)} {policies.timeout} {cache} {policies.error_handler}"


def _retries(policies: Sequence[RetryPolicy]) -> list[object]:
    return [(*policy[:5], _named(policy.retry_on)) for policy in policies]


def _named(what: object) -> object:
    """A class or function by its name, and several of them by theirs."""
    if isinstance(what, (list, tuple)):
        return [_named(each) for each in cast("Sequence[object]", what)]
    return getattr(what, "__qualname__", type(what).__qualname__)


def _answer(answer: object) -> str:
    """A path's answer as text that is the same in every process; other objects show their addresses."""
    return repr(answer) if isinstance(answer, (str, int, float, bytes, Enum, NoneType)) else type(answer).__qualname__


def _source(action: object) -> str:
    if isinstance(action, functools.partial):
        wrapped = cast("functools.partial[object]", action)
        return f"partial {_source(wrapped.func)}"
    inner = getattr(action, "blueprint", None)
    if isinstance(inner, Blueprint):
        return fingerprint(inner)
    target = action if inspect.isroutine(action) or isinstance(action, type) else type(action)
    try:
        return inspect.getsource(target)
    except (OSError, TypeError):  # a builtin, or code without a file
        return f"{getattr(target, '__module__', '')}.{getattr(target, '__qualname__', repr(target))}"
