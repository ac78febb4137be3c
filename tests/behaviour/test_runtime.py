"""What a node can learn from its runtime about the run, the task and the attempt."""

import uuid
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Update, Words, alone, gives, says

from phalanx.config import RunnableConfig
from phalanx.constants import START
from phalanx.errors import GraphDrained
from phalanx.graph import StateGraph
from phalanx.runtime import ExecutionInfo, RunControl, Runtime
from phalanx.types import RetryPolicy, Send

SOON = RetryPolicy(initial_interval=0.001, jitter=False, retry_on=Exception)


class Looks:
    """A node that keeps the execution infos of its calls, and fails some times."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.infos: list[ExecutionInfo] = []
        self.configs: list[RunnableConfig] = []
        self.keys: list[Any] = []

    def __call__(self, given: Any, runtime: Runtime, config: RunnableConfig) -> Update:
        assert runtime.execution_info is not None
        self.infos.append(runtime.execution_info)
        self.configs.append(config)
        self.keys.append(getattr(runtime, "idempotency_key", None))
        if len(self.infos) <= self.failures:
            raise ValueError("not yet")
        return {"words": ["ok"]}


@pytest.mark.rule("runtime-1")
def test_a_task_is_told_its_thread_its_run_and_its_place(drive_kept: Drive) -> None:
    run_id = uuid.uuid4()
    looks = Looks()
    drive_kept.invoke(drive_kept.keeping(alone(looks)), {}, thread("told", run_id=run_id))
    (info,) = looks.infos

    assert info.thread_id == "told"
    assert str(info.run_id) == str(run_id)
    assert info.checkpoint_ns == f"a:{info.task_id}"
    assert (looks.configs[0].get("metadata") or {})["langgraph_checkpoint_ns"] == info.checkpoint_ns


@pytest.mark.rule("runtime-1")
def test_a_task_is_told_the_checkpoint_it_started_from(drive_kept: Drive) -> None:
    looks = Looks()
    graph, config = drive_kept.keeping(alone(looks)), thread("told the checkpoint")
    drive_kept.invoke(graph, {}, config)
    ids = [(each.config.get("configurable") or {})["checkpoint_id"] for each in drive_kept.history(graph, config)]

    assert looks.infos[0].checkpoint_id == ids[1]


@pytest.mark.rule("runtime-1")
def test_a_run_that_has_no_thread_and_no_id_has_none_to_tell(drive: Drive) -> None:
    looks = Looks()
    drive.invoke(compiled(alone(looks)), {})

    assert (looks.infos[0].thread_id, looks.infos[0].run_id) == (None, None)
    assert (looks.infos[0].node_attempt, bool(looks.infos[0].node_first_attempt_time)) == (1, True)


@pytest.mark.rule("runtime-2")
def test_attempts_of_a_task_are_counted_and_share_its_id_and_first_time(drive: Drive) -> None:
    looks = Looks(failures=2)
    drive.invoke(compiled(alone(looks, retry_policy=SOON)), {})

    assert [info.node_attempt for info in looks.infos] == [1, 2, 3]
    assert len({info.task_id for info in looks.infos}) == 1
    assert len({info.node_first_attempt_time for info in looks.infos}) == 1


@pytest.mark.rule("runtime-2")
@pytest.mark.ours_only("there is no such key there")
def test_all_attempts_of_a_task_share_a_key_for_calls_that_must_not_happen_twice(drive: Drive) -> None:
    looks = Looks(failures=2)
    builder = StateGraph(Words)
    builder.add_node("a", looks, retry_policy=SOON)
    builder.add_conditional_edges(START, gives([Send("a", 1)]))
    drive.invoke(compiled(builder), {})

    assert len(looks.keys) == 3
    assert len(set(looks.keys)) == 1
    assert isinstance(looks.keys[0], str)


@pytest.mark.rule("runtime-2")
@pytest.mark.ours_only("there is no such key there")
def test_tasks_have_different_keys_for_calls_that_must_not_happen_twice(drive: Drive) -> None:
    looks = Looks()
    builder = StateGraph(Words)
    builder.add_node("a", looks)
    builder.add_conditional_edges(START, gives([Send("a", 1), Send("a", 1)]))
    graph = compiled(builder)
    drive.invoke(graph, {})
    drive.invoke(graph, {})

    assert len(set(looks.keys)) == 4


@pytest.mark.rule("runtime-2")
@pytest.mark.ours_only("there is no such key there")
def test_a_task_that_is_run_again_after_a_failed_run_keeps_its_key(drive_kept: Drive) -> None:
    looks = Looks(failures=1)
    graph, config = drive_kept.keeping(alone(looks)), thread("keeps its key")
    with pytest.raises(ValueError, match="not yet"):
        drive_kept.invoke(graph, {}, config)
    drive_kept.invoke(graph, None, config)

    assert len(looks.keys) == 2
    assert len(set(looks.keys)) == 1


@pytest.mark.rule("runtime-2")
@pytest.mark.ours_only("there is no such key there")
def test_a_runtime_of_no_task_has_no_key() -> None:
    with pytest.raises(RuntimeError, match="belongs to no task"):
        _ = Runtime().idempotency_key


@pytest.mark.rule("runtime-3")
def test_without_a_server_there_is_nothing_to_tell_about_one(drive: Drive) -> None:
    def node(_: Words, runtime: Runtime) -> Update:
        return {"other": runtime.server_info}

    assert drive.invoke(compiled(alone(node)), {})["other"] is None


@pytest.mark.rule("runtime-3")
@pytest.mark.parametrize("given", [True, False], ids=["with a switch", "without one"])
def test_a_node_can_ask_its_own_run_to_stop(drive: Drive, given: bool) -> None:
    def asks(_: Words, runtime: Runtime) -> Update:
        assert runtime.control is not None
        runtime.control.request_drain("enough")
        return {"words": ["a"]}

    builder = alone(asks)
    builder.add_node("b", says("b"))
    builder.add_edge("a", "b")

    options: dict[str, Any] = {"control": RunControl()} if given else {}

    with pytest.raises(GraphDrained, match="enough"):
        drive.invoke(compiled(builder), {}, **options)


@pytest.mark.rule("runtime-3")
@pytest.mark.not_on("cluster", "live_control")
def test_a_node_sees_whether_its_run_is_asked_to_stop(drive: Drive) -> None:
    control = RunControl()

    def node(_: Words, runtime: Runtime) -> Update:
        before = runtime.drain_requested
        control.request_drain("enough")
        return {"other": [before, runtime.drain_requested, runtime.drain_reason]}

    assert drive.invoke(compiled(alone(node)), {}, control=control)["other"] == [False, True, "enough"]


@pytest.mark.rule("runtime-4")
def test_runtimes_are_merged_field_by_field() -> None:
    def write(_: object) -> None:
        """A writer."""

    mine: Runtime[Any] = Runtime(context="mine", previous="p", stream_writer=write)
    merged = mine.merge(Runtime(context="theirs"))

    assert (merged.context, merged.previous, merged.stream_writer) == ("theirs", "p", write)


@pytest.mark.rule("runtime-4")
def test_a_runtime_is_changed_by_a_copy() -> None:
    info = ExecutionInfo(checkpoint_id="c", checkpoint_ns="n", task_id="t")
    mine: Runtime[Any] = Runtime(context="mine", execution_info=info)
    other = mine.override(context="other").patch_execution_info(node_attempt=2)

    assert (mine.context, mine.execution_info) == ("mine", info)
    assert (other.context, other.execution_info) == ("other", info.patch(node_attempt=2))
    with pytest.raises(RuntimeError, match="execution_info"):
        Runtime().patch_execution_info(node_attempt=2)
