"""What of a run's config reaches nodes, and graphs as parts of others."""

from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Update, Words, chain, gives, says

from phalanx.config import RunnableConfig
from phalanx.constants import START
from phalanx.graph import StateGraph
from phalanx.types import Send


def looking() -> StateGraph[Words]:
    def looks(_: Words, config: RunnableConfig) -> Update:
        return {"other": config}

    builder = StateGraph(Words)
    builder.add_node("looks", looks)
    builder.add_edge(START, "looks")
    return builder


def users(seen: Any) -> dict[str, Any]:
    """What of a task's configurable values is the user's."""
    ours = ("__pregel_", "checkpoint_", "thread_id")
    return {key: value for key, value in seen["configurable"].items() if not key.startswith(ours)}


@pytest.mark.rule("config-1")
def test_configurable_values_reach_nodes(drive: Drive) -> None:
    config: RunnableConfig = {"configurable": {"model": "m", "nested": {"a": [1]}}, "tags": ["t"]}
    seen = drive.invoke(compiled(looking()), {}, config)["other"]

    assert users(seen) == {"model": "m", "nested": {"a": [1]}}
    assert seen["tags"] == ["t"]


@pytest.mark.rule("config-2")
def test_the_engine_s_own_settings_are_in_no_config_that_is_returned(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(chain("a")), thread("own settings", metadata={"user": "u"})
    drive_kept.invoke(graph, {}, {**config, "configurable": {**config.get("configurable", {}), "model": "m"}})
    state = drive_kept.get_state(graph, config)

    assert set(state.config.get("configurable") or {}) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert state.metadata is not None
    metadata: dict[str, Any] = dict(state.metadata)
    assert (metadata["user"], metadata["model"]) == ("u", "m")
    assert not [key for key in metadata if key.startswith("__")]


def test_a_node_is_told_where_in_the_run_it_is(drive: Drive) -> None:
    metadata = drive.invoke(compiled(looking()), {}, {"metadata": {"user": "u"}})["other"]["metadata"]

    assert metadata["user"] == "u"
    assert metadata["langgraph_node"] == "looks"
    assert metadata["langgraph_step"] == 1
    assert metadata["langgraph_triggers"] == ("branch:to:looks",)
    assert metadata["langgraph_path"] == ("__pregel_pull", "looks")
    assert metadata["langgraph_checkpoint_ns"].startswith("looks:")


@pytest.mark.ours_only("there, the path has a third part")
def test_a_packet_s_task_is_told_which_packet_it_is(drive: Drive) -> None:
    def looks(_: object, config: RunnableConfig) -> Update:
        return {"words": [str((config.get("metadata") or {})["langgraph_path"])]}

    builder = StateGraph(Words)
    builder.add_node("looks", looks)
    builder.add_conditional_edges(START, gives([Send("looks", 0), Send("looks", 0)]))

    assert drive.invoke(compiled(builder), {})["words"] == ["('__pregel_push', 0)", "('__pregel_push', 1)"]


def test_a_path_may_ask_for_the_config_too(drive: Drive) -> None:
    def path(_: Words, config: RunnableConfig) -> str:
        return str((config.get("configurable") or {})["way"])

    builder = chain("a")
    builder.add_node("b", says("b"))
    builder.add_node("c", says("c"))
    builder.add_conditional_edges("a", path)

    assert drive.invoke(compiled(builder), {}, {"configurable": {"way": "c"}})["words"] == ["a", "c"]


@pytest.mark.rule("config-1")
def test_what_a_call_passes_wins_over_what_the_graph_was_given(drive: Drive) -> None:
    graph = compiled(looking()).with_config({"configurable": {"a": "graph", "b": "graph"}}, tags=["graph"])
    seen = drive.invoke(graph, {}, {"configurable": {"a": "call"}, "tags": ["call"]})["other"]

    assert users(seen) == {"a": "call", "b": "graph"}
    assert seen["tags"] == ["graph", "call"]


@pytest.mark.rule("limit-2")
@pytest.mark.parametrize("limit", [1, 3])
def test_max_concurrency_bounds_the_tasks_that_run_at_once(drive: Drive, limit: int) -> None:
    now: list[int] = []
    most: list[int] = []

    def works(number: int) -> Update:
        now.append(number)
        most.append(len(now))
        now.remove(number)
        return {"count": 1}

    builder = StateGraph(Words)
    builder.add_node("works", works)
    builder.add_conditional_edges(START, gives([Send("works", number) for number in range(40)]))

    assert drive.invoke(compiled(builder), {}, {"max_concurrency": limit})["count"] == 40
    assert max(most) <= limit


# --- graphs in graphs -------------------------------------------------------------------------------------------------


def test_a_graph_can_be_a_node(drive: Drive) -> None:
    builder = chain("a")
    builder.add_node("inner", chain("x", "y").compile())
    builder.add_edge("a", "inner")

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "a", "x", "y"]


def test_a_graph_can_be_called_in_a_node(drive: Drive) -> None:
    inner: Any = chain("x", "y").compile()

    def calls(state: Words) -> Update:
        return {"words": inner.invoke({"words": ["given"]})["words"]}

    builder = chain("a")
    builder.add_node("calls", calls)
    builder.add_edge("a", "calls")

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "given", "x", "y"]


@pytest.mark.rule("error-1")
def test_an_error_in_an_inner_graph_is_the_node_s_error(drive: Drive) -> None:
    def fails(_: Words) -> Update:
        raise LookupError("inside")

    inner = StateGraph(Words)
    inner.add_node("fails", fails)
    inner.add_edge(START, "fails")
    builder = chain("a")
    builder.add_node("inner", inner.compile())
    builder.add_edge("a", "inner")

    with pytest.raises(LookupError, match="inside") as caught:
        drive.invoke(compiled(builder), {})
    notes = " ".join(caught.value.__notes__)
    assert "'fails'" in notes
    assert "'inner'" in notes
