"""What holds for every SQL saver that lives on an event loop: tests to inherit, and a loop that runs elsewhere."""

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Protocol, TypeVar

import pytest
from tests.integration.sql_saver_support import LARGE, at, made
from typing_extensions import TypedDict

from phalanx.checkpoint.sql import SaverUnavailableError, SyncCallOnLoopError
from phalanx.checkpoint.sql.on_loop import LoopSaver
from phalanx.graph import START, StateGraph

T = TypeVar("T")


class LoopDatabase(Protocol):
    """An empty database, and savers over it."""

    def loop_saver(self) -> AbstractAsyncContextManager[LoopSaver]:
        """A saver with a connection of its own, for the loop it is entered on."""
        ...


class LoopThread:
    """An event loop that runs in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Have work done on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def close(self) -> None:
        """End the loop."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@contextmanager
def on_loop_elsewhere(database: LoopDatabase) -> Generator[LoopSaver, None, None]:
    """A saver whose loop runs in another thread."""
    thread = LoopThread()
    opened = database.loop_saver()
    try:
        yield thread.run(_entered(opened))
        thread.run(_left(opened))
    finally:
        thread.close()


async def _entered(opened: AbstractAsyncContextManager[T]) -> T:
    return await opened.__aenter__()


async def _left(opened: AbstractAsyncContextManager[Any]) -> None:
    await opened.__aexit__(None, None, None)


class State(TypedDict):
    """The state of a small graph."""

    number: int


class LoopSaverRules:
    """Inherit, and provide a fixture ``database``."""

    def test_a_blocking_call_on_its_own_loop_is_refused_with_what_to_do(self, database: LoopDatabase) -> None:
        async def use() -> None:
            async with database.loop_saver() as saver:
                calls: list[Callable[[], object]] = [
                    lambda: saver.get_tuple(at()),
                    lambda: [*saver.list(at())],
                    lambda: saver.delete_thread("t"),
                ]
                for call in calls:
                    with pytest.raises(SyncCallOnLoopError, match="aget_tuple"):
                        call()

        asyncio.run(use())

    def test_blocking_calls_work_from_other_threads(self, database: LoopDatabase) -> None:
        async def use() -> object:
            async with database.loop_saver() as saver:
                put = await asyncio.to_thread(saver.put, at(), made({"a": 1}), {"step": 1}, {"a": 1})
                await asyncio.to_thread(saver.put_writes, put, [("a", 2)], "task")
                found = await asyncio.to_thread(lambda: [*saver.list(None)])
                return [(each.checkpoint["channel_values"], each.pending_writes) for each in found]

        assert asyncio.run(use()) == [({"a": 1}, [("task", "a", 2)])]

    def test_it_may_be_awaited_on_another_loop(self, database: LoopDatabase) -> None:
        async def use(saver: LoopSaver) -> object:
            await saver.aput(at(), made({"a": 1}), {"step": 1}, {"a": 1})
            return [found.checkpoint["channel_values"] async for found in saver.alist(at())]

        with on_loop_elsewhere(database) as saver:
            assert asyncio.run(use(saver)) == [{"a": 1}]

    def test_callers_that_are_cancelled_leave_whole_checkpoints_and_a_connection_that_works(
        self, database: LoopDatabase
    ) -> None:
        async def store(saver: LoopSaver, number: int) -> None:
            values = {"number": number, "large": [*LARGE, number]}
            where = await saver.aput(at(), made(values), {"step": number}, dict.fromkeys(values, 1))
            await saver.aput_writes(where, [("large", [*LARGE, -number])], "task")
            found = await saver.aget_tuple(where)
            assert found is not None
            assert found.checkpoint["channel_values"] == values

        async def storm() -> None:
            turns = random.Random(1)
            async with database.loop_saver() as saver:
                for number in range(60):
                    task = asyncio.create_task(store(saver, number))
                    for _ in range(turns.randrange(12)):
                        await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                await store(saver, 60)
                async for found in saver.alist(at()):
                    values = found.checkpoint["channel_values"]
                    assert values["large"] == [*LARGE, values["number"]]

        asyncio.run(storm())

    def test_many_tasks_may_use_it_at_once(self, database: LoopDatabase) -> None:
        async def use(saver: LoopSaver, number: int) -> int:
            where = at(f"thread {number}")
            for turn in range(10):
                values = {"turn": turn, "large": LARGE}
                where = await saver.aput(where, made(values), {"step": turn}, dict.fromkeys(values, 1))
                await saver.aput_writes(where, [("turn", turn)], "task")
            return len([found async for found in saver.alist(at(f"thread {number}"))])

        async def use_all() -> list[int]:
            async with database.loop_saver() as saver:
                return await asyncio.gather(*(use(saver, number) for number in range(8)))

        assert asyncio.run(use_all()) == [10] * 8

    def test_a_saver_whose_loop_has_ended_says_so(self, database: LoopDatabase) -> None:
        async def make() -> LoopSaver:
            async with database.loop_saver() as saver:
                return saver

        saver = asyncio.run(make())
        with pytest.raises(SaverUnavailableError, match="event loop"):
            saver.get_tuple(at())

    def test_a_saver_whose_connection_was_closed_says_so(self, database: LoopDatabase) -> None:
        async def use() -> None:
            async with database.loop_saver() as saver:
                pass
            with pytest.raises(SaverUnavailableError, match="closed"):
                await saver.aget_tuple(at())

        asyncio.run(use())

    def test_a_graph_goes_on_where_it_failed(self, database: LoopDatabase) -> None:
        failures = ["once"]

        async def double(state: State) -> State:
            if failures:
                raise ValueError(failures.pop())
            return {"number": 2 * state["number"]}

        def add(state: State) -> State:
            return {"number": state["number"] + 1}

        builder = StateGraph(State)
        builder.add_node("add", add)
        builder.add_node("double", double)
        builder.add_edge(START, "add")
        builder.add_edge("add", "double")

        async def use() -> tuple[object, object, object]:
            async with database.loop_saver() as saver:
                graph = builder.compile(checkpointer=saver)
                with pytest.raises(ValueError, match="once"):
                    await graph.ainvoke({"number": 1}, at())
                failed = await graph.aget_state(at())
                result = await graph.ainvoke(None, at())
                seen_by_thread = await asyncio.to_thread(graph.get_state, at())
                return failed.values, result, seen_by_thread.values

        assert asyncio.run(use()) == ({"number": 2}, {"number": 4}, {"number": 4})


class OwnConnectionRules(LoopSaverRules):
    """The same for a saver that closes its connection itself."""

    def test_a_save_that_has_begun_is_done_before_the_connection_is_closed(self, database: LoopDatabase) -> None:
        async def use() -> object:
            async with database.loop_saver() as saver:
                await saver.setup()
                task = asyncio.create_task(saver.aput(at(), made({"a": 1}), {"step": 1}, {"a": 1}))
                await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            async with database.loop_saver() as saver:
                return await saver.aget(at())

        assert asyncio.run(use()) is not None
