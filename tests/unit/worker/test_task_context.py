"""What a task knows about itself and its run."""

from typing import Any

import pytest

from phalanx.config import RunnableConfig
from phalanx.errors import NodeError
from phalanx.runtime import RunControl, Runtime, beat_nothing
from phalanx.types import StreamWriter, TimeoutPolicy
from phalanx.worker.functions import UserFunction
from phalanx.worker.lineage import Lineage
from phalanx.worker.task_context import RunContext, TaskContext, nested_config, note_task
from phalanx.worker.timeouts import Clockwork

CONFIG: RunnableConfig = {
    "configurable": {"thread_id": 7, "checkpoint_id": "c0", "model": "m"},
    "metadata": {"label": "x"},
    "tags": ["t"],
    "recursion_limit": 9,
    "run_id": "r",
    "run_name": "name",
}


class BaseStore:
    """A store's base, as any library may define it."""


class Listener:
    """Notes what is streamed."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def __call__(self, data: Any) -> None:
        self.heard.append(data)


def task(run: RunContext | None = None, **fields: Any) -> TaskContext:
    made = TaskContext(
        run or RunContext(CONFIG), "node", "id", ("__pregel_pull", "node"), ("to:node",), 3, checkpoint_id="c1"
    )
    for name, value in fields.items():
        setattr(made, name, value)
    return made


# --- its config -------------------------------------------------------------------------------------------------------


def test_a_task_s_config_is_the_run_s_and_says_where_in_the_run_it_is() -> None:
    assert task().config == {
        **{key: value for key, value in CONFIG.items() if key not in ("run_id", "run_name")},
        "configurable": {"thread_id": 7, "model": "m", "checkpoint_ns": "node:id"},
        "metadata": {
            "thread_id": 7,
            "checkpoint_id": "c0",
            "label": "x",
            "langgraph_step": 3,
            "langgraph_node": "node",
            "langgraph_triggers": ("to:node",),
            "langgraph_path": ("__pregel_pull", "node"),
            "langgraph_checkpoint_ns": "node:id",
        },
    }


def test_the_run_s_config_stays_as_it_is() -> None:
    before = repr(CONFIG)

    task().config["metadata"] = {}
    assert "langgraph_step" in task().config.get("metadata", {})

    assert repr(CONFIG) == before


def test_the_user_s_metadata_goes_before_what_it_is_told_and_the_task_s_place_before_both() -> None:
    given: RunnableConfig = {
        "configurable": {"thread_id": "t", "run_id": "", "graph_id": None},
        "metadata": {"thread_id": "mine", "langgraph_step": 99},
    }

    metadata = task(RunContext(given)).config.get("metadata", {})

    assert metadata["thread_id"] == "mine"
    assert metadata["langgraph_step"] == 3
    assert "run_id" not in metadata
    assert "graph_id" not in metadata


def test_a_config_is_built_once() -> None:
    made = task()

    assert made.config is made.config
    assert made.runtime is made.runtime


def test_the_place_of_a_task_of_a_nested_graph_is_behind_that_of_the_task_it_runs_in() -> None:
    made = task(RunContext({}, lineage=Lineage("outer:1")))

    assert made.config.get("metadata", {})["langgraph_checkpoint_ns"] == "outer:1|node:id"
    assert made.runtime.execution_info is not None
    assert made.runtime.execution_info.checkpoint_ns == "outer:1|node:id"


# --- its runtime ------------------------------------------------------------------------------------------------------


def test_a_runtime_tells_which_attempt_of_which_task_this_is() -> None:
    info = task(attempt=2, first_attempt_at=17.5).runtime.execution_info

    assert info is not None
    assert (info.checkpoint_id, info.checkpoint_ns, info.task_id) == ("c1", "node:id", "id")
    assert (info.thread_id, info.run_id) == ("7", "r")
    assert (info.node_attempt, info.node_first_attempt_time) == (2, 17.5)


def test_a_run_without_a_thread_and_an_id_has_none_to_tell() -> None:
    info = task(RunContext({})).runtime.execution_info

    assert info is not None
    assert (info.thread_id, info.run_id) == (None, None)


def test_a_runtime_holds_what_all_tasks_of_the_run_share() -> None:
    control, store, context, writer = RunControl(), object(), {"user": "ada"}, Listener()

    runtime = task(RunContext(CONFIG, context, store, control, writer)).runtime

    assert runtime.context is context
    assert runtime.store is store
    assert runtime.control is control
    assert runtime.stream_writer is writer
    assert runtime.previous is None
    assert runtime.idempotency_key == "id"


def test_the_key_for_calls_that_must_not_happen_twice_is_the_same_for_every_attempt() -> None:
    assert task(attempt=2).runtime.idempotency_key == task().runtime.idempotency_key


# --- signs of life ----------------------------------------------------------------------------------------------------


class Watched(Clockwork):
    """Counts the signs of life."""

    def __init__(self, policy: TimeoutPolicy) -> None:
        super().__init__("node", policy)
        self.beats = 0

    def beat(self) -> None:
        self.beats += 1
        super().beat()


def test_without_a_time_limit_a_heartbeat_does_nothing_and_a_writer_is_the_run_s() -> None:
    writer = Listener()
    runtime = task(RunContext(CONFIG, writer=writer)).runtime

    assert runtime.heartbeat is beat_nothing
    assert runtime.stream_writer is writer


@pytest.mark.parametrize(("refresh_on", "beats"), [("auto", 2), ("heartbeat", 1)])
def test_heartbeats_are_signs_of_life_and_what_is_streamed_is_unless_only_heartbeats_count(
    refresh_on: Any, beats: int
) -> None:
    writer, clockwork = Listener(), Watched(TimeoutPolicy(None, 1.0, refresh_on))
    runtime = task(RunContext(CONFIG, writer=writer), clockwork=clockwork).runtime

    runtime.heartbeat()
    runtime.stream_writer("data")

    assert clockwork.beats == beats
    assert writer.heard == ["data"]


# --- arguments --------------------------------------------------------------------------------------------------------


def test_a_function_is_given_what_it_asks_for_by_name_and_nothing_else() -> None:
    def function(
        state: object,
        config: RunnableConfig,
        error: NodeError,
        writer: StreamWriter,
        store: BaseStore,
        previous: object,
        runtime: Runtime,
    ) -> object:
        return state

    error, store, writer = NodeError("other", ValueError()), object(), Listener()
    made = task(RunContext(CONFIG, store=store, writer=writer), error=error)

    assert made.arguments_for(UserFunction.of(function)) == {
        "config": made.config,
        "error": error,
        "writer": writer,
        "store": store,
        "previous": None,
        "runtime": made.runtime,
    }
    assert made.arguments_for(UserFunction.of(lambda state: state)) == {}  # pyright: ignore


def test_a_node_that_handles_nothing_is_given_no_error() -> None:
    def function(state: object, error: NodeError | None) -> object:
        return error

    assert task().arguments_for(UserFunction.of(function)) == {"error": None}


# --- graphs inside ----------------------------------------------------------------------------------------------------


def test_a_graph_inside_a_task_inherits_all_but_what_names_the_run_or_a_checkpoint() -> None:
    assert nested_config(task().config) == {
        "configurable": {"thread_id": 7, "model": "m", "checkpoint_ns": "node:id"},
        "metadata": {"thread_id": 7, "checkpoint_id": "c0", "label": "x"},
        "tags": ["t"],
        "recursion_limit": 9,
    }


def test_inheriting_changes_nothing_above() -> None:
    config = task().config
    before = repr(config)

    inner = nested_config(config)
    inner.get("configurable", {})["model"] = "other"
    inner.get("metadata", {})["label"] = "other"

    assert repr(config) == before


# --- errors -----------------------------------------------------------------------------------------------------------


def test_an_error_says_which_task_it_came_from() -> None:
    error = note_task(ValueError("no"), "node", "id")

    assert error.__notes__ == ["During task with name 'node' and id 'id'"]


def test_an_error_that_cannot_be_changed_stays_as_it_is() -> None:
    class Fixed(Exception):
        def add_note(self, note: str) -> None:
            raise AttributeError("fixed")

    error = Fixed()

    assert note_task(error, "node", "id") is error
