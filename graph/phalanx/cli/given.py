"""The input of a run, as it is given on a command line: JSON, ``@file``, or ``-`` for standard input."""

import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TextIO, cast

from phalanx.cli.exits import CommandError, wrong_usage

_EXCERPT: Final = 30


def read_input(given: str, stdin: TextIO | None = None) -> object:
    """The value that ``--input`` stands for.

    Raises:
        CommandError: the file is missing, or the text is not JSON; the text says where and why.
    """
    if given == "-":
        return parse(_read_stdin(stdin or sys.stdin), "standard input")
    if given.startswith("@"):
        return parse(_read_file(Path(given[1:]).expanduser()), f"file {given[1:]}")
    return parse(given, "--input")


def parse(text: str, where: str) -> object:
    """``text`` as JSON.

    Raises:
        CommandError: it is not; naming ``where`` it came from, the place in it, and what to do.
    """
    if not text.strip():
        raise wrong_usage(f'{where} is empty; give a JSON object of state keys, such as {{"n": 1}}, or {{}}')
    try:
        return cast("object", json.loads(text))
    except json.JSONDecodeError as error:
        raise _not_json(text, where, error) from error
    except RecursionError as error:
        raise wrong_usage(f"{where} is nested too deep to be read") from error
    except ValueError as error:  # a number with more digits than Python reads
        raise wrong_usage(f"{where} cannot be read: {error}") from error


def check_keys(given: object, known: Sequence[str] | None) -> None:
    """Check that an input is an object of known keys, or ``null`` to go on with a thread.

    Args:
        given: the input.
        known: the keys that the graph takes; ``None`` if its state is one value, which may be anything.

    Raises:
        CommandError: it is something else; a key that nobody reads would silently change nothing.
    """
    if given is None or known is None:
        return
    if not isinstance(given, dict):
        raise wrong_usage(f'the input must be a JSON object of state keys, such as {{"n": 1}}; this is {_kind(given)}')
    for key in cast("dict[str, object]", given):
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it takes: {', '.join(known) or 'nothing'}"
            raise wrong_usage(f"the graph's input has no key {key!r}; {hint}")


def _read_stdin(stdin: TextIO) -> str:
    try:
        return stdin.read()
    except UnicodeDecodeError as error:
        raise wrong_usage(f"standard input is not UTF-8 text: {error}") from error


def _read_file(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise wrong_usage(f"--input @{path}: there is no such file (looked in {Path.cwd()})") from error
    except OSError as error:
        raise wrong_usage(f"--input @{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise wrong_usage(f"--input @{path} is not UTF-8 text: {error}") from error


def _not_json(text: str, where: str, error: json.JSONDecodeError) -> CommandError:
    at = f"line {error.lineno}, column {error.colno}"
    return wrong_usage(f"{where} is not JSON: {error.msg} at {at}\n{_excerpt(error)}{_hint(text, where)}")


def _excerpt(error: json.JSONDecodeError) -> str:
    """The line with the mistake, and a mark below it."""
    lines = error.doc.splitlines() or [""]
    line = lines[min(error.lineno, len(lines)) - 1]
    column = error.colno - 1
    start = max(0, column - _EXCERPT)
    shown = "".join(c if c.isprintable() else " " for c in line[start : column + _EXCERPT])
    return f"    {shown}\n    {' ' * (column - start)}^"


def _hint(text: str, where: str) -> str:
    if where == "--input" and len(text) < 1000 and "\x00" not in text and Path(text).is_file():
        return f"\nthere is a file of that name: --input @{text} reads it"
    if "'" in text and '"' not in text:
        return """\nJSON has double quotes; in a shell, put single ones around it: --input '{"n": 1}'"""
    if where == "--input" and '"' not in text and ":" in text:
        return """\ndid the shell take the quotes away? put single ones around all of it: --input '{"n": 1}'"""
    return ""


def _kind(value: object) -> str:
    match value:
        case list():
            return "a list"
        case str():
            return "a string"
        case bool():
            return "true or false"
        case _:
            return "a number"
