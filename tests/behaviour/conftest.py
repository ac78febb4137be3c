"""Every behaviour test runs on three drivers: the calling thread, an event loop, and a cluster in this process.

The in-process cluster is a real server and a real Celery worker in a thread. Values are serialized on their way, but
closures are shared, so tests may count executions in them.

Tests that keep threads run a fourth time: a cluster, with a saver of the graph's own.
"""

from collections.abc import Iterator
from typing import Final

import pytest
from tests.behaviour.reference import ON_REFERENCE, install

if ON_REFERENCE:
    install()

from tests.behaviour.drivers import Drive, Inline, InlineAsync, OnCluster, OnClusterWithSaver, keys_left

from phalanx.testing import in_process_cluster
from phalanx.testing.in_process import InProcessCluster

DRIVERS: Final = ["inline", "inline-async", *([] if ON_REFERENCE else ["cluster"])]
DRIVERS_THAT_KEEP: Final = [*DRIVERS, *([] if ON_REFERENCE else ["cluster-own-saver"])]

CANNOT_HOLD: Final = {
    "inline": {
        "coroutine_nodes": "a coroutine cannot run in a thread without an event loop; ainvoke and clusters run it",
    },
    "inline-async": {
        "siblings_finish": "the first failure cancels coroutines beside it, so what they would have written is lost",
    },
    "cluster": {
        "identity": "values are serialized, so a node gets equal objects, not the same ones",
        "any_object": "a value without a safe encoding cannot travel; the error names node, key and type",
        "durability": "every superstep is durable before the next begins, whatever is asked for",
        "live_control": "a task runs in a worker, which is not told of what its run is asked after the task began",
        "native_errors": "an exception whose class is not made of its arguments, like pydantic's ValidationError, "
        "comes back as a RemoteNodeError with the same text",
    },
    "cluster-own-saver": {
        "called_state": "a saver in this process's memory has not what a worker keeps of graphs that its nodes call",
    },
}
"""What cannot hold on a driver, and why. A test of such a rule asks for the drivers on which it holds with
``@pytest.mark.not_on("driver", "rule")``."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On the reference, leave out what we do otherwise on purpose; on ours, expect what is not there yet to fail."""
    for item in items:
        if ON_REFERENCE:
            for mark in item.iter_markers("ours_only"):
                item.add_marker(pytest.mark.skip(reason=f"only ours: {mark.args[0]}"))
        else:
            for mark in item.iter_markers("not_yet"):
                item.add_marker(pytest.mark.xfail(reason=f"not there yet: {mark.args[0]}", strict=True))


@pytest.fixture(scope="session")
def cluster() -> Iterator[InProcessCluster]:
    """One cluster for the whole session."""
    if ON_REFERENCE:
        pytest.skip("only ours: the reference has no cluster")
    with in_process_cluster() as started:
        yield started


@pytest.fixture(params=DRIVERS)
def drive(request: pytest.FixtureRequest) -> Iterator[Drive]:
    """One way to run graphs. On a cluster every key must be gone or have an end, but for threads that are kept."""
    yield from _drive(request, str(request.param))


@pytest.fixture(params=DRIVERS_THAT_KEEP)
def drive_kept(request: pytest.FixtureRequest) -> Iterator[Drive]:
    """One way to run graphs whose threads are kept; ``drive_kept.keeping(builder)`` compiles such a graph."""
    yield from _drive(request, str(request.param))


def _drive(request: pytest.FixtureRequest, name: str) -> Iterator[Drive]:
    for mark in request.node.iter_markers("not_on"):
        driver, rule = mark.args
        if name.startswith(driver) and (name == driver or driver == "cluster"):
            pytest.skip(CANNOT_HOLD[driver][rule])
    if name == "inline":
        yield Inline()
    elif name == "inline-async":
        yield InlineAsync()
    else:
        cluster: InProcessCluster = request.getfixturevalue("cluster")
        before = {key for key, _ in keys_left(cluster)}
        yield OnCluster(cluster) if name == "cluster" else OnClusterWithSaver(cluster)
        left = {key: ttl for key, ttl in keys_left(cluster) if key not in before}
        assert not [key for key in left if ":{run-" in key], f"keys of runs without a thread: {left}"
        temporary = [key for key, ttl in left.items() if ttl < 0 and not is_kept(key)]
        assert not temporary, f"keys that would stay for ever: {temporary}"
        if name == "cluster-own-saver" and request.node.get_closest_marker("kept_by_workers") is None:
            assert not [key for key in left if "}:" in key], f"working keys of threads kept elsewhere: {left}"


def is_kept(key: str) -> bool:
    """Whether a key belongs to a thread that is kept, and lives as long as it."""
    _, braced, kind = key.partition("}:")
    return bool(braced) and kind.split(":")[0] in ("lease", "blobs", "checkpoints", "index", "about", "writes")
