"""Coroutine nodes, alone and beside others."""

import asyncio
import functools
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, Inline, compiled, thread
from tests.behaviour.reference import ON_REFERENCE
from tests.behaviour.states import Update, Words, chain, gives, says

from phalanx.constants import START
from phalanx.errors import AsyncOnlyError, NodeCancelledError
from phalanx.graph import StateGraph
from phalanx.types import Send


async def slowly(_: Words) -> Update:
    await asyncio.sleep(0)
    return {"words": ["slowly"]}


class Speaker:
    """A callable object that is a coroutine function."""

    def __init__(self, word: str) -> None:
        self.word = word

    async def __call__(self, state: Words) -> Update:
        return {"words": [self.word]}


async def says_async(word: str, _: Words) -> Update:
    return {"words": [word]}


def with_async(action: Any = slowly) -> StateGraph[Words]:
    builder = chain("a")
    builder.add_node("s", action)
    builder.add_node("z", says("z"))
    builder.add_edge("a", "s")
    builder.add_edge("s", "z")
    return builder


@pytest.mark.not_on("inline", "coroutine_nodes")
@pytest.mark.parametrize(
    "action",
    [slowly, Speaker("slowly"), functools.partial(says_async, "slowly")],
    ids=["function", "object", "partial"],
)
def test_coroutine_nodes_and_others_can_be_mixed(drive: Drive, action: Any) -> None:
    assert drive.invoke(compiled(with_async(action)), {})["words"] == ["a", "slowly", "z"]


@pytest.mark.rule("error-2")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_node_that_raises_a_cancellation_of_its_own_fails_as_others_do(drive: Drive) -> None:
    async def gives_up(_: Words) -> Update:
        raise asyncio.CancelledError("enough")

    with pytest.raises(NodeCancelledError, match=r"^Node 's' raised asyncio\.CancelledError") as caught:
        drive.invoke(compiled(with_async(gives_up)), {})
    assert ON_REFERENCE or "enough" in str(caught.value)


@pytest.mark.ours_only("there, the nodes before it run first")
def test_a_synchronous_call_refuses_coroutine_nodes_before_anything_runs_and_says_what_to_do() -> None:
    ran: list[int] = []

    def notes(_: Words) -> None:
        ran.append(1)

    builder = with_async()
    builder.add_node("first", notes)
    builder.add_edge(START, "first")

    with pytest.raises(AsyncOnlyError, match=r'^No synchronous function provided to "s": .*ainvoke\(\) or astream\(\)'):
        Inline().invoke(compiled(builder), {})
    assert not ran


@pytest.mark.not_on("inline", "coroutine_nodes")
def test_coroutine_tasks_of_a_step_run_side_by_side(drive: Drive) -> None:
    """None of them could end alone: each waits until all have begun."""
    begun: list[int] = []
    all_begun = asyncio.Event()

    async def meets(number: int) -> Update:
        begun.append(number)
        if len(begun) == 8:
            all_begun.set()
        await asyncio.wait_for(all_begun.wait(), 20)
        return {"count": 1}

    builder = StateGraph(Words)
    builder.add_node("meets", meets)
    builder.add_conditional_edges(START, gives([Send("meets", number) for number in range(8)]))

    assert drive.invoke(compiled(builder), {})["count"] == 8


@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_graph_with_coroutine_nodes_may_be_a_node(drive: Drive) -> None:
    assert drive.invoke(compiled(with_async(with_async().compile())), {})["words"] == [
        "a",
        "a",
        "a",
        "slowly",
        "z",
        "z",
    ]


@pytest.mark.not_on("inline", "coroutine_nodes")
def test_a_path_may_be_a_coroutine_function(drive: Drive) -> None:
    async def path(state: Words) -> str:
        await asyncio.sleep(0)
        return "b" if state["words"] == ["a"] else "a"

    builder = chain("a")
    builder.add_node("b", says("b"))
    builder.add_conditional_edges("a", path)

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "b"]


@pytest.mark.not_on("inline", "coroutine_nodes")
def test_an_error_of_a_coroutine_node_reaches_the_caller(drive: Drive) -> None:
    async def fails(_: Words) -> Update:
        await asyncio.sleep(0)
        raise LookupError("in a coroutine")

    with pytest.raises(LookupError, match="in a coroutine") as caught:
        drive.invoke(compiled(with_async(fails)), {})
    assert any("name 's'" in note for note in caught.value.__notes__)


def test_on_an_event_loop_the_first_failure_cancels_coroutines_beside_it() -> None:
    ended: list[str] = []

    async def waits(_: Words) -> Update:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("waits")
        return {}

    async def fails(_: Words) -> Update:
        raise LookupError("first")

    builder = chain("a")
    for name, action in (("waits", waits), ("fails", fails)):
        builder.add_node(name, action)
        builder.add_edge("a", name)

    with pytest.raises(LookupError, match="first"):
        asyncio.run(compiled(builder).ainvoke({}))
    assert ended == ["waits"]


def test_cancelling_the_caller_cancels_the_nodes() -> None:
    ended: list[str] = []

    async def cancelled() -> None:
        begun = asyncio.Event()

        async def waits(_: Words) -> Update:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("waits")
            return {}

        run = asyncio.ensure_future(compiled(with_async(waits)).ainvoke({}))
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(cancelled())
    assert ended == ["waits"]


@pytest.mark.not_on("inline", "coroutine_nodes")
def test_threads_are_kept_for_coroutine_nodes_too(drive: Drive) -> None:
    graph, config = drive.keeping(with_async()), thread("coroutines")
    drive.invoke(graph, {}, config)

    assert drive.get_state(graph, config).values["words"] == ["a", "slowly", "z"]


def test_many_coroutine_runs_share_one_event_loop() -> None:
    async def many() -> list[Any]:
        graph = compiled(with_async())
        return await asyncio.gather(*[graph.ainvoke({"words": [str(number)]}) for number in range(20)])

    assert [each["words"][0] for each in asyncio.run(many())] == [str(number) for number in range(20)]
