"""``values`` and ``updates``: what is streamed, and in which order."""

import threading
from typing import Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.reference import ON_REFERENCE
from tests.behaviour.states import Update, Words, chain, fan_out, says, silent

from phalanx.constants import START
from phalanx.graph import StateGraph
from phalanx.types import Command


def test_updates_is_the_mode_of_a_stream_that_asks_for_none(drive: Drive) -> None:
    assert drive.stream(compiled(chain("a", "b")), {}) == [{"a": {"words": ["a"]}}, {"b": {"words": ["b"]}}]


def test_values_come_after_the_input_and_after_each_step(drive: Drive) -> None:
    values = drive.stream(compiled(chain("a", "b")), {"words": ["x"]}, stream_mode="values")

    assert [each["words"] for each in values] == [["x"], ["x", "a"], ["x", "a", "b"]]
    assert values[0] == {"words": ["x"], "count": 0}


def test_values_do_not_come_after_a_step_that_changed_none_of_them(drive: Drive) -> None:
    builder = chain("a")
    builder.add_node("quiet", silent)
    builder.add_node("z", says("z"))
    builder.add_edge("a", "quiet")
    builder.add_edge("quiet", "z")

    assert len(drive.stream(compiled(builder), {"last": "x"}, stream_mode="values")) == 3


def test_values_do_not_come_after_an_input_that_changed_none_of_them(drive: Drive) -> None:
    assert [each["words"] for each in drive.stream(compiled(chain("a")), {}, stream_mode="values")] == [["a"]]


def test_several_modes_come_as_pairs_and_a_step_s_updates_before_its_values(drive: Drive) -> None:
    graph = compiled(chain("a", "b"))

    assert drive.stream(graph, {"last": "x"}, stream_mode=["values", "updates"]) == [
        ("values", {"words": [], "count": 0, "last": "x"}),
        ("updates", {"a": {"words": ["a"]}}),
        ("values", {"words": ["a"], "count": 0, "last": "x"}),
        ("updates", {"b": {"words": ["b"]}}),
        ("values", {"words": ["a", "b"], "count": 0, "last": "x"}),
    ]


def test_a_list_of_one_mode_also_gives_pairs(drive: Drive) -> None:
    assert drive.stream(compiled(chain("a")), {}, stream_mode=["updates"]) == [("updates", {"a": {"words": ["a"]}})]


def test_updates_come_in_the_order_in_which_tasks_finish(drive: Drive) -> None:
    """``a`` is first by name and finishes last."""
    b_was_streamed = threading.Event()

    def waits(_: Words) -> Update:
        assert b_was_streamed.wait(20)
        return {"words": ["a"]}

    def hurries(_: Words) -> Update:
        threading.Timer(0.2, b_was_streamed.set).start()
        return {"words": ["b"]}

    builder = fan_out()
    builder.add_node("a", waits)
    builder.add_node("b", hurries)
    builder.add_edge(START, "a")
    builder.add_edge(START, "b")

    assert drive.stream(compiled(builder), {}) == [{"b": {"words": ["b"]}}, {"a": {"words": ["a"]}}]


def test_a_key_written_several_times_by_a_node_comes_as_a_list(drive: Drive) -> None:
    def twice(_: Words) -> Command[str]:
        return Command(update=[("words", ["1"]), ("words", ["2"])])

    builder = StateGraph(Words)
    builder.add_node("twice", twice)
    builder.add_edge(START, "twice")

    assert drive.stream(compiled(builder), {}) == [{"twice": [{"words": ["1"]}, {"words": ["2"]}]}]


def _two_keys() -> StateGraph[Words]:
    def writes(_: Words) -> Update:
        return {"words": ["w"], "last": "l", "nowhere": 1}

    builder = chain("a")
    builder.add_node("writes", writes)
    builder.add_edge("a", "writes")
    return builder


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["last"], [("updates", {"a": None}), ("updates", {"writes": {"last": "l"}}), ("values", {"last": "l"})]),
        ("last", [("updates", {"a": None}), ("updates", {"writes": "l"}), ("values", "l")]),
    ],
    ids=["a list of keys", "one key"],
)
def test_output_keys_narrow_what_is_streamed(drive: Drive, keys: Any, expected: list[Any]) -> None:
    streamed = drive.stream(compiled(_two_keys()), {}, stream_mode=["values", "updates"], output_keys=keys)

    assert streamed == expected


def test_output_keys_narrow_what_a_run_returns(drive: Drive) -> None:
    graph = compiled(_two_keys())

    assert drive.invoke(graph, {}, output_keys=["last"]) == {"last": "l"}
    assert drive.invoke(graph, {}, output_keys="words") == ["a", "w"]


def test_an_output_key_that_is_not_in_the_state_is_refused(drive: Drive) -> None:
    with pytest.raises(ValueError, match="lost" if ON_REFERENCE else "'lost', which is not a state key"):
        drive.invoke(compiled(chain("a")), {}, output_keys=["lost"])


@pytest.mark.ours_only("there, an unknown mode streams nothing")
def test_an_unknown_mode_is_refused_before_anything_runs(drive: Drive) -> None:
    ran: list[int] = []

    def notes(_: Words) -> None:
        ran.append(1)

    builder = StateGraph(Words)
    builder.add_node("notes", notes)
    builder.add_edge(START, "notes")

    with pytest.raises(ValueError, match="unknown stream_mode 'value'; it must be one of: values, updates"):
        drive.stream(compiled(builder), {}, stream_mode="value")
    assert not ran


def test_invoke_with_another_mode_returns_what_a_stream_would_yield(drive: Drive) -> None:
    assert drive.invoke(compiled(chain("a")), {}, stream_mode="updates") == [{"a": {"words": ["a"]}}]


def test_going_on_starts_the_values_with_what_is_there(drive_kept: Drive) -> None:
    """Also when nothing is left to run."""
    graph, config = drive_kept.keeping(chain("a")), thread("values of a finished thread")
    drive_kept.invoke(graph, {}, config)

    assert drive_kept.stream(graph, None, config, stream_mode="values") == [{"words": ["a"], "count": 0}]
    assert drive_kept.invoke(graph, None, config) == {"words": ["a"], "count": 0}


@pytest.mark.not_on("inline-async", "siblings_finish")
def test_what_finished_before_a_failure_is_streamed_again_and_marked(drive_kept: Drive) -> None:
    failures = [ValueError("once")]

    def fails_once(_: Words) -> Update:
        if failures:
            raise failures.pop()
        return {"words": ["b"]}

    builder = fan_out("a")
    builder.add_node("b", fails_once)
    builder.add_edge(START, "b")
    graph, config = drive_kept.keeping(builder), thread("streamed again")
    with pytest.raises(ValueError, match="once"):
        drive_kept.invoke(graph, {}, config)

    assert drive_kept.stream(graph, None, config) == [
        {"a": {"words": ["a"]}, "__metadata__": {"cached": True}},
        {"b": {"words": ["b"]}},
    ]


def test_what_was_streamed_before_a_failure_reaches_the_reader_first(drive: Drive) -> None:
    def fails(_: Words) -> Update:
        raise ValueError("after two")

    builder = chain("a", "b")
    builder.add_node("fails", fails)
    builder.add_edge("b", "fails")
    seen: list[Any] = []

    with pytest.raises(ValueError, match="after two"):
        drive.read(compiled(builder), {}, seen.append)
    assert seen == [{"a": {"words": ["a"]}}, {"b": {"words": ["b"]}}]
