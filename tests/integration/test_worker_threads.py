"""A worker's connection to its broker: nobody else reads from it, and nothing on it holds the worker up for ever."""

from collections.abc import Iterator
from typing import Any, Final, TypedDict, cast

import pytest
from kombu.transport.redis import Transport
from tests.integration.halting_proxy import HaltingProxy

from phalanx.coordinator import Cluster, lost_tasks
from phalanx.coordinator.local import LocalServer
from phalanx.graph import END, START, StateGraph
from phalanx.protocol.batch import RUN_BATCH
from phalanx.testing import in_process_cluster
from phalanx.testing.in_process import WorkerThread
from phalanx.worker.app import CELERY_SETTINGS
from phalanx.worker.registry import GraphRegistry
from phalanx.worker.settings import WorkerSettings

_LARGE: Final = 200_000
"""Bytes of a message that no one read from a socket holds."""

_BROKER_OPTIONS: Final = cast("dict[str, Any]", CELERY_SETTINGS["broker_transport_options"])


class State(TypedDict, total=False):
    text: str
    by: str


def signing(name: str) -> StateGraph[State]:
    """A graph whose closure tells in which cluster it ran."""

    def sign(state: State) -> State:
        return {"by": name}

    return StateGraph(State).add_node("sign", sign).add_edge(START, "sign").add_edge("sign", END)


def signature(cluster: Cluster, name: str, text: str = "") -> str:
    """Who signs when ``cluster`` runs the graph of ``name``."""
    return str(signing(name).compile(name="signing").with_cluster(cluster).invoke({"text": text})["by"])


@pytest.fixture
def own_server() -> Iterator[LocalServer]:
    """A server that the test may end."""
    server = LocalServer.start()
    yield server
    server.close()


def test_clusters_in_one_process_do_not_read_each_others_connections() -> None:
    large = "x" * _LARGE
    with in_process_cluster() as one, in_process_cluster() as two:
        for _ in range(50):
            assert signature(one, "one", large) == "one"
            assert signature(two, "two", large) == "two"


def test_a_cluster_that_ends_leaves_the_others_of_its_process_alone() -> None:
    with in_process_cluster() as outer:
        with in_process_cluster() as inner:
            assert signature(inner, "inner") == "inner"
        assert signature(outer, "outer") == "outer"


def test_a_worker_can_be_stopped_when_its_server_is_gone(own_server: LocalServer) -> None:
    worker = WorkerThread(WorkerSettings(own_server.url, own_server.broker_url, concurrency=1), GraphRegistry())
    own_server.close()
    worker.stop()
    assert not worker.thread.is_alive()


def test_a_read_may_take_longer_than_the_broker_lets_a_worker_wait() -> None:
    assert _BROKER_OPTIONS["socket_timeout"] > Transport.brpop_timeout


def test_a_reply_that_stops_in_its_middle_does_not_hold_the_worker_up(
    own_server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_BROKER_OPTIONS, "socket_timeout", _BROKER_OPTIONS["socket_timeout"] / 30)
    monkeypatch.setattr(lost_tasks, "UNCLAIMED_AFTER_S", 0.5)
    with HaltingProxy(own_server.folder / "valkey.sock", own_server.folder) as proxy:
        registry = GraphRegistry()
        settings = WorkerSettings(own_server.url, f"redis+socket://{proxy.path}", concurrency=1)
        worker = WorkerThread(settings, registry)
        cluster = Cluster(own_server.url, broker_url=own_server.broker_url)
        try:
            graph = signing("worker").compile(name="signing")
            registry.add(graph.name, graph)
            proxy.halt_after(RUN_BATCH.encode())
            assert graph.with_cluster(cluster).invoke({})["by"] == "worker"
            assert proxy.halted.is_set()
        finally:
            cluster.close()
            worker.stop()
