"""``phalanx run``: load a graph, run it here, on a local cluster or on one elsewhere, and show what comes of it."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, aclosing, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, cast

from phalanx.cli.exits import CommandError, OutputClosedError, wrong_usage
from phalanx.cli.failures import describe, exit_code
from phalanx.cli.given import check_keys, read_input
from phalanx.cli.graphs import input_keys, load_graph
from phalanx.cli.lines import LineView
from phalanx.cli.printing import Printer
from phalanx.cli.progress import Place, Progress
from phalanx.cli.streams import results_on_stdout, say
from phalanx.config import RunnableConfig
from phalanx.pregel import Pregel
from phalanx.protocol.batch import DEFAULT_QUEUE
from phalanx.protocol.keys import DEFAULT_PREFIX

if TYPE_CHECKING:
    from phalanx.cli.live import Forwarded
    from phalanx.coordinator.cluster import Cluster

_LAST_LINES_S: Final = 3.0

Stream = Literal["values", "updates"]


@dataclass(frozen=True, slots=True)
class Remote:
    """A cluster elsewhere."""

    url: str
    broker_url: str | None = None
    queue: str = DEFAULT_QUEUE
    prefix: str = DEFAULT_PREFIX


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the user asked for.

    Attributes:
        where: a number of local workers, a cluster elsewhere, or ``None`` for this process.
    """

    target: str
    given: str = "{}"
    where: int | Remote | None = None
    stream: Stream | None = None
    thread: str | None = None
    as_json: bool = False
    quiet: bool = False
    traceback: bool = False
    recursion_limit: int | None = None
    max_concurrency: int | None = None


def run(options: RunOptions) -> None:
    """Run the graph and write its result.

    Raises:
        CommandError: saying what to tell the user, and the exit code.
    """
    logging.getLogger("phalanx").addHandler(logging.NullHandler())  # the view says all that the log would
    with results_on_stdout() as results:
        graph = load_graph(options.target)
        given = read_input(options.given)
        check_keys(given, input_keys(graph))
        if given is None and options.thread is None:
            raise wrong_usage("--input null goes on with a thread that has stopped: say which one with --thread ID")
        config = _config(graph, options)
        printer = Printer(results, as_json=options.as_json)
        try:
            _run_somewhere(graph, given, config, options, printer)
        except (CommandError, OutputClosedError):
            raise
        except Exception as error:
            text = describe(error, graph.name or options.target, full=options.traceback)
            raise CommandError(exit_code(error), text) from error


def _config(graph: Pregel, options: RunOptions) -> RunnableConfig:
    """The run's config. A graph that keeps threads needs to know which."""
    config: RunnableConfig = {}
    if options.thread is not None:
        config["configurable"] = {"thread_id": options.thread}
    elif graph.checkpointer is not None and "thread_id" not in graph.config.get("configurable", {}):
        raise wrong_usage(f"{options.target!r} keeps the state of threads: say which one with --thread ID")
    if options.recursion_limit is not None:
        config["recursion_limit"] = options.recursion_limit
    if options.max_concurrency is not None:
        config["max_concurrency"] = options.max_concurrency
    return config


def _run_somewhere(graph: Pregel, given: object, config: RunnableConfig, options: RunOptions, printer: Printer) -> None:
    with ExitStack() as stack:
        view = _view(graph.name or options.target, options)
        if options.thread is not None and graph.checkpointer is None and not isinstance(options.where, Remote):
            view.note(
                f"nothing keeps thread {options.thread!r} once this command has ended: "
                f"use --url, or compile the graph with a checkpointer"
            )
        result = stack.enter_context(_placed(graph, view, options))
        outcome = _execute(result, given, config, options.stream, view, printer)
    if options.stream is None:
        printer.result(outcome)
    if not options.quiet:
        say(view.summary)


