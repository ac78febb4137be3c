"""What holds for every saver over a SQL database, besides what holds for every saver: tests to inherit."""

import multiprocessing
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from itertools import repeat
from typing import Any

import pytest
from tests.integration.sql_saver_support import (
    INJECTIONS,
    LARGE,
    TABLES,
    Clock,
    Counting,
    Database,
    at,
    chain,
    counts,
    dangling,
    made,
    put,
    set_up,
    steps,
    use_inherited,
    write_chain,
)

from phalanx.checkpoint.retention import Retention
from phalanx.checkpoint.sql import SchemaVersionError
from phalanx.checkpoint.sql.saver import SqlSaver
from phalanx.errors import CorruptDataError, UnserializableError
from phalanx.protocol.names import TASKS
from phalanx.types import Send


class SqlSaverRules:
    """Inherit, and provide a fixture ``database``."""

    @pytest.fixture
    def saver(self, database: Database) -> Iterator[SqlSaver]:
        with database.saver() as saver:
            yield saver

    # --- what is stored how often -------------------------------------------------------------------------------------

    def test_a_large_value_is_stored_once_however_often_it_is_kept_or_written(
        self, database: Database, saver: SqlSaver
    ) -> None:
        where = at()
        for number in range(5):
            where = put(saver, where, {"number": number, "one": LARGE, "two": [*LARGE]})
            saver.put_writes(where, [("one", LARGE), ("two", LARGE)], "task")
        assert counts(database)["blobs"] == 1
        put(saver, at("other"), {"one": LARGE})
        assert counts(database)["blobs"] == 2

    def test_an_argument_that_packets_share_is_stored_once(self, database: Database, saver: SqlSaver) -> None:
        packets = [Send("node", LARGE, timeout=number + 1) for number in range(20)]
        where = put(saver, at(), {TASKS: packets})
        saver.put_writes(where, [(TASKS, packet) for packet in packets], "task")
        found = saver.get_tuple(where)
        assert found is not None
        assert found.checkpoint["channel_values"] == {TASKS: packets}
        assert found.pending_writes == [("task", TASKS, packet) for packet in packets]
        assert counts(database)["blobs"] == 1

    def test_a_channel_that_did_not_change_is_not_serialized_again(self, database: Database) -> None:
        serde = Counting()
        with database.saver(serde=serde) as saver:
            where = put(saver, at(), {"number": 0, "large": LARGE, "small": "s"})
            serde.given.clear()
            versions = {"number": 2, "large": 1, "small": 1}
            where = put(saver, where, {"number": 1, "large": LARGE, "small": "s"}, versions, new={"number"})
            assert [*filter(lambda given: not isinstance(given, dict), serde.given)] == [1]
            found = saver.get(where)
        assert found is not None
        assert found["channel_values"] == {"number": 1, "large": LARGE, "small": "s"}

    @pytest.mark.parametrize("parent", ["missing", "of another version", "without the channel"])
    def test_a_value_said_not_to_have_changed_is_stored_if_the_parent_does_not_have_it(
        self, saver: SqlSaver, parent: str
    ) -> None:
        where = at(checkpoint="missing")
        if parent == "of another version":
            where = put(saver, at(), {"a": "old"}, {"a": 1})
        if parent == "without the channel":
            where = put(saver, at(), {"b": 1}, {"a": 2, "b": 1})
        where = put(saver, where, {"a": "new"}, {"a": 2}, new=set())
        found = saver.get(where)
        assert found is not None
        assert found["channel_values"] == {"a": "new"}

    def test_many_packets_and_writes_with_large_arguments_come_back(self, saver: SqlSaver) -> None:
        packets = [Send("node", {"number": number, "text": "x" * 3_000}) for number in range(700)]
        where = put(saver, at(), {TASKS: packets})
        saver.put_writes(where, [(TASKS, packet) for packet in packets], "task")
        found = saver.get_tuple(where)
        assert found is not None
        assert found.checkpoint["channel_values"] == {TASKS: packets}
        assert [packet for _, _, packet in found.pending_writes or ()] == packets

    # --- what is forgotten --------------------------------------------------------------------------------------------

    def test_a_deleted_thread_leaves_no_row(self, database: Database, saver: SqlSaver) -> None:
        chain(saver, 3)
        chain(saver, 3, at(namespace="sub"))
        saver.copy_thread("t", "copy")
        assert counts(database)["blobs"] == 8
        for thread in ("t", "copy"):
            saver.delete_thread(thread)
        assert counts(database) == dict.fromkeys(TABLES, 0)

    def test_pruning_forgets_what_only_old_checkpoints_needed(self, database: Database, saver: SqlSaver) -> None:
        last = chain(saver, 5)[-1]
        saver.prune(["t"])
        assert counts(database) == {"threads": 1, "checkpoints": 1, "writes": 2, "blobs": 2, "refs": 2}
        found = saver.get_tuple(last)
        assert found is not None
        assert found.checkpoint["channel_values"] == {"number": 4, "large": [*LARGE, 4]}
        assert found.pending_writes == [("task 4", "number", 4), ("task 4", "large", [*LARGE, 5])]
        assert found.parent_config is None

    def test_the_last_ones_stay_and_at_most_half_as_many_more(self, database: Database) -> None:
        with database.saver(retention=Retention(keep_last=10)) as saver:
            where, most = at(), 0
            for number in range(60):
                where = put(saver, where, {"number": number}, step=number)
                most = max(most, counts(database)["checkpoints"])
                assert steps(saver)[:10] == [*range(number, max(-1, number - 10), -1)]
        assert most == 14

    def test_every_kth_of_the_older_ones_stays(self, database: Database) -> None:
        with database.saver(retention=Retention(keep_last=4, keep_every=10)) as saver:
            chain(saver, 40)
            kept = steps(saver)
        assert kept[:4] == [39, 38, 37, 36]
        assert {30, 20, 10, 0} <= {*kept}
        assert len(kept) <= 12

    def test_a_thread_nobody_writes_goes_at_once_when_its_time_is_over(self, database: Database) -> None:
        clock = Clock()
        with database.saver(retention=Retention(ttl_s=60), clock=clock) as saver:
            chain(saver, 2, at("idle"))
            chain(saver, 2, at("busy"))
            clock.now += 59
            saver.put_writes(chain(saver, 1, at("busy"))[0], [("a", 1)], "other task")
            assert steps(saver, at("idle")) == [1, 0]
            clock.now += 1
            assert saver.get_tuple(at("idle")) is None
            assert steps(saver, at("idle")) == []
            assert saver.get_delta_channel_history(config=at("idle"), channels=["number"]) == {"number": {"writes": []}}
            assert len([*saver.list(None)]) == 3
            clock.now += 3  # what nobody sees any more may stay in the tables for a moment
            put(saver, at("busy"), {})
            assert database.query("SELECT COUNT(*) FROM phalanx_threads") == [(1,)]

    def test_a_thread_whose_time_is_over_begins_anew(self, database: Database) -> None:
        clock = Clock()
        with database.saver(retention=Retention(ttl_s=60), clock=clock) as saver:
            first = chain(saver, 2)[0]
            clock.now += 60
            saver.copy_thread("t", "copy")
            where = put(saver, first, {"number": 7, "large": LARGE}, new=set())
            assert steps(saver) == [0]
            assert steps(saver, at("copy")) == []
            found = saver.get(where)
            assert found is not None
            assert found["channel_values"] == {"number": 7, "large": LARGE}

    def test_a_filter_finds_all_that_match_whatever_lies_between(self, saver: SqlSaver) -> None:
        where = at()
        for number in range(600):
            about = {"step": number, "common": True, "rare": number % 150 == 7}
            where = put(saver, where, {"number": number}, {"number": number + 1}, new=None, identity=None, **about)
        assert [found.metadata.get("step") for found in saver.list(at(), filter={"rare": True})] == [457, 307, 157, 7]
        common = saver.list(at(), filter={"common": True})
        assert [found.metadata.get("step") for found in common] == [*range(599, -1, -1)]
        assert len([*saver.list(at(), filter={"common": True}, limit=40)]) == 40
        assert [*saver.list(at(), filter={"common": False})] == []

    # --- names and filters are data -----------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", INJECTIONS, ids=ascii)
    def test_what_is_filtered_by_is_data(self, database: Database, saver: SqlSaver, name: str) -> None:
        put(saver, at(), {}, user="ada")
        named = saver.put(at(), made({}), {"source": "loop", "step": 1, name: name}, {})  # type: ignore[misc]
        assert [found.config for found in saver.list(at(), filter={name: name})] == [named]
        assert [*saver.list(None, filter={name: "other"})] == []
        assert [*saver.list(at(), filter={"user": name})] == []
        assert counts(database)["checkpoints"] == 2

    def test_what_is_filtered_by_must_be_equal_whatever_it_is(self, saver: SqlSaver) -> None:
        values = [1, 1.5, "1", True, None, {"a": [1]}, ["a"], "x" * 5_000]
        for number, value in enumerate(values):
            put(saver, at(), {}, step=number, value=value)
        for value in values:
            expected = [number for number, other in enumerate(values) if other == value]
            found = [each.metadata.get("step") for each in saver.list(at(), filter={"value": value})]
            assert found == expected[::-1]

    @pytest.mark.parametrize("name", [*INJECTIONS, "x" * 10_000, "🦉" * 100], ids=lambda name: ascii(name)[:20])
    def test_namespaces_and_tasks_may_have_any_name(self, saver: SqlSaver, name: str) -> None:
        put(saver, at(namespace="other"), {"number": 0})
        where = put(saver, at(namespace=name), {"number": 1})
        saver.put_writes(where, [("a", 1)], name, name)
        found = saver.get_tuple(at(namespace=name))
        assert found is not None
        assert found.config == where
        assert found.pending_writes == [(name, "a", 1)]
        assert where in [each.config for each in saver.list({"configurable": {"thread_id": "t"}})]

    def test_ids_of_ten_kilobytes_that_cannot_be_compressed_are_ids(self, saver: SqlSaver) -> None:
        letters = random.Random(1)
        names = ["".join(chr(letters.randrange(32, 0xD7FF)) for _ in range(10_000)) for _ in range(2)]
        for name in names:
            put(saver, at(name, namespace=name), {"name": name})
        assert {found.config.get("configurable", {})["thread_id"] for found in saver.list(None)} == {*names}
        saver.delete_thread(names[0])
        assert [found.checkpoint["channel_values"] for found in saver.list(None)] == [{"name": names[1]}]

    # --- serializers --------------------------------------------------------------------------------------------------

    def test_a_serializer_of_another_kind_is_used_for_every_value(self, database: Database) -> None:
        with database.saver(serde=Counting()) as saver:
            packets = [Send("node", LARGE), Send("node", "small")]
            where = put(saver, at(), {"none": None, "large": LARGE, TASKS: packets}, user="ada")
            saver.put_writes(where, [("large", LARGE), (TASKS, packets[0])], "task")
            (found,) = saver.list(at(), filter={"user": "ada"})
            assert found.checkpoint["channel_values"] == {"none": None, "large": LARGE, TASKS: packets}
            assert found.pending_writes == [("task", "large", LARGE), ("task", TASKS, packets[0])]
        with database.saver() as saver, pytest.raises(Exception, match="counted"):
            saver.get_tuple(where)

    def test_what_cannot_be_serialized_is_refused_and_nothing_is_stored(
        self, database: Database, saver: SqlSaver
    ) -> None:
        where = put(saver, at(), {"a": 1})
        with pytest.raises(UnserializableError):
            put(saver, where, {"a": object()}, {"a": 2}, new=set())
        with pytest.raises(UnserializableError):
            saver.put_writes(where, [("a", LARGE), ("b", object())], "task")
        assert counts(database) == {"threads": 1, "checkpoints": 1, "writes": 0, "blobs": 0, "refs": 0}

    def test_a_blob_that_is_gone_or_changed_is_never_taken_for_a_value(
        self, database: Database, saver: SqlSaver
    ) -> None:
        where = put(saver, at(), {"large": LARGE})
        database.query("UPDATE phalanx_blobs SET data = digest RETURNING 1")
        with pytest.raises(CorruptDataError, match="does not hold the bytes"):
            saver.get_tuple(where)
        database.query("DELETE FROM phalanx_blobs RETURNING 1")
        with pytest.raises(CorruptDataError, match="is gone"):
            saver.get_tuple(where)

    # --- the tables ---------------------------------------------------------------------------------------------------

    def test_setting_up_twice_changes_nothing(self, database: Database) -> None:
        for _ in range(2):
            with database.saver() as saver:
                saver.setup()  # type: ignore[attr-defined]
                put(saver, at(), {"a": 1})
        assert counts(database)["checkpoints"] == 2
        assert database.query("SELECT number FROM phalanx_migrations") == [(1,)]

    def test_tables_of_a_later_version_are_refused_and_left_alone(self, database: Database, saver: SqlSaver) -> None:
        put(saver, at(), {"a": 1})
        database.query("INSERT INTO phalanx_migrations VALUES (2, 0), (3, 0) RETURNING 1")
        with database.saver() as later, pytest.raises(SchemaVersionError, match=r"migration 3.* knows 1"):
            later.get_tuple(at())
        assert counts(database)["checkpoints"] == 1

    def test_many_processes_may_be_the_first_at_once(self, database: Database) -> None:
        with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as pool:
            assert [*pool.map(set_up, repeat(database.opener(), 6))] == [0] * 6

    @pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # other tests' threads may be alive
    def test_a_forked_process_is_kept_from_its_parent_s_connection(self, saver: SqlSaver) -> None:
        chain(saver, 1)
        context = multiprocessing.get_context("fork")
        outcome: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
        child = context.Process(target=use_inherited, args=(saver, outcome))
        child.start()
        assert "forked" in outcome.get()
        child.join()
        assert steps(saver) == [0]

    # --- at the same time ---------------------------------------------------------------------------------------------

    def test_two_processes_may_write_one_thread(self, database: Database, saver: SqlSaver) -> None:
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            written = [*pool.map(write_chain, repeat(database.opener()), ["a", "b"])]
        found = {str(each.config.get("configurable", {})["checkpoint_id"]): each for each in saver.list(at())}
        assert len(found) == 50
        for name, identities in zip("ab", written, strict=True):
            for turn, identity in enumerate(identities):
                assert found[identity].checkpoint["channel_values"] == {"of": name, "turn": turn, "large": LARGE}
                assert found[identity].pending_writes == [
                    (f"task of {name}", "large", LARGE),
                    (f"task of {name}", "turn", turn),
                ]
        assert counts(database)["blobs"] == 1

    def test_a_blob_that_is_pruned_while_others_begin_to_use_it_is_there_for_them(self, database: Database) -> None:
        start = threading.Barrier(3)

        def prune() -> None:
            with database.saver() as saver:
                start.wait()
                for _ in range(40):
                    saver.prune(["t"])

        def write() -> None:
            with database.saver() as saver:
                start.wait()
                for number in range(40):
                    put(saver, at(), {"number": number, "large": LARGE if number % 2 else number})

        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(prune), pool.submit(write), pool.submit(write)]:
                done.result()
        assert dangling(database) == 0

    def test_many_threads_may_use_one_saver(self, saver: SqlSaver) -> None:
        def use(number: int) -> list[int | None]:
            chain(saver, 10, at(f"thread {number}"))
            return steps(saver, at(f"thread {number}"))

        with ThreadPoolExecutor(6) as pool:
            assert [*pool.map(use, range(6))] == [[*range(9, -1, -1)]] * 6

    def test_versions_count_on_in_the_kind_in_which_they_began(self, saver: SqlSaver) -> None:
        current: Any = None
        for expected in (1, 2, 3):
            current = saver.get_next_version(current)
            assert current == expected
        first = "00000000000000000000000000000009.0.5687510818803824"
        second = saver.get_next_version(first)
        assert isinstance(second, str)
        assert second > first
        assert saver.get_next_version(second) > second
        with pytest.raises(ValueError, match="one"):
            saver.get_next_version("one")

    # --- delta channels -----------------------------------------------------------------------------------------------

    def test_the_history_of_a_long_delta_channel_is_read_by_one_query(self, saver: SqlSaver) -> None:
        where = put(saver, at(), {"long": ["seed"]})
        for number in range(300):
            saver.put_writes(where, [("long", number), ("other", number)], "task")
            where = put(
                saver, where, {}, {"long": number + 2}, counters_since_delta_snapshot={"long": (number, number)}
            )
        history = saver.get_delta_channel_history(config=where, channels=["long", "long", "never written"])
        assert history["long"] == {"seed": ["seed"], "writes": [("task", "long", number) for number in range(300)]}
        assert history["never written"] == {"writes": []}

    def test_a_channel_whose_name_is_part_of_another_s_is_not_taken_for_it(self, saver: SqlSaver) -> None:
        where = put(saver, at(), {"a": "whole"})
        for values in ({"aa": 1, "b": 2}, {"ba": 1}):
            saver.put_writes(where, [("a", "more")], "task")
            where = put(saver, where, values)
        history = saver.get_delta_channel_history(config=where, channels=["a"])
        assert history == {"a": {"seed": "whole", "writes": [("task", "a", "more")] * 2}}
