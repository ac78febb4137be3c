"""Caches: a node's writes are remembered and used again for the same input, in whichever run or thread."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Flaky, Update, Words, alone, chain, gives, says
from tests.support import wait_until

from phalanx.cache.memory import InMemoryCache
from phalanx.constants import START
from phalanx.graph import StateGraph
from phalanx.types import CachePolicy, Command, RetryPolicy, Send


def remembered(node: Any, **policy: Any) -> StateGraph[Words]:
    """A graph of one node whose writes are cached."""
    return alone(node, cache_policy=CachePolicy(**policy))


@pytest.mark.rule("cache-1")
def test_a_node_is_not_run_again_for_the_same_input(drive: Drive) -> None:
    node = Flaky()
    graph = compiled(remembered(node), cache=InMemoryCache())

    assert [drive.invoke(graph, {"last": "x"})["words"] for _ in range(3)] == [["ok"]] * 3
    assert len(node.calls) == 1


@pytest.mark.rule("cache-1")
def test_a_node_is_run_for_another_input(drive: Drive) -> None:
    node = Flaky()
    graph = compiled(remembered(node), cache=InMemoryCache())
    for last in ("x", "y", "x", "z"):
        drive.invoke(graph, {"last": last})

    assert [call["last"] for call in node.calls] == ["x", "y", "z"]


@pytest.mark.rule("cache-1")
def test_equal_inputs_are_the_same_input(drive: Drive) -> None:
    node = Flaky()
    graph = compiled(remembered(node), cache=InMemoryCache())
    for _ in range(2):
        drive.invoke(graph, {"other": {"a": [1, 2], "b": {"c": "d".upper()}}})

    assert len(node.calls) == 1


@pytest.mark.rule("cache-1")
def test_equal_packets_are_the_same_input(drive: Drive) -> None:
    calls: list[int] = []

    def works(number: int) -> Update:
        calls.append(number)
        return {"words": [str(number)]}

    builder = StateGraph(Words)
    builder.add_node("works", works, cache_policy=CachePolicy())
    builder.add_conditional_edges(START, gives([Send("works", number) for number in range(3)]))
    graph = compiled(builder, cache=InMemoryCache())

    assert [drive.invoke(graph, {})["words"] for _ in range(2)] == [["0", "1", "2"]] * 2
    assert sorted(calls) == [0, 1, 2]


@pytest.mark.rule("cache-1")
@pytest.mark.not_on("inline", "coroutine_nodes")
def test_what_a_coroutine_node_wrote_is_remembered_too(drive: Drive) -> None:
    node = Flaky()

    async def later(state: Words) -> Any:
        return node(state)

    graph = compiled(remembered(later), cache=InMemoryCache())

    assert [drive.invoke(graph, {})["words"] for _ in range(2)] == [["ok"]] * 2
    assert len(node.calls) == 1


@pytest.mark.rule("cache-2")
def test_a_policy_without_a_cache_remembers_nothing(drive: Drive) -> None:
    node = Flaky()
    graph = compiled(remembered(node))
    drive.invoke(graph, {})
    drive.invoke(graph, {})

    assert len(node.calls) == 2


@pytest.mark.rule("cache-2")
def test_a_cache_without_a_policy_remembers_nothing(drive: Drive) -> None:
    node = Flaky()
    graph = compiled(alone(node), cache=InMemoryCache())
    drive.invoke(graph, {})
    drive.invoke(graph, {})

    assert len(node.calls) == 2


@pytest.mark.rule("cache-3")
@pytest.mark.parametrize("key", [str, str.encode], ids=["text", "bytes"])
def test_a_key_function_says_what_counts_of_an_input(drive: Drive, key: Any) -> None:
    node = Flaky()
    graph = compiled(remembered(node, key_func=lambda state: key(state["last"])), cache=InMemoryCache())
    for last, other in (("x", 1), ("x", 2), ("y", 2)):
        drive.invoke(graph, {"last": last, "other": other})

    assert [call["other"] for call in node.calls] == [1, 2]
    assert [call["last"] for call in node.calls] == ["x", "y"]


@pytest.mark.rule("cache-3")
def test_a_key_function_that_raises_fails_the_run(drive: Drive) -> None:
    def no_key(_: Words) -> str:
        raise LookupError("no key")

    with pytest.raises(LookupError, match="no key"):
        drive.invoke(compiled(remembered(Flaky(), key_func=no_key), cache=InMemoryCache()), {})


@pytest.mark.rule("cache-4")
def test_what_is_remembered_is_forgotten_after_its_time_to_live(drive: Drive) -> None:
    node = Flaky()
    graph = compiled(remembered(node, ttl=1), cache=InMemoryCache())
    drive.invoke(graph, {})
    drive.invoke(graph, {})
    assert len(node.calls) == 1

    def has_run_again() -> bool:
        drive.invoke(graph, {})
        return len(node.calls) == 2

    wait_until(has_run_again, "the end of the time to live")


@pytest.mark.rule("cache-5")
def test_an_update_from_the_cache_is_streamed_and_marked(drive: Drive) -> None:
    graph = compiled(remembered(Flaky()), cache=InMemoryCache())

    assert drive.stream(graph, {}) == [{"a": {"words": ["ok"]}}]
    assert drive.stream(graph, {}) == [{"a": {"words": ["ok"]}, "__metadata__": {"cached": True}}]
    assert drive.stream(graph, {}, stream_mode="values") == [{"words": ["ok"], "count": 0}]


@pytest.mark.rule("cache-6")
def test_where_a_remembered_node_leads_is_remembered_too(drive: Drive) -> None:
    path = Flaky(answer="c")
    builder = remembered(gives(Command[str](update={"words": ["a"]}, goto=["b", Send("d", {})])))
    for name in ("b", "c", "d", "e"):
        builder.add_node(name, says(name))
    builder.add_edge("a", "e")
    builder.add_conditional_edges("a", lambda state: path(state))
    graph = compiled(builder, cache=InMemoryCache())

    assert [drive.invoke(graph, {})["words"] for _ in range(2)] == [["a", "b", "c", "e", "d"]] * 2
    assert len(path.calls) == 1


@pytest.mark.rule("cache-6")
def test_that_a_node_wrote_nothing_is_remembered(drive: Drive) -> None:
    calls: list[int] = []

    def silently(_: Words) -> None:
        calls.append(1)

    graph = compiled(remembered(silently), cache=InMemoryCache())
    drive.invoke(graph, {})

    assert drive.stream(graph, {}) == [{"a": None, "__metadata__": {"cached": True}}]
    assert calls == [1]


@pytest.mark.rule("cache-7")
def test_a_cache_can_forget_everything_or_some_nodes(drive: Drive) -> None:
    first, second = Flaky(), Flaky()
    builder = remembered(first)
    builder.add_node("b", second, cache_policy=CachePolicy())
    builder.add_edge(START, "b")
    graph = compiled(builder, cache=InMemoryCache())
    drive.invoke(graph, {})

    graph.clear_cache(["b"])
    drive.invoke(graph, {})
    assert (len(first.calls), len(second.calls)) == (1, 2)

    graph.clear_cache()
    drive.invoke(graph, {})
    assert (len(first.calls), len(second.calls)) == (2, 3)


@pytest.mark.rule("cache-7")
def test_a_graph_without_a_cache_has_nothing_to_forget() -> None:
    with pytest.raises(ValueError, match=r"^No cache is set for this graph. Cannot clear cache"):
        remembered(Flaky()).compile().clear_cache()


@pytest.mark.rule("cache-8")
def test_failures_are_not_remembered(drive: Drive) -> None:
    node = Flaky(ValueError)
    graph = compiled(remembered(node), cache=InMemoryCache())
    with pytest.raises(ValueError, match="not yet"):
        drive.invoke(graph, {})

    assert drive.stream(graph, {}) == [{"a": {"words": ["ok"]}}]


@pytest.mark.rule("cache-8")
def test_what_a_retried_node_wrote_in_the_end_is_remembered(drive: Drive) -> None:
    node = Flaky(ValueError)
    retry = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=ValueError)
    graph = compiled(alone(node, cache_policy=CachePolicy(), retry_policy=retry), cache=InMemoryCache())

    assert [drive.invoke(graph, {})["words"] for _ in range(2)] == [["ok"]] * 2
    assert len(node.calls) == 2


@pytest.mark.rule("cache-9")
def test_what_one_thread_remembers_serves_others(drive_kept: Drive) -> None:
    node = Flaky()
    graph = drive_kept.keeping(remembered(node), cache=InMemoryCache())
    for name in ("one", "two"):
        assert drive_kept.invoke(graph, {}, thread(f"cache {name}"))["words"] == ["ok"]

    assert len(node.calls) == 1
    assert drive_kept.get_state(graph, thread("cache two")).values["words"] == ["ok"]


@pytest.mark.rule("cache-9")
def test_two_nodes_of_one_function_do_not_share_what_they_wrote(drive: Drive) -> None:
    node = Flaky()
    builder = remembered(node)
    builder.add_node("b", node, cache_policy=CachePolicy())
    builder.add_edge(START, "b")

    assert drive.invoke(compiled(builder, cache=InMemoryCache()), {})["words"] == ["ok", "ok"]
    assert len(node.calls) == 2


@pytest.mark.rule("cache-9")
def test_a_run_that_goes_on_uses_its_own_results_before_those_of_the_cache(drive_kept: Drive) -> None:
    node, fails = Flaky(), Flaky(ValueError)
    builder = remembered(node)
    builder.add_node("b", fails)
    builder.add_edge(START, "b")
    graph, config = drive_kept.keeping(builder, cache=InMemoryCache()), thread("own results")
    with pytest.raises(ValueError, match="not yet"):
        drive_kept.invoke(graph, {}, config)
    finished = len(node.calls)
    graph.clear_cache()

    assert drive_kept.invoke(graph, None, config)["words"] == ["ok", "ok"]
    assert (finished, len(node.calls)) == (1, 1)


@pytest.mark.rule("cache-9")
def test_a_default_cache_policy_is_for_nodes_that_have_none(drive: Drive) -> None:
    node = Flaky()
    builder = alone(node)
    builder.set_node_defaults(cache_policy=CachePolicy())
    graph = compiled(builder, cache=InMemoryCache())
    drive.invoke(graph, {})
    drive.invoke(graph, {})

    assert len(node.calls) == 1


@pytest.mark.rule("cache-9")
def test_a_step_with_a_remembered_task_and_others_is_whole(drive: Drive) -> None:
    node = Flaky()
    builder = chain("z")
    builder.add_node("a", node, cache_policy=CachePolicy(key_func=lambda _: "always"))
    builder.add_edge(START, "a")
    graph = compiled(builder, cache=InMemoryCache())

    assert drive.invoke(graph, {"words": ["1"]})["words"] == ["1", "ok", "z"]
    assert drive.invoke(graph, {"words": ["2"]})["words"] == ["2", "ok", "z"]
    assert len(node.calls) == 1
