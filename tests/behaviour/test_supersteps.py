"""What a superstep is made of: tasks in an order, one version for all that changed, values that last for one step."""

# Short nodes are lambdas.
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import collections.abc
import logging
import operator
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Flaky, Update, Words, alone, chain, fan_out, gives, says
from typing_extensions import TypedDict

from phalanx.channels import EphemeralValue, Topic, UntrackedValue
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.config import RunnableConfig
from phalanx.constants import START
from phalanx.errors import InvalidUpdateError
from phalanx.graph import StateGraph
from phalanx.types import Command, Overwrite, Send


@pytest.mark.rule("step-1")
def test_what_tasks_write_is_seen_together_after_the_step(drive: Drive) -> None:
    a, b = Flaky(answer={"words": ["a"], "last": "a"}), Flaky(answer={"words": ["b"], "count": 1})
    builder = alone(a)
    builder.add_node("b", b)
    builder.add_node("c", says("c"))
    builder.add_edge(START, "b")
    builder.add_edge("a", "c")
    values = drive.stream(compiled(builder), {"last": "x"}, stream_mode="values")

    assert a.calls == b.calls == [{"words": [], "count": 0, "last": "x"}]
    assert values == [
        {"words": [], "count": 0, "last": "x"},
        {"words": ["a", "b"], "count": 1, "last": "a"},
        {"words": ["a", "b", "c"], "count": 1, "last": "a"},
    ]


@pytest.mark.rule("step-2")
def test_tasks_of_edges_come_before_packets_and_packets_in_the_order_they_were_sent(drive: Drive) -> None:
    """The tenth packet comes after the second, and the last name before the first packet."""

    def works(arg: Any) -> Update:
        return {"words": [arg if isinstance(arg, str) else "edge"]}

    sent = [Send("a", f"p{number}") for number in range(12)]
    builder = fan_out("z")
    builder.add_node("a", works)
    builder.add_conditional_edges(START, gives([*sent, "a"]))

    words = drive.invoke(compiled(builder), {})["words"]
    assert words == ["edge", "z", *(f"p{number}" for number in range(12))]


@pytest.mark.rule("step-2")
def test_a_node_s_own_writes_keep_their_order(drive: Drive) -> None:
    answer = [Command[str](update=[("words", ["1"]), ("last", "x"), ("words", ["2"])]), {"words": ["3"]}]

    assert drive.invoke(compiled(alone(gives(answer))), {})["words"] == ["1", "2", "3"]


@pytest.mark.rule("step-3")
def test_two_writes_of_one_node_to_a_plain_key_are_an_error_too(drive: Drive) -> None:
    answer = Command[str](update=[("last", "x"), ("last", "y")])

    with pytest.raises(InvalidUpdateError, match=r"^At key 'last': Can receive only one value per step"):
        drive.invoke(compiled(alone(gives(answer))), {})


@pytest.mark.rule("step-3")
def test_two_packets_that_write_a_plain_key_are_an_error_even_with_equal_values(drive: Drive) -> None:
    builder = StateGraph(Words)
    builder.add_node("a", gives({"last": "same"}))
    builder.add_conditional_edges(START, gives([Send("a", 1), Send("a", 2)]))

    with pytest.raises(InvalidUpdateError, match="INVALID_CONCURRENT_GRAPH_UPDATE"):
        drive.invoke(compiled(builder), {})


@pytest.mark.rule("step-4")
def test_all_that_changes_in_a_step_gets_one_version_newer_than_all_before(drive: Drive) -> None:
    saver = InMemorySaver()
    builder = chain("a", "b")
    builder.add_node("c", gives({"last": "c", "count": 1}))
    builder.add_edge("a", "c")
    drive.invoke(compiled(builder, saver), {"other": 0}, thread("versions"))
    found = saver.get_tuple(thread("versions"))
    assert found is not None
    versions: dict[str, Any] = dict(found.checkpoint["channel_versions"])

    assert versions["words"] == versions["last"] == versions["count"]
    assert versions["words"] > versions["branch:to:a"] > versions["__start__"] or (
        versions["words"] > versions["branch:to:a"] >= versions["other"]
    )


