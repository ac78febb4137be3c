"""Keys that only some nodes know, and what goes into a run and comes out of it."""

import operator
from typing import Annotated, Any

import pytest
from tests.behaviour.drivers import Drive, compiled, thread
from tests.behaviour.states import Update
from typing_extensions import TypedDict

from phalanx.constants import START
from phalanx.errors import EmptyInputError
from phalanx.graph import StateGraph
from phalanx.types import Command


class Asked(TypedDict):
    """What a run is given."""

    question: str


class Told(TypedDict):
    """What a run returns."""

    answer: str


class Both(Asked, Told):
    """The state."""


class Notes(TypedDict):
    """What only some nodes know."""

    notes: Annotated[list[str], operator.add]
    draft: str


class Writes:
    """A callable object whose parameter says what it reads."""

    def __call__(self, state: Notes) -> Update:
        return {"answer": " ".join([*state["notes"], state["draft"]])}


def thinks(state: Asked) -> Update:
    """It writes keys that the state does not have, but that other nodes declare."""
    return {"notes": sorted(state), "draft": state["question"] + "!"}


def writing(*, first: Any = thinks, last: Any = None, **schemas: Any) -> StateGraph[Any]:
    """``thinks`` writes private keys, ``writes`` reads them."""
    builder: StateGraph[Any] = StateGraph(Both, **schemas)
    builder.add_node("thinks", first)
    builder.add_node("writes", last or Writes())
    builder.add_edge(START, "thinks")
    builder.add_edge("thinks", "writes")
    return builder


@pytest.mark.rule("private-1")
def test_a_node_s_parameter_declares_keys_that_other_nodes_can_write(drive: Drive) -> None:
    graph = compiled(writing(output_schema=Told))

    assert drive.invoke(graph, {"question": "q"}) == {"answer": "question q!"}


@pytest.mark.rule("private-1")
def test_a_schema_given_with_a_node_counts_as_its_parameter_s(drive: Drive) -> None:
    def writes(state: Any) -> Update:
        return {"answer": " ".join(sorted(state))}

    builder = StateGraph(Both)
    builder.add_node("thinks", thinks)
    builder.add_node("writes", writes, input_schema=Notes)
    builder.add_edge(START, "thinks")
    builder.add_edge("thinks", "writes")

    assert drive.invoke(compiled(builder), {"question": "q"})["answer"] == "draft notes"


@pytest.mark.rule("private-1")
def test_a_schema_given_with_a_node_counts_more_than_its_parameter_s(drive: Drive) -> None:
    def writes(state: Both) -> Update:
        return {"answer": " ".join(sorted(state))}

    builder = StateGraph(Both)
    builder.add_node("thinks", thinks)
    builder.add_node("writes", writes, input_schema=Notes)
    builder.add_edge(START, "thinks")
    builder.add_edge("thinks", "writes")

    assert drive.invoke(compiled(builder), {"question": "q"})["answer"] == "draft notes"


@pytest.mark.rule("private-1")
def test_a_key_that_no_node_declares_is_dropped(drive: Drive) -> None:
    def says_more(state: Asked) -> Update:
        return {**thinks(state), "unheard": 1}

    graph = compiled(writing(first=says_more))

    assert drive.stream(graph, {"question": "q"})[0] == {"thinks": {"notes": ["question"], "draft": "q!"}}


@pytest.mark.rule("private-1")
def test_a_parameter_whose_annotation_is_no_class_of_keys_reads_the_state(drive: Drive) -> None:
    def reads(state: dict[str, Any]) -> Update:
        return {"answer": " ".join(sorted(state))}

    builder = StateGraph(Both)
    builder.add_node("reads", reads)
    builder.add_edge(START, "reads")

    assert drive.invoke(compiled(builder), {"question": "q", "answer": "old"})["answer"] == "answer question"


@pytest.mark.rule("private-2")
def test_private_keys_can_not_be_given_as_input_and_are_not_returned(drive: Drive) -> None:
    graph = compiled(writing())
    result = drive.invoke(graph, {"question": "q", "notes": ["given"], "draft": "given"})

    assert result == {"question": "q", "answer": "question q!"}


@pytest.mark.rule("private-2")
def test_a_run_returns_what_the_output_schema_has_and_streams_the_whole_state(drive: Drive) -> None:
    graph = compiled(writing(input_schema=Asked, output_schema=Told))
    values = drive.stream(graph, {"question": "q"}, stream_mode="values")

    assert values[0] == {"question": "q", "notes": []}
    assert values[-1] == {"question": "q", "answer": "question q!", "notes": ["question"], "draft": "q!"}
    assert drive.invoke(graph, {"question": "q"}) == {"answer": "question q!"}


