"""``phalanx draw``: load a graph and write what it looks like."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from phalanx.cli.exits import CommandError, ExitCode, wrong_usage
from phalanx.cli.graphs import load_graph
from phalanx.cli.streams import results_on_stdout, say
from phalanx.cli.values import as_json

if TYPE_CHECKING:
    from phalanx.pregel.drawing import Graph

Format = Literal["mermaid", "ascii", "svg", "json"]


@dataclass(frozen=True, slots=True)
class DrawOptions:
    """What the user asked for.

    Attributes:
        xray: how many levels of subgraphs to open up; -1 for all.
        output: the file to write; standard output unless given.
    """

    target: str
    format: Format = "mermaid"
    xray: int = 0
    output: Path | None = None


def draw(options: DrawOptions) -> None:
    """Draw the graph and write the picture.

    Raises:
        CommandError: saying what to tell the user, and the exit code.
    """
    with results_on_stdout() as results:
        graph = load_graph(options.target)
        picture = graph.get_graph(xray=True if options.xray < 0 else options.xray)
        text = _rendered(picture, options.format)
        if options.output is None:
            results.write(text)
        else:
            _write_file(options.output, text)
            say(f"wrote {options.output}: {len(picture.nodes)} nodes, {len(picture.edges)} edges")


def _rendered(picture: "Graph", form: Format) -> str:
    if form == "mermaid":
        return picture.draw_mermaid()
    if form == "json":
        return f"{json.dumps(as_json(picture.to_json()), ensure_ascii=False, indent=2)}\n"
    from phalanx.pregel.drawing.layout import DrawingExtraMissingError

    try:
        return picture.draw_svg() if form == "svg" else f"{picture.draw_ascii()}\n"
    except DrawingExtraMissingError as error:
        raise wrong_usage(f"--format {form}: {error}; --format mermaid needs nothing more") from error


def _write_file(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"--output {path} cannot be written: {error.strerror}") from error