@pytest.mark.rule("step-4")
def test_a_thread_knows_what_each_node_has_seen(drive: Drive) -> None:
    saver = InMemorySaver()
    drive.invoke(compiled(chain("a", "b"), saver), {}, thread("seen"))
    found = saver.get_tuple(thread("seen"))
    assert found is not None
    seen: dict[str, Any] = dict(found.checkpoint["versions_seen"])

    assert list(seen["a"]) == ["branch:to:a"]
    assert seen["b"]["branch:to:b"] > seen["a"]["branch:to:a"]


@pytest.mark.rule("step-5")
def test_a_write_triggers_whatever_its_value(drive: Drive) -> None:
    """A loop in which nothing changes still runs."""
    rounds: list[int] = []

    def path(_: Words) -> list[str]:
        return ["a"] if len(rounds) < 3 else []

    def same(_: Words) -> Update:
        rounds.append(1)
        return {"last": "same"}

    builder = alone(same)
    builder.add_conditional_edges("a", path)
    drive.invoke(compiled(builder), {"last": "same"})

    assert len(rounds) == 3


@pytest.mark.rule("step-5")
def test_a_node_that_ran_does_not_run_again_for_the_same_write(drive_kept: Drive) -> None:
    a, b = Flaky(), Flaky(ValueError)
    builder = alone(a)
    builder.add_node("b", b)
    builder.add_edge("a", "b")
    graph, config = drive_kept.keeping(builder), thread("not again")
    with pytest.raises(ValueError, match="not yet"):
        drive_kept.invoke(graph, {}, config)
    drive_kept.invoke(graph, None, config)

    assert (len(a.calls), len(b.calls)) == (1, 2)


class Passing(TypedDict, total=False):
    """Keys that last for a step, for ever, or for a run."""

    seen: Annotated[list[str], operator.add]
    note: Annotated[str, EphemeralValue]
    topics: Annotated[list[str], Topic(str)]
    all_topics: Annotated[list[str], Topic(str, True)]
    secret: Annotated[str, UntrackedValue]


def passing(key: str, *updates: Update) -> StateGraph[Any]:
    """A chain of nodes, one an update; each notes what it finds under the key."""

    def look(update: Update) -> Any:
        return lambda state: {"seen": [str(state.get(key))], **update}

    builder: StateGraph[Any] = StateGraph(Passing)
    before = START
    for number, update in enumerate(updates):
        builder.add_node(f"n{number}", look(update))
        builder.add_edge(before, f"n{number}")
        before = f"n{number}"
    return builder


@pytest.mark.rule("step-6")
def test_an_ephemeral_value_is_there_for_one_step(drive: Drive) -> None:
    graph = compiled(passing("note", {"note": "x"}, {}, {}))

    assert drive.invoke(graph, {})["seen"] == ["None", "x", "None"]


@pytest.mark.rule("step-6")
def test_a_topic_holds_what_was_written_in_the_last_step(drive: Drive) -> None:
    graph = compiled(passing("topics", {"topics": ["1", "2"]}, {"topics": "3"}, {}, {}))

    assert drive.invoke(graph, {})["seen"] == ["None", "['1', '2']", "['3']", "None"]


@pytest.mark.rule("channel-3")
def test_a_topic_that_accumulates_keeps_everything_twice_if_need_be(drive: Drive) -> None:
    graph = compiled(passing("all_topics", {"all_topics": ["1"]}, {"all_topics": ["1", "4"]}, {}, {}))
    result = drive.invoke(graph, {})

    assert result["seen"] == ["None", "['1']", "['1', '1', '4']", "['1', '1', '4']"]
    assert result["all_topics"] == ["1", "1", "4"]


