"""Savers that were made for LangGraph keep the threads of our graphs as they are, with versions of their own kind."""

import asyncio
from collections.abc import Iterator, Sequence
from operator import add
from pathlib import Path
from typing import Annotated, Any, cast

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from typing_extensions import TypedDict

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.config import RunnableConfig
from phalanx.graph import START, StateGraph
from phalanx.types import Send

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    """What the graph counts."""

    pages: list[str]
    words: Annotated[int, add]


class Page(TypedDict):
    """One page."""

    text: str


class Counting:
    """A graph that sends out pages to count, and fails at those it was told to fail at, once."""

    def __init__(self, failing: Sequence[str] = ()) -> None:
        self.counted: list[str] = []
        self._failing = list(failing)
        self.builder = StateGraph(State)
        self.builder.add_node("count", self.count)
        self.builder.add_conditional_edges(START, self.spread)

    def spread(self, state: State) -> list[Send]:
        return [Send("count", {"text": text}) for text in state.get("pages", [])]

    def count(self, page: Page) -> State:
        text = page["text"]
        if text in self._failing:
            self._failing.remove(text)
            raise ValueError(f"cannot read {text!r}")
        self.counted.append(text)
        return {"words": len(text.split())}


def ours(saver: object) -> BaseCheckpointSaver[Any]:
    """The saver, which has the methods of ours but is none."""
    assert not isinstance(saver, BaseCheckpointSaver)
    return cast("BaseCheckpointSaver[Any]", saver)


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """One of theirs, which blocks."""
    if request.param == "memory":
        yield InMemorySaver()
        return
    with SqliteSaver.from_conn_string(str(tmp_path / "theirs.db")) as opened:
        yield opened


PAGES = ["to be or not", "to be", "that is"]


def test_a_graph_goes_on_where_it_failed_and_runs_what_had_finished_no_more(saver: Any) -> None:
    counting = Counting(failing=["to be"])
    graph = counting.builder.compile(checkpointer=ours(saver))
    with pytest.raises(ValueError, match="cannot read"):
        graph.invoke({"pages": PAGES}, THREAD)
    failed = graph.get_state(THREAD)
    assert failed.next == ("count",)
    assert [task.error for task in failed.tasks if task.error] == ["ValueError(\"cannot read 'to be'\")"]
    assert graph.invoke(None, THREAD) == {"pages": PAGES, "words": 8}
    assert sorted(counting.counted) == sorted(PAGES)
    assert graph.get_state(THREAD).next == ()


def test_the_history_has_every_superstep_of_every_run(saver: Any) -> None:
    graph = Counting().builder.compile(checkpointer=ours(saver))
    graph.invoke({"pages": PAGES[:1]}, THREAD)
    graph.invoke({"pages": PAGES[1:]}, THREAD)
    history = [(found.metadata or {}).get("step") for found in graph.get_state_history(THREAD)]
    assert history == [4, 3, 2, 1, 0, -1]
    assert [found.values.get("words") for found in graph.get_state_history(THREAD, limit=1)] == [8]


def test_versions_are_of_the_saver_s_kind(saver: Any) -> None:
    graph = Counting().builder.compile(checkpointer=ours(saver))
    graph.invoke({"pages": PAGES}, THREAD)
    versions = saver.get_tuple(THREAD).checkpoint["channel_versions"]
    assert {type(version) for version in versions.values()} == {str}


def test_a_graph_on_an_event_loop_goes_on_where_it_failed(tmp_path: Path) -> None:
    counting = Counting(failing=["to be"])

    async def use() -> tuple[set[str], object]:
        async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "theirs.db")) as saver:
            graph = counting.builder.compile(checkpointer=ours(saver))
            with pytest.raises(ValueError, match="cannot read"):
                await graph.ainvoke({"pages": PAGES}, THREAD)
            failed = await graph.aget_state(THREAD)
            result = await graph.ainvoke(None, THREAD)
            assert (await graph.aget_state(THREAD)).next == ()
            return {*failed.next}, result

    # The failure ends what runs beside it, so that more than the failed page may be left to count.
    assert asyncio.run(use()) == ({"count"}, {"pages": PAGES, "words": 8})
