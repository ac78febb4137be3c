"""Errors, and whether trying again may help: what ``default_retry_on`` says of each, here and in the reference."""

import errno
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from phalanx.errors import NodeTimeoutError


class UnknownTroubleError(Exception):
    """Of a kind that no library knows."""


class LostConnectionError(ConnectionError):
    """A lost connection of somebody's own kind."""


_INSTALLED: Final = all(find_spec(name) for name in ("httpx", "requests"))  # they come with the reference
httpx: Any = import_module("httpx") if _INSTALLED else None
requests: Any = import_module("requests") if _INSTALLED else None


def httpx_status(status: int) -> Exception:
    """What ``raise_for_status`` of httpx raises."""
    request = httpx.Request("GET", "http://localhost")
    error: Exception = httpx.HTTPStatusError(
        "status", request=request, response=httpx.Response(status, request=request)
    )
    return error


def requests_status(status: int) -> Exception:
    """What ``raise_for_status`` of requests raises."""
    response = requests.Response()
    response.status_code = status
    error: Exception = requests.HTTPError("status", response=response)
    return error


def _of_clients() -> Sequence[tuple[Exception, bool]]:
    return [
        (httpx_status(400), False),
        (httpx_status(404), False),
        (httpx_status(429), False),
        (httpx_status(499), False),
        (httpx_status(500), True),
        (httpx_status(503), True),
        (httpx_status(599), True),
        (httpx.ConnectError("no"), True),
        (httpx.ReadTimeout("no"), True),
        (httpx.InvalidURL("no"), True),
        (requests_status(500), True),
        (requests_status(503), True),
        (requests_status(600), False),
        (requests.HTTPError("without a response"), True),
        (requests.ConnectionError(), False),
        (requests.Timeout(), False),
        (requests.exceptions.InvalidURL(), False),
    ]


CASES: Final[Sequence[tuple[Exception, bool]]] = [
    (ConnectionError(), True),
    (ConnectionResetError(), True),
    (ConnectionRefusedError(), True),
    (BrokenPipeError(), True),
    (LostConnectionError(), True),
    (UnknownTroubleError(), True),
    (Exception(), True),
    (AssertionError(), True),
    (AttributeError(), True),
    (EOFError(), True),
    (MemoryError(), True),
    (BufferError(), True),
    (ExceptionGroup("several", [ValueError()]), True),
    (ValueError(), False),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"), False),
    (TypeError(), False),
    (ArithmeticError(), False),
    (ZeroDivisionError(), False),
    (OverflowError(), False),
    (ImportError(), False),
    (ModuleNotFoundError(), False),
    (LookupError(), False),
    (KeyError(), False),
    (IndexError(), False),
    (NameError(), False),
    (UnboundLocalError(), False),
    (SyntaxError(), False),
    (IndentationError(), False),
    (RuntimeError(), False),
    (RecursionError(), False),
    (NotImplementedError(), False),
    (ReferenceError(), False),
    (StopIteration(), False),
    (StopAsyncIteration(), False),
    (OSError(), False),
    (OSError(errno.ENOSPC, "full"), False),
    (FileNotFoundError(), False),
    (PermissionError(), False),
    (TimeoutError(), False),
    *(_of_clients() if _INSTALLED else ()),
]
"""What we and the reference say alike."""

OURS: Final[Sequence[tuple[Exception, bool]]] = [
    (requests_status(status), False) for status in (400, 404, 429) if _INSTALLED
]
"""A mistake of the reference: a response of requests with an error's status is false, and is taken for none."""


def shown(value: Any) -> str | None:
    """The id of a case."""
    if not isinstance(value, Exception):
        return None
    status = getattr(getattr(value, "response", None), "status_code", "")
    return f"{type(value).__module__}.{type(value).__name__}{status}"


NOT_A_SYSTEM_S_TIMEOUT: Final = NodeTimeoutError("node", 1.0, kind="run", run_timeout=0.5)