@pytest.mark.rule("channel-3")
def test_a_topic_that_is_empty_is_no_part_of_the_state(drive: Drive) -> None:
    values = drive.stream(compiled(passing("topics", {"topics": ["1"]}, {}, {})), {}, stream_mode="values")

    assert [each.get("topics") for each in values] == [["1"], None, None]


# --- reducers ---------------------------------------------------------------------------------------------------------


class Unborn:
    """A class without an empty value."""

    def __init__(self, value: int) -> None:
        self.value = value


class Starts(TypedDict, total=False):
    """Reduced keys of many types."""

    text: Annotated[str, operator.add]
    number: Annotated[int, operator.add]
    real: Annotated[float, operator.add]
    pairs: Annotated[dict[str, int], operator.or_]
    things: Annotated[set[str], operator.or_]
    fixed: Annotated[tuple[str, ...], operator.add]
    sequence: Annotated[Sequence[str], operator.add]
    mutable: Annotated[collections.abc.MutableSequence[str], operator.add]
    abstract_set: Annotated[collections.abc.Set[str], operator.or_]
    mapping: Annotated[collections.abc.Mapping[str, int], lambda a, b: {**a, **b}]
    perhaps: Annotated[list[str] | None, lambda a, b: (a or []) + b]


@pytest.mark.rule("channel-1")
def test_a_reducer_starts_from_the_empty_value_of_its_type(drive: Drive) -> None:
    seen: list[dict[str, Any]] = []

    def looks(state: Starts) -> Update:
        seen.append(dict(state))
        return {"perhaps": ["first"]}

    builder = StateGraph(Starts)
    builder.add_node("looks", looks)
    builder.add_edge(START, "looks")
    result = drive.invoke(compiled(builder), {})

    empty = {"text": "", "number": 0, "real": 0.0, "pairs": {}, "things": set[str](), "fixed": ()}
    abstract = {"sequence": [], "mutable": [], "abstract_set": set[str](), "mapping": {}}
    assert seen == [{**empty, **abstract}]
    assert result["perhaps"] == ["first"]


@pytest.mark.rule("channel-1")
def test_a_type_without_an_empty_value_starts_with_the_first_write(drive: Drive) -> None:
    def latest(old: Unborn, new: Unborn) -> Unborn:
        return new if new.value > old.value else old

    class Late(TypedDict):
        key: Annotated[Unborn, latest]
        seen: Annotated[list[int], operator.add]

    builder: StateGraph[Any] = StateGraph(Late)

    def looks(state: dict[str, Any]) -> Update:
        return {"seen": [len(state)]}

    builder.add_node("looks", looks)
    builder.add_edge(START, "looks")

    assert drive.invoke(compiled(builder), {}) == {"seen": [1]}


@pytest.mark.rule("channel-4")
def test_a_dict_with_more_than_the_mark_is_no_overwrite(drive: Drive) -> None:
    class Pairs(TypedDict):
        pairs: Annotated[dict[str, Any], operator.or_]

    builder = StateGraph(Pairs)
    builder.add_node("a", gives({"pairs": {"__overwrite__": {}, "more": 1}}))
    builder.add_edge(START, "a")

    assert drive.invoke(compiled(builder), {"pairs": {"old": 0}})["pairs"] == {"old": 0, "__overwrite__": {}, "more": 1}


@pytest.mark.rule("channel-4")
def test_an_overwrite_counts_wherever_it_stands_among_the_writes(drive: Drive) -> None:
    for name in ("a", "z"):
        builder = fan_out("m")
        builder.add_node(name, gives({"words": Overwrite(["new"])}))
        builder.add_node("after", says("after"))
        builder.add_edge(START, name)
        builder.add_edge(name, "after")

        assert drive.invoke(compiled(builder), {"words": ["old"]})["words"] == ["new", "after"]


# --- what is not kept -------------------------------------------------------------------------------------------------


@pytest.mark.rule("channel-5")
def test_an_untracked_value_is_read_during_the_run_and_returned(drive: Drive) -> None:
    result = drive.invoke(compiled(passing("secret", {"secret": "s"}, {}, {})), {})

    assert result["seen"] == ["None", "s", "s"]
    assert result["secret"] == "s"


