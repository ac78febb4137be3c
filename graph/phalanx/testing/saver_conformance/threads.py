"""Threads: names of any kind; deleting, copying and pruning."""

from typing import Final

import pytest

from phalanx.testing.saver_conformance.asking import Asking, Rules
from phalanx.testing.saver_conformance.made import (
    at,
    chain,
    id_of,
    loaded,
    metadata,
    numbers,
    put,
    values_at,
    writes_at,
)

ODD: Final = {
    "empty": "",
    "braces": "{}",
    "a hash tag inside": "a}{b",
    "the key of another": "a}:checkpoints",
    "colons": "a:b",
    "slashes": "../a/b",
    "NUL": "a\x00b",
    "emoji": "🦉",
    "a pattern": "*",
    "per cent": "a%",
    "an underscore": "a_",
    "quotes": "a' OR '1'='1",
    "lines": "a\r\nb",
    "spaces around": " a ",
    "capitals": "A",
    "10 kB": "x" * 10_000,
    "10 kB and one more": "x" * 10_001,
}


class ThreadRules(Rules):
    """About threads as a whole."""

    @pytest.mark.parametrize("name", ODD)
    def test_a_thread_of_any_name_keeps_what_is_its_own(self, asking: Asking, name: str) -> None:
        odd = ODD[name]
        others = ["a", "b", *(other for other in ODD.values() if other != odd)]
        for number, thread in enumerate(others):
            where = put(asking, at(thread), {"number": number})
            asking.put_writes(where, [("a", number)], "task")
        assert asking.get_tuple(at(odd)) is None
        where = put(asking, at(odd), {"number": -1})
        asking.put_writes(where, [("a", -1)], "task")
        found = loaded(asking, at(odd))
        assert found.config["configurable"]["thread_id"] == odd
        assert numbers(asking.list(at(odd, namespace=None))) == [-1]
        assert writes_at(asking, where) == [("task", "a", -1)]
        asking.delete_thread(odd)
        assert asking.get_tuple(at(odd)) is None
        for number, thread in enumerate(others):
            assert values_at(asking, at(thread)) == {"number": number}
            assert writes_at(asking, at(thread)) == [("task", "a", number)]

    def test_a_number_names_the_same_thread_as_its_text(self, asking: Asking) -> None:
        if not self.thread_ids_may_be_numbers:
            pytest.skip("this saver takes texts only")
        put(asking, at(7), {"number": 1})
        assert values_at(asking, at("7")) == {"number": 1}
        assert values_at(asking, at(7)) == {"number": 1}

    # --- deleting -----------------------------------------------------------------------------------------------------

    def test_a_deleted_thread_is_gone_with_its_namespaces_and_writes_and_others_stay(self, asking: Asking) -> None:
        for thread in ("gone", "stays"):
            for namespace in ("", "sub"):
                for where in chain(asking, 3, at(thread, namespace=namespace)):
                    asking.put_writes(where, [("a", 1)], "task")
        asking.delete_thread("gone")
        asking.delete_thread("never existed")
        assert asking.get_tuple(at("gone")) is None
        assert asking.get_tuple(at("gone", namespace="sub")) is None
        assert asking.list(at("gone", namespace=None)) == []
        for namespace in ("", "sub"):
            assert numbers(asking.list(at("stays", namespace=namespace))) == [2, 1, 0]
            assert writes_at(asking, at("stays", namespace=namespace)) == [("task", "a", 1)]

    def test_a_thread_that_is_written_again_knows_nothing_of_the_deleted_one(self, asking: Asking) -> None:
        where = put(asking, at(), {"a": 1}, identity="c1")
        asking.put_writes(where, [("a", 2)], "task")
        asking.put_writes(at(checkpoint="never put"), [("a", 3)], "task")
        asking.delete_thread("t")
        put(asking, at(), {"b": 2}, identity="c1")
        put(asking, at(), {"b": 2}, identity="never put")
        for name in ("c1", "never put"):
            assert values_at(asking, at(checkpoint=name)) == {"b": 2}
            assert writes_at(asking, at(checkpoint=name)) == []

    # --- copying ------------------------------------------------------------------------------------------------------

    def test_a_copied_thread_has_all_that_the_other_has(self, asking: Asking) -> None:
        for namespace in ("", "sub"):
            for where in chain(asking, 3, at(namespace=namespace), user="ada"):
                asking.put_writes(where, [("a", ["text" * 1_000])], "task", "path")
        put(asking, at(), {"large": "text" * 1_000, "number": 3}, metadata(3))
        asking.copy_thread("t", "copy")
        for namespace in ("", "sub"):
            originals = asking.list(at(namespace=namespace))
            copies = asking.list(at("copy", namespace=namespace))
            assert [each.checkpoint for each in copies] == [each.checkpoint for each in originals]
            assert [each.metadata for each in copies] == [each.metadata for each in originals]
            assert [each.pending_writes for each in copies] == [each.pending_writes for each in originals]
            for copied, original in zip(copies, originals, strict=True):
                assert copied.config["configurable"]["thread_id"] == "copy"
                if original.parent_config is None:
                    assert copied.parent_config is None
                else:
                    assert copied.parent_config["configurable"]["thread_id"] == "copy"
                    assert id_of(copied.parent_config) == id_of(original.parent_config)

    def test_a_copy_and_its_original_go_separate_ways(self, asking: Asking) -> None:
        (where,) = chain(asking, 1)
        asking.copy_thread("t", "copy")
        put(asking, at("copy", id_of(where)), {"number": 1})
        asking.put_writes(at("copy", id_of(where)), [("a", 1)], "task")
        assert numbers(asking.list(at())) == [0]
        assert writes_at(asking, where) == []
        asking.delete_thread("t")
        assert numbers(asking.list(at("copy"))) == [1, 0]

    def test_a_copy_of_a_thread_that_does_not_exist_is_nothing(self, asking: Asking) -> None:
        asking.copy_thread("unknown", "copy")
        assert asking.list(at("copy", namespace=None)) == []

    # --- pruning ------------------------------------------------------------------------------------------------------

    def test_pruning_keeps_the_latest_checkpoint_of_each_namespace_with_its_writes(self, asking: Asking) -> None:
        for thread in ("t", "other", "not named"):
            for namespace in ("", "sub"):
                for where in chain(asking, 4, at(thread, namespace=namespace)):
                    asking.put_writes(where, [("a", ["text" * 1_000])], "task")
        asking.prune(["t", "other", "unknown"], "keep_latest")
        for thread in ("t", "other"):
            for namespace in ("", "sub"):
                assert numbers(asking.list(at(thread, namespace=namespace))) == [3]
                assert writes_at(asking, at(thread, namespace=namespace)) == [("task", "a", ["text" * 1_000])]
        assert numbers(asking.list(at("not named"))) == [3, 2, 1, 0]

    def test_a_pruned_parent_reads_as_none(self, asking: Asking) -> None:
        first, second = chain(asking, 2)
        asking.prune(["t"])
        assert asking.get_tuple(first) is None
        found = loaded(asking, second)
        assert found.parent_config is None or asking.get_tuple(found.parent_config) is None
        third = put(asking, second, {"number": 2})
        assert id_of(loaded(asking, third).parent_config) == id_of(second)

    def test_pruning_keeps_values_that_did_not_change_since_a_pruned_checkpoint(self, asking: Asking) -> None:
        large = ["text" * 1_000]
        where = put(asking, at(), {"large": large, "number": 0})
        for number in (1, 2):
            where = put(asking, where, {"large": large, "number": number}, changed=["number"])
        asking.prune(["t"])
        assert values_at(asking, at()) == {"large": large, "number": 2}
        where = put(asking, where, {"large": large, "number": 3}, changed=["number"])
        assert values_at(asking, where) == {"large": large, "number": 3}

    def test_pruning_can_forget_everything(self, asking: Asking) -> None:
        chain(asking, 3)
        chain(asking, 2, at(namespace="sub"))
        chain(asking, 2, at("other"))
        asking.prune(["t"], "delete")
        assert asking.list(at(namespace=None)) == []
        assert numbers(asking.list(at("other"))) == [1, 0]

    # --- deleting what runs made --------------------------------------------------------------------------------------

    def test_what_runs_made_can_be_deleted(self, asking: Asking) -> None:
        for thread in ("t", "other"):
            where = at(thread)
            for number, run in enumerate(["r1", "r1", "r2", "r3"]):
                where = put(asking, where, {"number": number}, metadata(number, run_id=run))
                asking.put_writes(where, [("a", number)], "task")
        asking.delete_for_runs(["r2", "r3", "unknown"])
        for thread in ("t", "other"):
            assert numbers(asking.list(at(thread))) == [1, 0]
            assert writes_at(asking, at(thread)) == [("task", "a", 1)]
        asking.delete_for_runs(["r1"])
        assert asking.list(at(namespace=None)) == []
