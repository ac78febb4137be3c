"""Running one task: what the node reads, what its output means, and what its conditional edges see."""

import asyncio
import contextvars
import functools
import operator
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import pytest
from tests.unit.blueprints import channel

from phalanx.channels import BinaryOperatorAggregate, EphemeralValue, LastValue
from phalanx.config import RunnableConfig
from phalanx.errors import AsyncOnlyError
from phalanx.protocol.names import NO_WRITES
from phalanx.types import Update
from phalanx.worker.blueprint import Branch, Channel, Node, Reader
from phalanx.worker.call_on_loop import call_on_loop
from phalanx.worker.functions import UserFunction
from phalanx.worker.run_task import StateView, call_here, run_task, run_to_end
from phalanx.worker.task_context import RunContext, TaskContext

PATH: Final = ("__pregel_pull", "n")
Function = Callable[[dict[str, Any]], object]
WithConfig = Callable[[dict[str, Any], RunnableConfig], object]


def channels(**values: Any) -> dict[str, Channel]:
    """A plain channel for every value, an empty one, and a log."""
    made: dict[str, Channel] = {
        "empty": channel(LastValue[object](object, "empty")),
        "log": channel(BinaryOperatorAggregate[list[str]](list[str], operator.add)),
    }
    for name, value in values.items():
        made.setdefault(name, channel(EphemeralValue[object](object))).update([value])
    return made


def state_writes(output: object) -> list[Update]:
    """The keys of a dict."""
    return list(cast("dict[str, object]", output).items()) if isinstance(output, dict) else []


def node(action: Function | WithConfig | None, *branches: Branch, reads: tuple[str, ...] | str = ("a", "log")) -> Node:
    made = () if action is None else (UserFunction.of(action),)
    return Node("n", ("to:n",), Reader(reads), made, state_writes, branches)


def branch(path: Function | WithConfig, *reads: str) -> Branch:
    def route(answer: object) -> Iterable[Update]:
        return [("went", answer)]

    return Branch("path", UserFunction.of(path), Reader(reads), route)


def context(config: RunnableConfig | None = None) -> TaskContext:
    """A task of a run with this config."""
    return TaskContext(RunContext(config or {}), "n", "id", PATH, ("to:n",), 1)


def ran(made: Node, value: object, view: StateView, config: RunnableConfig | None = None) -> list[Update]:
    """Its writes, in each of the two ways to run it."""
    here = run_to_end(run_task(made, value, view, call_here, context(config)))
    on_loop = asyncio.run(run_task(made, value, view, call_on_loop, context(config)))
    assert here == on_loop
    return here


# --- reading ----------------------------------------------------------------------------------------------------------


def test_a_dict_of_present_values_is_read_and_absent_keys_are_left_out() -> None:
    view = StateView(channels(a=1, log=["x"]))

    assert view.read(Reader(("a", "empty", "log"))) == {"a": 1, "log": ["x"]}


def test_each_reader_has_a_dict_of_its_own() -> None:
    view = StateView(channels(a=1))
    first = cast("dict[str, object]", view.read(Reader(("a",))))
    first["a"] = 2

    assert view.read(Reader(("a",))) == {"a": 1}


def test_a_bare_value_is_read_and_none_if_there_is_none() -> None:
    view = StateView(channels(a=1))

    assert view.read(Reader("a")) == 1
    assert view.read(Reader("empty")) is None


def test_a_reader_builds_what_the_node_wants() -> None:
    assert StateView(channels(a=1)).read(Reader(("a",), lambda values: ("built", values))) == ("built", {"a": 1})


def test_reading_after_writes_changes_nothing_for_anyone_else() -> None:
    view = StateView(channels(a=1, log=["x"]))
    reader = Reader(("a", "log"))

    assert view.read_after(reader, [("a", 2), ("log", ["y"]), ("to:b", None)]) == {"a": 2, "log": ["x", "y"]}
    assert view.read(reader) == {"a": 1, "log": ["x"]}


# --- writes -----------------------------------------------------------------------------------------------------------


def test_a_node_s_output_becomes_writes() -> None:
    assert ran(node(lambda state: {"a": state["a"] + 1}), {"a": 1}, StateView(channels())) == [("a", 2)]


def test_a_node_without_action_passes_its_input_on() -> None:
    assert ran(node(None), {"a": 5}, StateView(channels())) == [("a", 5)]


@pytest.mark.parametrize("output", [None, {}])
def test_a_node_that_writes_nothing_is_marked_as_done(output: object) -> None:
    assert ran(node(lambda state: output), {}, StateView(channels())) == [(NO_WRITES, None)]


def test_an_error_of_the_node_comes_out_as_it_is() -> None:
    def fail(state: object) -> object:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run_to_end(run_task(node(fail), {}, StateView(channels()), call_here, context()))


