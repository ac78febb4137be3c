"""Names in pictures: how wide they are, and none that could do more than be read."""

import unicodedata
from typing import Final

_HARMLESS_FORMAT: Final = "\u200d"  # joins the parts of one emoji
_NOT_IN_XML: Final = "\ufffe\uffff"


def visible(text: str) -> str:
    """``text`` on one line; what steers a terminal or turns the writing direction is shown as an escape."""
    return "".join(_escape(char) if _is_hidden(char) else char for char in text)


def width_of(text: str) -> int:
    """How many columns of a terminal ``text`` takes."""
    return sum(columns_of(char) for char in text)


def columns_of(char: str) -> int:
    """How many columns of a terminal a character takes; none if it joins the one before."""
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def shortened(text: str, columns: int) -> str:
    """``text``, cut off with a mark if it takes more columns."""
    if width_of(text) <= columns:
        return text
    kept = ""
    for char in text:
        if width_of(kept) + columns_of(char) >= columns:
            break
        kept += char
    return f"{kept}~"


def _is_hidden(char: str) -> bool:
    category = unicodedata.category(char)
    if category == "Cf":
        return char not in _HARMLESS_FORMAT
    return category in ("Cc", "Cs", "Zl", "Zp") or char in _NOT_IN_XML


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
