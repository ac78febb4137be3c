"""What went wrong, for the person at the terminal: what failed, the error, its notes, and the lines of their own code.

The frames of Phalanx, of the standard library and of installed packages are left out: they are the same whatever the
mistake was. ``--traceback`` shows everything.
"""

import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, cast

from phalanx.cli.exits import ExitCode
from phalanx.cli.layout import printable
from phalanx.errors import (
    ClusterUnreachableError,
    EmptyInputError,
    GraphNotNamedError,
    PhalanxError,
    RemoteNodeError,
    RemoteTraceback,
)

_TASK_NOTE: Final = re.compile(r"During task with name '(?P<node>[^']*)' and id '[^']*'")
_NOT_OWN: Final = re.compile(
    r"""^<frozen
    | [\\/](site|dist)-packages[\\/]
    | [\\/]lib[\\/]python3\.\d+[\\/]
    | [\\/]phalanx[\\/](channels|checkpoint|cli|coordinator|graph|pregel|protocol|testing|worker)[\\/]""",
    re.VERBOSE,
)
_REMOTE_FRAME: Final = re.compile(
    r'^ *File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>.+)\n(?P<code> {4}.*)?', re.M
)
_REMOTE_START: Final = "Traceback (most recent call last):"
_MOST_FRAMES: Final = 6
_MOST_CAUSES: Final = 5

Frame = tuple[str, int, str, str]
"""File, line, function, code."""


def exit_code(error: BaseException) -> ExitCode:
    """What an error that a run ended with means to the caller."""
    if _node_of(error) is not None:
        return ExitCode.FAILED
    if isinstance(error, ClusterUnreachableError) or _is_lost_connection(error):
        return ExitCode.UNREACHABLE
    if isinstance(error, (EmptyInputError, GraphNotNamedError)):
        return ExitCode.USAGE
    return ExitCode.FAILED


def describe(error: BaseException, graph: str, *, full: bool) -> str:
    """A paragraph about an error that a run ended with.

    Args:
        error: the error.
        graph: the graph's name.
        full: with the whole traceback, that of a worker included.
    """
    if full:
        return printable("".join(traceback.format_exception(error)).rstrip("\n")) + f"\n\n{_what_failed(error, graph)}"
    lines = [_what_failed(error, graph), *_notes(error)]
    if not _is_plain(error):
        lines += [*own_frames(error), *_members(error), *_causes(error), "(--traceback shows everything)"]
    return "\n".join(lines)


def headline(error: BaseException) -> str:
    """An error's type and message."""
    if isinstance(error, RemoteNodeError):
        return printable(str(error))
    if isinstance(error, SyntaxError) and error.filename:
        return printable(f"{type(error).__name__}: {error.msg} ({_short(error.filename)}:{error.lineno})")
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ in ("builtins", "phalanx.errors") else _full_name(kind)
    text = _text(error)
    return printable(f"{name}: {text}" if text else name)


def own_frames(error: BaseException) -> list[str]:
    """The lines of the user's own code on the way to an error, innermost last; the last frames if there are none."""
    frames = [*_frames(error)]
    own = [frame for frame in frames if not _NOT_OWN.search(frame[0])]
    if not own and not isinstance(error, PhalanxError):
        own = frames[-2:]
    lines: list[str] = []
    for file, line, name, code in own[-_MOST_FRAMES:]:
        lines.append(f"  {_short(file)}:{line} in {name}")
        lines += [f"      {printable(code.strip())}"] if code.strip() else []
    return lines


def _what_failed(error: BaseException, graph: str) -> str:
    node = _node_of(error)
    if node is not None:
        return f"node {node!r} of graph {graph!r} failed: {headline(error)}"
    if _is_plain(error):
        return printable(_text(error))
    if _is_lost_connection(error):
        return f"the connection to the server was lost: {printable(_text(error))}"
    return f"graph {graph!r} failed: {headline(error)}"


def _is_plain(error: BaseException) -> bool:
    """Whether an error's own text says it all: one of ours, about no node."""
    return isinstance(error, PhalanxError) and _node_of(error) is None


def _is_lost_connection(error: BaseException) -> bool:
    client = sys.modules.get("redis.exceptions")
    return client is not None and isinstance(error, (client.ConnectionError, client.TimeoutError))


def _node_of(error: BaseException) -> str | None:
    for note in _all_notes(error):
        found = _TASK_NOTE.fullmatch(note)
        if found:
            return found["node"]
    return None


def _all_notes(error: BaseException) -> list[str]:
    notes: object = getattr(error, "__notes__", ())
    return [str(note) for note in cast("Iterable[object]", notes)] if isinstance(notes, (list, tuple)) else []


def _notes(error: BaseException) -> Iterator[str]:
    for note in _all_notes(error):
        if not _TASK_NOTE.fullmatch(note):
            yield f"  note: {printable(note)}"


def _members(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        for member in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield f"  - {headline(member)}"


def _causes(error: BaseException) -> Iterator[str]:
    """The errors that led to an error. Those of a worker are in its traceback's text only."""
    for _ in range(_MOST_CAUSES):
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if cause is None or isinstance(cause, RemoteTraceback):
            return
        yield f"  caused by {headline(cause)}"
        error = cause


def _frames(error: BaseException) -> Iterator[Frame]:
    if isinstance(error.__cause__, RemoteTraceback):
        _, _, last = error.__cause__.text.rpartition(_REMOTE_START)
        for found in _REMOTE_FRAME.finditer(last):
            yield found["file"], int(found["line"]), found["name"], found["code"] or ""
        return
    for frame in traceback.extract_tb(error.__traceback__):
        yield frame.filename, frame.lineno or 0, frame.name, frame.line or ""


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:  # a user's __str__
        return f"<its str() raises {type(problem).__name__}>"


def _full_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "__main__" else f"{kind.__module__}.{kind.__qualname__}"


def _short(file: str) -> str:
    """A path as seen from here, if it lies below."""
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except ValueError:
        return file