@pytest.mark.rule("channel-5")
def test_a_packet_keeps_an_untracked_key_for_its_task_and_loses_it_in_the_thread(drive_kept: Drive) -> None:
    """At the top of its argument; a key of that name further inside is another one."""
    argument = {"secret": "x", "deep": {"secret": "y"}}
    got: list[Any] = []

    def works(arg: Any) -> Update:
        got.append(arg)
        if len(got) == 1:
            raise ValueError("not yet")
        return {"seen": ["done"]}

    builder = passing("secret", {"secret": "s"})
    builder.add_node("works", works)
    builder.add_conditional_edges("n0", gives([Send("works", argument)]))
    graph, config = drive_kept.keeping(builder), thread("untracked packet")
    with pytest.raises(ValueError, match="not yet"):
        drive_kept.invoke(graph, {}, config)
    assert "secret" not in drive_kept.get_state(graph, config).values
    assert drive_kept.invoke(graph, None, config)["seen"] == ["None", "done"]

    assert got == [argument, {"deep": {"secret": "y"}}]


# --- what leads nowhere -----------------------------------------------------------------------------------------------


@pytest.mark.rule("step-7")
def test_what_is_written_outside_the_state_is_dropped_without_a_word(
    drive: Drive, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert drive.invoke(compiled(alone(gives({"words": ["a"], "elsewhere": 1}))), {})["words"] == ["a"]
    assert not [record for record in caplog.records if "elsewhere" in record.getMessage()]


@pytest.mark.rule("step-8")
@pytest.mark.parametrize("answer", [None, {}, Command[str](), [Command[str]()]], ids=repr)
def test_a_task_that_wrote_nothing_is_done_and_is_not_run_again(drive_kept: Drive, answer: Any) -> None:
    quiet: list[int] = []

    def quietly(_: Words) -> Any:
        quiet.append(1)
        return answer

    builder = alone(quietly)
    builder.add_node("fails", Flaky(ValueError))
    builder.add_edge(START, "fails")
    graph, config = drive_kept.keeping(builder), thread(f"quiet {answer}")
    with pytest.raises(ValueError, match="not yet"):
        drive_kept.invoke(graph, {}, config)
    before = len(quiet)

    assert drive_kept.invoke(graph, None, config)["words"] == ["ok"]
    assert (before, len(quiet)) == (1, 1)


@pytest.mark.rule("step-8")
@pytest.mark.parametrize("answer", [None, {}], ids=repr)
def test_a_task_that_wrote_nothing_is_streamed_as_none(drive: Drive, answer: Any) -> None:
    assert drive.stream(compiled(alone(lambda _: answer)), {}) == [{"a": answer if answer is None else None}]


@pytest.mark.rule("step-9")
@pytest.mark.parametrize("answer", [5, "text", ["a"], {"a"}, ("words", 1), 0, False, b""], ids=repr)
def test_an_answer_that_is_no_update_is_an_error(drive: Drive, answer: Any) -> None:
    with pytest.raises(InvalidUpdateError, match=r"^Expected dict, got [\s\S]*INVALID_GRAPH_NODE_RETURN_VALUE"):
        drive.invoke(compiled(alone(lambda _: answer)), {})


@pytest.mark.rule("packet-2")
def test_each_packet_is_a_task_with_an_id_of_its_own_beside_the_task_of_an_edge(drive: Drive) -> None:
    spaces: list[str] = []

    def looks(_: Any, config: RunnableConfig) -> None:
        spaces.append((config.get("metadata") or {})["langgraph_checkpoint_ns"])

    builder = StateGraph(Words)
    builder.add_node("a", looks)
    builder.add_conditional_edges(START, gives(["a", Send("a", 1), Send("a", 1)]))
    drive.invoke(compiled(builder), {})

    assert len(set(spaces)) == len(spaces) == 3
