"""Graphs in graphs on a cluster: what they leave in the state server, and who may still write there."""

# Short paths are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import operator
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, cast

import pytest
from tests.integration.keyspace import Keyspace
from tests.support import wait_until
from typing_extensions import TypedDict

from phalanx.checkpoint.memory import InMemorySaver
from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.redis.thread_store import LASTING, PASSING
from phalanx.config import RunnableConfig
from phalanx.constants import START
from phalanx.coordinator import cluster_loop
from phalanx.coordinator.keeping import Keeping, KeepingElsewhere
from phalanx.coordinator.messages import SaveWrites
from phalanx.coordinator.opening import Place
from phalanx.coordinator.plan import Task
from phalanx.errors import StaleLeaseError
from phalanx.graph import CompiledStateGraph, StateGraph
from phalanx.testing import InProcessCluster, in_process_cluster
from phalanx.types import Command, RetryPolicy, Send, interrupt
from phalanx.worker.lineage import Lineage

Graph = CompiledStateGraph[Any]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    item: str


class Wrote(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    with in_process_cluster() as started:
        yield started


@pytest.fixture
def config() -> RunnableConfig:
    """A thread of the test's own."""
    return {"configurable": {"thread_id": f"members-{uuid.uuid4()}"}}


def thread_of(config: RunnableConfig) -> str:
    return str(config.get("configurable", {})["thread_id"])


def keys_of(cluster: InProcessCluster, config: RunnableConfig | None = None) -> list[str]:
    """The keys of a thread, or of all runs without one."""
    thread = "run-*" if config is None else thread_of(config)
    client: Any = cluster.saver.client
    return sorted(key.decode() for key in client.scan_iter(f"phalanx:{{{thread}}}:*", count=1000))


def delete(cluster: InProcessCluster, config: RunnableConfig) -> list[str]:
    """Forget a thread; what is left of it."""
    cluster.saver.delete_thread(thread_of(config))
    return keys_of(cluster, config)


def works(state: State) -> State:
    return {"log": [f"worked on {state.get('item', 'nothing')}"]}


def fails(_: State) -> State:
    raise ValueError("no luck")


def asks(state: State) -> State:
    return {"log": [f"{state.get('item', '')}: {interrupt('what?')}"]}


def takes_too_long(_: State) -> State:
    time.sleep(0.3)
    return {}


def inside(last: Callable[[State], State], checkpointer: Any = None) -> Graph:
    """A graph that works and then does something else, a floor below another whose supersteps have a time limit if that
    takes too long."""
    deep = StateGraph(State, output_schema=Wrote)
    deep.add_node("works", works)
    deep.add_node("last", last)
    deep.add_edge(START, "works")
    deep.add_edge("works", "last")
    middle = StateGraph(State, output_schema=Wrote)
    middle.add_node("deep", deep.compile(checkpointer))
    middle.add_edge(START, "deep")
    graph = middle.compile(checkpointer)
    graph.step_timeout = 0.1 if last is takes_too_long else None
    return graph


def over_packets(name: str, graph: Graph, **options: Any) -> Graph:
    """Two packets to a graph."""
    builder = StateGraph(State)
    builder.add_node("works", works)
    builder.add_node("graph", graph, **options)
    builder.add_edge(START, "works")
    builder.add_conditional_edges("works", lambda _: [Send("graph", {"item": each}) for each in "ab"], ["graph"])
    return builder.compile(name=name)


ENDINGS = pytest.mark.parametrize("last", [works, fails, asks, takes_too_long], ids=lambda each: each.__name__)
SAVERS = pytest.mark.parametrize("checkpointer", [None, False, InMemorySaver()], ids=["kept", "not kept", "own"])


def run(graph: Graph, given: object, config: RunnableConfig | None = None) -> Any:
    """Run a graph to its end, whatever that is."""
    try:
        return graph.invoke(given, config)
    except (ValueError, TimeoutError) as error:
        return error


@ENDINGS
@pytest.mark.parametrize("checkpointer", [None, False], ids=["kept", "not kept"])
def test_a_run_without_a_thread_leaves_no_key(
    cluster: InProcessCluster, last: Callable[[State], State], checkpointer: Any
) -> None:
    graph = over_packets(f"no thread {last.__name__} {checkpointer}", inside(last, checkpointer))
    result = run(graph.with_cluster(cluster), {})

    assert isinstance(result, Exception) == (last in (fails, takes_too_long))
    assert keys_of(cluster) == []


@ENDINGS
@SAVERS
def test_nothing_is_left_of_a_thread_that_is_deleted(
    cluster: InProcessCluster, config: RunnableConfig, last: Callable[[State], State], checkpointer: Any
) -> None:
    graph = over_packets(f"deleted {last.__name__} {checkpointer}", inside(last, checkpointer))
    result = run(graph.with_cluster(cluster), {}, config)

    assert isinstance(result, Exception) == (last in (fails, takes_too_long))
    client = cluster.saver.client
    kept = {key for key in keys_of(cluster, config) if client.ttl(key) < 0}
    assert not [key for key in kept if "}:claims:" in key], "claims have an end once their run is over"
    assert delete(cluster, config) == []


@SAVERS
def test_a_graph_that_asked_and_was_answered_leaves_nothing_behind(
    cluster: InProcessCluster, config: RunnableConfig, checkpointer: Any
) -> None:
    graph = over_packets(f"answered {checkpointer}", inside(asks, checkpointer)).with_cluster(cluster)
    asked = graph.invoke({}, config)["__interrupt__"]
    graph.invoke(Command(resume={question.id: "this" for question in asked}), config)

    assert delete(cluster, config) == []


def test_what_a_run_notes_about_graphs_inside_goes_when_it_ends(
    cluster: InProcessCluster, config: RunnableConfig
) -> None:
    """A thread with thousands of packets to graphs would otherwise have a lease with thousands of fields."""
    graph = over_packets("notes", inside(works)).with_cluster(cluster)
    graph.invoke({}, config)
    keys, client = cluster.saver.keys(thread_of(config)), cluster.saver.client

    assert {*cast("list[bytes]", client.hkeys(keys.lease))} <= {b"owner", b"until", b"token", b"at"}
    assert not client.exists(keys.about)


def test_an_attempt_that_failed_leaves_nothing_of_a_graph_that_is_not_kept(
    cluster: InProcessCluster, config: RunnableConfig
) -> None:
    tries: list[int] = []

    def fails_twice(_: State) -> State:
        tries.append(1)
        if len(tries) <= 2:
            raise ConnectionError("again")
        return {"log": ["at last"]}

    again = RetryPolicy(initial_interval=0.01, jitter=False, max_attempts=3)
    builder = StateGraph(State)
    builder.add_node("graph", inside(fails_twice, False), retry_policy=again)
    builder.add_edge(START, "graph")
    result = builder.compile(name="fails twice").with_cluster(cluster).invoke({}, config)

    assert result["log"] == ["worked on nothing", "at last"]
    assert len(tries) == 3
    assert [key for key in keys_of(cluster, config) if "}:writes:~" in key or "}:claims:" in key] == []
    assert delete(cluster, config) == []


# --- who may write ----------------------------------------------------------------------------------------------------


class Untouched(InMemorySaver):
    """A saver that nobody is to write to."""

    def put_writes(self, *_: object, **__: object) -> None:
        raise AssertionError("a stale coordinator wrote to the saver")


@pytest.mark.parametrize("own_saver", [False, True], ids=["in the state server", "with a saver of its own"])
def test_a_coordinator_that_lost_the_thread_no_longer_stores_what_a_task_came_to(
    keyspace: Keyspace, own_saver: bool
) -> None:
    """A task whose graph ran in the coordinator has no claim: nothing but the fencing token keeps a stale one out."""
    store, saver, own = keyspace.thread(), RedisSaver(keyspace.client, prefix=keyspace.prefix), Untouched()
    stale = store.acquire("stale")
    keyspace.expire_lease(store)
    store.acquire("other")
    one = Task("a", "node", ("__pregel_pull", "node"), ("t",))
    order = SaveWrites("c1", one, [("__handed_over__", "an error")])
    place = Place("t")
    keeping = (
        KeepingElsewhere(store, own, saver, {}, place, Lineage())
        if own_saver
        else Keeping(store, saver, {}, place, Lineage())
    )
    before = keyspace.everything()

    with pytest.raises(StaleLeaseError):
        keeping.save_writes(order, stale, recorded=False)
    assert keyspace.everything() == before


def test_what_a_dead_coordinator_left_of_graphs_that_are_not_kept_goes_when_the_next_takes_the_thread(
    keyspace: Keyspace,
) -> None:
    store = keyspace.thread()
    lease = store.acquire("dies")
    step: dict[str, Any] = {"lease": lease, "blobs": {}, "record": b""}
    store.commit(namespace="a:1", checkpoint_id="i1", parent_id="i0", noted=PASSING, **step)
    store.commit(namespace="b:2", checkpoint_id="j1", parent_id="j0", noted=LASTING, **step)
    for where in (("a:1", "i1"), ("b:2", "j1")):
        keyspace.write(store.keys.claims(*where), {"task": "1|worker|1|call"})
        keyspace.write(store.keys.writes(*where), {"task": "an outcome"})
    keyspace.expire_lease(store)

    store.acquire("other")

    left = keyspace.names()
    assert store.keys.claims("a:1", "i1") not in left
    assert store.keys.writes("a:1", "i1") not in left
    assert store.keys.writes("b:2", "j1") in left
    assert keyspace.fields(store.keys.about) == {b"step\x00b:2\x00j1": b"1"}


# --- time limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [asks, fails], ids=["asked", "failed"])
def test_the_time_limit_of_a_graph_that_has_ended_early_is_no_concern_of_those_beside_it(
    cluster: InProcessCluster,
    config: RunnableConfig,
    monkeypatch: pytest.MonkeyPatch,
    last: Callable[[State], State],
) -> None:
    """What they come to is heard of at once; here, nobody would look for it."""
    monkeypatch.setattr(cluster_loop, "LOOK_EVERY_S", 1000.0)
    over = threading.Event()

    def waits(_: State) -> State:
        assert over.wait(20)
        return {"log": ["waited"]}

    ended = inside(last)
    ended.step_timeout = 0.2
    builder = StateGraph(State)
    builder.add_node("ended", ended)
    builder.add_node("waits", waits)
    builder.add_edge(START, "ended")
    builder.add_edge(START, "waits")
    graph = builder.compile(name=f"beside one that {last.__name__}").with_cluster(cluster)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, graph, {}, config)
        limit = time.monotonic() + 0.5
        wait_until(lambda: time.monotonic() > limit, "the time limit to be over")
        over.set()
        result = running.result(timeout=10)

    assert isinstance(result, ValueError) if last is fails else result["__interrupt__"]
