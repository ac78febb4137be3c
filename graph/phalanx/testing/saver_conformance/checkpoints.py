"""Checkpoints: put, get, list; what they hold; and that nothing stored can change."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import pytest

from phalanx.testing.saver_conformance.asking import Asking, Rules
from phalanx.testing.saver_conformance.made import (
    TASKS,
    at,
    chain,
    id_of,
    loaded,
    made,
    metadata,
    next_version,
    numbers,
    put,
    values_at,
)

VALUES: Final[dict[str, Any]] = {
    "nothing": None,
    "false": False,
    "zero": 0,
    "a large number": 2**63 - 1,
    "a larger number": 2**200,
    "a negative number": -1,
    "a fraction": 0.1,
    "infinity": float("inf"),
    "no text": "",
    "NUL": "a\x00b",
    "emoji": "🦉 é",
    "bytes": b"\x00\xff",
    "no bytes": b"",
    "an empty list": [],
    "a nested list": [[1, ["a", None]], {"b": [2.5]}],
    "an empty dict": {},
    "a dict with numbers as keys": {1: "a", 2: "b"},
    "a large text": "text " * 100_000,
    "a large list": [{"number": number, "text": "x" * 20} for number in range(2_000)],
    "a tuple": (1, ("a", [2])),
    "a set": {1, 2},
    "a frozen set": frozenset({"a"}),
    "a time": datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
    "a day": date(2026, 1, 2),
    "a time span": timedelta(days=1, microseconds=1),
    "a decimal": Decimal("0.10"),
    "a UUID": UUID(int=7),
}


class CheckpointRules(Rules):
    """About checkpoints and lists of them."""

    def test_a_thread_that_nobody_wrote_has_nothing(self, asking: Asking) -> None:
        assert asking.get_tuple(at("unknown")) is None
        assert asking.get_tuple(at("unknown", "c")) is None
        assert asking.get(at("unknown")) is None
        assert asking.list(at("unknown")) == []
        assert asking.list(at("unknown", namespace=None)) == []

    def test_asking_for_a_thread_does_not_make_one(self, asking: Asking) -> None:
        put(asking, at(), {"number": 1})
        asking.get_tuple(at("ghost"))
        asking.list(at("ghost"))
        assert asking.list(at("ghost", namespace=None)) == []
        assert numbers(asking.list(at(namespace=None))) == [1]

    def test_what_is_put_is_what_is_got(self, asking: Asking) -> None:
        checkpoint, new = made(asking, {"small": 1, "large": "text" * 10_000, "none": None, "empty": []})
        where = asking.put(at(), checkpoint, metadata(3, source="update"), new)
        assert where["configurable"]["thread_id"] == "t"
        assert where["configurable"].get("checkpoint_ns", "") == ""
        assert id_of(where) == checkpoint["id"]
        for asked in (where, at()):
            found = loaded(asking, asked)
            assert id_of(found.config) == checkpoint["id"]
            assert dict(found.checkpoint) == checkpoint
            assert {key: found.metadata[key] for key in ("source", "step", "parents")} == metadata(3, source="update")
            assert not found.pending_writes
            assert asking.get(asked) == found.checkpoint

    @pytest.mark.parametrize("name", VALUES)
    def test_a_value_comes_back_as_what_it_was(self, asking: Asking, name: str) -> None:
        if name in self.values_lost:
            pytest.skip(f"this saver's serializer does not keep {name}")
        value = VALUES[name]
        where = put(asking, at(), {"value": value, "inside": [value]})
        asking.put_writes(where, [("value", value)], "task")
        found = loaded(asking, where)
        written = found.pending_writes[0][2]
        for back in (found.checkpoint["channel_values"]["value"], found.checkpoint["channel_values"]["inside"][0]):
            assert (type(back), repr(back)) == (type(value), repr(value))
        assert (type(written), repr(written)) == (type(value), repr(value))

    def test_metadata_comes_back(self, asking: Asking) -> None:
        about = metadata(
            7, source="fork", parents={"": "c", "sub|n:1": "d"}, user="ada", score=0.5, on=True, run_id="r"
        )
        where = put(asking, at(), {}, about)
        found = loaded(asking, where).metadata
        assert {key: found[key] for key in about} == about

    def test_packets_come_back_with_their_arguments(self, asking: Asking) -> None:
        shared = {"pages": ["text" * 1_000]}
        packets = [asking.packet("node", {"page": number}) for number in range(3)]
        packets += [asking.packet("node", shared) for _ in range(20)]
        where = put(asking, at(), {TASKS: packets})
        found = values_at(asking, where)[TASKS]
        assert [(each.node, each.arg) for each in found] == [(each.node, each.arg) for each in packets]
        found[5].arg["pages"].clear()
        assert found[6].arg == shared

    # --- which checkpoint -------------------------------------------------------------------------------------------

    def test_without_an_id_the_latest_checkpoint_is_meant(self, asking: Asking) -> None:
        configs = chain(asking, 3)
        assert values_at(asking, at()) == {"number": 2}
        for number, config in enumerate(configs):
            assert values_at(asking, config) == {"number": number}

    def test_the_latest_checkpoint_is_the_one_with_the_greatest_id_not_the_last_one_put(self, asking: Asking) -> None:
        put(asking, at(), {"number": 2}, identity="c2")
        put(asking, at(), {"number": 1}, identity="c1")
        assert loaded(asking, at()).checkpoint["id"] == "c2"
        assert numbers(asking.list(at())) == [2, 1]

    def test_an_id_that_does_not_exist_is_nothing(self, asking: Asking) -> None:
        where = put(asking, at(), {})
        assert asking.get_tuple(at(checkpoint="no such id")) is None
        assert asking.get_tuple(at(checkpoint=id_of(where), namespace="other")) is None
        assert asking.list(at(checkpoint="no such id")) == []

    def test_a_checkpoint_knows_its_parent(self, asking: Asking) -> None:
        first, second, third = chain(asking, 3)
        assert id_of(loaded(asking, third).parent_config) == id_of(second)
        assert id_of(loaded(asking, second).parent_config) == id_of(first)
        assert loaded(asking, first).parent_config is None
        assert values_at(asking, loaded(asking, third).parent_config) == {"number": 1}

    def test_a_parent_that_is_not_there_is_no_failure(self, asking: Asking) -> None:
        where = asking.put(at(checkpoint="never put"), *_with_about(made(asking, {"number": 1})))
        found = loaded(asking, where)
        assert found.checkpoint["channel_values"] == {"number": 1}
        assert found.parent_config is None or asking.get_tuple(found.parent_config) is None
        assert numbers(asking.list(at())) == [1]

    def test_putting_the_same_checkpoint_again_changes_nothing(self, asking: Asking) -> None:
        checkpoint, new = made(asking, {"number": 1})
        where = asking.put(at(), checkpoint, metadata(), new)
        before = loaded(asking, where)
        asking.put(at(), checkpoint, metadata(), new)
        assert loaded(asking, where) == before
        assert len(asking.list(at())) == 1

    # --- what changes and what stays ----------------------------------------------------------------------------------

    def test_a_channel_that_did_not_change_keeps_its_value(self, asking: Asking) -> None:
        large = ["text" * 1_000]
        where = put(asking, at(), {"large": large, "number": 0})
        for number in range(1, 5):
            where = put(asking, where, {"large": large, "number": number}, changed=["number"])
        assert values_at(asking, where) == {"large": large, "number": 4}

    def test_a_channel_that_lost_its_value_has_none(self, asking: Asking) -> None:
        first = put(asking, at(), {"a": 1, "b": 2})
        second = put(asking, first, {"b": 2}, changed=["a"])
        assert values_at(asking, second) == {"b": 2}
        assert values_at(asking, first) == {"a": 1, "b": 2}

    def test_branches_from_one_checkpoint_have_values_of_their_own(self, asking: Asking) -> None:
        root = put(asking, at(), {"a": "root", "same": 1})
        one = put(asking, root, {"a": "one", "same": 1}, changed=["a"])
        other = put(asking, root, {"a": "other", "same": 1}, changed=["a"])
        for config, value in ((root, "root"), (one, "one"), (other, "other")):
            assert values_at(asking, config) == {"a": value, "same": 1}
        for config in (one, other):
            assert id_of(loaded(asking, config).parent_config) == id_of(root)

    def test_versions_only_grow(self, asking: Asking) -> None:
        versions = [next_version(asking, None)]
        for _ in range(120):
            versions.append(next_version(asking, versions[-1]))
        assert versions == sorted(versions)
        assert len(set(versions)) == 121
        put(asking, at(), {"a": 1})
        assert loaded(asking, at()).checkpoint["channel_versions"]["a"] < versions[-1]

    # --- nothing that is stored can change ----------------------------------------------------------------------------

    def test_what_was_put_can_change_without_changing_what_is_stored(self, asking: Asking) -> None:
        value, about = {"list": [1]}, metadata(parents={"": "p"})
        checkpoint, new = made(asking, {"value": value})
        where = asking.put(at(), checkpoint, about, new)
        version = checkpoint["channel_versions"]["value"]
        written = [1]
        asking.put_writes(where, [("value", written)], "task")
        value["list"].append(2)
        written.append(2)
        about["parents"]["other"] = "q"
        checkpoint["channel_values"]["other"] = 1
        checkpoint["channel_versions"]["value"] = next_version(asking, version)
        found = loaded(asking, where)
        assert found.checkpoint["channel_values"] == {"value": {"list": [1]}}
        assert found.checkpoint["channel_versions"] == {"value": version}
        assert found.metadata["parents"] == {"": "p"}
        assert found.pending_writes[0][2] == [1]

    def test_what_was_got_can_change_without_changing_what_is_stored(self, asking: Asking) -> None:
        where = put(asking, at(), {"value": {"list": [1]}})
        asking.put_writes(where, [("value", [1])], "task")
        first = loaded(asking, where)
        first.checkpoint["channel_values"]["value"]["list"].append(2)
        first.checkpoint["channel_versions"].clear()
        first.checkpoint["versions_seen"]["node"].clear()
        first.metadata["step"] = 99
        first.pending_writes[0][2].append(2)
        again = loaded(asking, where)
        assert again.checkpoint["channel_values"] == {"value": {"list": [1]}}
        assert list(again.checkpoint["channel_versions"]) == ["value"]
        assert list(again.checkpoint["versions_seen"]["node"]) == ["value"]
        assert again.metadata["step"] == 0
        assert again.pending_writes[0][2] == [1]

    # --- lists --------------------------------------------------------------------------------------------------------

    def test_checkpoints_are_listed_newest_first(self, asking: Asking) -> None:
        chain(asking, 4)
        assert numbers(asking.list(at())) == [3, 2, 1, 0]

    def test_a_list_holds_whole_checkpoints(self, asking: Asking) -> None:
        first, second = chain(asking, 2)
        asking.put_writes(second, [("a", 1)], "task")
        assert asking.list(at()) == [loaded(asking, second), loaded(asking, first)]

    def test_a_list_has_a_limit(self, asking: Asking) -> None:
        chain(asking, 5)
        assert numbers(asking.list(at(), limit=2)) == [4, 3]
        assert numbers(asking.list(at(), limit=99)) == [4, 3, 2, 1, 0]
        assert numbers(asking.list(at(), limit=None)) == [4, 3, 2, 1, 0]

    def test_a_list_has_a_bound_which_is_not_in_it(self, asking: Asking) -> None:
        configs = chain(asking, 5)
        assert numbers(asking.list(at(), before=configs[2])) == [1, 0]
        assert numbers(asking.list(at(), before=configs[0])) == []
        assert numbers(asking.list(at(), before=configs[4], limit=1)) == [3]

    def test_a_list_has_a_filter_on_metadata(self, asking: Asking) -> None:
        configs = chain(asking, 5, user="ada", on=True)
        assert numbers(asking.list(at(), filter={"source": "input"})) == [0]
        assert numbers(asking.list(at(), filter={"source": "loop", "step": 3})) == [3]
        assert numbers(asking.list(at(), filter={"user": "ada", "on": True})) == [4, 3, 2, 1, 0]
        assert numbers(asking.list(at(), filter={"user": "lin"})) == []
        assert numbers(asking.list(at(), filter={"source": "input", "no such key": 1})) == []
        assert numbers(asking.list(at(), filter={})) == [4, 3, 2, 1, 0]
        assert numbers(asking.list(at(), filter={"source": "loop"}, before=configs[4], limit=2)) == [3, 2]

    def test_a_config_with_an_id_lists_that_checkpoint(self, asking: Asking) -> None:
        configs = chain(asking, 3)
        assert numbers(asking.list(configs[1])) == [1]

    def test_a_long_list_is_complete(self, asking: Asking) -> None:
        configs = chain(asking, 230)
        assert numbers(asking.list(at())) == [*range(230)][::-1]
        assert numbers(asking.list(at(), before=configs[210])) == [*range(210)][::-1]

    # --- namespaces ---------------------------------------------------------------------------------------------------

    def test_namespaces_are_apart(self, asking: Asking) -> None:
        namespaces = ["", "a", "a:1", "a:1|b:2", "a:1|b", "ab", "é🦉"]
        for number, namespace in enumerate(namespaces):
            where = put(asking, at(namespace=namespace), {"number": number}, identity="same id")
            asking.put_writes(where, [("a", number)], "task")
        for number, namespace in enumerate(namespaces):
            found = loaded(asking, at(namespace=namespace))
            assert found.config["configurable"]["checkpoint_ns"] == namespace
            assert found.checkpoint["channel_values"] == {"number": number}
            assert [tuple(write) for write in found.pending_writes] == [("task", "a", number)]
            assert numbers(asking.list(at(namespace=namespace))) == [number]

    def test_without_a_namespace_the_checkpoints_of_all_are_listed(self, asking: Asking) -> None:
        for number in range(6):
            put(asking, at(namespace=["", "b", "a"][number % 3]), {"number": number})
        found = numbers(asking.list(at(namespace=None)))
        assert sorted(found) == [0, 1, 2, 3, 4, 5]
        for namespace in range(3):
            assert [number for number in found if number % 3 == namespace] == [namespace + 3, namespace]
        assert numbers(asking.list(at(namespace="b"))) == [4, 1]
        assert len(asking.list(at(namespace=None), limit=4)) == 4

    def test_the_checkpoints_of_all_threads_are_listed(self, asking: Asking) -> None:
        if not self.lists_all_threads:
            pytest.skip("this saver lists one thread at a time")
        for number, thread in enumerate(["t", "a}{b", "x" * 1_000]):
            put(asking, at(thread), {"number": number}, metadata(number))
        found = asking.list(None)
        assert sorted(numbers(found)) == [0, 1, 2]
        assert {each.config["configurable"]["thread_id"] for each in found} == {"t", "a}{b", "x" * 1_000}
        assert numbers(asking.list(None, filter={"step": 1})) == [1]
        assert len(asking.list(None, limit=2)) == 2


def _with_about(checkpoint: tuple[Any, Any]) -> tuple[Any, Any, Any]:
    return checkpoint[0], metadata(), checkpoint[1]
