"""What a task knows about itself, and what its errors say about it."""

from contextlib import suppress
from typing import Final, TypeVar

from phalanx.config import RunnableConfig

Error = TypeVar("Error", bound=BaseException)

_TOLD_IN_METADATA: Final = (
    *("thread_id", "checkpoint_id", "checkpoint_ns"),
    *("task_id", "run_id", "assistant_id", "graph_id"),
)
"""What of ``configurable`` a node also finds in ``metadata``, where tracing looks for it."""


def task_config(
    config: RunnableConfig, node: str, task_id: str, path: tuple[str | int, ...], triggers: tuple[str, ...], step: int
) -> RunnableConfig:
    """The config a node of this task sees: the run's, and where in the run it is."""
    where = {
        "langgraph_step": step,
        "langgraph_node": node,
        "langgraph_triggers": triggers,
        "langgraph_path": path,
        "langgraph_checkpoint_ns": f"{node}:{task_id}",
    }
    configurable = config.get("configurable", {})
    told = {name: value for name in _TOLD_IN_METADATA if (value := configurable.get(name))}
    return {**config, "metadata": {**told, **config.get("metadata", {}), **where}}


def note_task(error: Error, node: str, task_id: str) -> Error:
    """Say on the error itself which task it came from, if it can be changed."""
    with suppress(Exception):  # such as one that is a frozen dataclass
        error.add_note(f"During task with name {node!r} and id {task_id!r}")
    return error
