"""A run keeps its thread to itself for as long as it lasts, whatever its supersteps are like."""

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.support import wait_until
from typing_extensions import TypedDict

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.checkpoint.redis import thread_store
from phalanx.config import RunnableConfig
from phalanx.constants import END, START
from phalanx.coordinator import cluster_loop
from phalanx.errors import ThreadBusyError
from phalanx.graph import CompiledStateGraph, StateGraph
from phalanx.testing import InProcessCluster, in_process_cluster

VALID_MS = 600


class State(TypedDict, total=False):
    rounds: int


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    with in_process_cluster() as started:
        yield started


@pytest.fixture(autouse=True)
def _short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_store, "LEASE_VALID_MS", VALID_MS)
    monkeypatch.setattr(cluster_loop, "RENEW_EVERY_S", VALID_MS / 6000)


class Rounds:
    """Graphs that go round until they are told to stop, in supersteps that are each much shorter than a lease."""

    def __init__(self) -> None:
        self.enough = threading.Event()
        self.done = 0

    def goes_round(self, state: State) -> State:
        self.done += 1
        return {"rounds": state.get("rounds", 0) + 1}

    def where_to(self, _: State) -> str:
        return END if self.enough.is_set() else "goes_round"

    def plain(self) -> StateGraph[Any]:
        builder = StateGraph(State)
        builder.add_node("goes_round", self.goes_round)
        builder.add_edge(START, "goes_round")
        builder.add_conditional_edges("goes_round", self.where_to, ["goes_round", END])
        return builder

    def inside(self) -> StateGraph[Any]:
        """All rounds are those of a graph inside, so that the outermost commits nothing for a long time."""
        builder = StateGraph(State)
        builder.add_node("inside", self.plain().compile())
        builder.add_edge(START, "inside")
        return builder


@pytest.mark.parametrize("inside", [False, True], ids=["of its own", "of a graph inside"])
def test_a_run_of_many_short_supersteps_keeps_its_thread(cluster: InProcessCluster, inside: bool) -> None:
    rounds = Rounds()
    graph: CompiledStateGraph[Any] = (rounds.inside() if inside else rounds.plain()).compile(name=f"rounds {inside}")
    config: RunnableConfig = {"configurable": {"thread_id": f"rounds-{uuid.uuid4()}"}, "recursion_limit": 100_000}
    on_cluster, lease = graph.with_cluster(cluster), cluster.saver.keys(str(config["configurable"]["thread_id"])).lease

    def valid_until() -> int:
        found: Any = cluster.saver.client.hget(lease, "until")
        return int(found or 0)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(on_cluster.invoke, {}, config)
        try:
            wait_until(lambda: rounds.done, "the first round")
            first = valid_until()
            wait_until(
                lambda: valid_until() > first + 2 * VALID_MS or running.done(), "the lease to be renewed", timeout_s=5
            )
            with pytest.raises(ThreadBusyError):
                on_cluster.invoke({}, config)
        finally:
            rounds.enough.set()
        assert running.result(timeout=30)["rounds"] == rounds.done


@pytest.mark.parametrize("own_saver", [False, True], ids=["kept by the cluster", "kept by the graph's saver"])
def test_a_thread_that_is_driven_is_not_updated(cluster: InProcessCluster, own_saver: bool) -> None:
    rounds = Rounds()
    saver = InMemorySaver() if own_saver else None
    graph: CompiledStateGraph[Any] = rounds.plain().compile(name=f"updated {own_saver}", checkpointer=saver)
    config: RunnableConfig = {"configurable": {"thread_id": f"updated-{uuid.uuid4()}"}, "recursion_limit": 100_000}
    on_cluster = graph.with_cluster(cluster)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(on_cluster.invoke, {}, config)
        try:
            wait_until(lambda: rounds.done, "the first round")
            with pytest.raises(ThreadBusyError):
                on_cluster.update_state(config, {"rounds": -1})
        finally:
            rounds.enough.set()
        assert running.result(timeout=30)["rounds"] == rounds.done
    on_cluster.update_state(config, {"rounds": -1})

    assert on_cluster.get_state(config).values["rounds"] == -1
