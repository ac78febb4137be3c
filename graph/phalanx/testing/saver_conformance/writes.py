"""The writes that are pending on a checkpoint."""

import pytest

from phalanx.testing.saver_conformance.asking import Asking, Rules
from phalanx.testing.saver_conformance.made import (
    SPECIAL,
    TASKS,
    at,
    chain,
    id_of,
    made,
    metadata,
    put,
    values_at,
    writes_at,
)


class WriteRules(Rules):
    """About pending writes."""

    def test_writes_come_back_in_the_order_in_which_their_task_made_them(self, asking: Asking) -> None:
        where = put(asking, at(), {})
        asking.put_writes(where, [("b", 1), ("a", [2]), ("b", 3)], "task", "path")
        assert writes_at(asking, where) == [("task", "b", 1), ("task", "a", [2]), ("task", "b", 3)]

    def test_writes_come_back_in_the_order_of_their_tasks_paths_not_of_their_arrival(self, asking: Asking) -> None:
        where = put(asking, at(), {})
        asking.put_writes(where, [("a", 5)], "task 0", "path 3")
        asking.put_writes(where, [("a", 3)], "task 9", "path 2")
        asking.put_writes(where, [("a", 4)], "task 10", "path 3")
        asking.put_writes(where, [("a", 1), ("a", 2)], "task 5", "path 1")
        asking.put_writes(where, [("a", 0)], "task 7", "path 0")
        assert [(task, value) for task, _, value in writes_at(asking, where)] == [
            ("task 7", 0),
            ("task 5", 1),
            ("task 5", 2),
            ("task 9", 3),
            ("task 0", 5),
            ("task 10", 4),
        ]

    def test_many_writes_of_one_task_stay_in_order(self, asking: Asking) -> None:
        where = put(asking, at(), {})
        asking.put_writes(where, [("a", number) for number in range(1_100)], "task")
        assert [value for _, _, value in writes_at(asking, where)] == [*range(1_100)]

    def test_putting_writes_again_changes_nothing_and_the_first_count(self, asking: Asking) -> None:
        where = put(asking, at(), {})
        asking.put_writes(where, [("a", 1), ("b", 2)], "task")
        asking.put_writes(where, [("a", 1), ("b", 2)], "task")
        asking.put_writes(where, [("a", "other"), ("b", "other"), ("c", 3)], "task")
        assert writes_at(asking, where) == [("task", "a", 1), ("task", "b", 2), ("task", "c", 3)]

    @pytest.mark.parametrize("channel", SPECIAL)
    def test_a_write_about_a_task_replaces_the_one_before(self, asking: Asking, channel: str) -> None:
        where = put(asking, at(), {})
        asking.put_writes(where, [(channel, "first")], "task")
        asking.put_writes(where, [("a", 1)], "task")
        asking.put_writes(where, [(channel, "other")], "other task")
        asking.put_writes(where, [(channel, "second")], "task")
        found = writes_at(asking, where)
        assert sorted(found) == sorted(
            [("task", channel, "second"), ("task", "a", 1), ("other task", channel, "other")]
        )

    def test_writes_about_a_task_do_not_replace_one_another(self, asking: Asking) -> None:
        where = put(asking, at(), {})
        for channel in SPECIAL:
            asking.put_writes(where, [(channel, [channel])], "task")
        asking.put_writes(where, [("a", 1), ("b", 2)], "task")
        found = writes_at(asking, where)
        assert sorted(found, key=lambda write: write[1]) == sorted(
            [*(("task", channel, [channel]) for channel in SPECIAL), ("task", "a", 1), ("task", "b", 2)],
            key=lambda write: write[1],
        )

    def test_packets_among_writes_come_back_with_their_arguments(self, asking: Asking) -> None:
        where = put(asking, at(), {})
        shared = {"pages": ["text" * 1_000]}
        asking.put_writes(where, [(TASKS, asking.packet("node", shared)) for _ in range(20)], "task")
        found = writes_at(asking, where)
        assert [(channel, packet.node, packet.arg) for _, channel, packet in found] == [(TASKS, "node", shared)] * 20

    def test_writes_belong_to_one_checkpoint_of_one_namespace_of_one_thread(self, asking: Asking) -> None:
        wheres = [
            put(asking, at(thread, namespace=namespace), {}, identity=name)
            for thread in ("t", "u")
            for namespace in ("", "sub")
            for name in ("c1", "c2")
        ]
        for number, where in enumerate(wheres):
            asking.put_writes(where, [("a", number)], "task")
        assert [writes_at(asking, where) for where in wheres] == [[("task", "a", number)] for number in range(8)]

    def test_no_writes_are_no_writes(self, asking: Asking) -> None:
        where = put(asking, at(), {})
        asking.put_writes(where, [], "task")
        assert writes_at(asking, where) == []

    def test_writes_are_not_values_until_a_checkpoint_has_them(self, asking: Asking) -> None:
        first = put(asking, at(), {"a": 1})
        asking.put_writes(first, [("a", 2)], "task")
        assert values_at(asking, first) == {"a": 1}
        second = put(asking, first, {"a": 2})
        assert writes_at(asking, second) == []
        assert writes_at(asking, first) == [("task", "a", 2)]

    def test_writes_may_come_before_their_checkpoint(self, asking: Asking) -> None:
        checkpoint, new = made(asking, {"a": 1})
        asking.put_writes(at(checkpoint=checkpoint["id"]), [("a", 2), ("__interrupt__", "asked")], "task")
        assert asking.get_tuple(at()) is None
        where = asking.put(at(), checkpoint, metadata(), new)
        assert sorted(writes_at(asking, where)) == [("task", "__interrupt__", "asked"), ("task", "a", 2)]

    def test_putting_a_checkpoint_again_keeps_its_writes(self, asking: Asking) -> None:
        checkpoint, new = made(asking, {"a": 1})
        where = asking.put(at(), checkpoint, metadata(), new)
        asking.put_writes(where, [("a", 2), ("__interrupt__", "asked")], "task")
        asking.put(at(), checkpoint, metadata(), new)
        assert sorted(writes_at(asking, where)) == [("task", "__interrupt__", "asked"), ("task", "a", 2)]

    def test_tasks_that_finish_at_the_same_time_lose_no_writes(self, asking: Asking) -> None:
        where = put(asking, at(), {})
        by_task = {f"task {number}": [("a", number), ("b", [number])] for number in range(16)}
        asking.put_writes_at_once(where, by_task)
        found = writes_at(asking, where)
        expected = [(task, channel, value) for task, writes in by_task.items() for channel, value in writes]
        assert sorted(found, key=repr) == sorted(expected, key=repr)

    def test_writes_of_ancestors_stay_with_them(self, asking: Asking) -> None:
        configs = chain(asking, 3)
        for number, config in enumerate(configs):
            asking.put_writes(config, [("a", number)], f"task {number}")
        for number, found in enumerate(reversed(asking.list(at()))):
            assert id_of(found.config) == id_of(configs[number])
            assert [tuple(write) for write in found.pending_writes] == [(f"task {number}", "a", number)]
