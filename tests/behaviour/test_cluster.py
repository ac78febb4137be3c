"""What only a cluster has: leases, graphs by name, runs beside each other, streams that are left."""

import asyncio
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, OnCluster, compiled, keys_left, thread
from tests.behaviour.states import Update, Words, chain, says
from tests.support import wait_until

from phalanx.channels import LastValue
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.constants import START
from phalanx.coordinator import Cluster
from phalanx.errors import ClusterError, GraphNotNamedError, ThreadBusyError
from phalanx.graph import StateGraph
from phalanx.pregel import NodeBuilder, Pregel
from phalanx.testing.in_process import InProcessCluster
from phalanx.types import Send


class Gate:
    """A graph whose second node waits until it is let through."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_go = threading.Event()
        builder = chain("a")
        builder.add_node("waits", self._wait)
        builder.add_node("z", says("z"))
        builder.add_edge("a", "waits")
        builder.add_edge("waits", "z")
        self.builder = builder

    def _wait(self, _: Words) -> Update:
        self.begun.set()
        assert self.may_go.wait(30)
        return {"words": ["waited"]}


@pytest.fixture
def gate() -> Iterator[Gate]:
    """A gate that is open when the test ends, so that no worker is left waiting."""
    made = Gate()
    yield made
    made.may_go.set()


def snapshot_of_keys(cluster: InProcessCluster, thread_id: str) -> dict[bytes, bytes | None]:
    """The stored form of every key of a thread but its lease."""
    client: Any = cluster.saver.client
    names: list[bytes] = sorted(client.scan_iter(match=f"phalanx:{{{thread_id}}}:*"))
    return {name: client.dump(name) for name in names if not name.endswith(b":lease")}


@pytest.mark.parametrize("own_saver", [False, True], ids=["cluster's saver", "own saver"])
def test_a_second_run_of_a_busy_thread_is_refused_before_it_writes_anything(
    cluster: InProcessCluster, gate: Gate, own_saver: bool
) -> None:
    graph = compiled(gate.builder, InMemorySaver() if own_saver else None).with_cluster(cluster)
    config = thread(f"busy{own_saver}")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(graph.invoke, {}, config)
        wait_until(gate.begun.is_set, "the first run to be in its second step")
        before = snapshot_of_keys(cluster, f"busy{own_saver}")
        with pytest.raises(ThreadBusyError, match="or use another thread_id"):
            graph.invoke({"words": ["second"]}, config)
        assert snapshot_of_keys(cluster, f"busy{own_saver}") == before
        assert len([*graph.get_state_history(config)]) == 3
        gate.may_go.set()

        assert first.result(timeout=30)["words"] == ["a", "waited", "z"]
    assert graph.invoke({}, config)["words"] == ["a", "waited", "z"] * 2


def test_the_state_can_be_read_while_a_run_is_in_a_step(cluster: InProcessCluster, gate: Gate) -> None:
    graph, config = compiled(gate.builder).with_cluster(cluster), thread("read while running")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(graph.invoke, {}, config)
        wait_until(gate.begun.is_set, "the run to be in its second step")
        state = graph.get_state(config)
        gate.may_go.set()
        running.result(timeout=30)

    assert (state.values["words"], state.next) == (["a"], ("waits",))


@pytest.mark.parametrize("asynchronous", [False, True], ids=["stream", "astream"])
def test_a_stream_that_is_left_gives_its_thread_back(cluster: InProcessCluster, gate: Gate, asynchronous: bool) -> None:
    graph, config = compiled(gate.builder).with_cluster(cluster), thread(f"left {asynchronous}")

    async def leaves() -> Any:
        stream = graph.astream({}, config)
        first = await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        return first

    if asynchronous:
        first = asyncio.run(leaves())
    else:
        stream: Any = graph.stream({}, config)
        first = next(stream)
        stream.close()
    assert first == {"a": {"words": ["a"]}}
    gate.may_go.set()

    assert graph.invoke(None, config)["words"] == ["a", "waited", "z"]


def test_a_stream_that_is_left_without_a_thread_leaves_no_key(cluster: InProcessCluster, gate: Gate) -> None:
    stream: Any = compiled(gate.builder).with_cluster(cluster).stream({})
    next(stream)
    wait_until(gate.begun.is_set, "the second step to begin")
    stream.close()
    gate.may_go.set()

    wait_until(lambda: not [key for key, _ in keys_left(cluster) if "{run-" in key], "every key of the run to be gone")


def test_a_run_whose_cluster_is_closed_says_so_and_can_go_on(cluster: InProcessCluster, gate: Gate) -> None:
    graph, config = compiled(gate.builder).with_cluster(cluster), thread("closed")
    other = Cluster(cluster.url, broker_url=cluster.broker_url)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(graph.with_cluster(other).invoke, {}, config)
        wait_until(gate.begun.is_set, "the run to be in its second step")
        other.close()
        with pytest.raises(ClusterError, match="the cluster was closed while run"):
            running.result(timeout=30)
    gate.may_go.set()

    assert graph.invoke(None, config)["words"] == ["a", "waited", "z"]


def test_a_slow_reader_gets_everything(cluster: InProcessCluster) -> None:
    names = [f"n{number:02}" for number in range(30)]
    stream = compiled(chain(*names)).with_cluster(cluster).stream({})

    assert [*itertools.chain.from_iterable(stream)] == names


def test_two_graphs_run_on_one_cluster_at_once(cluster: InProcessCluster) -> None:
    """Each meets the other in the middle, so neither could end alone."""
    meet = threading.Barrier(2)

    def meeting(word: str) -> StateGraph[Words]:
        def meets(_: Words) -> Update:
            meet.wait(30)
            return {"words": [word]}

        builder = StateGraph(Words)
        builder.add_node("meets", meets)
        builder.add_edge(START, "meets")
        return builder

    graphs = [compiled(meeting(word)).with_cluster(cluster) for word in ("one", "two")]
    with ThreadPoolExecutor(2) as pool:
        results = [running.result() for running in [pool.submit(graph.invoke, {}) for graph in graphs]]

    assert [result["words"] for result in results] == [["one"], ["two"]]


def test_many_runs_at_once_do_not_mix(cluster: InProcessCluster) -> None:
    def work(arg: tuple[str, int]) -> Update:
        return {"words": [f"{arg[0]}{arg[1]}"]}

    def plan(state: Words) -> list[Send]:
        return [Send("work", (state["last"], number)) for number in range(20)]

    builder = StateGraph(Words)
    builder.add_node("work", work)
    builder.add_conditional_edges(START, plan)
    graph = compiled(builder).with_cluster(cluster)

    def run(number: int) -> list[str]:
        config = thread(f"many{number}") if number % 2 else None
        return list(graph.invoke({"last": f"r{number}-"}, config)["words"])

    with ThreadPoolExecutor(8) as pool:
        results = [*pool.map(run, range(24))]

    assert results == [[f"r{run}-{number}" for number in range(20)] for run in range(24)]


def test_within_as_default_graphs_run_on_the_cluster(cluster: InProcessCluster) -> None:
    where: list[str] = []

    def notes(_: Words) -> Update:
        where.append(threading.current_thread().name)
        return {"words": ["n"]}

    builder = StateGraph(Words)
    builder.add_node("notes", notes)
    builder.add_edge(START, "notes")
    graph = compiled(builder)
    with cluster.as_default() as default:
        assert default is cluster
        graph.invoke({}, thread("default"))
        assert graph.get_state(thread("default")).values["words"] == ["n"]
    graph.invoke({})

    assert where[0] != where[1] == threading.current_thread().name


def test_a_graph_without_a_name_is_refused_with_what_to_do(cluster: InProcessCluster) -> None:
    with pytest.raises(GraphNotNamedError, match=r"compile\(name='census'\)"):
        chain("a").compile().with_cluster(cluster)


def test_the_original_stays_inline_when_a_copy_goes_to_a_cluster(cluster: InProcessCluster) -> None:
    graph: Pregel = compiled(chain("a"))
    copy = graph.with_cluster(cluster)

    assert (graph.cluster, copy.cluster) == (None, cluster)


def test_a_run_without_a_thread_keeps_nothing(drive: Drive) -> None:
    graph = compiled(chain("a"))

    assert drive.invoke(graph, {"words": ["1"]})["words"] == ["1", "a"]
    assert drive.invoke(graph, {"words": ["2"]})["words"] == ["2", "a"]


def test_threads_of_the_cluster_can_be_deleted(cluster: InProcessCluster) -> None:
    drive = OnCluster(cluster)
    graph, config = compiled(chain("a")), thread("deleted")
    drive.invoke(graph, {"other": "x" * 5000}, config)
    cluster.saver.delete_thread("deleted")

    assert not snapshot_of_keys(cluster, "deleted")
    assert drive.get_state(graph, config).values == {}


def test_a_thread_whose_name_is_no_text_is_refused_on_a_cluster(cluster: InProcessCluster) -> None:
    graph = compiled(chain("a")).with_cluster(cluster)
    with pytest.raises(ValueError, match="no text that can be sent"):
        graph.invoke({}, thread("half \ud800"))


def twelve(_: Words) -> list[Send]:
    return [Send("work", number) for number in range(12)]


class Crowd:
    """A node that notes how many of its tasks run at once, and lingers a moment so that others may come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._others = threading.Event()
        self.inside = 0
        self.most = 0

    def __call__(self, number: int) -> Update:
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self._others.wait(0.005)
        with self._lock:
            self.inside -= 1
        return {"count": 1}


