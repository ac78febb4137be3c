"""How a config addresses a checkpoint, and what of a config is stored with one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from phalanx.checkpoint.base import CheckpointMetadata
from phalanx.config import RunnableConfig

_NOT_METADATA: Final = frozenset(
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


@dataclass(frozen=True, slots=True)
class CheckpointAddress:
    """A thread, a namespace in it, and a checkpoint there; without an id, the latest one."""

    thread_id: str
    namespace: str
    checkpoint_id: str | None

    @classmethod
    def of(cls, config: RunnableConfig) -> "CheckpointAddress":
        """The address in ``config["configurable"]``.

        Raises:
            ValueError: there is no ``thread_id``.
        """
        configurable = config.get("configurable", {})
        if configurable.get("thread_id") is None:
            raise ValueError(
                'a checkpointer needs to know the thread: pass config={"configurable": {"thread_id": "…"}} '
                f"(got configurable keys: {', '.join(configurable) or 'none'})"
            )
        checkpoint_id = configurable.get("checkpoint_id")
        return cls(
            str(configurable["thread_id"]),
            str(configurable.get("checkpoint_ns", "")),
            str(checkpoint_id) if checkpoint_id else None,
        )

    def config(self) -> RunnableConfig:
        """The config that addresses this."""
        configurable: dict[str, Any] = {"thread_id": self.thread_id, "checkpoint_ns": self.namespace}
        if self.checkpoint_id:
            configurable["checkpoint_id"] = self.checkpoint_id
        return {"configurable": configurable}


def with_config_metadata(metadata: CheckpointMetadata, config: RunnableConfig) -> CheckpointMetadata:
    """``metadata`` and, where it does not say otherwise, the config's metadata and scalar configurable entries."""
    added: dict[str, object] = {}
    for key, value in {**config.get("configurable", {}), **config.get("metadata", {})}.items():
        if key.startswith("__") or key in _NOT_METADATA:
            continue
        if isinstance(value, str):
            added[key] = value.replace("\x00", "")
        elif isinstance(value, (int, float, bool)):
            added[key] = value
    return cast("CheckpointMetadata", {**added, **metadata})


def matches(metadata: Mapping[str, object], wanted: Mapping[str, object]) -> bool:
    """Whether every wanted entry is in ``metadata`` with an equal value."""
    return all(metadata.get(key) == value for key, value in wanted.items())
