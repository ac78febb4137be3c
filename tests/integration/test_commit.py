"""Making a superstep real: all of it or nothing, and nothing at all with a stale token."""

import pytest
from tests.integration.keyspace import Keyspace
from tests.integration.stepping import FIRST, Superstep, task

from phalanx.checkpoint.configs import CheckpointAddress
from phalanx.checkpoint.packing import Packer
from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.redis.record import CheckpointRecord
from phalanx.checkpoint.serde import Serializer
from phalanx.errors import StaleLeaseError
from phalanx.protocol.keys import place


def with_a_claimed_task(keyspace: Keyspace, *, ttl_s: int = 0) -> Superstep:
    """A superstep that has a checkpoint before it, and one task that is claimed and has its outcome."""
    step = Superstep.of(keyspace, ttl_s=ttl_s)
    step.store.commit(
        lease=step.lease, blobs={}, namespace="", checkpoint_id=FIRST, parent_id="c0", record=b"the one before"
    )
    at_work = step.as_seen_by("worker", step.batch(task("a")))
    assert at_work.claim() == {"a"}
    at_work.record({"a": b"outcome"}, {"digest": b"bytes"})
    return step


@pytest.mark.parametrize("ttl_s", [0, 60])
def test_a_stale_token_changes_nothing(keyspace: Keyspace, ttl_s: int) -> None:
    step = with_a_claimed_task(keyspace, ttl_s=ttl_s)
    keyspace.expire_lease(step.store)
    step.store.acquire("another")
    before = keyspace.everything()
    with pytest.raises(StaleLeaseError):
        step.commit(blobs={"new": b"blob"})
    with pytest.raises(StaleLeaseError):
        step.store.reopen(lease=step.lease, namespace="", checkpoint_id=FIRST, errors={"a": ("a\x00-1", b"an error")})
    assert keyspace.everything() == before


def test_a_commit_without_any_lease_changes_nothing(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    keyspace.client.unlink(step.store.keys.lease)
    with pytest.raises(StaleLeaseError):
        step.commit(blobs={"new": b"blob"})
    assert not keyspace.names()


def test_a_blob_is_stored_once_and_never_changed(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace)
    step.commit("c2", blobs={"digest": b"bytes"})
    step.commit("c3", parent_id="c2", blobs={"digest": b"other bytes", "more": b"more"})
    step.store.store_blobs({"digest": b"still other bytes"})
    assert keyspace.fields(step.store.keys.blobs) == {b"digest": b"bytes", b"more": b"more"}


def test_a_commit_retires_the_claims_of_its_step_and_keeps_its_outcomes(keyspace: Keyspace) -> None:
    step = with_a_claimed_task(keyspace)
    step.commit()
    assert keyspace.ttl_ms(step.store.keys.claims("", FIRST)) == -2
    assert step.recorded("a") == {"a": b"outcome"}


def test_of_a_thread_that_is_not_kept_only_the_newest_checkpoint_stays_and_every_key_has_an_end(
    keyspace: Keyspace,
) -> None:
    step = with_a_claimed_task(keyspace, ttl_s=60)
    assert not keyspace.lasting()
    step.commit()
    keys = step.store.keys
    assert keyspace.fields(keys.checkpoints) == {place("", "c2").encode(): b"a record"}
    assert keyspace.members(keys.index) == [place("", "c2").encode()]
    assert keyspace.ttl_ms(keys.writes("", FIRST)) == -2
    assert not keyspace.lasting()
    step.store.drop(step.lease, [("", "c2")])
    assert set(keyspace.names()) <= {step.inbox}


def test_a_thread_that_is_kept_keeps_every_checkpoint(keyspace: Keyspace) -> None:
    step = with_a_claimed_task(keyspace)
    step.commit()
    assert keyspace.fields(step.store.keys.checkpoints).keys() == {place("", name).encode() for name in (FIRST, "c2")}


@pytest.mark.parametrize("ttl_s", [0, 60])
def test_committing_the_same_superstep_twice_is_harmless(keyspace: Keyspace, ttl_s: int) -> None:
    step = with_a_claimed_task(keyspace, ttl_s=ttl_s)
    step.commit(blobs={"new": b"blob"})
    before = keyspace.everything()
    step.commit(blobs={"new": b"blob"})
    assert keyspace.everything() == before


def test_a_thread_whose_checkpoints_are_kept_elsewhere_gets_blobs_but_no_checkpoint(keyspace: Keyspace) -> None:
    step = Superstep.of(keyspace, ttl_s=60)
    step.store.commit(
        lease=step.lease,
        blobs={"digest": b"bytes"},
        namespace="",
        checkpoint_id="c2",
        parent_id=FIRST,
        record=b"",
    )
    assert keyspace.names() == sorted([step.store.keys.blobs, step.store.keys.lease])
    assert not keyspace.lasting()


def test_what_a_coordinator_commits_a_saver_reads(keyspace: Keyspace) -> None:
    step, packer = Superstep.of(keyspace, thread_id="read back"), Packer(Serializer())
    large = {"pages": ["text" * 1000]}
    record = CheckpointRecord(
        v=4,
        ts="2025-01-01T00:00:00+00:00",
        parent_id=FIRST,
        versions={"small": 1, "large": 2},
        seen={"node": {"small": 1}},
        updated=["large"],
        metadata={"source": "loop", "step": 3, "parents": {}},
        values={"small": packer.ref((1, "a")), "large": packer.ref(large)},
    )
    step.store.commit(
        lease=step.lease,
        blobs=packer.take_blobs(),
        namespace="",
        checkpoint_id="c2",
        parent_id=FIRST,
        record=record.pack(Serializer()),
    )
    assert len(keyspace.fields(step.store.keys.blobs)) == 1
    saver = RedisSaver(keyspace.client, prefix=keyspace.prefix)
    found = saver.get_tuple(CheckpointAddress("read back", "", None).config())
    assert found is not None
    assert found.checkpoint == {
        "v": 4,
        "id": "c2",
        "ts": "2025-01-01T00:00:00+00:00",
        "channel_values": {"small": (1, "a"), "large": large},
        "channel_versions": {"small": 1, "large": 2},
        "versions_seen": {"node": {"small": 1}},
        "updated_channels": ["large"],
    }
    assert found.metadata == {"source": "loop", "step": 3, "parents": {}}
    assert found.parent_config == CheckpointAddress("read back", "", FIRST).config()
