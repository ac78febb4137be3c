"""One call of ``invoke`` or ``stream``: its arguments checked, and what it inherits when it is made inside a task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from typing_extensions import is_typeddict

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.config import DEFAULT_RECURSION_LIMIT, SURROUNDINGS, RunnableConfig, merge_configs
from phalanx.coordinator.observe import SILENT, RunObserver
from phalanx.coordinator.output import Keys, as_names
from phalanx.coordinator.run import RunSettings
from phalanx.coordinator.state import count_up
from phalanx.runtime import RunControl, write_nothing
from phalanx.types import STREAM_MODES, StreamMode, StreamWriter
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.task_context import RunContext, nested_config

Modes = StreamMode | Sequence[StreamMode] | None

_LATER_MODES: Final[tuple[str, ...]] = ("messages", "custom", "tasks", "checkpoints", "debug")
_LEAST: Final = {"recursion_limit": 1, "max_concurrency": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the caller passed, as it was passed.

    Attributes:
        configs: the graph's own config and the call's; later ones win.
        modes: the stream modes.
        output: the keys to show.
        on_cluster: whether it runs on a cluster, which keeps threads for graphs without a saver.
    """

    configs: Sequence[RunnableConfig | None]
    modes: Modes
    output: Keys
    observer: RunObserver | None = None
    context: object = None
    control: RunControl | None = None
    on_cluster: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One call, ready to be driven."""

    settings: RunSettings
    context: RunContext
    observer: RunObserver

    @classmethod
    def of(cls, blueprint: Blueprint, saver: BaseCheckpointSaver | None, asked: Asked) -> "Call":
        """Check what was asked for.

        Raises:
            ValueError: there is no such stream mode or output key, or a number in the config is too small.
            TypeError: a number in the config is none, ``context`` does not fit the graph's ``context_schema``, or
                ``control`` is no ``RunControl``.
        """
        outer = SURROUNDINGS.get()
        inherited = None if outer is None else nested_config(outer.config)
        config = merge_configs(inherited, *asked.configs)
        for key, least in _LEAST.items():
            _check_number(key, config.get(key), least)
        if asked.control is not None and not hasattr(asked.control, "drain_requested"):
            raise TypeError(f"control must be a RunControl(); got {asked.control!r}")
        context = coerced_context(blueprint.context_schema, asked.context)
        control, store = asked.control, blueprint.store
        writer: StreamWriter = write_nothing
        if outer is not None:
            around = outer.runtime
            context = around.context if context is None else context
            control, store = control or around.control, around.store if store is None else store
            writer = around.stream_writer
        control = control or RunControl()
        next_version = saver.get_next_version if saver is not None else None
        settings = RunSettings(
            config.get("recursion_limit", DEFAULT_RECURSION_LIMIT),
            _checked_modes(asked.modes),
            _checked_output(blueprint, asked.output),
            next_version=(lambda current: next_version(current, None)) if next_version else count_up,
            kept=saver is not None or (asked.on_cluster and "thread_id" in config.get("configurable", {})),
            drain_reason=lambda: control.drain_reason,
        )
        return cls(settings, RunContext(config, context, store, control, writer), asked.observer or SILENT)


def _check_number(key: str, value: object, least: int) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{key} must be a whole number; got {value!r} of type {type(value).__name__}")
    if value < least:
        raise ValueError(f"{key} must be at least {least}; got {value}")


def _checked_modes(modes: Modes) -> frozenset[StreamMode]:
    chosen: list[StreamMode] = [modes] if isinstance(modes, str) else list(modes or ())
    for mode in chosen:
        if str(mode) in _LATER_MODES:
            raise ValueError(f"stream_mode {mode!r} is not there yet; there are: {', '.join(STREAM_MODES)}")
        if mode not in STREAM_MODES:
            raise ValueError(f"unknown stream_mode {mode!r}; it must be one of: {', '.join(STREAM_MODES)}")
    return frozenset(chosen)


def _checked_output(blueprint: Blueprint, output: Keys) -> Keys:
    for key in as_names(output):
        if key not in blueprint.channels:
            known = ", ".join(as_names(blueprint.stream_channels))
            raise ValueError(f"output_keys names {key!r}, which is not a state key; there are: {known}")
    return output


def coerced_context(schema: object, given: object) -> object:
    """The context as nodes see it: a dict becomes an instance of a schema that is a dataclass or a model.

    Raises:
        TypeError: the dict does not fit the schema; a model raises its own ``ValidationError``.
    """
    if not isinstance(schema, type) or is_typeddict(schema) or not isinstance(given, dict) or schema is dict:
        return given  # pyright: ignore[reportUnknownVariableType]
    return schema(**cast("dict[str, Any]", given))
