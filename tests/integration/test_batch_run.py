"""A batch in a worker process: what runs, what is recorded and when, and what becomes of what cannot run."""

import asyncio
import itertools
import operator
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypedDict

import pytest
from redis.exceptions import RedisError
from tests.integration.keyspace import Keyspace
from tests.integration.stepping import FIRST, Graph, Superstep, other_version, task
from tests.support import wait_until

from phalanx.checkpoint.packing import digest_of
from phalanx.checkpoint.serde import Serializer
from phalanx.errors import CorruptDataError, GraphNotRegisteredError, GraphVersionError, UnserializableError
from phalanx.graph import END, START, StateGraph
from phalanx.protocol.names import TASKS
from phalanx.types import Command, Send
from phalanx.worker.process import WorkerProcess

PATIENCE_S: Final = 20.0


class State(TypedDict, total=False):
    given: str
    seen: Annotated[list[Any], operator.add]


def graph_of(**nodes: Callable[..., Any]) -> Graph:
    """A graph of these nodes, one after the other; a test runs tasks of them in the order it likes."""
    builder = StateGraph(State)
    for name, function in nodes.items():
        builder.add_node(name, function)
    names = [START, *nodes, END]
    for one, other in itertools.pairwise(names):
        builder.add_edge(one, other)
    return builder.compile(name="graph")


def echo(state: State) -> State:
    return {"seen": [{name: value for name, value in state.items() if name != "seen"}]}


# --- what runs --------------------------------------------------------------------------------------------------------


def test_a_node_sees_the_state_and_its_writes_are_recorded(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo), state={"given": "g"})
    assert step.run(task("a", "echo")) == 1
    assert step.written("a")["seen"] == [{"given": "g"}]
    assert step.rung() == ["a"]


def test_a_packets_argument_is_a_nodes_whole_input(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo), state={"given": "g"})
    step.run(task("a", "echo", arg=Serializer().dumps({"page": 7})))
    assert step.written("a")["seen"] == [{"page": 7}]


def test_a_large_value_of_the_state_is_fetched(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo), state={"given": "long" * 5000})
    step.run(task("a", "echo"))
    assert step.written("a")["seen"] == [{"given": "long" * 5000}]


def test_what_is_large_in_the_argument_of_many_packets_becomes_one_blob(keyspace: Keyspace) -> None:
    pages = ["text" * 1000]
    shared = {"pages": pages}

    def fan_out(state: State) -> Command[str]:
        return Command(goto=[Send("echo", shared) for _ in range(20)])

    step = Superstep.of(keyspace, graph_of(fan_out=fan_out, echo=echo))
    step.run(task("a", "fan_out"), task("b", "fan_out"))
    digest = digest_of(Serializer().dumps(pages)).encode()
    assert keyspace.fields(step.store.keys.blobs) == {digest: Serializer().dumps(pages)}
    packets = [write for name in ("a", "b") for write in step.outcome(name).writes if write.channel == TASKS]
    assert len(packets) == 40
    (value,) = {packet.value for packet in packets}
    assert isinstance(value, bytes)
    assert digest in value
    assert len(value) < 100


# --- what cannot run --------------------------------------------------------------------------------------------------


def test_each_task_of_an_unknown_graph_is_told_so(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo))
    message = step.batch(task("a", "echo"), task("b", "echo")).to_wire()
    other = StateGraph(State).add_node("echo", echo).add_edge(START, "echo").compile(name="other")
    with step.worker(other) as worker:
        assert worker.run_message(message) == 2
    for error in (step.error("a"), step.error("b")):
        assert isinstance(error, GraphNotRegisteredError)
        assert (error.graph, error.known) == ("graph", ("other",))


def test_each_task_of_another_version_of_a_graph_is_told_so(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo))
    with step.worker() as worker:
        worker.run_message(other_version(step.batch(task("a", "echo"), task("b", "echo"))).to_wire())
    for error in (step.error("a"), step.error("b")):
        assert isinstance(error, GraphVersionError)
        assert error.graph == "graph"


def test_a_blob_that_is_gone_is_named(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo))
    step.run(task("a", "echo", arg="0123456789abcdef"))
    with pytest.raises(CorruptDataError, match="blob 0123456789abcdef is gone"):
        raise step.error("a")


def test_a_blob_with_other_bytes_than_its_name_promises_is_refused(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo))
    digest = digest_of(b"promised")
    keyspace.write(step.store.keys.blobs, {digest: Serializer().dumps("something else")})
    step.run(task("a", "echo", arg=digest))
    with pytest.raises(CorruptDataError, match=f"blob {digest} does not hold the bytes its name promises"):
        raise step.error("a")