def _view(name: str, options: RunOptions) -> Progress:
    """How the run is shown on standard error."""
    place = _place(name, options)
    if options.quiet:
        return Progress(name, place)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        from phalanx.cli.live import LiveView

        return LiveView(name, place)
    return LineView(name, place, say)


def _place(name: str, options: RunOptions) -> Place:
    match options.where:
        case int() as workers:
            return Place(local_workers=workers)
        case Remote() as remote:
            return Place(start_hint=f"phalanx worker {_worker_options(remote)} --graph {name}={options.target}")
        case None:
            return Place()


def _worker_options(remote: Remote) -> str:
    """The options of a worker that serves the same cluster."""
    from phalanx.checkpoint.redis.client import without_password

    options = [f"--url {without_password(remote.url)}"]
    if remote.broker_url:
        options.append(f"--broker-url {without_password(remote.broker_url)}")
    if remote.queue != DEFAULT_QUEUE:
        options.append(f"--queues {remote.queue}")
    if remote.prefix != DEFAULT_PREFIX:
        options.append(f"--prefix {remote.prefix}")
    return " ".join(options)


@contextmanager
def _placed(graph: Pregel, view: Progress, options: RunOptions) -> Generator[Pregel]:
    """The graph where it is to run, with its view up; clusters of our own end with the context."""
    if options.where is None:
        with view:
            yield graph
    elif isinstance(options.where, Remote):
        with _elsewhere(options.where) as cluster, view:
            yield graph.with_cluster(cluster)
    else:
        with view, _local(options.where, view) as cluster:
            cluster.announce_target(graph, options.target)
            yield graph.with_cluster(cluster)


def _elsewhere(where: Remote) -> "Cluster":
    from phalanx.coordinator.cluster import Cluster

    try:
        return Cluster(where.url, broker_url=where.broker_url, queue=where.queue, prefix=where.prefix)
    except ValueError as error:
        raise wrong_usage(f"--url {where.url!r} is not a server's URL: {error}") from error


@contextmanager
def _local(workers: int, view: Progress) -> "Generator[Cluster]":
    """A local cluster; what its nodes print appears above a live view."""
    from phalanx.coordinator.cluster import Cluster

    forwarded = _forwarded(view)
    if forwarded is None:
        with Cluster.local(workers) as cluster:
            yield cluster
        return
    try:
        cluster = Cluster.local(workers, stderr=forwarded.writer)
    finally:
        forwarded.started()
    with cluster:
        yield cluster
    forwarded.wait(_LAST_LINES_S)


def _forwarded(view: Progress) -> "Forwarded | None":
    if isinstance(view, LineView) or type(view) is Progress:
        return None
    from phalanx.cli.live import Forwarded, LiveView

    return Forwarded(view) if isinstance(view, LiveView) else None


def _execute(
    graph: Pregel, given: object, config: RunnableConfig, stream: Stream | None, view: Progress, printer: Printer
) -> object:
    """Run to the end; returns the final state unless chunks were written as they came."""

    def show(chunk: object) -> None:
        with view.above() if printer.on_terminal else nullcontext():
            printer.chunk(chunk)

    if graph.cluster is None and graph.blueprint.async_nodes:
        return asyncio.run(_execute_async(graph, given, config, stream, view, show))
    if stream is None:
        result: object = graph.invoke(given, config, observer=view)
        return result
    streamed = cast("Generator[object]", graph.stream(given, config, stream_mode=stream, observer=view))
    with closing(streamed) as chunks:
        for chunk in chunks:
            show(chunk)
    return None


async def _execute_async(
    graph: Pregel,
    given: object,
    config: RunnableConfig,
    stream: Stream | None,
    view: Progress,
    show: Callable[[object], None],
) -> object:
    if stream is None:
        result: object = await graph.ainvoke(given, config, observer=view)
        return result
    streamed = cast("AsyncGenerator[object]", graph.astream(given, config, stream_mode=stream, observer=view))
    async with aclosing(streamed) as chunks:
        async for chunk in chunks:
            show(chunk)
    return None
