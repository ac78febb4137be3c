"""Random threads, here and on the installed ``langgraph``: graphs that ask and stop, what is done on their threads, and
all that the threads show after each act.

``PHALANX_DIFFERENTIAL_EXAMPLES`` and ``PHALANX_DIFFERENTIAL_FIRST`` are as for random graphs, of which there are twice
as many. A thread that differs is made smaller before it is shown.
"""

import asyncio
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest
from tests.differential.comparing import Different
from tests.differential.shrinking import shrunk
from tests.differential.threads_comparing import check_same_acts, difference
from tests.differential.threads_plans import KINDS, Act, Kind, Thread, thread_plan
from tests.differential.threads_running import Running

from phalanx.testing import in_process_cluster
from phalanx.testing.in_process import InProcessCluster

EXAMPLES: Final = int(os.environ.get("PHALANX_DIFFERENTIAL_EXAMPLES", "2100")) // 2
FIRST: Final = int(os.environ.get("PHALANX_DIFFERENTIAL_FIRST", "0"))
CHUNK: Final = 50

WAYS: Final[list[tuple[Kind, str]]] = [(kind, way) for way in ("sync", "async") for kind in KINDS]
EACH: Final = max(1, EXAMPLES // len(WAYS))
CHUNKS: Final = [
    pytest.param(kind, way, range(first, min(first + CHUNK, FIRST + EACH)), id=f"{kind}-{way}-{first}")
    for kind, way in WAYS
    for first in range(FIRST, FIRST + EACH, CHUNK)
]
ON_CLUSTER: Final = max(1, EXAMPLES // 25 // len(KINDS))


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Joins that wait for ever are told in the log."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    with in_process_cluster() as started:
        yield started


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "way", "numbers"), CHUNKS)
def test_random_threads_behave_as_on_langgraph(kind: Kind, way: str, numbers: range, loop: asyncio.Runner) -> None:
    runner = loop if way == "async" else None
    for number in numbers:
        plan = thread_plan(kind, number, asynchronous=way == "async")
        if found := difference(plan, runner):
            smallest = shrunk(plan, lambda tried: _differs(tried, runner))
            pytest.fail(f"{kind} thread {number}, {way}: {smallest}\n{difference(smallest, runner) or found}")


def _differs(plan: Thread, runner: asyncio.Runner | None) -> bool:
    try:
        return difference(plan, runner) is not None
    except Exception:  # what came out cannot be built
        return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_random_threads_behave_on_a_cluster_as_inline(kind: Kind, cluster: InProcessCluster) -> None:
    for number in range(FIRST, FIRST + ON_CLUSTER):
        plan = thread_plan(kind, number)
        plan = replace(plan, acts=tuple(_that_a_cluster_does(act, plan) for act in plan.acts[:4]))
        try:
            check_same_acts(plan, Running("phalanx", plan, cluster=cluster), Running("phalanx", plan))
        except Different as error:
            pytest.fail(f"{kind} thread {number}: {plan}\n{error}")


def _that_a_cluster_does(act: Act, plan: Thread) -> Act:
    """An act as a cluster does it: each step is durable, and graphs that nodes call show nothing while they run."""
    calls = any("call" in node.body for graph in plan.graph.graphs for node in graph.nodes)
    return replace(act, durability="sync", way="stream" if calls else act.way)
