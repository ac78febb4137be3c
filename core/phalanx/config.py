"""The configuration of a run: a plain dict with known keys, as its users write it."""

import os
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, cast

if TYPE_CHECKING:
    from phalanx.runtime import Runtime
    from phalanx.types import StreamWriter


class RunnableConfig(TypedDict, total=False):
    """Settings of one run. Every key may be left out.

    Keys:
        configurable: what selects state (``thread_id``, ``checkpoint_id``, ``checkpoint_ns``), and the user's own.
        recursion_limit: the most supersteps this run may take.
        max_concurrency: the most tasks of one superstep that may run at once.
        tags, metadata: labels; metadata is stored with each checkpoint.
        run_name, run_id: how the run is called.
        callbacks: accepted for the sake of configs made for other libraries; they stay in the calling process.
    """

    tags: list[str]
    metadata: dict[str, Any]
    callbacks: Any
    run_name: str
    run_id: Any
    max_concurrency: int | None
    recursion_limit: int
    configurable: dict[str, Any]


DEFAULT_RECURSION_LIMIT: Final = int(os.environ.get("PHALANX_DEFAULT_RECURSION_LIMIT", "10007"))
"""The most supersteps of a run that sets no ``recursion_limit``."""

_KNOWN: Final = frozenset(RunnableConfig.__annotations__)


def merge_configs(*configs: RunnableConfig | Mapping[str, Any] | None) -> RunnableConfig:
    """One config out of several; a later one wins. ``configurable`` and ``metadata`` merge by key, ``tags`` add up.

    Raises:
        TypeError: one is no dict.
    """
    merged: dict[str, Any] = {}
    for config in configs:
        if config is not None and not isinstance(config, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"a config must be a dict, such as {{'configurable': {{…}}}}; got {config!r}")
        given = cast("Mapping[str, Any]", config or {})
        for key, value in given.items():
            if value is None:
                continue
            if key not in _KNOWN:
                merged.setdefault("configurable", {})
                merged["configurable"] = {**merged["configurable"], key: value}
            elif key in ("configurable", "metadata"):
                merged[key] = {**merged.get(key, {}), **value}
            elif key == "tags":
                merged[key] = [*merged.get(key, []), *(tag for tag in value if tag not in merged.get(key, []))]
            else:
                merged[key] = value
    return cast("RunnableConfig", merged)


class Surroundings(Protocol):
    """What code that runs in a task can find out about where it runs."""

    @property
    def config(self) -> RunnableConfig: ...

    @property
    def runtime(self) -> "Runtime[Any]": ...

    def ask(self, value: object, response_schema: object) -> object: ...


SURROUNDINGS: Final[ContextVar[Surroundings | None]] = ContextVar("phalanx_surroundings", default=None)
"""The task that runs here; set while a user's function is called."""


def current_surroundings(asked: str) -> Surroundings:
    """The task that runs here.

    Args:
        asked: what was called, for the message.

    Raises:
        RuntimeError: no task does.
    """
    found = SURROUNDINGS.get()
    if found is None:
        raise RuntimeError(
            f"Called {asked} outside of a runnable context: it works only while a graph's node runs, in the node's own "
            f"thread or coroutine (a thread the node starts itself needs contextvars.copy_context().run)"
        )
    return found


def get_config() -> RunnableConfig:
    """The config of the task that runs here.

    Raises:
        RuntimeError: no task does.
    """
    return current_surroundings("get_config").config


def get_store() -> Any:
    """The store of the graph whose task runs here; ``None`` if it has none.

    Raises:
        RuntimeError: no task does.
    """
    return current_surroundings("get_store").runtime.store


def get_stream_writer() -> "StreamWriter":
    """What streams data of one's own from the task that runs here.

    Raises:
        RuntimeError: no task does.
    """
    return current_surroundings("get_stream_writer").runtime.stream_writer


__all__ = [
    "DEFAULT_RECURSION_LIMIT",
    "RunnableConfig",
    "get_config",
    "get_store",
    "get_stream_writer",
    "merge_configs",
]
