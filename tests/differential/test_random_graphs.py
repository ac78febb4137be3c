"""Random graphs, here and on the installed ``langgraph``: the same streams, states, errors, executions.

``PHALANX_DIFFERENTIAL_EXAMPLES`` sets how many graphs are compared, ``PHALANX_DIFFERENTIAL_FIRST`` the number of the
first one; a graph with a number is always the same. One that differs is made smaller before it is shown.
"""

import asyncio
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest
from tests.differential.bare_graphs import bare_plan
from tests.differential.comparing import Different, check_same_turns, difference
from tests.differential.plans import KINDS, Kind, graph_plan
from tests.differential.running import AnyPlan, Running
from tests.differential.shrinking import shrunk

from phalanx.testing import in_process_cluster
from phalanx.testing.in_process import InProcessCluster

EXAMPLES: Final = int(os.environ.get("PHALANX_DIFFERENTIAL_EXAMPLES", "2100"))
FIRST: Final = int(os.environ.get("PHALANX_DIFFERENTIAL_FIRST", "0"))
CHUNK: Final = 50

EVERY_KIND: Final = (*KINDS, "bare")
WAYS: Final = [(kind, way) for way in ("sync", "async") for kind in EVERY_KIND]
EACH: Final = max(1, EXAMPLES // len(WAYS))
CHUNKS: Final = [
    pytest.param(kind, way, range(first, min(first + CHUNK, FIRST + EACH)), id=f"{kind}-{way}-{first}")
    for kind, way in WAYS
    for first in range(FIRST, FIRST + EACH, CHUNK)
]
ON_CLUSTER: Final = max(1, EXAMPLES // 50 // len(EVERY_KIND))


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Random graphs name unknown nodes all the time; their warnings would fill the memory."""
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


def plan_of(kind: str, number: int, *, asynchronous: bool) -> AnyPlan:
    if kind == "bare":
        return bare_plan(number, asynchronous=asynchronous)
    chosen: Kind = next(each for each in KINDS if each == kind)
    return graph_plan(chosen, number, asynchronous=asynchronous)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "way", "numbers"), CHUNKS)
def test_random_graphs_behave_as_on_langgraph(kind: str, way: str, numbers: range, loop: asyncio.Runner) -> None:
    runner = loop if way == "async" else None
    for number in numbers:
        plan = plan_of(kind, number, asynchronous=way == "async")
        if difference(plan, runner):
            smallest = shrunk(plan, lambda tried: _differs(tried, runner))
            pytest.fail(f"{kind} graph {number}, {way}: {smallest}\n{difference(smallest, runner)}")


def _differs(plan: AnyPlan, runner: asyncio.Runner | None) -> bool:
    try:
        return difference(plan, runner) is not None
    except Exception:  # what came out cannot be built
        return False


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", EVERY_KIND)
def test_random_graphs_behave_on_a_cluster_as_inline(kind: str, cluster: InProcessCluster) -> None:
    for number in range(FIRST, FIRST + ON_CLUSTER):
        plan = plan_of(kind, number, asynchronous=False)
        plan = replace(plan, turns=plan.turns[:2])
        try:
            check_same_turns(plan, Running("phalanx", plan, cluster=cluster), Running("phalanx", plan))
        except Different as error:
            pytest.fail(f"{kind} graph {number}: {plan}\n{error}")
