"""Attempts that are to be followed by another, and failures that are handed over, in the state server and out of it."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Final, TypedDict

import pytest
from tests.integration.keyspace import Keyspace
from tests.integration.stepping import FIRST, Graph, Superstep, task

from phalanx.checkpoint.base import BaseCheckpointSaver, Checkpoint
from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.checkpoint.packing import Packed
from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.serde import Serializer, decode_exception, encode_exception
from phalanx.config import RunnableConfig
from phalanx.coordinator.keeping import KeepingElsewhere
from phalanx.coordinator.messages import SaveWrites
from phalanx.coordinator.opening import Place
from phalanx.coordinator.plan import Task
from phalanx.errors import NodeError, NodeTimeoutError, ParentCommand, SerializationError
from phalanx.graph import END, START, StateGraph
from phalanx.protocol.batch import BatchTask
from phalanx.protocol.keys import retry_field
from phalanx.protocol.names import ERROR, HANDED_OVER
from phalanx.protocol.outcome import Outcome, OutcomeKind, PackedWrite
from phalanx.runtime import Runtime
from phalanx.types import Command, RetryPolicy, Send, TimeoutPolicy
from phalanx.worker.lineage import Lineage
from phalanx.worker.task_store import TaskStore

AGAIN: Final = RetryPolicy(initial_interval=2.0, jitter=False, retry_on=ValueError, max_attempts=3)


def merged(old: list[Any], new: list[Any]) -> list[Any]:
    return [*old, *new]


class State(TypedDict, total=False):
    seen: Annotated[list[Any], merged]


def at_work(step: Superstep, *task_ids: str, worker: str = "worker", attempt: int = 1) -> TaskStore:
    """A worker process that has claimed these tasks."""
    store = step.as_seen_by(worker, step.batch(*(task(task_id, attempt=attempt) for task_id in task_ids)))
    assert store.claim() == set(task_ids)
    return store


def retries(step: Superstep, *task_ids: str) -> dict[str, bytes]:
    return step.store.retries("", FIRST, task_ids)


# --- the script -------------------------------------------------------------------------------------------------------


def test_how_an_attempt_ended_that_another_follows_is_found_and_is_no_outcome(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    at_work(step, "a", "b", "c").record({"c": b"outcome"}, {}, {"a": b"of a", "b": b"of b"})

    assert retries(step, "a", "b", "c", "d") == {"a": b"of a", "b": b"of b"}
    assert step.recorded("a", "b", "c") == {"c": b"outcome"}
    assert step.rung() == ["c", "a", "b"]


def test_it_bars_nobody_from_claiming_the_next_attempt_and_the_claim_stays_readable(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    at_work(step, "a").record({}, {}, {"a": b"first"})
    assert step.store.claims("", FIRST, ["a"]) == {"a": (1, "worker")}

    at_work(step, "a", worker="other", attempt=2).record({}, {}, {"a": b"second"})

    assert retries(step, "a") == {"a": b"second"}
    assert step.store.claims("", FIRST, ["a"]) == {"a": (2, "other")}


def test_it_does_not_let_the_same_attempt_be_claimed_twice(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    at_work(step, "a").record({}, {}, {"a": b"first"})

    assert step.as_seen_by("other", step.batch(task("a"))).claim() == set()


def test_it_is_dropped_for_a_task_that_nobody_claimed(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    at_work(step, "a").record({}, {}, {"a": b"again", "forged": b"again"})

    assert retries(step, "a", "forged") == {"a": b"again"}
    assert keyspace.fields(step.store.keys.claims("", FIRST)).keys() == {b"a", retry_field("a").encode()}


def test_it_is_dropped_when_the_task_has_its_outcome(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    slow, quick = at_work(step, "a", worker="slow"), at_work(step, "a", worker="quick", attempt=2)
    quick.record({"a": b"done"}, {})

    slow.record({}, {}, {"a": b"again"})

    assert retries(step, "a") == {}
    assert step.recorded("a") == {"a": b"done"}


def test_an_outcome_in_the_same_call_counts_before_it(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)

    at_work(step, "a").record({"a": b"done"}, {}, {"a": b"again"})

    assert (step.recorded("a"), retries(step, "a")) == ({"a": b"done"}, {})


@pytest.mark.parametrize("ttl_s", [0, 60])
def test_it_is_dropped_after_the_commit_and_leaves_only_a_doorbell(keyspace: Keyspace, ttl_s: int) -> None:
    step = Superstep.of(keyspace, ttl_s=ttl_s)
    late = at_work(step, "a")
    step.commit()
    before = keyspace.everything()

    late.record({}, {"digest": b"bytes"}, {"a": b"too late"})

    after = keyspace.everything()
    assert after.pop(step.inbox)
    assert after == before


@pytest.mark.parametrize("ttl_s", [0, 60])
def test_it_goes_with_the_step(keyspace: Keyspace, ttl_s: int) -> None:
    step = Superstep.of(keyspace, ttl_s=ttl_s)
    at_work(step, "a").record({}, {}, {"a": b"again"})

    step.commit()

    assert retries(step, "a") == {}
    assert keyspace.ttl_ms(step.store.keys.claims("", FIRST)) == -2


def test_it_ends_with_a_thread_that_is_not_kept(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, ttl_s=60)

    at_work(step, "a").record({}, {}, {"a": b"again"})

    assert not keyspace.lasting()


def test_blobs_are_told_from_the_retries_before_them(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)

    at_work(step, "a", "b", "c").record({"a": b"done"}, {"one": b"1", "two": b"2"}, {"b": b"again", "c": b"again"})

    assert keyspace.fields(step.store.keys.blobs) == {b"one": b"1", b"two": b"2"}
    assert retries(step, "b", "c") == {"b": b"again", "c": b"again"}


def test_a_blob_that_is_there_is_not_changed_by_a_worker(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    step.store.store_blobs({"one": b"1"})

    at_work(step, "a").record({"a": b"done"}, {"one": b"other bytes"})

    assert keyspace.fields(step.store.keys.blobs) == {b"one": b"1"}


def test_blobs_that_only_retries_came_with_are_not_stored(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)

    at_work(step, "a").record({}, {"one": b"1"}, {"a": b"again"})

    assert keyspace.fields(step.store.keys.blobs) == {}


@pytest.mark.parametrize("ttl_s", [0, 60])
def test_recording_it_twice_is_harmless(keyspace: Keyspace, ttl_s: int) -> None:
    step = Superstep.of(keyspace, ttl_s=ttl_s)
    worker = at_work(step, "a", "b")
    for _ in range(2):
        worker.record({"b": b"done"}, {"one": b"1"}, {"a": b"again"})

    assert (step.recorded("a", "b"), retries(step, "a")) == ({"b": b"done"}, {"a": b"again"})


def test_an_attempt_that_was_taken_for_lost_does_not_hide_how_the_one_after_it_ended(keyspace: Keyspace) -> None:
    """Its coordinator has not looked yet, and nobody else will ever ring for the later attempt."""
    step = Superstep.of(keyspace)
    slow, quick = at_work(step, "a", worker="slow"), at_work(step, "a", worker="quick", attempt=2)
    quick.record({}, {}, {"a": b"of the second attempt"})

    slow.record({}, {}, {"a": b"of the first attempt"})

    assert retries(step, "a") == {"a": b"of the second attempt"}


def test_a_task_whose_error_is_moved_aside_begins_anew_without_the_retries_of_the_run_before(
    keyspace: Keyspace,
) -> None:
    """Or the next run would take them for news of its own first attempt, while that one still runs."""
    step = Superstep.of(keyspace)
    at_work(step, "a").record({}, {}, {"a": b"again"})
    at_work(step, "a", attempt=2).record({"a": b"an error"}, {})

    step.store.reopen(lease=step.lease, namespace="", checkpoint_id=FIRST, errors={"a": ("a\x00-1", b"kept")})

    assert retries(step, "a") == {}
    assert step.store.claims("", FIRST, ["a"]) == {}


# --- what a worker makes of it ----------------------------------------------------------------------------------------


def graph_of(node: Callable[..., Any], handler: Callable[..., Any] | None = None, **options: Any) -> Graph:
    builder = StateGraph(State)
    builder.add_node("node", node, error_handler=handler, **options)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile(name="graph")


def handler_of(graph: Graph) -> str:
    name = graph.blueprint.nodes["node"].policies.error_handler
    assert name is not None
    return name


def retried(step: Superstep, task_id: str = "a") -> Outcome:
    return Outcome.unpack(retries(step, task_id)[task_id])


def fails(state: State) -> State:
    raise ValueError("not yet")


async def fails_on_loop(state: State) -> State:
    raise ValueError("not yet")


@pytest.mark.parametrize("node", [fails, fails_on_loop])
def test_a_task_that_is_to_be_tried_again_says_when_and_has_no_outcome(
    keyspace: Keyspace, node: Callable[..., Any]
) -> None:
    step = Superstep.of(keyspace, graph_of(node, retry_policy=AGAIN))
    step.run(task("a"))

    outcome = retried(step)

    assert (outcome.kind, outcome.attempt, outcome.retry_after_s) == (OutcomeKind.RETRY, 1, 2.0)
    assert outcome.first_try_at > 0
    error = decode_exception(Serializer().loads(outcome.error))
    assert (repr(error), error.__notes__) == (
        "ValueError('not yet')",
        ["During task with name 'node' and id 'a'"],
    )
    assert step.recorded("a") == {}
    assert step.rung() == ["a"]


def again(attempt: int, tries: int, first_try_at: float = 17.5, **fields: Any) -> BatchTask:
    return BatchTask(
        "a",
        fields.pop("node", "node"),
        attempt,
        ("__pregel_pull", "node"),
        ("t",),
        None,
        tries=tries,
        first_try_at=first_try_at,
        **fields,
    )


def test_tries_are_counted_and_not_how_often_a_task_was_handed_out(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(fails, retry_policy=AGAIN))
    step.run(again(attempt=5, tries=2))
    assert (retried(step).attempt, retried(step).retry_after_s, retried(step).first_try_at) == (5, 4.0, 17.5)

    step.run(again(attempt=6, tries=3))

    assert isinstance(step.error("a"), ValueError)
    assert step.outcome("a").attempt == 6


def test_a_node_is_told_its_try_and_when_the_first_began(keyspace: Keyspace) -> None:
    def tells(state: State, runtime: Runtime) -> State:
        info = runtime.execution_info
        assert info is not None
        return {"seen": [info.node_attempt, info.node_first_attempt_time, info.checkpoint_id, runtime.idempotency_key]}

    step = Superstep.of(keyspace, graph_of(tells))
    step.run(again(attempt=5, tries=2))

    assert step.written("a")["seen"] == [2, 17.5, FIRST, "a"]


def test_the_failure_of_a_node_with_an_error_handler_is_handed_over(keyspace: Keyspace) -> None:
    def handler(state: State, error: NodeError) -> State:
        return {"seen": [error.node, repr(error.error)]}

    graph = graph_of(fails, handler)
    step = Superstep.of(keyspace, graph)
    step.run(task("a"))

    outcome = step.outcome("a")
    assert (outcome.kind, outcome.writes) == (OutcomeKind.HANDED_OVER, [])
    assert repr(decode_exception(Serializer().loads(outcome.error))) == "ValueError('not yet')"

    step.run(
        BatchTask(
            "h", handler_of(graph), 1, ("__pregel_pull", "node"), ("t",), None, error=outcome.error, failed="node"
        )
    )
    assert step.written("h")["seen"] == ["node", "ValueError('not yet')"]


def test_what_is_no_failure_is_not_handed_over_and_not_tried_again(keyspace: Keyspace) -> None:
    def leaves(state: State) -> Command[str]:
        return Command(graph=Command.PARENT, goto="elsewhere")

    step = Superstep.of(keyspace, graph_of(leaves, fails, retry_policy=AGAIN._replace(retry_on=Exception)))
    step.run(task("a"))

    assert step.outcome("a").kind is OutcomeKind.ERROR
    assert isinstance(step.error("a"), ParentCommand)


def test_what_cannot_travel_is_handed_over_too(keyspace: Keyspace) -> None:
    def impossible(state: State) -> Any:
        return {"seen": [fails]}

    step = Superstep.of(keyspace, graph_of(impossible, fails, retry_policy=AGAIN))
    step.run(task("a"))

    assert step.outcome("a").kind is OutcomeKind.HANDED_OVER


def test_a_node_that_asks_the_run_to_stop_is_heard_whether_it_fails_or_not(keyspace: Keyspace) -> None:
    def asks(state: State, runtime: Runtime) -> State:
        assert runtime.control is not None
        runtime.control.request_drain("enough")
        return {}

    def asks_and_fails(state: State, runtime: Runtime) -> State:
        asks(state, runtime)
        raise ValueError

    for node, task_id in ((asks, "a"), (asks_and_fails, "b")):
        step = Superstep.of(keyspace, graph_of(node), thread_id=task_id)
        step.run(task("a"))
        assert step.outcome("a").drain == "enough"


def test_a_packet_s_time_limit_goes_before_its_node_s(keyspace: Keyspace) -> None:
    async def slow(state: Any) -> State:
        await asyncio.sleep(20)
        return {}

    step = Superstep.of(keyspace, graph_of(slow, timeout=60))
    step.run(BatchTask("a", "node", 1, ("__pregel_push", 0), ("t",), b"\x01", timeout=TimeoutPolicy(0.02)))

    error = step.error("a")
    assert isinstance(error, NodeTimeoutError)
    assert error.timeout == 0.02


def test_packets_keep_their_time_limits_in_what_a_worker_records(keyspace: Keyspace) -> None:
    def sends(state: State) -> Command[str]:
        return Command(goto=[Send("node", 1, timeout=2), Send("node", 2)])

    step = Superstep.of(keyspace, graph_of(sends))
    step.run(task("a"))

    assert [write.timeout for write in step.outcome("a").writes if write.node] == [TimeoutPolicy(2.0), None]


# --- what a saver reads of it -----------------------------------------------------------------------------------------


def stored(saver: BaseCheckpointSaver, **values: object) -> RunnableConfig:
    """The config of a checkpoint with these values."""
    checkpoint: Checkpoint = {
        "v": 4,
        "id": FIRST,
        "ts": "",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, 1),
        "versions_seen": {},
        "updated_channels": [],
    }
    where = CheckpointAddress("t", "", None).config()
    return saver.put(where, checkpoint, {"source": "loop", "step": 0, "parents": {}}, dict.fromkeys(values, 1))


def pending(step: Superstep, **outcomes: Outcome) -> list[tuple[str, str, Any]]:
    """What a saver finds pending when a worker has recorded these outcomes."""
    keyspace, saver = step.keyspace, RedisSaver(step.keyspace.client, prefix=step.keyspace.prefix)
    where = stored(saver)
    keyspace.write(step.store.keys.writes("", FIRST), {name: outcome.pack() for name, outcome in outcomes.items()})
    found = saver.get_tuple(where)
    assert found is not None
    return sorted(found.pending_writes or [], key=lambda write: write[:2])


def failure(kind: OutcomeKind) -> Outcome:
    return Outcome(kind, 1, "worker", 0.1, error=Serializer().dumps(encode_exception(ValueError("no"))))


def test_a_saver_finds_the_error_of_a_failure_and_that_it_was_handed_over(keyspace: Keyspace) -> None:
    found = pending(
        Superstep.of(keyspace), failed=failure(OutcomeKind.ERROR), handed_over=failure(OutcomeKind.HANDED_OVER)
    )

    assert [(task_id, channel) for task_id, channel, _ in found] == [
        ("failed", ERROR),
        ("handed_over", ERROR),
        ("handed_over", HANDED_OVER),
    ]
    assert found[0][2] == found[1][2] == "ValueError('no')"
    assert repr(decode_exception(found[2][2])) == "ValueError('no')"


def test_a_saver_finds_what_a_cache_gave_as_any_other_writes(keyspace: Keyspace) -> None:
    writes = [
        PackedWrite("seen", Serializer().dumps([1])),
        PackedWrite("__pregel_tasks", Serializer().dumps(2), "node", TimeoutPolicy(3.0)),
    ]

    found = pending(Superstep.of(keyspace), a=Outcome(OutcomeKind.CACHED, 1, "worker", 0.1, writes))

    assert found == [("a", "__pregel_tasks", Send("node", 2, timeout=3)), ("a", "seen", [1])]


@pytest.mark.parametrize("error", [b"", Serializer().dumps("no error"), b"\xc1"])
def test_a_handed_over_error_that_is_none_is_an_error(keyspace: Keyspace, error: bytes) -> None:
    with pytest.raises(SerializationError):
        pending(Superstep.of(keyspace), a=Outcome(OutcomeKind.HANDED_OVER, 1, "worker", 0.1, error=error))


def test_packets_in_a_checkpoint_keep_their_time_limits(keyspace: Keyspace) -> None:
    packets = [Send("node", 1, timeout=TimeoutPolicy(3.0, 1.0, "heartbeat")), Send("node", 2)]
    saver = RedisSaver(keyspace.client, prefix=keyspace.prefix)
    where = stored(saver, __pregel_tasks=packets)

    found = saver.get_tuple(where)

    assert found is not None
    assert found.checkpoint["channel_values"] == {"__pregel_tasks": packets}


def test_a_saver_of_the_graph_s_own_is_given_packets_with_their_time_limits(keyspace: Keyspace) -> None:
    step, own = Superstep.of(keyspace, ttl_s=60), InMemorySaver()
    config = stored(own)
    saver, place = RedisSaver(keyspace.client, prefix=keyspace.prefix), Place("t")
    keeping = KeepingElsewhere(step.store, own, saver, config, place, Lineage())
    packet = Send("node", Packed(Serializer().dumps(1)), timeout=2)
    one = Task("a", "node", ("__pregel_pull", "node"), ("t",))

    keeping.save_writes(SaveWrites(FIRST, one, [("__pregel_tasks", packet)]), step.lease, recorded=True)

    found = own.get_tuple(config)
    assert found is not None
    assert found.pending_writes == [("a", "__pregel_tasks", Send("node", 1, timeout=2))]
