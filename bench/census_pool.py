"""The census's own parsing, serially and on a bare `multiprocessing.Pool`: the yardstick for the cluster's speed-up.

python bench/census_pool.py --processes 2
"""

import argparse
import functools
import importlib.util
import json
import multiprocessing
import os
import sys
import sysconfig
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any


def load_census() -> ModuleType:
    """Import `examples/census.py` by its path, once a process."""
    name = "phalanx_example_census"
    if name not in sys.modules:
        path = Path(__file__).resolve().parent.parent / "examples" / "census.py"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot load {path}")
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def standard_library() -> list[str]:
    """Return the absolute path of every file the census counts by default."""
    root = sysconfig.get_path("stdlib")
    return [os.path.join(root, path) for path in load_census().python_files(root)]


def serial_seconds(files: Sequence[str]) -> float:
    """Time the count of `files` (absolute paths) in this process."""
    chunks = _chunks(files)
    started = time.perf_counter()
    _merged(map(_count, chunks))
    return time.perf_counter() - started


def pool_seconds(files: Sequence[str], processes: int = 2) -> float:
    """Time the same count, in the same chunks, on a pool; starting the pool is not timed."""
    chunks = _chunks(files)
    with multiprocessing.Pool(processes, initializer=load_census) as pool:
        pool.map(abs, range(processes))  # every process is up and running
        started = time.perf_counter()
        _merged(pool.imap_unordered(_count, chunks))
        return time.perf_counter() - started


def _chunks(files: Sequence[str]) -> list[list[str]]:
    census = load_census()
    chunks: list[list[str]] = census.balanced({path: os.path.getsize(path) for path in files}, census.FILES_PER_CHUNK)
    return chunks


def _count(paths: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = load_census().count({"root": "", "paths": paths})
    return result


def _merged(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Merge as the graph's reducers do, so that both sides of a comparison do the same work."""
    census = load_census()
    reducers = {
        "totals": census.merge,
        "hosts": census.merge,
        "processes": census.merge,
        "most_complex": census.leaders,
        "unparsable": census.gather,
    }
    return functools.reduce(lambda left, right: {k: add(left[k], right[k]) for k, add in reducers.items()}, results)


def main() -> None:
    """Print one JSON line with both timings and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    files = standard_library()
    serial, pool = serial_seconds(files), pool_seconds(files, options.processes)
    figures = {
        "bench": "census_pool",
        "files": len(files),
        "processes": options.processes,
        "serial_s": round(serial, 3),
        "pool_s": round(pool, 3),
        "speed_up": round(serial / pool, 3),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
