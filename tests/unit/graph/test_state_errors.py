"""What the calls about a thread's state say when they are given something else."""

from typing import Any

import pytest
from typing_extensions import TypedDict

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.config import RunnableConfig
from phalanx.graph import START, StateGraph


class State(TypedDict, total=False):
    text: str


THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


@pytest.fixture
def graph() -> Any:
    def node(_: State) -> dict[str, object]:
        return {}

    builder = StateGraph(State)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("updates", [[{"text": "x"}], [[{"text": "x"}]], [[({"text": "x"}, "node")]]], ids=repr)
def test_an_update_that_is_none_is_named(graph: Any, updates: Any) -> None:
    with pytest.raises(TypeError, match=r"^bulk_update_state takes a list of lists of StateUpdate\(.*superstep 0 has "):
        graph.bulk_update_state(THREAD, updates)
    assert graph.get_state(THREAD).metadata is None


def test_an_update_of_a_checkpoint_that_is_not_there_says_where_to_look(graph: Any) -> None:
    gone = {"configurable": {"thread_id": "1", "checkpoint_id": "gone"}}
    with pytest.raises(ValueError, match="has no checkpoint 'gone' to update; get_state_history lists"):
        graph.update_state(gone, {"text": "x"})


def test_a_filter_that_is_no_dict_is_named(graph: Any) -> None:
    with pytest.raises(TypeError, match=r"^filter is a dict of metadata entries, .*; got 'fork'"):
        next(graph.get_state_history(THREAD, filter="fork"))
