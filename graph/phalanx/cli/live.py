"""The view for a terminal: two lines that keep up with the run and vanish with it."""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from phalanx.cli.layout import printable
from phalanx.cli.progress import Place, Progress, duration, lost_text

_PER_SECOND: Final = 10
_BAR_COLUMNS: Final = 32


class LiveView(Progress):
    """Draws the run on standard error, ten times a second.

    Args:
        name: the run's graph.
        place: where its tasks go.
        console: where to draw.
    """

    def __init__(self, name: str, place: Place, console: Console | None = None) -> None:
        super().__init__(name, place)
        self._console = console or Console(stderr=True)
        self._spinner = Spinner("dots", style="cyan")
        self._live = self._new_live()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def note(self, text: str) -> None:
        self._console.print(Text(printable(text)), soft_wrap=True)

    @contextmanager
    def above(self) -> Generator[None]:
        self._live.stop()
        try:
            yield
        finally:
            self._live = self._new_live()
            self._live.start()

    def worker_lost(self, worker: str, tasks: int) -> None:
        self._console.print(Text(lost_text(worker, tasks), style="yellow"), soft_wrap=True)

    def _new_live(self) -> Live:
        return Live(console=self._console, get_renderable=self.render, refresh_per_second=_PER_SECOND, transient=True)

    def render(self) -> RenderableType:
        """The lines as they are now."""
        lines: list[RenderableType] = [self._headline()]
        if self.steps_seen:
            lines.append(self._bar())
        if self.waiting:
            lines.append(Text(f"  {self.waiting}", style="yellow"))
        return Group(*lines)

    def _headline(self) -> RenderableType:
        text = Text(self.name, style="bold")
        if self.steps_seen:
            text.append(f"  superstep {self.step}", style="not bold")
            text.append(f"  {self.shown_nodes}", style="not bold cyan")
        line = Table.grid(padding=(0, 1))
        line.add_row(self._spinner, text)
        return line

    def _bar(self) -> RenderableType:
        # A lone task has no parts to count: the bar only moves.
        bar = ProgressBar(self.tasks, self.done, width=_BAR_COLUMNS, pulse=self.tasks == 1 and not self.waiting)
        numbers = Text(f"{self.done:,}/{self.tasks:,}")
        if self.failed:
            numbers.append(f" ({self.failed:,} failed)", style="red")
        line = Table.grid(padding=(0, 2))
        facts = [self.rate, duration(self.clock() - self.began), self.workers]
        line.add_row(Text(""), bar, numbers, *(Text(fact, style="dim") for fact in facts if fact))
        return line


class Forwarded:
    """A pipe whose lines appear above a live view, so that other processes cannot write into the middle of it.

    Attributes:
        writer: the file descriptor to give to the processes.
    """

    def __init__(self, view: LiveView) -> None:
        reader, self.writer = os.pipe()
        self._thread = threading.Thread(target=self._forward, args=(reader, view), name="phalanx-output", daemon=True)
        self._thread.start()

    def started(self) -> None:
        """The processes hold the pipe now; it ends with the last of them."""
        os.close(self.writer)

    def wait(self, timeout_s: float) -> None:
        """Wait until all that they wrote has been shown."""
        self._thread.join(timeout_s)

    @staticmethod
    def _forward(reader: int, view: LiveView) -> None:
        with os.fdopen(reader, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                view.note(line.rstrip("\n"))
