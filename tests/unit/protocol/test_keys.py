"""Key names: no id, whatever it holds, reaches into another thread's keys or collides with another's."""

import re
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from phalanx.protocol.keys import ClusterKeys, ThreadKeys, place, place_parts, plain, retry_field

HOSTILE: Final = [
    "",
    "{",
    "}",
    "}:lease",
    "{a}",
    "a\x00b",
    "\x00",
    "🜁",
    "a" * 10_000,
    "a:b",
    "~",
    " ",
    "\n",
    "\udcff",
    "*",
]
identities = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(),
    st.text(alphabet="{}:~\x00ab.-_", max_size=6),
    st.text(alphabet=st.characters(categories=["Cs"]), max_size=3),
)


def keys_of(thread_id: str, namespace: str = "n", checkpoint_id: str = "c") -> Sequence[str]:
    keys = ThreadKeys(thread_id)
    return [
        keys.lease,
        keys.blobs,
        keys.checkpoints,
        keys.index,
        keys.about,
        keys.writes(namespace, checkpoint_id),
        keys.claims(namespace, checkpoint_id),
    ]


def hash_tag(key: str) -> str:
    """What a Redis Cluster takes for the hash tag: between the first brace and the next closing one."""
    start = key.index("{")
    return key[start + 1 : key.index("}", start)]


@given(thread_id=identities, namespace=identities, checkpoint_id=identities)
def test_all_keys_of_a_thread_have_the_same_hash_tag_and_it_is_not_empty(
    thread_id: str, namespace: str, checkpoint_id: str
) -> None:
    tags = {hash_tag(key) for key in keys_of(thread_id, namespace, checkpoint_id)}

    assert tags == {plain(thread_id)}
    assert tags != {""}


@given(one=identities, other=identities)
@example("a", "~" + "0" * 32)
@example("", " ")
def test_two_threads_share_no_key(one: str, other: str) -> None:
    if one != other:
        assert not set(keys_of(one)) & set(keys_of(other))


@given(
    one=st.tuples(identities, identities, identities),
    other=st.tuples(identities, identities, identities),
)
@example(("t", "", "a"), ("t", "a", ""))
@example(("t", "a:b", "c"), ("t", "a", "b:c"))
def test_two_places_share_no_key(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    if one != other:
        assert not set(keys_of(*one)[5:]) & set(keys_of(*other)[5:])


@given(thread_id=identities, namespace=identities, checkpoint_id=identities)
def test_a_key_is_short_printable_and_without_spaces_whatever_it_is_for(
    thread_id: str, namespace: str, checkpoint_id: str
) -> None:
    cluster = ClusterKeys()
    for key in [*keys_of(thread_id, namespace, checkpoint_id), cluster.worker(thread_id), cluster.inbox(thread_id)]:
        assert re.fullmatch(r"phalanx:[A-Za-z0-9_.~:{}\-]+", key)
        assert len(key) < 450
        assert key.count("{") == key.count("}") == (0 if key.startswith(("phalanx:worker", "phalanx:inbox")) else 1)


@given(identity=identities)
def test_the_seven_keys_of_a_thread_differ(identity: str) -> None:
    assert len(set(keys_of(identity, identity, identity))) == 7


@given(identity=identities, prefix=st.sampled_from(["phalanx:", "", "a*[b]?\\^-:", "{x}:"]))
def test_the_keys_of_a_thread_are_known_from_its_index(identity: str, prefix: str) -> None:
    keys = ThreadKeys(identity, prefix)
    found = ThreadKeys.of_index(keys.index, prefix)
    assert found is not None
    assert (found.about, found.writes("n", "c")) == (keys.about, keys.writes("n", "c"))
    assert found.hashed == keys.hashed
    assert found.thread_id == ("" if keys.hashed else identity)
    assert ThreadKeys.of_index(keys.blobs, prefix) is None
    assert ThreadKeys.of_index(f"other{keys.index}", prefix) is None


def test_a_pattern_takes_the_prefix_literally() -> None:
    assert ThreadKeys.index_pattern("phalanx:") == "phalanx:{*}:index"
    assert ThreadKeys.index_pattern("a*[b]?\\^-:") == "a\\*\\[b\\]\\?\\\\\\^\\-:{*}:index"


@given(one=identities, other=identities)
def test_keys_of_the_cluster_do_not_collide(one: str, other: str) -> None:
    keys = ClusterKeys()
    made = {keys.workers, keys.worker(one), keys.inbox(one), *keys_of(one), *keys_of(other)}
    assert len(made) == 3 + len({*keys_of(one), *keys_of(other)})
    if one != other:
        assert keys.worker(one) != keys.worker(other)
        assert keys.inbox(one) != keys.inbox(other)


def test_plain_ids_stay_readable() -> None:
    assert ThreadKeys("user-42.b").lease == "phalanx:{user-42.b}:lease"
    assert ThreadKeys("t", "test:").writes("", "1ef-8003") == "test:{t}:writes::1ef-8003"
    assert ThreadKeys("t").claims("outer:1", "c") == f"phalanx:{{t}}:claims:{plain('outer:1')}:c"
    assert ClusterKeys("test:").inbox("run-1") == "test:inbox:run-1"


def test_hashed_ids_are_a_storage_format_and_stay_as_they_are() -> None:
    assert plain("user 42") == "~d04d120de1aca33089bc21ea90960676"
    assert plain("") == "~cae66941d9efbd404e4d88758ea67670"


# --- places -----------------------------------------------------------------------------------------------------------

without_nul = st.text(alphabet=st.characters(exclude_characters="\x00"))


@given(namespace=without_nul, checkpoint_id=without_nul)
def test_a_place_can_be_taken_apart(namespace: str, checkpoint_id: str) -> None:
    assert place_parts(place(namespace, checkpoint_id)) == (namespace, checkpoint_id)


@given(namespace=without_nul, ids=st.lists(without_nul, max_size=5))
def test_places_of_a_namespace_sort_by_checkpoint(namespace: str, ids: list[str]) -> None:
    assert sorted(place(namespace, one) for one in ids) == [place(namespace, one) for one in sorted(ids)]


@pytest.mark.parametrize(("namespace", "checkpoint_id"), [("a\x00b", "c"), ("a", "b\x00c"), ("\x00", "\x00")])
def test_a_place_that_could_not_be_taken_apart_is_refused(namespace: str, checkpoint_id: str) -> None:
    with pytest.raises(ValueError, match="NUL"):
        place(namespace, checkpoint_id)


@given(ids=st.lists(st.text(alphabet=st.characters(exclude_characters="\x00")), unique=True, max_size=5))
def test_where_a_retry_is_kept_is_no_task_s_id_and_no_other_task_s_place(ids: list[str]) -> None:
    fields = [retry_field(task_id) for task_id in ids]

    assert len({*fields, *ids}) == 2 * len(ids)


def test_where_a_retry_is_kept_is_a_storage_format() -> None:
    assert retry_field("id") == "id\x00again"
