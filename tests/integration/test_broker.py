"""The way of messages: what is sent arrives, and what a worker must not accept does nothing at all."""

import base64
import json
import pickle
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, TypedDict, cast

import msgpack  # type: ignore[import-untyped]
import pytest
from tests.integration.keyspace import Keyspace
from tests.integration.stepping import Superstep, task
from tests.support import wait_until

from phalanx.coordinator.broker import Broker
from phalanx.coordinator.local import LocalServer
from phalanx.errors import ClusterUnreachableError
from phalanx.graph import END, START, StateGraph
from phalanx.protocol.batch import DEFAULT_QUEUE, RUN_BATCH
from phalanx.testing import in_process_cluster
from phalanx.testing.in_process import InProcessCluster

_library: Any = msgpack
_packb: Final = cast("Callable[[object], bytes]", _library.packb)


class State(TypedDict, total=False):
    value: int


def double(state: State) -> State:
    return {"value": 2 * state.get("value", 0)}


class Canary:
    """A value that makes a file when it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.file,)


@pytest.fixture(scope="module")
def cluster() -> Iterator[InProcessCluster]:
    """A real worker."""
    with in_process_cluster() as started:
        yield started


def push(cluster: InProcessCluster, body: bytes, content_type: str, encoding: str, task_name: str = RUN_BATCH) -> None:
    """Put a message onto the workers' queue, as one does who can write to the broker and nothing else."""
    identity = str(uuid.uuid4())
    message = {
        "body": base64.b64encode(body).decode(),
        "content-type": content_type,
        "content-encoding": encoding,
        "headers": {"lang": "py", "task": task_name, "id": identity, "root_id": identity, "argsrepr": "()"},
        "properties": {
            "correlation_id": identity,
            "reply_to": str(uuid.uuid4()),
            "delivery_mode": 2,
            "delivery_info": {"exchange": "", "routing_key": DEFAULT_QUEUE},
            "priority": 0,
            "body_encoding": "base64",
            "delivery_tag": str(uuid.uuid4()),
        },
    }
    cluster.saver.client.lpush(DEFAULT_QUEUE, json.dumps(message))


def works(cluster: InProcessCluster) -> bool:
    """Whether the worker runs what it is given."""
    builder = StateGraph(State).add_node("double", double).add_edge(START, "double").add_edge("double", END)
    graph = builder.compile(name="doubling").with_cluster(cluster)
    return bool(graph.invoke({"value": 21}) == {"value": 42})


def call(*arguments: object) -> tuple[object, ...]:
    """The body of a Celery message: arguments, named arguments, and what to do next."""
    return (arguments, {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None})


def test_a_canary_sings_when_it_is_unpickled(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    pickle.loads(pickle.dumps(Canary(canary)))
    assert canary.exists()


@pytest.mark.parametrize("content_type", ["application/x-python-serialize", "pickle", "application/x-pickle"])
def test_a_pickled_message_is_not_unpickled_and_the_worker_goes_on(
    cluster: InProcessCluster, tmp_path: Path, content_type: str
) -> None:
    canary = tmp_path / "canary"
    push(cluster, pickle.dumps(call(Canary(canary))), content_type, "binary")
    assert works(cluster)
    wait_until(lambda: not cluster.saver.client.llen(DEFAULT_QUEUE), "the message is off the queue")
    assert not canary.exists()


def test_pickle_under_the_name_of_msgpack_is_not_unpickled(cluster: InProcessCluster, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    push(cluster, pickle.dumps(call(Canary(canary))), "application/x-msgpack", "binary")
    assert works(cluster)
    assert not canary.exists()


@pytest.mark.parametrize("content_type", ["application/json", "application/x-yaml", "text/plain"])
def test_a_message_of_another_kind_than_msgpack_is_rejected(
    cluster: InProcessCluster, keyspace: Keyspace, content_type: str
) -> None:
    step = Superstep.of(keyspace)
    wire = step.batch(task("a")).to_wire()
    body = json.dumps(call([part if not isinstance(part, bytes) else "" for part in wire])).encode()
    before = keyspace.everything()
    push(cluster, body, content_type, "utf-8")
    assert works(cluster)
    wait_until(lambda: not cluster.saver.client.llen(DEFAULT_QUEUE), "the message is off the queue")
    assert keyspace.everything() == before


@pytest.mark.parametrize("name", ["os.system", "celery.backend_cleanup", "celery.chain", "phalanx.no_such_task"])
def test_a_task_of_another_name_runs_nothing_of_ours(cluster: InProcessCluster, name: str) -> None:
    push(cluster, _packb(call("touch canary")), "application/x-msgpack", "binary", name)
    assert works(cluster)


@pytest.mark.parametrize("argument", [None, 7, "text", [], {"graph": "g"}, [1] * 13], ids=repr)
def test_a_message_that_is_no_batch_is_dropped_and_the_worker_goes_on(
    cluster: InProcessCluster, argument: object
) -> None:
    push(cluster, _packb(call(argument)), "application/x-msgpack", "binary")
    assert works(cluster)


@pytest.mark.parametrize("body", [b"\xc1", b"\xdd\xff\xff\xff\xff", b"\x91" * 100_000], ids=lambda body: repr(body[:5]))
def test_bytes_that_are_no_message_are_dropped_and_the_worker_goes_on(cluster: InProcessCluster, body: bytes) -> None:
    push(cluster, body, "application/x-msgpack", "binary")
    assert works(cluster)


def test_what_is_sent_waits_in_its_queue_until_a_worker_takes_it(server: LocalServer, keyspace: Keyspace) -> None:
    broker, queue = Broker(server.broker_url), f"{keyspace.prefix}queue"
    step = Superstep.of(keyspace)
    try:
        assert broker.depth(queue) == 0
        for count in (1, 2):
            broker.send(step.batch(task("a")), queue)
            assert broker.depth(queue) == count
        (message, _) = keyspace.rings(queue)
        sent = json.loads(message)
        assert sent["content-type"] == "application/x-msgpack"
        assert sent["headers"]["task"] == RUN_BATCH
    finally:
        broker.close()
        keyspace.client.unlink(queue)


def test_a_broker_that_is_gone_is_named() -> None:
    server = LocalServer.start()
    broker = Broker(server.broker_url)
    broker.depth("queue")
    server.close()
    with pytest.raises(ClusterUnreachableError, match=r"the broker at .* does not answer"):
        broker.depth("queue")
    broker.close()
