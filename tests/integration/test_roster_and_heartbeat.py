"""Who is alive: workers say so, and coordinators see it."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest
from redis import Redis
from tests.integration.keyspace import Keyspace
from tests.support import wait_until

from phalanx.checkpoint.redis.client import connect
from phalanx.coordinator.local import LocalServer
from phalanx.coordinator.roster import FRESH_FOR_S, Roster
from phalanx.protocol.keys import ClusterKeys
from phalanx.protocol.plain import pack
from phalanx.worker.heartbeat import DEADLINE_S, Heartbeat, WorkerInfo

ONE = WorkerInfo("host:1:aa", "host", 1, ("phalanx", "gpu"), 2)
TWO = WorkerInfo("other:2:bb", "other", 2, ("phalanx",), 1)


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def alive(keyspace: Keyspace, info: WorkerInfo) -> Generator[Heartbeat]:
    """A worker process whose heart beats."""
    heart = Heartbeat(keyspace.client, ClusterKeys(keyspace.prefix), info, with_parent=False)
    heart.start()
    try:
        yield heart
    finally:
        heart.stop()


def dies(keyspace: Keyspace, info: WorkerInfo) -> None:
    """As if the deadline of a worker process passed."""
    keyspace.client.unlink(ClusterKeys(keyspace.prefix).worker(info.id))


def listed(keyspace: Keyspace) -> set[bytes]:
    return set(keyspace.fields(ClusterKeys(keyspace.prefix).workers))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def roster(keyspace: Keyspace, clock: Clock) -> Roster:
    return Roster(keyspace.client, ClusterKeys(keyspace.prefix), clock)


def test_nobody_is_alive_at_first(roster: Roster) -> None:
    assert roster.alive() == ()
    assert roster.serving("phalanx").slots == 0


def test_a_worker_appears_with_its_first_beat_and_leaves_with_its_good_bye(keyspace: Keyspace, roster: Roster) -> None:
    with alive(keyspace, ONE):
        assert roster.alive() == (ONE,)
        assert 0 < keyspace.ttl_ms(ClusterKeys(keyspace.prefix).worker(ONE.id)) <= DEADLINE_S * 1000
        assert keyspace.lasting() == []
    assert keyspace.names() == []


def test_a_heart_goes_on_beating(keyspace: Keyspace) -> None:
    with alive(keyspace, ONE):
        dies(keyspace, ONE)
        wait_until(lambda: len(keyspace.names()) == 2, "the next beat")


def test_workers_are_counted_for_the_queues_they_serve(keyspace: Keyspace, roster: Roster) -> None:
    with alive(keyspace, ONE), alive(keyspace, TWO):
        everyone, few = roster.serving("phalanx"), roster.serving("gpu")
    assert (everyone.slots, everyone.hosts, everyone.ids) == (3, ["host", "other"], frozenset({ONE.id, TWO.id}))
    assert (few.slots, few.hosts, few.ids) == (2, ["host"], frozenset({ONE.id}))
    assert roster.serving("no such queue").alive == ()


def test_a_worker_whose_deadline_has_passed_is_left_out_and_its_entry_removed(
    keyspace: Keyspace, roster: Roster, clock: Clock
) -> None:
    with alive(keyspace, ONE), alive(keyspace, TWO):
        assert len(roster.alive()) == 2
        dies(keyspace, ONE)
        assert len(roster.alive()) == 2, "what was read is fresh for a while"
        clock.now += FRESH_FOR_S
        assert roster.alive() == (TWO,)
        assert listed(keyspace) == {TWO.id.encode()}


def test_while_nobody_is_alive_every_look_is_new(keyspace: Keyspace, roster: Roster) -> None:
    assert roster.alive() == ()
    with alive(keyspace, ONE):
        assert roster.alive() == (ONE,)


def test_who_is_dead_is_looked_up_now(keyspace: Keyspace, roster: Roster) -> None:
    with alive(keyspace, ONE), alive(keyspace, TWO):
        assert roster.dead([ONE.id, TWO.id]) == set()
        dies(keyspace, ONE)
        assert roster.dead([ONE.id, TWO.id, ONE.id, "never seen"]) == {ONE.id, "never seen"}
    assert roster.dead([]) == set()


def test_a_worker_that_goes_on_as_another_is_alive_as_that_one(
    keyspace: Keyspace, roster: Roster, clock: Clock
) -> None:
    other = replace(ONE, id="host:1:cc")
    with alive(keyspace, ONE) as heart:
        heart.go_on_as(other)
        dies(keyspace, ONE)
        assert roster.alive() == (other,)
        assert roster.dead([ONE.id, other.id]) == {ONE.id}
    assert keyspace.names() == []


@pytest.mark.parametrize(
    "entry",
    [b"", b"\xc1", pack(7), pack(["id"]), pack([1, "host", 1, ["q"], 1]), pack(["id", "h", 1, ["q"], "many"])],
    ids=repr,
)
def test_an_entry_that_cannot_be_read_is_left_out(keyspace: Keyspace, roster: Roster, entry: bytes) -> None:
    with alive(keyspace, ONE):
        keyspace.write(ClusterKeys(keyspace.prefix).workers, {"of another version": entry})
        assert roster.alive() == (ONE,)


def test_a_heart_that_never_beat_can_be_stopped(keyspace: Keyspace) -> None:
    Heartbeat(keyspace.client, ClusterKeys(keyspace.prefix), ONE, with_parent=False).stop()
    assert keyspace.names() == []


def test_a_worker_leaves_even_when_the_server_is_gone_before_it() -> None:
    server = LocalServer.start()
    client: Redis = connect(server.url, retries=0)
    heart = Heartbeat(client, ClusterKeys(), ONE, with_parent=False)
    heart.start()
    server.close()
    heart.stop()
    client.close()
