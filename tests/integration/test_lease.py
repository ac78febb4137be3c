"""The right to drive a thread: one owner at a time, and a fencing token that only grows."""

import pytest
from tests.integration.keyspace import Keyspace
from tests.integration.stepping import FIRST, Superstep

from phalanx.checkpoint.redis.thread_store import LEASE_VALID_MS, Lease
from phalanx.errors import StaleLeaseError, ThreadBusyError


def test_tokens_only_grow_after_release_after_expiry_and_across_owners(keyspace: Keyspace) -> None:
    store = keyspace.thread()
    leases = [store.acquire("a"), store.acquire("a")]
    store.release(leases[-1], [("", "c1")])
    leases.append(store.acquire("b"))
    keyspace.expire_lease(store)
    leases.append(store.acquire("c"))
    tokens = [lease.token for lease in leases]
    assert tokens == sorted(set(tokens))


def test_a_token_grows_even_when_the_lease_was_deleted_in_between(keyspace: Keyspace) -> None:
    store = keyspace.thread(ttl_s=60)
    before = store.acquire("a")
    store.drop(before, [("", "c1")])
    assert not keyspace.names()
    assert store.acquire("b").token > before.token


def test_a_second_owner_is_refused_and_told_who_holds_the_thread_and_for_how_long(keyspace: Keyspace) -> None:
    store = keyspace.thread("the thread")
    store.acquire("first")
    before = keyspace.everything()
    with pytest.raises(ThreadBusyError, match="'the thread' is being driven by another run, first") as caught:
        store.acquire("second")
    assert caught.value.owner == "first"
    assert 0 < caught.value.expires_in_s <= LEASE_VALID_MS / 1000
    assert keyspace.everything() == before


def test_the_same_owner_may_take_the_thread_again_and_its_older_token_is_stale(keyspace: Keyspace) -> None:
    store = keyspace.thread()
    older, newer = store.acquire("a"), store.acquire("a")
    store.renew(newer, "c")
    with pytest.raises(StaleLeaseError):
        store.renew(older, "c")


def test_an_expired_lease_can_be_taken(keyspace: Keyspace) -> None:
    store = keyspace.thread()
    store.acquire("silent")
    keyspace.expire_lease(store)
    assert store.acquire("next").owner == "next"


def test_a_released_lease_can_be_taken_at_once(keyspace: Keyspace) -> None:
    store = keyspace.thread()
    store.release(store.acquire("a"), [("", "c1")])
    assert store.acquire("b").owner == "b"


def test_renewing_keeps_an_expired_lease_that_nobody_took(keyspace: Keyspace) -> None:
    store = keyspace.thread()
    lease = store.acquire("a")
    keyspace.expire_lease(store)
    store.renew(lease, "c")
    with pytest.raises(ThreadBusyError):
        store.acquire("b")


def test_a_stale_token_renews_releases_and_deletes_nothing(keyspace: Keyspace) -> None:
    store = keyspace.thread(ttl_s=60)
    stale = store.acquire("a")
    keyspace.expire_lease(store)
    current = store.acquire("b")
    store.store_blobs({"digest": b"bytes"})
    keyspace.write(store.keys.claims("", "c1"), {"task": "1|worker|0|call"})
    keyspace.client.expire(store.keys.claims("", "c1"), 60)
    before = keyspace.everything()
    with pytest.raises(StaleLeaseError, match="run a lost its lease on thread 't'"):
        store.renew(stale, "c")
    store.release(stale, [("", "c1")])
    store.drop(stale, [("", "c1")])
    assert keyspace.everything() == before
    store.renew(current, "c")


def test_a_thread_without_a_lease_is_nobodys(keyspace: Keyspace) -> None:
    store = keyspace.thread()
    with pytest.raises(StaleLeaseError):
        store.renew(Lease("a", 1), "c")
    assert not keyspace.names()


def test_the_claims_of_a_step_that_its_run_left_get_an_end_with_the_lease(keyspace: Keyspace) -> None:
    store = keyspace.thread()
    lease = store.acquire("a")
    claims = store.keys.claims("", "c1")
    keyspace.write(claims, {"task": "1|worker|0|call"})
    store.release(lease, [("", "c1")])
    assert keyspace.ttl_ms(claims) > 0


@pytest.mark.parametrize(("ttl_s", "lasts"), [(0, True), (60, False)])
def test_a_lease_lives_as_long_as_its_thread(keyspace: Keyspace, ttl_s: int, lasts: bool) -> None:
    store = keyspace.thread(ttl_s=ttl_s)
    store.acquire("a")
    assert (keyspace.lasting() == [store.keys.lease]) is lasts


def test_renewing_keeps_alive_what_a_run_that_is_not_kept_works_on(keyspace: Keyspace) -> None:
    store = keyspace.thread(ttl_s=60)
    lease = store.acquire("a")
    commit = {"blobs": {"d": b"x"}, "namespace": "", "checkpoint_id": "c", "parent_id": "", "record": b"r"}
    store.commit(lease=lease, **commit)  # type: ignore[arg-type]
    keyspace.write(store.keys.writes("", "c"), {"task": b"outcome"})
    keyspace.write(store.keys.claims("", "c"), {"task": b"claim"})
    for name in keyspace.names():
        keyspace.client.pexpire(name, 1000)
    store.renew(lease, "c")
    assert {name: keyspace.ttl_ms(name) > 1000 for name in keyspace.names()} == dict.fromkeys(keyspace.names(), True)
    assert len(keyspace.names()) == 6


def test_a_coordinator_whose_last_commit_the_server_lost_is_told_so(keyspace: Keyspace) -> None:
    """As after a failover to a replica that was behind: workers would refuse every task of the step it is in."""
    step = Superstep.of(keyspace)
    step.commit("c2")
    step.store.renew(step.lease, "c2")
    keyspace.write(step.store.keys.lease, {"at": step.store.keys.claims("", FIRST)})
    before = keyspace.everything()

    with pytest.raises(StaleLeaseError, match="or the state server lost its last writes"):
        step.store.renew(step.lease, "c2")
    with pytest.raises(StaleLeaseError):
        step.commit("c3", parent_id="c2")
    assert keyspace.everything() == before


def test_a_commit_whose_reply_got_lost_can_be_repeated(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    step.commit("c2")
    step.commit("c2")
    step.commit("c3", parent_id="c2")
    step.store.renew(step.lease, "c3")
