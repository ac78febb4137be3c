"""The commands, their options and their help. What a command does is in a module of its own, imported when it runs."""

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperCommand

from phalanx.cli.exits import EXIT_CODES, CommandError, ExitCode, OutputClosedError
from phalanx.cli.signals import exit_on_interrupt
from phalanx.cli.streams import results_on_stdout, say
from phalanx.worker.settings import BROKER_URL_VARIABLE, URL_VARIABLE

if TYPE_CHECKING:
    from phalanx.cli.run import Remote

app = typer.Typer(
    name="phalanx",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_ALL_LEVELS: Final = -1


class StreamChoice(StrEnum):
    """What --stream takes."""

    VALUES = "values"
    UPDATES = "updates"


class DrawChoice(StrEnum):
    """What --format takes."""

    MERMAID = "mermaid"
    ASCII = "ascii"
    SVG = "svg"
    JSON = "json"


Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help=f"The state server, such as redis://host:6379/0; {URL_VARIABLE} unless given."
    ),
]
BrokerUrl = Annotated[
    str | None,
    typer.Option(
        "--broker-url",
        metavar="URL",
        help=f"The broker; {BROKER_URL_VARIABLE} unless given, or else the state server.",
    ),
]
Prefix = Annotated[
    str | None, typer.Option("--prefix", help="What all keys on the server start with (default: phalanx:).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Write the result as JSON, and nothing else, to standard output.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        sys.stdout.write(f"phalanx {version('phalanx')}\n")
        raise typer.Exit


@app.callback(epilog=EXIT_CODES)
def phalanx(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Run graphs, in this process or spread over worker processes."""


@app.command(epilog=EXIT_CODES)
def run(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A compiled graph: path/file.py:attribute or pkg.module:attribute.")
    ],
    given: Annotated[
        str,
        typer.Option(
            "--input",
            "-i",
            metavar="JSON|@FILE|-",
            help="The input: a JSON object of state keys, @file, or - for standard input. "
            "null goes on where the thread stopped.",
        ),
    ] = "{}",
    local: Annotated[
        int | None,
        typer.Option("--local", metavar="N", help="Run on an embedded server and N local worker processes."),
    ] = None,
    url: Url = None,
    broker_url: BrokerUrl = None,
    inline: Annotated[
        bool, typer.Option("--inline", help=f"Run in this process, even if {URL_VARIABLE} is set.")
    ] = False,
    stream: Annotated[
        StreamChoice | None,
        typer.Option(
            "--stream",
            help="Write what happens instead of the final state, a line of JSON each: the state after every "
            "superstep (values), or what every task changes (updates).",
        ),
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="ID", help="The thread whose state the run goes on from.")
    ] = None,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show whole tracebacks, those of workers included.")
    ] = False,
    recursion_limit: Annotated[
        int | None, typer.Option("--recursion-limit", min=1, metavar="N", help="The most supersteps of the run.")
    ] = None,
    max_concurrency: Annotated[
        int | None,
        typer.Option("--max-concurrency", min=1, metavar="N", help="The most tasks of a superstep at once."),
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="NAME", help="Where tasks go (default: phalanx).")
    ] = None,
    prefix: Prefix = None,
) -> None:
    """Run a graph and show its final state.

    It runs in this process, on a local cluster (--local), or on the cluster at --url.

    Standard output gets the result alone; progress, and what nodes print, go to standard error.
    """

    def command() -> None:
        from phalanx.cli.run import RunOptions
        from phalanx.cli.run import run as run_graph

        run_graph(
            RunOptions(
                target,
                given,
                _where(local, url, broker_url, queue, prefix, inline=inline),
                stream=stream.value if stream else None,
                thread=thread,
                as_json=as_json,
                quiet=quiet,
                traceback=traceback,
                recursion_limit=recursion_limit,
                max_concurrency=max_concurrency,
            )
        )

    _finish(command)


class _DrawCommand(TyperCommand):
    """``--xray`` may stand alone, which typer's options cannot."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        following = [*args[1:], ""]
        return super().parse_args(
            ctx,
            [
                f"--xray={_ALL_LEVELS}" if given == "--xray" and not after.isdecimal() else given
                for given, after in zip(args, following, strict=True)
            ],
        )


@app.command(cls=_DrawCommand, epilog=EXIT_CODES)
def draw(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="A compiled graph: path/file.py:attribute or pkg.module:attribute.")
    ],
    form: Annotated[
        DrawChoice,
        typer.Option("--format", "-f", help="Mermaid's text, a drawing in characters, an SVG document, or JSON."),
    ] = DrawChoice.MERMAID,
    xray: Annotated[
        int,
        typer.Option(
            "--xray",
            metavar="[DEPTH]",
            show_default=False,
            help="Open up the graphs that nodes run: this many levels, or all of them.",
        ),
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to this file (default: standard output)."),
    ] = None,
) -> None:
    """Draw a graph: its nodes and edges, dotted where a way is only taken sometimes. Nothing of it is run.

    Example: phalanx draw examples/census.py:graph --format svg --output census.svg
    """

    def command() -> None:
        from phalanx.cli.draw import DrawOptions
        from phalanx.cli.draw import draw as draw_graph

        draw_graph(DrawOptions(target, form.value, xray, output))

    _finish(command)


@app.command(epilog=EXIT_CODES)
def worker(
    url: Url = None,
    broker_url: BrokerUrl = None,
    graph: Annotated[
        list[str] | None,
        typer.Option(
            "--graph",
            "-g",
            metavar="NAME=TARGET",
            help="A graph to serve, by its name: census=examples/census.py:graph. May be repeated.",
        ),
    ] = None,
    queues: Annotated[
        str | None,
        typer.Option("--queues", metavar="NAMES", help="What to take tasks from, with commas (default: phalanx)."),
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", "-c", min=1, metavar="N", help="How many processes (default: one a CPU)."),
    ] = None,
    prefix: Prefix = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say only what went wrong.")] = False,
) -> None:
    """Run the tasks of graphs for a cluster, until Ctrl-C or SIGTERM.

    The coordinator and the worker must hold the same version of a graph; a worker that holds another one refuses its
    tasks.

    Example: phalanx worker --url redis://127.0.0.1:6379/0 --graph census=examples/census.py:graph
    """
    if not (url or os.environ.get(URL_VARIABLE)):
        say(f"phalanx: which server? give --url, or set {URL_VARIABLE}")
        raise typer.Exit(ExitCode.USAGE)
    # A URL from the environment stays there: a command line, and a password in it, is for everyone to see.
    given = {
        "--url": url,
        "--broker-url": broker_url,
        "--queues": queues,
        "--concurrency": None if concurrency is None else str(concurrency),
        "--prefix": prefix,
    }
    options = [part for name, value in given.items() if value is not None for part in (name, value)]
    options += [part for each in graph or () for part in ("--graph", each)]
    options += ["--quiet"] if quiet else []
    os.execv(sys.executable, [sys.executable, "-m", "phalanx.worker", *options])


@app.command(epilog=EXIT_CODES)
def workers(url: Url = None, prefix: Prefix = None, as_json: AsJson = False) -> None:
    """List the worker processes of a cluster that are alive."""

    def command() -> None:
        from phalanx.cli.workers import list_workers
        from phalanx.errors import ClusterUnreachableError
        from phalanx.protocol.keys import DEFAULT_PREFIX

        server = url or os.environ.get(URL_VARIABLE)
        if not server:
            raise CommandError(ExitCode.USAGE, f"which server? give --url, or set {URL_VARIABLE}")
        try:
            with results_on_stdout() as results:
                list_workers(server, prefix or DEFAULT_PREFIX, results, as_json=as_json)
        except ClusterUnreachableError as error:
            raise CommandError(ExitCode.UNREACHABLE, str(error)) from error
        except ValueError as error:
            raise CommandError(ExitCode.USAGE, f"--url {server!r} is not a server's URL: {error}") from error

    _finish(command)


def _where(
    local: int | None, url: str | None, broker_url: str | None, queue: str | None, prefix: str | None, *, inline: bool
) -> "int | Remote | None":
    """Where a run goes. What the command line says wins over the environment."""
    from phalanx.cli.run import Remote
    from phalanx.protocol.batch import DEFAULT_QUEUE
    from phalanx.protocol.keys import DEFAULT_PREFIX

    chosen = [name for name, given in (("--local", local is not None), ("--url", url), ("--inline", inline)) if given]
    if len(chosen) > 1:
        raise CommandError(ExitCode.USAGE, f"{' and '.join(chosen)} exclude each other: a run has one place")
    if local is not None:
        if local < 1:
            raise CommandError(ExitCode.USAGE, f"--local {local}: a local cluster needs at least 1 worker")
        return local
    server = None if inline else url or os.environ.get(URL_VARIABLE)
    if not server:
        return None
    broker = broker_url or os.environ.get(BROKER_URL_VARIABLE)
    return Remote(server, broker, queue or DEFAULT_QUEUE, prefix or DEFAULT_PREFIX)


def _finish(command: Callable[[], None]) -> None:
    """Carry a command out and end with its exit code, with a readable line where it failed."""
    try:
        with exit_on_interrupt():  # here, for typer has an answer of its own
            command()
    except CommandError as error:
        say(f"phalanx: {error}")
        raise typer.Exit(error.code) from None
    except OutputClosedError:
        raise typer.Exit(ExitCode.OUTPUT_CLOSED) from None
