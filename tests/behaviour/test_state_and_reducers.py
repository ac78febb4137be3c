"""What nodes see of the state, and how their updates are combined."""

import operator
import threading
from collections.abc import Callable
from typing import Annotated, Any, cast

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Update, Words, chain, fan_out, gives, says, silent
from typing_extensions import TypedDict

from phalanx.constants import START
from phalanx.errors import InvalidUpdateError
from phalanx.graph import StateGraph
from phalanx.types import Overwrite


@pytest.mark.rule("step-1")
def test_all_tasks_of_a_step_read_the_state_of_its_start(drive: Drive) -> None:
    def counts(state: Words) -> Update:
        return {"words": [str(len(state["words"]))]}

    builder = StateGraph(Words)
    for name in ("a", "b", "c"):
        builder.add_node(name, counts)
        builder.add_edge(START, name)

    assert drive.invoke(compiled(builder), {"words": ["x"]})["words"] == ["x", "1", "1", "1"]


@pytest.mark.rule("step-2")
def test_updates_are_applied_in_name_order_whatever_finishes_first(drive: Drive) -> None:
    later_is_done = threading.Event()

    def waits(_: object) -> Update:
        assert later_is_done.wait(20)
        return {"words": ["a"]}

    def hurries(_: object) -> Update:
        later_is_done.set()
        return {"words": ["b"]}

    builder = StateGraph(Words)
    builder.add_node("a", waits)
    builder.add_node("b", hurries)
    builder.add_edge(START, "a")
    builder.add_edge(START, "b")

    assert drive.invoke(compiled(builder), {})["words"] == ["a", "b"]


@pytest.mark.rule("channel-2")
@pytest.mark.rule("channel-1")
def test_a_reducer_key_is_there_before_anything_is_written_and_a_plain_key_is_not(drive: Drive) -> None:
    def looks(state: Words) -> Update:
        return {"words": sorted(state)}

    builder = StateGraph(Words)
    builder.add_node("looks", looks)
    builder.add_edge(START, "looks")

    assert drive.invoke(compiled(builder), {}) == {"words": ["count", "words"], "count": 0}


@pytest.mark.rule("step-3")
def test_two_writes_to_a_plain_key_in_a_step_are_an_error(drive: Drive) -> None:
    builder = fan_out("a", "b")
    builder.add_node("c", gives({"last": "c"}))
    builder.add_node("d", gives({"last": "d"}))
    builder.add_edge(START, "c")
    builder.add_edge(START, "d")

    with pytest.raises(InvalidUpdateError, match=r"^At key 'last': Can receive only one value per step"):
        drive.invoke(compiled(builder), {})


@pytest.mark.rule("step-3")
@pytest.mark.ours_only("there, reading such a thread raises the step's error")
def test_writes_that_contradict_each_other_leave_the_checkpoint_untouched(drive_kept: Drive) -> None:
    def writes(state: Words) -> Update:
        return {"last": "mine", "words": ["lost"]}

    builder = chain("first")
    for name in ("c", "d"):
        builder.add_node(name, writes)
        builder.add_edge("first", name)
    graph, config = drive_kept.keeping(builder), thread("contradiction")

    with pytest.raises(InvalidUpdateError):
        drive_kept.invoke(graph, {}, config)

    state = drive_kept.get_state(graph, config)
    assert state.values == {"words": ["first"], "count": 0}
    assert state.next == ("c", "d")
    assert state.metadata is not None
    assert state.metadata["step"] == 1


@pytest.mark.rule("step-7")
def test_keys_outside_the_state_are_dropped(drive: Drive) -> None:
    builder = StateGraph(Words)
    builder.add_node("a", gives({"last": "x", "nowhere": 1}))
    builder.add_edge(START, "a")

    assert drive.invoke(compiled(builder), {"strange": 1}) == {"words": [], "count": 0, "last": "x"}


@pytest.mark.rule("channel-4")
@pytest.mark.parametrize(
    "form",
    [
        Overwrite(["new"]),
        {"__overwrite__": ["new"]},
        {"type": "__overwrite__", "value": ["new"]},
    ],
    ids=["class", "dict", "JSON"],
)
def test_an_overwrite_replaces_what_was_reduced_and_drops_what_is_written_beside_it(drive: Drive, form: object) -> None:
    builder = fan_out("a", "z")
    builder.add_node("m", gives({"words": form}))
    builder.add_edge(START, "m")

    assert drive.invoke(compiled(builder), {"words": ["old"]})["words"] == ["new"]


@pytest.mark.rule("channel-4")
def test_two_overwrites_in_a_step_are_an_error(drive: Drive) -> None:
    builder = StateGraph(Words)
    for name in ("a", "b"):
        builder.add_node(name, gives({"words": Overwrite([])}))
        builder.add_edge(START, name)

    with pytest.raises(InvalidUpdateError, match="Can receive only one Overwrite value per super-step"):
        drive.invoke(compiled(builder), {})


@pytest.mark.rule("step-8")
def test_a_node_that_returns_nothing_is_done(drive: Drive) -> None:
    builder = chain("a")
    builder.add_node("quiet", silent)
    builder.add_node("z", says("z"))
    builder.add_edge("a", "quiet")
    builder.add_edge("quiet", "z")
    graph = compiled(builder)

    assert drive.stream(graph, {}) == [{"a": {"words": ["a"]}}, {"quiet": None}, {"z": {"words": ["z"]}}]


