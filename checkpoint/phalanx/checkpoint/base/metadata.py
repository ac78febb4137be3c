"""What of a run's config is stored with a checkpoint."""

from collections.abc import Mapping
from typing import Final, cast

from phalanx.checkpoint.base.records import CheckpointMetadata
from phalanx.config import RunnableConfig

EXCLUDED_METADATA_KEYS: Final = frozenset(
    {
        "thread_id",
        "checkpoint_id",
        "checkpoint_ns",
        "checkpoint_map",
        "langgraph_step",
        "langgraph_node",
        "langgraph_triggers",
        "langgraph_path",
        "langgraph_checkpoint_ns",
    }
)
"""What says where a checkpoint is, or what ran; it is stored elsewhere or of no use later."""


def get_checkpoint_id(config: RunnableConfig) -> str | None:
    """The checkpoint that ``config`` names, if it names one."""
    found = config.get("configurable", {}).get("checkpoint_id")
    return str(found) if found else None


def get_checkpoint_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> CheckpointMetadata:
    """``metadata`` and, where it does not say otherwise, the config's metadata and scalar configurable entries.

    Texts lose their NUL characters, which some databases cannot store.
    """
    given = {**config.get("configurable", {}), **config.get("metadata", {})}
    added = {key: value for key, value in given.items() if isinstance(value, (str, int, float)) and _is_stored(key)}
    merged: Mapping[str, object] = {**added, **metadata}
    return cast("CheckpointMetadata", {key: _without_nul(value) for key, value in merged.items()})


def get_serializable_checkpoint_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> CheckpointMetadata:
    """The same without ``writes``, which old versions of other libraries put there and which may be anything."""
    merged = cast("dict[str, object]", get_checkpoint_metadata(config, metadata))
    merged.pop("writes", None)
    return cast("CheckpointMetadata", merged)


def _is_stored(key: str) -> bool:
    return not key.startswith("__") and key not in EXCLUDED_METADATA_KEYS


def _without_nul(value: object) -> object:
    return value.replace("\x00", "") if isinstance(value, str) else value
