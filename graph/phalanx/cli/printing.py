"""Writing results: for programs as JSON, for people laid out, in colour on a terminal."""

import json
import shutil
from typing import Final

from phalanx.cli.layout import lay_out, result_text
from phalanx.cli.streams import Results
from phalanx.cli.values import as_json, dump

_NARROWEST: Final = 40
_WIDTH_OF_FILES: Final = 120


class Printer:
    """Writes what a run returns or streams.

    Args:
        results: where to.
        as_json: only JSON: a document for the result, a line for each streamed chunk.
    """

    def __init__(self, results: Results, *, as_json: bool) -> None:
        self._results = results
        self.on_terminal = results.is_terminal
        self._as_json = as_json

    def result(self, value: object) -> None:
        """Write a final state."""
        if self._as_json:
            self._results.write(f"{json.dumps(as_json(value), ensure_ascii=False, indent=2)}\n")
        else:
            self._show(result_text(value, self._width))

    def chunk(self, value: object) -> None:
        """Write one streamed chunk. A pipe gets a line of JSON."""
        if self._as_json or not self._results.is_terminal:
            self._results.write(f"{dump(value)}\n")
        else:
            self._show(lay_out(as_json(value), self._width))

    @property
    def _width(self) -> int:
        if not self._results.is_terminal:
            return _WIDTH_OF_FILES
        return max(_NARROWEST, shutil.get_terminal_size().columns)

    def _show(self, text: str) -> None:
        if self._results.is_terminal:
            show_in_colour(self._results, text)
        else:
            self._results.write(f"{text}\n")


def show_in_colour(results: Results, text: str) -> None:
    """Write ``text`` to a terminal with JSON's parts coloured. Nothing is wrapped: the terminal does that."""
    from rich.console import Console
    from rich.highlighter import JSONHighlighter
    from rich.text import Text

    console = Console(soft_wrap=True)
    shown = Text(text)
    JSONHighlighter().highlight(shown)
    with console.capture() as captured:
        console.print(shown)
    results.write(captured.get())