def test_what_a_node_raises_is_its_outcome_and_its_siblings_run(keyspace: Keyspace) -> None:
    def broken(state: State) -> State:
        raise LookupError("no such page")

    step = Superstep.of(keyspace, graph_of(broken=broken, echo=echo))
    assert step.run(task("a", "broken"), task("b", "echo")) == 2
    error = step.error("a")
    assert isinstance(error, LookupError)
    assert error.args == ("no such page",)
    assert error.__notes__ == ["During task with name 'broken' and id 'a'"]
    assert step.written("b")["seen"] == [{}]


@pytest.mark.parametrize("on_loop", [False, True])
def test_a_node_that_asks_to_exit_does_not_take_its_batch_with_it(keyspace: Keyspace, on_loop: bool) -> None:
    def leave(state: State) -> State:
        sys.exit("enough")

    async def leave_on_loop(state: State) -> State:
        sys.exit("enough")

    step = Superstep.of(keyspace, graph_of(leave=leave_on_loop if on_loop else leave, echo=echo))
    assert step.run(task("a", "leave"), task("b", "echo")) == 2
    assert "enough" in str(step.error("a"))
    assert step.written("b")["seen"] == [{}]


@dataclass(frozen=True)
class FrozenError(Exception):
    """An error that cannot be changed once made: no note can be added to it."""

    page: int


@pytest.mark.parametrize("on_loop", [False, True])
def test_an_error_that_cannot_be_changed_is_an_outcome_too(keyspace: Keyspace, on_loop: bool) -> None:
    def broken(state: State) -> State:
        raise FrozenError(7)

    async def broken_on_loop(state: State) -> State:
        raise FrozenError(7)

    step = Superstep.of(keyspace, graph_of(broken=broken_on_loop if on_loop else broken))
    step.run(task("a", "broken"))
    assert "FrozenError" in repr(step.error("a"))


def test_what_cannot_travel_is_named_with_its_node_and_key_and_its_siblings_run(keyspace: Keyspace) -> None:
    def impossible(state: State) -> State:
        return {"seen": [{"lock": threading.Lock()}]}

    step = Superstep.of(keyspace, graph_of(impossible=impossible, echo=echo))
    step.run(task("a", "impossible"), task("b", "echo"))
    with pytest.raises(UnserializableError, match=r"node 'impossible', state key 'seen'.*lock.*\[0\]\['lock'\]"):
        raise step.error("a")
    assert step.written("b")["seen"] == [{}]


def test_a_node_that_the_graph_does_not_have_fails_its_task(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo))
    step.run(task("a", "no_such_node"))
    assert "no_such_node" in str(step.error("a"))


# --- when it is recorded ----------------------------------------------------------------------------------------------


def in_thread(worker: WorkerProcess, message: object) -> threading.Thread:
    thread = threading.Thread(target=worker.run_message, args=(message,))
    thread.start()
    return thread


def test_a_slow_task_does_not_hold_back_the_news_of_a_finished_one(keyspace: Keyspace) -> None:
    started, may_end = threading.Event(), threading.Event()

    def slow(state: State) -> State:
        started.set()
        assert may_end.wait(PATIENCE_S)
        return {"seen": ["slow"]}

    step = Superstep.of(keyspace, graph_of(echo=echo, slow=slow))
    with step.worker() as worker:
        running = in_thread(worker, step.batch(task("quick", "echo"), task("slow", "slow")).to_wire())
        assert started.wait(PATIENCE_S)
        wait_until(lambda: step.rung() == ["quick"], "the doorbell of the finished task")
        assert step.recorded("quick", "slow").keys() == {"quick"}
        may_end.set()
        running.join()
    assert step.rung() == ["quick", "slow"]


def test_a_slow_coroutine_does_not_hold_back_the_news_of_a_finished_one(keyspace: Keyspace) -> None:
    may_end = threading.Event()

    async def quick(state: State) -> State:
        return {"seen": ["quick"]}

    async def slow(state: State) -> State:
        assert await asyncio.to_thread(may_end.wait, PATIENCE_S)
        return {"seen": ["slow"]}

    step = Superstep.of(keyspace, graph_of(quick=quick, slow=slow))
    with step.worker() as worker:
        running = in_thread(worker, step.batch(task("slow", "slow"), task("quick", "quick")).to_wire())
        wait_until(lambda: step.rung() == ["quick"], "the doorbell of the finished task")
        may_end.set()
        running.join()
    assert step.rung() == ["quick", "slow"]


def test_outcomes_that_come_quickly_are_recorded_together(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo))
    ids = [f"task-{number}" for number in range(100)]
    step.run(*(task(each, "echo") for each in ids))
    assert step.rung() == ids
    assert len(keyspace.rings(step.inbox)) < len(ids)


