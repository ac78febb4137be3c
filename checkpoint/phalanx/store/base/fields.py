"""The texts in a value, by paths.

==================  ============================================================
``""`` or ``"$"``   all of it, as JSON
``"a.b"``           field ``b`` of field ``a``
``"a[0]"``          one entry of a list; from its end with ``[-1]``
``"a[*]"``          each entry of a list
``"a.*"``           each field of a dict, or each entry of a list
``"a.{b,c.d}"``     several fields; nothing after it is looked at
==================  ============================================================

What a path leads to counts as text if it is one, or a number or truth value; lists and dicts count as JSON. A path that
leads nowhere finds nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

WHOLE: Final = "$"

_CLOSING: Final = {"[": "]", "{": "}"}


def tokenize_path(path: str) -> list[str]:
    """The steps of a path: names, and brackets and braces with what is in them."""
    tokens: list[str] = []
    name_from = at = 0
    while at < len(path):
        if path[at] == "." or path[at] in _CLOSING:
            tokens.append(path[name_from:at])
            name_from = at + 1 if path[at] == "." else _end_of_group(path, at)
            tokens.append(path[at + (path[at] == ".") : name_from])
            at = name_from
        else:
            at += 1
    tokens.append(path[name_from:])
    return [token for token in tokens if token]


def get_text_at_path(obj: Any, path: str | list[str]) -> list[str]:
    """The texts that a path leads to.

    Args:
        obj: a value as it is put in a store.
        path: a path, or its steps.

    Raises:
        TypeError: JSON does not know something on the way.
    """
    if isinstance(obj, Mapping):
        obj = cast("object", {**obj})
    if not path or path == WHOLE:
        return [_as_json(obj)]
    texts = map(_text, _ends(obj, tokenize_path(path) if isinstance(path, str) else path))
    return [text for text in texts if text is not None]


def _end_of_group(path: str, start: int) -> int:
    """The place behind the bracket or brace that closes the one at ``start``; the path's end if none does."""
    opening, closing, depth = path[start], _CLOSING[path[start]], 0
    for at in range(start, len(path)):
        depth += (path[at] == opening) - (path[at] == closing)
        if depth == 0:
            return at + 1
    return len(path)


def _ends(value: object, tokens: Sequence[str]) -> Iterator[object]:
    if not tokens:
        yield value
        return
    token, rest = tokens[0], tokens[1:]
    if token[0] == "{" and token[-1] == "}":
        yield from _selected(value, token[1:-1].split(","))
        return
    for part in _parts(value, token):
        yield from _ends(part, rest)


def _parts(value: object, token: str) -> Iterable[object]:
    """Where one step leads."""
    if token == "*" and isinstance(value, dict):
        return cast("dict[object, object]", value).values()
    in_brackets = token[0] == "[" and token[-1] == "]"
    if isinstance(value, list) and (in_brackets or token == "*"):
        items = cast("list[object]", value)
        return items if token in ("*", "[*]") else _entry(items, token[1:-1])
    if isinstance(value, dict) and not in_brackets and token in value:
        return [cast("dict[str, object]", value)[token]]
    return []


def _entry(items: list[object], position: str) -> list[object]:
    try:
        return [items[int(position)]]
    except (ValueError, IndexError):
        return []


def _selected(value: object, paths: Iterable[str]) -> Iterator[object]:
    for path in paths:
        names = tokenize_path(path.strip())
        found = value
        for name in names:
            found = cast("dict[str, object]", found).get(name) if isinstance(found, dict) else None
        if names:
            yield found


def _text(value: object) -> str | None:
    if isinstance(value, str | int | float):
        return str(value)
    return _as_json(cast("object", value)) if isinstance(value, list | dict) else None


def _as_json(value: object) -> str:
    import json  # only where something is indexed

    return json.dumps(value, sort_keys=True, ensure_ascii=False)


__all__ = ["get_text_at_path", "tokenize_path"]