def test_a_node_that_raises_stop_iteration_does_not_look_as_if_it_had_finished() -> None:
    def stop(state: object) -> object:
        raise StopIteration("value")

    with pytest.raises(RuntimeError, match="StopIteration"):
        run_to_end(run_task(node(stop), {}, StateView(channels()), call_here, context()))


# --- conditional edges ------------------------------------------------------------------------------------------------


def test_a_conditional_edge_sees_its_node_s_own_writes_applied_to_the_state() -> None:
    seen: list[object] = []

    def path(state: dict[str, object]) -> str:
        seen.append(state)
        return "next"

    view = StateView(channels(a=1, log=["before"]))
    made = node(lambda state: {"a": 2, "log": ["mine"]}, branch(path, "a", "log", "empty"))

    assert ran(made, {}, view) == [("a", 2), ("log", ["mine"]), ("went", "next")]
    assert seen == [{"a": 2, "log": ["before", "mine"]}] * 2
    assert view.read(Reader(("a", "log"))) == {"a": 1, "log": ["before"]}


def test_a_conditional_edge_also_sees_what_the_node_returned_that_is_no_key_and_the_state_goes_first() -> None:
    seen: list[object] = []
    made = node(lambda state: {"log": ["new"], "aside": 1}, branch(seen.append, "log"))

    ran(made, {}, StateView(channels(log=["old"])))

    assert seen[0] == {"log": ["old", "new"], "aside": 1}


def test_conditional_edges_are_followed_in_order() -> None:
    made = node(lambda state: {}, branch(lambda state: "first"), branch(lambda state: "second"))

    assert ran(made, {}, StateView(channels())) == [("went", "first"), ("went", "second")]


# --- config -----------------------------------------------------------------------------------------------------------


def test_the_config_is_built_only_for_functions_that_ask_for_it() -> None:
    looked: list[str] = []

    class Watched(dict[str, Any]):
        """A config that notes when it is looked at."""

        def get(self, key: str, default: Any = None) -> Any:
            looked.append(key)
            return super().get(key, default)

    def asks(state: object, config: RunnableConfig) -> object:
        return {"a": config.get("tags")}

    view, task = StateView(channels()), context(cast("RunnableConfig", Watched(tags=["mine"])))
    assert run_to_end(run_task(node(lambda state: {"a": 1}), {}, view, call_here, task)) == [("a", 1)]
    assert looked == []
    assert run_to_end(run_task(node(asks), {}, view, call_here, task)) == [("a", ["mine"])]
    built = len(looked)
    assert built
    assert run_to_end(run_task(node(asks, branch(asks)), {}, view, call_here, task))
    assert len(looked) == built


# --- colours ----------------------------------------------------------------------------------------------------------


async def fetch(state: object) -> object:
    await asyncio.sleep(0)
    return {"a": "fetched"}


def call_sync(function: Callable[[object], object]) -> object:
    return run_to_end(call_here(UserFunction.of(function), {}, context()))


def test_a_coroutine_function_is_refused_before_any_part_of_it_has_run() -> None:
    ran_: list[int] = []

    async def node_function(state: object) -> object:
        ran_.append(1)
        return {}

    with pytest.raises(AsyncOnlyError, match="node_function"):
        call_sync(node_function)
    assert ran_ == []


def test_a_function_that_turns_out_to_return_a_coroutine_is_refused_and_the_coroutine_closed() -> None:
    coroutines: list[Any] = []

    def hides_it(state: object) -> object:
        coroutines.append(fetch(state))
        return coroutines[0]

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # "was never awaited"
        with pytest.raises(AsyncOnlyError, match="hides_it"):
            call_sync(hides_it)
    assert coroutines[0].cr_frame is None


def test_a_function_that_returns_a_coroutine_is_awaited_on_a_loop() -> None:
    def hides_it(state: object) -> object:
        return fetch(state)

    async def on_loop() -> object:
        return await call_on_loop(UserFunction.of(hides_it), {}, context())

    assert asyncio.run(on_loop()) == {"a": "fetched"}


def test_on_a_loop_coroutine_functions_run_on_it_and_others_in_a_thread_with_the_context() -> None:
    name: contextvars.ContextVar[str] = contextvars.ContextVar("name")

    async def coroutine(state: object) -> object:
        return threading.get_ident(), name.get()

    def blocking(state: object) -> object:
        return threading.get_ident(), name.get()

    async def on_loop() -> tuple[Any, Any]:
        name.set("mine")
        first = await call_on_loop(UserFunction.of(coroutine), {}, context())
        return first, await call_on_loop(UserFunction.of(functools.partial(blocking)), {}, context())

    one, other = asyncio.run(on_loop())
    assert one == (threading.get_ident(), "mine")
    assert other[0] != threading.get_ident()
    assert other[1] == "mine"


def test_a_coroutine_that_suspends_where_it_must_not_is_closed_and_said_so() -> None:
    ended: list[str] = []

    async def suspends() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            ended.append("closed")

    with pytest.raises(AssertionError, match="must not suspend"):
        run_to_end(suspends())
    assert ended == ["closed"]
