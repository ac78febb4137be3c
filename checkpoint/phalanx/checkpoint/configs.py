"""How a config addresses a checkpoint, and what of a config is stored with one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from phalanx.checkpoint.base.metadata import get_checkpoint_id
from phalanx.checkpoint.base.metadata import get_checkpoint_metadata as _get_checkpoint_metadata
from phalanx.checkpoint.base.records import CheckpointMetadata
from phalanx.config import RunnableConfig


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
                f"(got {'thread_id None' if 'thread_id' in configurable else 'no thread_id'})"
            )
        namespace = str(configurable.get("checkpoint_ns") or "")
        return cls(str(configurable["thread_id"]), namespace, get_checkpoint_id(config))

    @classmethod
    def of_checkpoint(cls, config: RunnableConfig) -> "CheckpointAddress":
        """The address in ``config["configurable"]``, which must name a checkpoint.

        Raises:
            ValueError: there is no ``thread_id``, or no ``checkpoint_id``.
        """
        address = cls.of(config)
        if address.checkpoint_id is None:
            raise ValueError(f"writes belong to a checkpoint: the config for thread {address.thread_id!r} names none")
        return address

    def config(self) -> RunnableConfig:
        """The config that addresses this."""
        configurable: dict[str, Any] = {"thread_id": self.thread_id, "checkpoint_ns": self.namespace}
        if self.checkpoint_id:
            configurable["checkpoint_id"] = self.checkpoint_id
        return {"configurable": configurable}


def with_config_metadata(metadata: CheckpointMetadata, config: RunnableConfig) -> CheckpointMetadata:
    """``metadata`` and, where it does not say otherwise, the config's metadata and scalar configurable entries."""
    return _get_checkpoint_metadata(config, metadata)


def matches(metadata: Mapping[str, object], wanted: Mapping[str, object]) -> bool:
    """Whether every wanted entry is in ``metadata`` with an equal value."""
    return all(metadata.get(key) == value for key, value in wanted.items())
