"""What streams show of questions, and of runs that go on after them."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportTypedDictNotRequiredAccess=false

from typing import Any

import pytest
from tests.behaviour.asking import asks, ids, in_a_row, resume, side_by_side
from tests.behaviour.drivers import Drive, thread
from tests.behaviour.states import alone

from phalanx.types import Command, Interrupt


def plain(items: list[Any]) -> list[Any]:
    """Items of a stream with questions as what they ask."""
    return [_plain(item) for item in items]


def _plain(item: Any) -> Any:
    if isinstance(item, Interrupt):
        return item.value
    if isinstance(item, dict):
        return {key: _plain(value) for key, value in item.items()}
    if isinstance(item, tuple):
        return tuple(_plain(each) for each in item)
    return item


@pytest.mark.rule("ask-7")
def test_updates_show_a_question_as_what_its_node_comes_to(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b="name?", c=None)), thread("streamed question")

    assert plain(drive_kept.stream(graph, {}, config, stream_mode="updates")) == [
        {"a": {"words": ["a"]}},
        {"__interrupt__": ("name?",)},
    ]
    assert drive_kept.stream(graph, Command(resume="Ann"), config, stream_mode="updates") == [
        {"b": {"words": ["Ann"]}},
        {"c": {"words": ["c"]}},
    ]


@pytest.mark.rule("ask-7")
def test_updates_show_each_task_s_questions_by_themselves(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(side_by_side(a="1?", b="2?", c=None)), thread("streamed questions")
    streamed = plain(drive_kept.stream(graph, {}, config, stream_mode="updates"))

    assert sorted(map(str, streamed)) == [
        "{'__interrupt__': ('1?',)}",
        "{'__interrupt__': ('2?',)}",
        "{'c': {'words': ['c']}}",
    ]


@pytest.mark.rule("ask-7")
def test_values_show_a_question_beside_the_state(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b="name?")), thread("values with a question")

    assert plain(drive_kept.stream(graph, {"last": "x"}, config, stream_mode="values")) == [
        {"words": [], "count": 0, "last": "x"},
        {"words": ["a"], "count": 0, "last": "x"},
        {"words": ["a"], "count": 0, "last": "x", "__interrupt__": ("name?",)},
    ]


@pytest.mark.rule("ask-8")
def test_values_of_a_run_that_goes_on_begin_with_the_state_as_it_was(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(in_a_row(a=None, b="name?")), thread("values go on")
    drive_kept.invoke(graph, {"last": "x"}, config)

    assert drive_kept.stream(graph, Command(resume="Ann"), config, stream_mode="values") == [
        {"words": ["a"], "count": 0, "last": "x"},
        {"words": ["a", "Ann"], "count": 0, "last": "x"},
    ]


@pytest.mark.rule("ask-8")
def test_updates_of_what_finished_before_are_shown_again_and_marked(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(side_by_side(a="name?", b=None)), thread("shown again")
    drive_kept.invoke(graph, {}, config)
    streamed = drive_kept.stream(graph, Command(resume="Ann"), config, stream_mode="updates")

    assert streamed == [
        {"b": {"words": ["b"]}, "__metadata__": {"cached": True}},
        {"a": {"words": ["Ann"]}},
        {"end": {"words": ["end"]}},
    ]


@pytest.mark.rule("ask-8")
def test_questions_that_stay_open_are_shown_again(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(side_by_side(a="1?", b="2?")), thread("open ones shown again")
    known = ids(drive_kept.invoke(graph, {}, config))
    streamed = plain(drive_kept.stream(graph, Command(resume={known["2?"]: "two"}), config, stream_mode="updates"))

    assert sorted(map(str, streamed)) == ["{'__interrupt__': ('1?',)}", "{'b': {'words': ['two']}}"]


@pytest.mark.rule("ask-8")
def test_several_modes_show_questions_each_in_its_way(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(alone(asks("1?", "2?"))), thread("two modes")
    drive_kept.invoke(graph, {"last": "x"}, config)
    streamed = drive_kept.stream(graph, Command(resume="one"), config, stream_mode=["updates", "values"])

    assert sorted(map(str, plain(streamed))) == sorted(
        map(
            str,
            [
                ("values", {"words": [], "count": 0, "last": "x"}),
                ("updates", {"__interrupt__": ("2?",)}),
                ("values", {"words": [], "count": 0, "last": "x", "__interrupt__": ("2?",)}),
            ],
        )
    )
    assert resume(drive_kept, graph, config, "two")["words"] == ["one", "two"]