def test_a_run_that_writes_nothing_returns_nothing(drive: Drive) -> None:
    builder = StateGraph(Words)
    builder.add_node("quiet", silent)
    builder.add_edge(START, "quiet")

    assert drive.invoke(compiled(builder), {}) is None
    assert drive.invoke(compiled(builder), {"count": 0}) == {"words": [], "count": 0}


@pytest.mark.rule("root-1")
def test_a_state_that_is_not_a_class_is_one_value(drive: Drive) -> None:
    def doubles(state: list[int]) -> list[int]:
        return state

    builder: StateGraph[Any] = StateGraph(cast("type[Any]", Annotated[list[int], operator.add]))
    builder.add_node("doubles", doubles)
    builder.add_edge(START, "doubles")

    assert drive.invoke(compiled(builder), [1, 2]) == [1, 2, 1, 2]


# --- schemas ----------------------------------------------------------------------------------------------------------


class Question(TypedDict):
    question: str


class Answer(TypedDict):
    answer: str


class Whole(Question, Answer):
    notes: list[str]


class Private(TypedDict):
    secret: int


def _answering() -> StateGraph[Any]:
    def thinks(state: Question) -> Update:
        return {"notes": sorted(state), "answer": state["question"].upper(), "secret": 7}

    def checks(state: Private) -> Update:
        return {"answer": str(state)}

    builder: StateGraph[Any] = StateGraph(Whole, input_schema=Question, output_schema=Answer)
    builder.add_node("thinks", thinks)
    builder.add_node("checks", checks)
    builder.add_edge(START, "thinks")
    builder.add_edge("thinks", "checks")
    return builder


@pytest.mark.rule("private-2")
def test_a_run_returns_the_keys_of_the_output_schema_only(drive: Drive) -> None:
    assert drive.invoke(compiled(_answering()), {"question": "q"}) == {"answer": "{'secret': 7}"}


@pytest.mark.rule("private-2")
def test_input_keys_outside_the_input_schema_are_dropped(drive: Drive) -> None:
    values = drive.stream(compiled(_answering()), {"question": "q", "notes": ["given"]}, stream_mode="values")

    assert values[0] == {"question": "q"}


@pytest.mark.rule("private-1")
def test_a_node_reads_the_schema_its_parameter_is_annotated_with(drive: Drive) -> None:
    updates = drive.stream(compiled(_answering()), {"question": "q", "answer": "given"})

    assert updates[0]["thinks"]["notes"] == ["question"]


@pytest.mark.rule("private-2")
def test_private_keys_are_shared_by_the_nodes_that_declare_them_and_are_part_of_the_kept_state(
    drive_kept: Drive,
) -> None:
    graph, config = drive_kept.keeping(_answering()), thread("private")
    drive_kept.invoke(graph, {"question": "q"}, config)

    assert drive_kept.get_state(graph, config).values == {
        "question": "q",
        "answer": "{'secret': 7}",
        "notes": ["question"],
        "secret": 7,
    }


@pytest.mark.rule("step-2")
def test_a_reducer_sees_every_write_once_and_in_order(drive: Drive) -> None:
    names = [f"n{number:02}" for number in range(20)]

    assert drive.invoke(compiled(fan_out(*names)), {"words": ["start"]})["words"] == ["start", *names]


def test_a_reducer_that_raises_ends_the_run_with_its_error(drive: Drive) -> None:
    builder = fan_out("a")
    builder.add_node("odd", gives({"words": 5}))
    builder.add_edge("a", "odd")

    with pytest.raises(TypeError, match="can only concatenate list"):
        drive.invoke(compiled(builder), {})


@pytest.mark.parametrize("size", [10, 3000, 1 << 20], ids=["small", "a blob", "1 MB"])
def test_values_of_any_size_come_back_equal(drive: Drive, size: int) -> None:
    def grows(state: Words) -> Update:
        return {"other": {"text": state["last"] * size, "bytes": bytes(size)}}

    def measures(state: Words) -> Update:
        other = cast("dict[str, Any]", state["other"])
        return {"words": [str(len(other["text"])), str(len(other["bytes"]))]}

    builder = StateGraph(Words)
    builder.add_node("grows", grows)
    builder.add_node("measures", measures)
    builder.add_edge(START, "grows")
    builder.add_edge("grows", "measures")
    result = drive.invoke(compiled(builder), {"last": "x"})

    assert result["words"] == [str(size), str(size)]
    assert result["other"] == {"text": "x" * size, "bytes": bytes(size)}


@pytest.mark.not_on("cluster", "identity")
def test_without_a_cluster_a_node_gets_the_object_itself(drive: Drive) -> None:
    given = object()
    seen: list[object] = []
    look: Callable[[Words], None] = lambda state: seen.append(state["other"])  # noqa: E731
    builder = StateGraph(Words)
    builder.add_node("looks", look)
    builder.add_edge(START, "looks")
    drive.invoke(compiled(builder), {"other": given})

    assert seen[0] is given
