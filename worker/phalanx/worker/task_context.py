"""What a task knows about itself, and what its errors say about it."""

from typing import TypeVar

from phalanx.config import RunnableConfig

Error = TypeVar("Error", bound=BaseException)


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
    return {**config, "metadata": {**config.get("metadata", {}), **where}}


def note_task(error: Error, node: str, task_id: str) -> Error:
    """Say on the error itself which task it came from."""
    error.add_note(f"During task with name {node!r} and id {task_id!r}")
    return error
