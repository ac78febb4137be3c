"""Who wants to know which classes were refused: an audit log, a metric, a test."""

import logging
import threading
from collections.abc import Callable
from typing import Final, NotRequired, TypeAlias, TypedDict

_log: Final = logging.getLogger(__name__)


class SerdeEvent(TypedDict):
    """A class that was not let through.

    Keys:
        kind: ``"msgpack_blocked"`` when stored data named it, ``"msgpack_refused"`` when a value to store held it.
        module: its module; empty for what is no class, such as a function or an ext code of a later version.
        name: its name in that module.
        method: never set; listeners written for LangGraph may ask for it, and no method of a class is called here.
    """

    kind: str
    module: str
    name: str
    method: NotRequired[str]


SerdeEventListener: TypeAlias = Callable[[SerdeEvent], None]

_lock: Final = threading.Lock()
_listeners: list[SerdeEventListener] = []


def register_serde_event_listener(listener: SerdeEventListener) -> Callable[[], None]:
    """Call ``listener`` with every event from now on, in the thread where it happens.

    Returns:
        A function that ends it; calling it again does nothing.
    """
    entry: SerdeEventListener = lambda event: listener(event)  # noqa: E731 - each registration ends by itself
    with _lock:
        _listeners.append(entry)

    def unregister() -> None:
        with _lock:
            if entry in _listeners:
                _listeners.remove(entry)

    return unregister


def emit_serde_event(event: SerdeEvent) -> None:
    """Tell every listener. One that fails is logged: it must not decide whether data can be read."""
    with _lock:
        listeners = tuple(_listeners)
    for listener in listeners:
        try:
            listener(event)
        except Exception:
            _log.exception("a listener of serializer events failed: kind=%s", event["kind"])


def tell(kind: str, type_name: str) -> None:
    """Make an event of an error's type name, ``module:name`` or ``module.name``."""
    if not _listeners:
        return
    module, _, name = type_name.rpartition(":" if ":" in type_name else ".")
    emit_serde_event({"kind": kind, "module": module, "name": name})
