"""What a cluster keeps of its threads, and for how long."""

from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from tests.support import wait_until

from phalanx.checkpoint.redis.client import scanned
from phalanx.checkpoint.retention import Retention
from phalanx.config import RunnableConfig
from phalanx.coordinator import Cluster
from phalanx.graph import START, CompiledStateGraph, StateGraph
from phalanx.testing import in_process_cluster
from phalanx.testing.in_process import InProcessCluster


class Count(TypedDict, total=False):
    n: int


@pytest.fixture(scope="module")
def running() -> Iterator[InProcessCluster]:
    with in_process_cluster() as cluster:
        yield cluster


def one_more(state: Count) -> Count:
    return {"n": state.get("n", 0) + 1}


def graph(running: InProcessCluster, cluster: Cluster, name: str) -> CompiledStateGraph[Any]:
    """A graph with another inside, so that a thread has several namespaces."""
    inner = StateGraph(Count)
    inner.add_node("one", one_more)
    inner.add_edge(START, "one")
    outer = StateGraph(Count)
    outer.add_node("inner", inner.compile())
    outer.add_node("two", one_more)
    outer.add_edge(START, "inner")
    outer.add_edge("inner", "two")
    compiled = outer.compile(name=name)
    running.adopt(compiled)
    return compiled.with_cluster(cluster)


def keys_of(cluster: Cluster, thread_id: str) -> list[str]:
    return [*scanned(cluster.saver.client, f"*{{{thread_id}}}*")]


def keeping(running: InProcessCluster, retention: Retention) -> Cluster:
    """The same cluster for a client that wants threads kept so."""
    return Cluster(running.url, broker_url=running.broker_url, retention=retention)


def test_all_keys_of_a_finished_run_are_gone_when_its_time_is_over(running: InProcessCluster) -> None:
    cluster = keeping(running, Retention(ttl_s=2))

    result = graph(running, cluster, "expires").invoke({"n": 0}, {"configurable": {"thread_id": "expires"}})

    assert result == {"n": 2}
    left_ms = [cluster.saver.client.pttl(key) for key in keys_of(cluster, "expires")]
    assert left_ms
    assert all(0 < each <= 2000 for each in left_ms)
    wait_until(lambda: not keys_of(cluster, "expires"), "the keys to expire", timeout_s=10)


def test_only_the_last_states_of_a_thread_are_kept_if_so_asked(running: InProcessCluster) -> None:
    cluster = keeping(running, Retention(keep_last=2))
    made = graph(running, cluster, "recent")
    config: RunnableConfig = {"configurable": {"thread_id": "recent"}}

    for _ in range(5):
        made.invoke({"n": 0}, config)

    assert len([*made.get_state_history(config)]) <= 3
    assert made.get_state(config).values == {"n": 2}


@pytest.mark.parametrize("retention", [Retention(), Retention(ttl_s=600), Retention(keep_last=1)], ids=str)
def test_a_thread_that_is_deleted_leaves_no_key(running: InProcessCluster, retention: Retention) -> None:
    cluster = keeping(running, retention)
    made = graph(running, cluster, f"deleted-{retention.ttl_s}-{retention.keep_last}")
    made.invoke({"n": 0}, {"configurable": {"thread_id": "deleted"}})
    assert keys_of(cluster, "deleted")

    cluster.saver.delete_thread("deleted")

    assert keys_of(cluster, "deleted") == []
