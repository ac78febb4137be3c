"""A result for people: like JSON, on one line where it fits, and texts of several lines as they are."""

import json
import re
from collections.abc import Iterator
from typing import Final

from phalanx.cli.values import Json, as_json

INDENT: Final = "  "
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """``text`` without what would steer a terminal: control characters are shown as escapes."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def result_text(value: object, width: int) -> str:
    """What ``phalanx run`` shows of a final state.

    One key after the other, each as JSON, broken over lines when it is wider than ``width``. Strings of several lines
    come last, verbatim, each under its key. A result that is no dict is shown by itself.
    """
    converted = as_json(value)
    if not isinstance(converted, dict):
        return _block(converted) if isinstance(converted, str) else lay_out(converted, width)
    blocks = {key: item for key, item in converted.items() if isinstance(item, str) and "\n" in item.strip("\n")}
    lines = [
        f"{printable(key)}: {lay_out(item, width, len(key) + 2)}"
        for key, item in converted.items()
        if key not in blocks
    ]
    for key, text in blocks.items():
        lines += [*([""] if lines else []), f"{printable(key)}:", _block(text)]
    return "\n".join(lines)


def lay_out(value: Json, width: int, used: int = 0) -> str:
    """``value`` as JSON: on one line if it fits beside the ``used`` columns, else an item a line."""
    return "".join(_pieces(value, width, used, 0))


def _block(text: str) -> str:
    return printable(text.strip("\n").replace("\r\n", "\n"))


def _pieces(value: Json, width: int, used: int, depth: int) -> Iterator[str]:
    flat = _flat(value)
    if not isinstance(value, (dict, list)) or not value or used + len(flat) <= width:
        yield flat
        return
    margin = INDENT * (depth + 1)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    items: list[tuple[str, Json]] = (
        [(f"{_flat(key)}: ", item) for key, item in value.items()]
        if isinstance(value, dict)
        else [("", item) for item in value]
    )
    yield opening
    for number, (label, item) in enumerate(items):
        yield f"{',' if number else ''}\n{margin}{label}"
        yield from _pieces(item, width, len(margin) + len(label) + 1, depth + 1)
    yield f"\n{INDENT * depth}{closing}"


def _flat(value: Json) -> str:
    return printable(json.dumps(value, ensure_ascii=False))
