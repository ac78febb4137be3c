"""Running one task: read its input, call the node, turn the output into writes, follow its conditional edges.

There is one procedure, written as a coroutine. What differs between threads, an event loop and a worker process is only
*how a user's function is called*, and that is a parameter. With a caller that never suspends, :func:`run_to_end` drives
the coroutine without an event loop.
"""

import inspect
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar, cast

from phalanx.config import SURROUNDINGS
from phalanx.errors import AsyncOnlyError, EmptyChannelError, ParentCommand
from phalanx.managed import StepLimits
from phalanx.protocol.names import NO_WRITES
from phalanx.types import Command, Send, Update
from phalanx.worker.blueprint import Channel, Node, Reader
from phalanx.worker.functions import UserFunction
from phalanx.worker.task_context import TaskContext

T = TypeVar("T")


def read_channels(channels: Mapping[str, Channel], keys: Sequence[str] | str) -> object:
    """The values of ``keys`` that are there, as a dict; for a bare key its value, or ``None`` when it holds nothing."""
    if not isinstance(keys, str):
        return present_values(channels, keys)
    try:
        return channels[keys].get()
    except EmptyChannelError:
        return None


def present_values(channels: Mapping[str, Channel], keys: Sequence[str]) -> dict[str, object]:
    """The values of those of ``keys`` that hold one."""
    return {key: channel.get() for key in keys if (channel := channels[key]).is_available()}


NO_LIMITS: Final = StepLimits(0, 1)


class StateView:
    """The channels as they were when the superstep began. Tasks read it; nothing changes it until the barrier.

    Args:
        channels: by name; those that will be read.
        limits: where the run stands, for managed values.
    """

    __slots__ = ("_cache", "_channels", "_limits")

    def __init__(self, channels: Mapping[str, Channel], limits: StepLimits = NO_LIMITS) -> None:
        self._channels = channels
        self._limits = limits
        self._cache: dict[tuple[str, ...], dict[str, object]] = {}

    def read(self, reader: Reader) -> object:
        """The input that ``reader`` makes of the state; absent keys are left out of a dict."""
        keys = reader.keys
        if isinstance(keys, str):
            value = read_channels(self._channels, keys)
        else:
            known = self._cache.get(keys)
            if known is None:  # the tasks of one step often read the same keys
                known = self._cache[keys] = present_values(self._channels, keys)
            value = known.copy()
            for key, managed in reader.managed:
                value[key] = managed.get(self._limits)
        return value if reader.build is None else reader.build(value)

    def read_after(self, reader: Reader, writes: Sequence[Update]) -> object:
        """The same, with a task's own writes applied: what its conditional edges see."""
        written: dict[str, list[object]] = {}
        wanted = set(reader.channels)
        for channel, value in writes:
            if channel in wanted:
                written.setdefault(channel, []).append(value)
        if not written:
            return self.read(reader)
        channels = dict[str, Channel]()
        for name in reader.channels:
            own = channels[name] = self._channels[name]
            if name in written:
                own = channels[name] = own.copy()
                own.update(written[name])
        return StateView(channels, self._limits).read(reader)


class Caller(Protocol):
    """Calls a user's function the way its surroundings allow."""

    async def __call__(self, function: UserFunction, value: object, context: TaskContext) -> object: ...


async def run_task(node: Node, value: object, view: StateView, call: Caller, context: TaskContext) -> list[Update]:
    """Run one task and return its writes, in order. A task that writes nothing is marked done by ``NO_WRITES``.

    Args:
        node: the node.
        value: its input.
        view: the state as of the step's start, for conditional edges.
        call: how to call the user's functions.
        context: what they can find out about the task.

    Raises:
        Exception: whatever the user's code raises; :class:`InvalidUpdateError` for an output the state cannot take.
    """
    output = value
    for action in node.actions:
        try:
            output = await call(action, output, context)
        except ParentCommand as inner:  # from a graph that runs inside this node: as if the node had returned it
            output = replace(cast("Command[str]", inner.args[0]), graph=None)
    writes = node.writes(output)
    for branch in node.branches:
        seen = view.read_after(branch.reader, writes)
        shown = _with_raw(seen, output) if branch.sees_output else seen
        writes.extend(branch.route(await call(branch.path, shown, context)))
    return writes or [(NO_WRITES, None)]


def _with_raw(seen: object, output: object) -> object:
    """What a path sees: the state, and beside it what its node returned that is no key of the state."""
    if isinstance(seen, dict) and isinstance(output, dict):
        return cast("dict[str, object]", output) | cast("dict[str, object]", seen)
    return seen  # pyright: ignore[reportUnknownVariableType]


_PLAIN: Final = frozenset({dict, list, tuple, str, bool, int, type(None), Command, Send})
"""What a function most often returns, and is surely nothing to wait for: to ask in general takes a while."""


async def call_here(function: UserFunction, value: object, context: TaskContext) -> object:
    """Call a synchronous function in this thread. Never suspends.

    Raises:
        AsyncOnlyError: it is a coroutine function, or turned out to return a coroutine.
    """
    if function.sync is None:
        raise AsyncOnlyError(function.name)
    token = SURROUNDINGS.set(context)
    try:
        result = function.sync(value, **context.arguments_for(function))
    finally:
        SURROUNDINGS.reset(token)
    if type(result) not in _PLAIN and inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise AsyncOnlyError(function.name)
    return result


def run_to_end(coroutine: Coroutine[object, None, T]) -> T:
    """Drive a coroutine that never suspends, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return cast("T", end.value)
    coroutine.close()
    raise AssertionError("a coroutine that must not suspend did")
