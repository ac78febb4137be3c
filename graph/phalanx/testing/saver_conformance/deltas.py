"""Delta channels: what their values are made of can be found, and is never pruned away."""

from typing import Any

from phalanx.testing.saver_conformance.asking import Asking, Rules
from phalanx.testing.saver_conformance.made import at, id_of, loaded, made, metadata


def grow(asking: Asking, where: Any, count: int, *, seed: Any = None, run: str = "r", start: int = 0) -> list[Any]:
    """Store checkpoints of a delta channel ``log``; the first holds ``seed``, if there is one. Their configs.

    Number ``n`` has a write ``n`` pending on it, which made number ``n + 1``.
    """
    configs: list[Any] = []
    for number in range(start, start + count):
        before = asking.get(where) if "checkpoint_id" in where["configurable"] else None
        whole = seed is not None and number == start
        values = {"log": seed, "number": number} if whole else {"number": number}
        checkpoint, new = made(asking, values, after=before, changed=["log", "number"])
        since = {} if whole else {"counters_since_delta_snapshot": {"log": (number - start, number - start)}}
        where = asking.put(where, checkpoint, metadata(number, run_id=run, **since), new)
        asking.put_writes(where, [("log", number), ("number", number)], f"task {number}")
        configs.append(where)
    return configs


def history(asking: Asking, where: Any, *channels: str) -> dict[str, tuple[list[Any], Any]]:
    """By channel, the values of the writes, and the seed or ``"none"``."""
    found = asking.delta_history(where, channels)
    return {
        channel: ([value for _, _, value in each["writes"]], each.get("seed", "none"))
        for channel, each in found.items()
    }


class DeltaRules(Rules):
    """About the history of delta channels."""

    def test_the_history_is_the_writes_since_the_last_whole_value(self, asking: Asking) -> None:
        configs = grow(asking, at(), 4, seed=["whole"])
        assert history(asking, configs[3], "log") == {"log": ([0, 1, 2], ["whole"])}
        assert history(asking, configs[1], "log") == {"log": ([0], ["whole"])}
        assert history(asking, at(), "log") == {"log": ([0, 1, 2], ["whole"])}

    def test_the_history_stops_at_the_nearest_whole_value(self, asking: Asking) -> None:
        early = grow(asking, at(), 3, seed=["early"])
        late = grow(asking, early[-1], 3, seed=["late"], start=3)
        assert history(asking, late[-1], "log") == {"log": ([3, 4], ["late"])}
        assert history(asking, late[0], "log") == {"log": ([0, 1, 2], ["early"])}

    def test_without_a_whole_value_the_history_has_no_seed(self, asking: Asking) -> None:
        configs = grow(asking, at(), 3)
        assert history(asking, configs[2], "log") == {"log": ([0, 1], "none")}
        assert history(asking, configs[0], "log") == {"log": ([], "none")}

    def test_each_channel_has_a_history_of_its_own(self, asking: Asking) -> None:
        configs = grow(asking, at(), 3, seed=["whole"])
        found = history(asking, configs[2], "log", "number", "never written")
        assert found["log"] == ([0, 1], ["whole"])
        assert found["number"] == ([1], 1)
        assert found["never written"] == ([], "none")

    def test_no_channels_have_no_history(self, asking: Asking) -> None:
        (where,) = grow(asking, at(), 1)
        assert history(asking, where) == {}

    def test_a_thread_that_does_not_exist_has_no_history(self, asking: Asking) -> None:
        assert history(asking, at("unknown"), "log") == {"log": ([], "none")}

    def test_the_history_has_the_writes_of_a_superstep_in_the_order_of_their_tasks_paths(self, asking: Asking) -> None:
        (first,) = grow(asking, at(), 1, seed=["whole"])
        asking.put_writes(first, [("log", "d")], "task a", "path 3")
        asking.put_writes(first, [("log", "b"), ("other", 0), ("log", "c")], "task c", "path 2")
        asking.put_writes(first, [("log", "a")], "task b", "path 1")
        (second,) = grow(asking, first, 1, start=1)
        found = asking.delta_history(second, ["log"])["log"]["writes"]
        assert [tuple(write) for write in found] == [
            ("task 0", "log", 0),
            ("task b", "log", "a"),
            ("task c", "log", "b"),
            ("task c", "log", "c"),
            ("task a", "log", "d"),
        ]

    def test_the_history_is_of_ancestors_not_of_other_branches(self, asking: Asking) -> None:
        (root,) = grow(asking, at(), 1, seed=["whole"])
        grow(asking, root, 2, start=10)
        branch = grow(asking, root, 2, start=20)
        assert history(asking, branch[1], "log") == {"log": ([0, 20], ["whole"])}

    def test_the_history_is_of_one_namespace(self, asking: Asking) -> None:
        grow(asking, at(), 2, seed=["outer"])
        inner = grow(asking, at(namespace="sub"), 2, seed=["inner"], start=5)
        assert history(asking, inner[1], "log") == {"log": ([5], ["inner"])}

    # --- pruning ------------------------------------------------------------------------------------------------------

    def test_pruning_keeps_what_the_latest_checkpoint_s_delta_channels_are_made_of(self, asking: Asking) -> None:
        early = grow(asking, at(), 3, seed=["early"])
        late = grow(asking, early[-1], 4, seed=["late"], start=3)
        asking.prune(["t"])
        assert history(asking, at(), "log") == {"log": ([3, 4, 5], ["late"])}
        assert [id_of(found.config) for found in asking.list(at())] == [id_of(config) for config in late[::-1]]
        (more,) = grow(asking, late[-1], 1, start=7)
        assert history(asking, more, "log") == {"log": ([3, 4, 5, 6], ["late"])}

    def test_pruning_keeps_all_ancestors_of_a_delta_channel_that_was_never_stored_whole(self, asking: Asking) -> None:
        grow(asking, at(), 4)
        asking.prune(["t"])
        assert history(asking, at(), "log") == {"log": ([0, 1, 2], "none")}

    def test_pruning_goes_to_the_end_when_the_latest_checkpoint_holds_everything(self, asking: Asking) -> None:
        early = grow(asking, at(), 3, seed=["early"])
        grow(asking, early[-1], 1, seed=["late"], start=3)
        asking.prune(["t"])
        assert len(asking.list(at())) == 1
        assert loaded(asking, at()).checkpoint["channel_values"] == {"log": ["late"], "number": 3}

    def test_deleting_a_run_keeps_what_a_later_one_s_delta_channels_are_made_of(self, asking: Asking) -> None:
        early = grow(asking, at(), 2, seed=["whole"], run="r1")
        late = grow(asking, early[-1], 2, start=2, run="r2")
        asking.delete_for_runs(["r1"])
        assert history(asking, late[-1], "log") == {"log": ([0, 1, 2], ["whole"])}

    def test_a_copied_thread_has_the_history_too(self, asking: Asking) -> None:
        grow(asking, at(), 3, seed=["whole"])
        asking.copy_thread("t", "copy")
        assert history(asking, at("copy"), "log") == {"log": ([0, 1], ["whole"])}
