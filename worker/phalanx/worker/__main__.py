"""``python -m phalanx.worker``: a worker of one machine. ``phalanx worker`` runs this with the same options."""

import argparse
import logging
import multiprocessing
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from celery.exceptions import SecurityWarning

from phalanx.checkpoint.redis.client import check_reachable
from phalanx.errors import ClusterUnreachableError, PhalanxError
from phalanx.protocol.batch import DEFAULT_QUEUE
from phalanx.protocol.keys import DEFAULT_PREFIX
from phalanx.worker.app import create_app
from phalanx.worker.registry import GraphRegistry, targets_in_file
from phalanx.worker.settings import BROKER_URL_VARIABLE, URL_VARIABLE, WorkerSettings

USAGE_ERROR: Final = 2
UNREACHABLE: Final = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a worker until it is told to stop. Returns 2 for wrong options or graphs, 3 when no server answers."""
    options = _parser().parse_args(arguments)
    _log(quiet=options.quiet)
    settings = WorkerSettings(
        url=options.url,
        broker_url=options.broker_url or "",
        queues=tuple(queue for queue in options.queues.split(",") if queue),
        concurrency=options.concurrency,
        graphs_file=options.graphs_file,
        prefix=options.prefix,
    )
    if not options.graph and settings.graphs_file is None:
        return _fail(ValueError("a worker needs graphs to run: --graph census=examples/census.py:graph"), USAGE_ERROR)
    try:
        registry = _registry(options.graph, settings)
        check_reachable(settings.url)
    except ClusterUnreachableError as error:
        return _fail(error, UNREACHABLE)
    except (PhalanxError, ValueError) as error:
        return _fail(error, USAGE_ERROR)
    known = ", ".join(registry.names) or "none yet"
    logging.getLogger("phalanx.worker").info(
        "worker of queues %s with %d processes; graphs: %s", ",".join(settings.queues), settings.concurrency, known
    )
    # Celery warns a worker that runs as root because of pickle, which this one does not accept.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    if options.quiet:  # Celery announces its shutdown there, past every logger
        setattr(sys, "__stdout__", open(os.devnull, "w", encoding="utf-8"))  # noqa: B010, SIM115 - open to the end
    if settings.graphs_file is not None:
        # The pool's scratch folder: within the local cluster's own, which is removed even if the pool was killed.
        getattr(multiprocessing.current_process(), "_config")["tempdir"] = str(settings.graphs_file.parent)  # noqa: B009
    app = create_app(settings, registry)
    app.worker_main(
        [
            *("--quiet", "worker", "--pool", "prefork", "--concurrency", str(settings.concurrency)),
            *("--queues", ",".join(settings.queues), "--hostname", "phalanx@%h"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
            *("--loglevel", "ERROR" if options.quiet else "WARNING"),
        ]
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="phalanx worker", description="Run the tasks of graphs for a cluster.")
    url, broker_url = os.environ.get(URL_VARIABLE), os.environ.get(BROKER_URL_VARIABLE)
    parser.add_argument(
        "--url",
        default=url,
        required=not url,
        help=f"the state server, such as redis://127.0.0.1:6379/0 ({URL_VARIABLE})",
    )
    parser.add_argument(
        "--broker-url", default=broker_url, help=f"the broker, where it is another server ({BROKER_URL_VARIABLE})"
    )
    parser.add_argument(
        "--graph", action="append", default=[], metavar="NAME=TARGET", help="a graph, by name; may be repeated"
    )
    parser.add_argument("--graphs-file", type=Path, help="a JSON file of names and targets, read when one is wanted")
    parser.add_argument("--queues", default=DEFAULT_QUEUE, help="what to take tasks from, separated by commas")
    parser.add_argument("--concurrency", type=_at_least_one, default=WorkerSettings("").concurrency)
    parser.add_argument("--prefix", default=DEFAULT_PREFIX, help="what all keys start with")
    parser.add_argument("--quiet", action="store_true", help="say only what went wrong")
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _registry(graphs: Sequence[str], settings: WorkerSettings) -> GraphRegistry:
    registry = GraphRegistry(targets_in_file(settings.graphs_file) if settings.graphs_file else None)
    for given in graphs:
        name, separator, target = given.partition("=")
        if not separator or not name or not target:
            raise ValueError(f"--graph {given!r} is not NAME=TARGET, such as census=examples/census.py:graph")
        registry.add_target(name, target)
    return registry


def _log(*, quiet: bool) -> None:
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.WARNING if quiet else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    logging.getLogger("celery").setLevel(logging.ERROR if quiet else logging.WARNING)


def _fail(error: Exception, code: int) -> int:
    sys.stderr.write(f"phalanx worker: {error}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