@pytest.mark.parametrize("limit", [1, 2])
def test_max_concurrency_bounds_the_tasks_of_a_superstep_on_every_driver(drive: Drive, limit: int) -> None:
    crowd = Crowd()
    builder = StateGraph(Words)
    builder.add_node("work", crowd)
    builder.add_conditional_edges(START, twelve, ["work"])

    assert drive.invoke(compiled(builder), {}, {"max_concurrency": limit})["count"] == 12
    assert crowd.most <= limit


async def stops_the_loop(_: Words) -> Update:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(0)
    return {"words": ["on"]}


async def exits_in_a_task_of_its_own(_: Words) -> Update:
    async def exits() -> None:
        raise SystemExit(3)

    await asyncio.gather(exits(), return_exceptions=True)
    return {"words": ["on"]}


@pytest.mark.parametrize("node", [stops_the_loop, exits_in_a_task_of_its_own])
def test_a_node_that_ends_the_event_loop_of_its_worker_process_holds_up_nobody(
    cluster: InProcessCluster, node: Any
) -> None:
    builder = StateGraph(Words)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    graph = compiled(builder).with_cluster(cluster)

    assert [graph.invoke({})["words"] for _ in range(3)] == [["on"]] * 3


def test_a_packet_to_a_node_without_functions_arrives_as_its_argument(cluster: InProcessCluster) -> None:
    def packet(number: int) -> Send:
        return Send("passes", number * 2)

    nodes = {
        "starts": NodeBuilder().subscribe_only("given").do(int).write_to(__pregel_tasks=packet),
        "passes": NodeBuilder().write_to("result"),
    }
    channels: dict[str, object] = {"given": LastValue(int), "result": LastValue(int)}
    graph = Pregel(
        nodes=nodes, channels=channels, input_channels="given", output_channels="result", name="passing packets on"
    )

    assert graph.invoke(3) == graph.with_cluster(cluster).invoke(3) == 6