def test_a_worker_that_cannot_record_goes_on_as_another_so_that_its_claims_are_free(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    writes = step.store.keys.writes("", FIRST)

    def spoil(state: State) -> State:
        keyspace.client.set(writes, "not a hash")
        return {"seen": [1]}

    step.graph = graph_of(spoil=spoil, echo=echo)
    with step.worker() as worker:
        before = worker.info.id
        with pytest.raises(RedisError):
            worker.run_message(step.batch(task("a", "spoil")).to_wire())
        assert worker.info.id != before
        keyspace.client.unlink(writes)
        assert step.store.claims("", FIRST, ["a"]) == {"a": (1, before)}
        assert worker.run_message(step.batch(task("a", "echo", attempt=2)).to_wire()) == 1
    assert step.outcome("a").worker == worker.info.id


# --- coroutines -------------------------------------------------------------------------------------------------------


def test_coroutine_nodes_of_a_batch_run_side_by_side(keyspace: Keyspace) -> None:
    meeting = asyncio.Barrier(3)

    async def meet(state: State) -> State:
        async with asyncio.timeout(PATIENCE_S):
            await meeting.wait()
        return {"seen": ["met"]}

    step = Superstep.of(keyspace, graph_of(meet=meet))
    assert step.run(*(task(name, "meet") for name in "abc")) == 3
    assert [step.written(name)["seen"] for name in "abc"] == [["met"]] * 3


def test_what_a_coroutine_bound_to_the_loop_is_of_use_to_those_of_later_batches(keyspace: Keyspace) -> None:
    made: list[asyncio.Future[str]] = []

    async def connect(state: State) -> State:
        made.append(asyncio.get_running_loop().create_future())
        return {}

    async def use(state: State) -> State:
        asyncio.get_running_loop().call_soon(made[0].set_result, "answer")
        return {"seen": [await made[0]]}

    step = Superstep.of(keyspace, graph_of(connect=connect, use=use))
    with step.worker() as worker:
        worker.run_message(step.batch(task("a", "connect")).to_wire())
        worker.run_message(step.batch(task("b", "use")).to_wire())
    assert step.written("b")["seen"] == ["answer"]


# --- hostile messages -------------------------------------------------------------------------------------------------

SHAPES: Final[dict[str, object]] = {
    "nothing": None,
    "a number": 7,
    "text": "phalanx",
    "an empty list": [],
    "a map": {"graph": "g"},
    "the wrong format": [99, *[""] * 13],
    "too few fields": [1, "g"],
    "too many fields": [1, *[""] * 40],
    "deep": [[[[[[[[[[]]]]]]]]]],
    "bytes": b"\x80\x04cos\nsystem\n",
}


@pytest.mark.parametrize("wire", SHAPES.values(), ids=SHAPES.keys())
def test_a_message_that_is_no_batch_is_dropped(keyspace: Keyspace, wire: object) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo))
    before = keyspace.everything()
    with step.worker() as worker:
        assert worker.run_message(wire) == 0
    assert keyspace.everything() == before


BELONG: Final[dict[int, type]] = {9: dict, 13: list}
"""The places of a message at which there are collections."""

ODD: Final[list[object]] = [None, [], {}, 1.5, {"__reduce__": "os:system"}]
OTHER_KINDS: Final = [(place, value) for place in range(14) for value in ODD if type(value) is not BELONG.get(place)]


@pytest.mark.parametrize(("place", "value"), OTHER_KINDS, ids=repr)
def test_a_batch_with_a_part_of_another_kind_is_dropped(keyspace: Keyspace, place: int, value: object) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo))
    wire = step.batch(task("a", "echo")).to_wire()
    wire[place] = value
    before = keyspace.everything()
    with step.worker() as worker:
        assert worker.run_message(wire) == 0
    assert keyspace.everything() == before


def test_a_graph_that_is_named_like_a_module_is_not_imported(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo))
    wire = step.batch(task("a", "echo")).to_wire()
    wire[1] = "antigravity:geohash"
    assert "antigravity" not in sys.modules
    with step.worker() as worker:
        worker.run_message(wire)
    assert "antigravity" not in sys.modules
    assert isinstance(step.error("a"), GraphNotRegisteredError)


def test_a_message_cannot_choose_the_key_that_is_rung_at(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo))
    victim = keyspace.thread("victim").keys.checkpoints
    keyspace.write(victim, {"c": b"a record"})
    step.run_id = victim
    step.run(task("a", "echo"))
    assert keyspace.ttl_ms(victim) == -1
    assert step.rung() == ["a"]


def test_a_packets_argument_that_is_no_value_fails_its_task(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, graph_of(echo=echo))
    step.run(task("a", "echo", arg=b"\xc1"))
    assert isinstance(step.error("a"), CorruptDataError)