@pytest.mark.rule("private-2")
def test_the_state_of_a_thread_has_private_keys(drive_kept: Drive) -> None:
    graph, config = drive_kept.keeping(writing(output_schema=Told)), thread("private keys")
    drive_kept.invoke(graph, {"question": "q"}, config)

    assert drive_kept.get_state(graph, config).values["notes"] == ["question"]


@pytest.mark.rule("private-2")
def test_output_keys_can_name_private_keys(drive: Drive) -> None:
    graph = compiled(writing(output_schema=Told))

    assert drive.invoke(graph, {"question": "q"}, output_keys=["draft"]) == {"draft": "q!"}


@pytest.mark.rule("private-3")
def test_keys_of_the_input_schema_alone_are_part_of_the_state(drive: Drive) -> None:
    class Extra(TypedDict):
        extra: int

    def reads(state: Extra) -> Update:
        return {"answer": str(state)}

    builder: StateGraph[Any] = StateGraph(Told, input_schema=Extra)
    builder.add_node("reads", reads)
    builder.add_edge(START, "reads")

    assert drive.invoke(compiled(builder), {"extra": 1, "answer": "given"}) == {"answer": "{'extra': 1}"}


@pytest.mark.rule("private-3")
def test_an_empty_input_is_an_input_and_none_is_not(drive: Drive) -> None:
    def answers(_: Both) -> Update:
        return {"answer": "a"}

    builder = StateGraph(Both)
    builder.add_node("answers", answers)
    builder.add_edge(START, "answers")

    assert drive.invoke(compiled(builder), {}) == {"answer": "a"}
    with pytest.raises(EmptyInputError):
        drive.invoke(compiled(builder), None)


@pytest.mark.rule("path-1")
def test_a_path_reads_only_the_keys_its_parameter_is_annotated_with(drive: Drive) -> None:
    seen: list[list[str]] = []

    def path(state: Notes) -> str:
        seen.append(sorted(state))
        return "writes"

    builder = StateGraph(Both)
    builder.add_node("thinks", thinks)
    builder.add_node("writes", Writes())
    builder.add_edge(START, "thinks")
    builder.add_conditional_edges("thinks", path)
    drive.invoke(compiled(builder), {"question": "q"})

    assert seen == [["draft", "notes"]]


@pytest.mark.rule("path-1")
def test_a_path_without_an_annotation_reads_what_its_node_reads_and_what_it_returned(drive: Drive) -> None:
    seen: list[dict[str, Any]] = []

    def path(state: Any) -> str:
        seen.append(dict(state))
        return "writes"

    def returns_more(state: Asked) -> Update:
        return {**thinks(state), "unheard": 1, "question": "new"}

    builder = StateGraph(Both)
    builder.add_node("thinks", returns_more)
    builder.add_node("writes", Writes())
    builder.add_edge(START, "thinks")
    builder.add_conditional_edges("thinks", path)
    drive.invoke(compiled(builder), {"question": "q"})

    assert seen == [{"question": "new", "notes": ["question"], "draft": "q!", "unheard": 1}]


@pytest.mark.rule("path-1")
def test_of_a_reduced_key_a_path_sees_the_state_s_value_and_not_the_returned_one(drive: Drive) -> None:
    seen: list[dict[str, Any]] = []

    def path(state: Any) -> str:
        seen.append(dict(state))
        return "writes"

    def thinks_again(state: Notes) -> Update:
        return {"notes": ["again"]}

    builder = StateGraph(Both)
    builder.add_node("thinks", thinks)
    builder.add_node("again", thinks_again)
    builder.add_node("writes", Writes())
    builder.add_edge(START, "thinks")
    builder.add_edge("thinks", "again")
    builder.add_conditional_edges("again", path)
    drive.invoke(compiled(builder), {"question": "q"})

    assert seen == [{"notes": ["question", "again"], "draft": "q!"}]


@pytest.mark.rule("path-1")
def test_a_path_of_a_command_s_node_sees_the_command_s_update(drive: Drive) -> None:
    seen: list[dict[str, Any]] = []

    def path(state: Any) -> list[str]:
        seen.append(dict(state))
        return []

    def answers(_: Both) -> Command[str]:
        return Command(update={"answer": "a"})

    builder = StateGraph(Both)
    builder.add_node("answers", answers)
    builder.add_edge(START, "answers")
    builder.add_conditional_edges("answers", path)
    drive.invoke(compiled(builder), {"question": "q"})

    assert seen == [{"question": "q", "answer": "a"}]
