"""Error handlers: what runs in the place of a node that failed for good, and what becomes of the run."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import asyncio
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Flaky, Update, Words, alone, chain, fan_out, gives, says

from phalanx.config import RunnableConfig
from phalanx.constants import START
from phalanx.errors import InvalidUpdateError, NodeError
from phalanx.graph import StateGraph
from phalanx.types import CachePolicy, Command, RetryPolicy, Send

SOON = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=Exception)


def fails(_: object) -> Update:
    """A node that never succeeds."""
    raise ValueError("out of ink")


def tells(state: Words, error: NodeError) -> Update:
    """A handler that notes what it was told."""
    return {"words": [f"{error.node}: {type(error.error).__name__}({error.error})"]}


@pytest.mark.rule("handler-1")
def test_a_handler_s_update_replaces_that_of_the_node_that_failed_and_the_run_goes_on(drive: Drive) -> None:
    builder = fan_out("b")
    builder.add_node("a", fails, error_handler=tells)
    builder.add_node("c", says("c"))
    builder.add_edge(START, "a")
    builder.add_edge("b", "c")

    assert drive.invoke(compiled(builder), {})["words"] == ["a: ValueError(out of ink)", "b", "c"]


@pytest.mark.rule("handler-1")
def test_a_handler_does_not_run_for_a_node_that_succeeds(drive: Drive) -> None:
    assert drive.invoke(compiled(alone(says("fine"), error_handler=tells)), {})["words"] == ["fine"]


@pytest.mark.rule("handler-1")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_handler_and_its_node_may_be_coroutine_functions(drive: Drive) -> None:
    async def fails_later(_: Words) -> Update:
        await asyncio.sleep(0)
        raise LookupError("later")

    async def tells_later(state: Words, error: NodeError) -> Update:
        await asyncio.sleep(0)
        return tells(state, error)

    builder = alone(fails_later, error_handler=tells_later)

    assert drive.invoke(compiled(builder), {})["words"] == ["a: LookupError(later)"]


@pytest.mark.rule("handler-2")
def test_a_handler_is_given_the_input_of_its_node(drive: Drive) -> None:
    handler = Flaky()
    builder = chain("before")
    builder.add_node("a", fails, error_handler=lambda state: handler(state))
    builder.add_edge("before", "a")
    drive.invoke(compiled(builder), {"last": "x"})

    assert handler.calls == [{"words": ["before"], "count": 0, "last": "x"}]


@pytest.mark.rule("handler-2")
def test_a_packet_s_handler_is_given_the_packet_s_argument(drive: Drive) -> None:
    def fails_once(number: int) -> Update:
        if number == 1:
            raise ValueError("one")
        return {"words": [str(number)]}

    def notes(number: int) -> Update:
        return {"words": [f"instead of {number}"]}

    builder = StateGraph(Words)
    builder.add_node("a", fails_once, error_handler=notes)
    builder.add_conditional_edges(START, gives([Send("a", number) for number in range(3)]))

    assert drive.invoke(compiled(builder), {})["words"] == ["0", "instead of 1", "2"]


@pytest.mark.rule("handler-2")
def test_a_handler_that_does_not_ask_for_the_error_gets_none(drive: Drive) -> None:
    assert drive.invoke(compiled(alone(fails, error_handler=says("handled"))), {})["words"] == ["handled"]


@pytest.mark.rule("handler-2")
def test_a_handler_asks_for_the_error_by_its_annotation(drive: Drive) -> None:
    def handles(_: Words, error: Any) -> Update:
        return {"words": [str(error)]}

    with pytest.raises(TypeError, match="missing 1 required positional argument: 'error'"):
        drive.invoke(compiled(alone(fails, error_handler=handles)), {})


@pytest.mark.rule("handler-3")
def test_a_handler_runs_once_when_all_attempts_have_failed(drive: Drive) -> None:
    node, handler = Flaky(KeyError, ValueError, LookupError), Flaky()
    told: list[NodeError] = []

    def handles(state: Words, error: NodeError) -> Any:
        told.append(error)
        return handler(state)

    graph = compiled(alone(node, retry_policy=SOON, error_handler=handles))

    assert drive.invoke(graph, {})["words"] == ["ok"]
    assert (len(node.calls), len(handler.calls)) == (3, 1)
    assert (told[0].node, type(told[0].error)) == ("a", LookupError)


@pytest.mark.rule("handler-3")
def test_a_handler_does_not_run_when_a_later_attempt_succeeds(drive: Drive) -> None:
    graph = compiled(alone(Flaky(KeyError), retry_policy=SOON, error_handler=tells))

    assert drive.invoke(graph, {})["words"] == ["ok"]


@pytest.mark.rule("handler-4")
def test_a_handler_runs_in_the_superstep_of_its_node(drive: Drive) -> None:
    """What it writes is seen together with what the other tasks of the step write."""
    builder = fan_out("z")
    builder.add_node("a", fails, error_handler=tells)
    builder.add_edge(START, "a")
    values = drive.stream(compiled(builder), {"last": "x"}, stream_mode="values")

    assert [each["words"] for each in values] == [[], ["a: ValueError(out of ink)", "z"]]


@pytest.mark.rule("handler-4")
def test_a_handler_is_a_task_with_a_name_of_its_own(drive: Drive) -> None:
    def looks(_: Words, config: RunnableConfig) -> Update:
        return {"words": [(config.get("metadata") or {})["langgraph_node"]]}

    graph = compiled(alone(fails, error_handler=looks))

    assert drive.stream(graph, {}) == [{"__error_handler__a": {"words": ["__error_handler__a"]}}]


@pytest.mark.rule("handler-5")
def test_the_edges_of_a_failed_node_lead_nowhere(drive: Drive) -> None:
    def path(_: Words) -> str:
        return "c"

    builder = alone(fails, error_handler=says("handled"))
    builder.add_node("b", says("b"))
    builder.add_node("c", says("c"))
    builder.add_edge("a", "b")
    builder.add_conditional_edges("a", path)

    assert drive.invoke(compiled(builder), {})["words"] == ["handled"]


@pytest.mark.rule("handler-5")
def test_a_handler_says_where_to_go_on(drive: Drive) -> None:
    def goes_on(_: Words, error: NodeError) -> Command[str]:
        return Command(update={"words": [str(error.error)]}, goto=["b", Send("c", {})])

    builder = alone(fails, error_handler=goes_on)
    builder.add_node("b", says("b"))
    builder.add_node("c", says("c"))

    assert drive.invoke(compiled(builder), {})["words"] == ["out of ink", "b", "c"]


@pytest.mark.rule("handler-6")
def test_a_handler_that_fails_fails_the_run(drive: Drive) -> None:
    def fails_too(_: Words, error: NodeError) -> Update:
        raise KeyError("no pencil")

    with pytest.raises(KeyError, match="no pencil") as caught:
        drive.invoke(compiled(alone(fails, error_handler=fails_too)), {})
    assert any("__error_handler__a" in note for note in caught.value.__notes__)


@pytest.mark.rule("handler-6")
def test_a_handler_must_return_an_update_as_a_node_must(drive: Drive) -> None:
    with pytest.raises(InvalidUpdateError, match=r"^Expected dict, got 5"):
        drive.invoke(compiled(alone(fails, error_handler=gives(5))), {})


@pytest.mark.rule("handler-7")
def test_a_failure_inside_a_graph_is_handled_by_the_handler_of_its_node(drive: Drive) -> None:
    builder = chain("before")
    builder.add_node("inner", alone(fails).compile(), error_handler=tells)
    builder.add_edge("before", "inner")

    assert drive.invoke(compiled(builder), {})["words"] == ["before", "inner: ValueError(out of ink)"]


@pytest.mark.rule("handler-7")
def test_a_command_for_the_graph_above_is_no_failure_to_handle(drive: Drive) -> None:
    inner = alone(gives(Command[str](graph=Command.PARENT, update={"words": ["up"]})), error_handler=tells)
    builder = chain("before")
    builder.add_node("inner", inner.compile(), error_handler=tells)
    builder.add_edge("before", "inner")

    assert drive.invoke(compiled(builder), {})["words"] == ["before", "up"]


@pytest.mark.rule("handler-8")
def test_a_run_that_failed_in_a_handler_goes_on_with_the_handler(drive_kept: Drive) -> None:
    """The failure of the node itself is remembered, so that the node does not run again."""
    node, handler = Flaky(*[ValueError] * 9), Flaky(KeyError)
    told: list[str] = []

    def handles(state: Words, error: NodeError) -> Any:
        told.append(error.node)
        return handler(state)

    graph, config = drive_kept.keeping(alone(node, error_handler=handles)), thread("handler")
    with pytest.raises(KeyError):
        drive_kept.invoke(graph, {}, config)

    assert drive_kept.get_state(graph, config).next == ("a",)
    assert drive_kept.invoke(graph, None, config)["words"] == ["ok"]
    assert (len(node.calls), len(handler.calls)) == (1, 2)
    assert told == ["a", "a"]


@pytest.mark.rule("handler-8")
def test_a_thread_whose_node_failed_and_was_handled_is_done(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(alone(fails, error_handler=tells)), thread("handled")
    drive_kept.invoke(graph, {}, config)
    state = drive_kept.get_state(graph, config)

    assert (state.values["words"], state.next) == (["a: ValueError(out of ink)"], ())


# --- what holds for all nodes -----------------------------------------------------------------------------------------


@pytest.mark.rule("defaults-1")
def test_a_default_handler_is_for_nodes_that_have_none(drive: Drive) -> None:
    def default(_: Words, error: NodeError) -> Update:
        return {"words": [f"default for {error.node}"]}

    builder = alone(fails, error_handler=tells)
    for name in ("b", "c"):
        builder.add_node(name, fails)
        builder.add_edge(START, name)
    builder.set_node_defaults(error_handler=default)

    words = drive.invoke(compiled(builder), {})["words"]
    assert sorted(words) == ["a: ValueError(out of ink)", "default for b", "default for c"]


@pytest.mark.rule("defaults-1")
def test_a_default_handler_does_not_handle_the_failures_of_handlers(drive: Drive) -> None:
    def fails_too(_: Words, error: NodeError) -> Update:
        raise KeyError("no pencil")

    builder = alone(fails, error_handler=fails_too)
    builder.set_node_defaults(error_handler=tells)

    with pytest.raises(KeyError, match="no pencil"):
        drive.invoke(compiled(builder), {})


@pytest.mark.rule("defaults-1")
def test_a_default_policy_is_for_nodes_that_have_none_wherever_it_is_set(drive: Drive) -> None:
    mine, theirs = Flaky(*[ValueError] * 9), Flaky(ValueError)
    builder = StateGraph(Words)
    builder.add_node("theirs", theirs)
    builder.set_node_defaults(retry_policy=SOON)
    builder.add_node("mine", mine, retry_policy=SOON._replace(max_attempts=2), error_handler=tells)
    builder.add_edge(START, "mine")
    builder.add_edge(START, "theirs")

    assert drive.invoke(compiled(builder), {})["words"][-1] == "ok"
    assert (len(mine.calls), len(theirs.calls)) == (2, 2)


@pytest.mark.rule("defaults-1")
def test_defaults_that_are_set_twice_are_merged(drive: Drive) -> None:
    node = Flaky(*[ValueError] * 9)
    builder = alone(node)
    builder.set_node_defaults(retry_policy=SOON)
    builder.set_node_defaults(error_handler=says("handled"))

    assert drive.invoke(compiled(builder), {})["words"] == ["handled"]
    assert len(node.calls) == 3


@pytest.mark.rule("defaults-1")
def test_a_default_retry_policy_is_for_handlers_too(drive: Drive) -> None:
    handler = Flaky(KeyError)
    builder = alone(fails, retry_policy=SOON._replace(max_attempts=1), error_handler=handler)
    builder.set_node_defaults(retry_policy=SOON)

    assert drive.invoke(compiled(builder), {})["words"] == ["ok"]
    assert len(handler.calls) == 2


@pytest.mark.rule("defaults-1")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_default_timeout_is_for_nodes_that_have_none(drive: Drive) -> None:
    async def hangs(_: Words) -> Update:
        await asyncio.Event().wait()
        return {}

    async def slow(_: Words) -> Update:
        await asyncio.sleep(0.3)
        return {"words": ["slow"]}

    async def kind(_: Words, error: NodeError) -> Update:
        return {"words": [type(error.error).__name__]}

    builder = alone(hangs, error_handler=kind)
    builder.add_node("slow", slow, timeout=60)
    builder.add_edge(START, "slow")
    builder.set_node_defaults(timeout=0.2)

    assert sorted(drive.invoke(compiled(builder), {})["words"]) == ["NodeTimeoutError", "slow"]


@pytest.mark.rule("defaults-2")
def test_the_name_of_the_default_handler_s_node_is_taken() -> None:
    builder = alone(fails)
    builder.add_node("__default_error_handler__", says("mine"))
    builder.set_node_defaults(error_handler=tells, cache_policy=CachePolicy())

    with pytest.raises(ValueError, match="default error handler node `__default_error_handler__` already exists"):
        builder.compile()


@pytest.mark.rule("defaults-2")
@pytest.mark.ours_only("there, a builder with a default handler compiles once only")
def test_a_builder_with_defaults_compiles_as_often_as_one_likes(drive: Drive) -> None:
    builder = alone(fails)
    builder.set_node_defaults(error_handler=tells)
    builder.compile()

    assert drive.invoke(compiled(builder), {})["words"] == ["a: ValueError(out of ink)"]
