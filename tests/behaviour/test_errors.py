"""What nodes and callers can do wrong, and what they are told."""

import operator
from typing import Annotated, Any

import pytest
from tests.behaviour.drivers import Drive, compiled
from tests.behaviour.reference import ON_REFERENCE
from tests.behaviour.states import Update, Words, chain, fan_out, gives, says
from typing_extensions import TypedDict

from phalanx.constants import END, START
from phalanx.errors import InvalidUpdateError, RemoteNodeError, RemoteTraceback, UnserializableError
from phalanx.graph import StateGraph
from phalanx.types import Send


class OutOfInkError(Exception):
    """An error of the user's, with more than a message."""

    def __init__(self, pen: str, pages: int) -> None:
        super().__init__(f"{pen} is empty after {pages} pages")
        self.pen = pen
        self.pages = pages


def raising(error: BaseException) -> StateGraph[Words]:
    def fails(_: Words) -> Update:
        raise error

    builder = chain("a")
    builder.add_node("fails", fails)
    builder.add_edge("a", "fails")
    return builder


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a value"),
        KeyError("key"),
        FileNotFoundError(2, "no such file", "x.txt"),
        ZeroDivisionError(),
        RuntimeError("several", 1, {"arguments": [2]}),
        OutOfInkError("pen", 3),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_node_s_error_reaches_the_caller_as_it_is(drive: Drive, error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        drive.invoke(compiled(raising(error)), {})

    assert type(caught.value) is type(error)
    assert caught.value.args == error.args
    assert str(caught.value) == str(error)
    assert {**vars(caught.value), "__notes__": None} == {**vars(error), "__notes__": None}


class OddError(BaseException):
    """No ordinary exception, so that ``except Exception`` does not see it."""


def test_an_error_that_is_no_ordinary_exception_is_not_waited_for(drive: Drive) -> None:
    builder = raising(OddError("odd"))
    builder.add_node("beside", says("beside"))
    builder.add_edge("a", "beside")

    with pytest.raises((OddError, RemoteNodeError), match="odd"):  # only what is an Exception is rebuilt
        drive.invoke(compiled(builder), {})


@pytest.mark.rule("error-1")
def test_an_error_says_which_task_it_came_from(drive: Drive) -> None:
    with pytest.raises(ValueError, match="v") as caught:
        drive.invoke(compiled(raising(ValueError("v"))), {})

    assert any("During task with name 'fails' and id '" in note for note in caught.value.__notes__)


def test_an_error_shows_the_lines_that_raised_it(drive: Drive) -> None:
    """Inline by its own traceback, from a worker by that of its cause."""
    with pytest.raises(ValueError, match="v") as caught:
        drive.invoke(compiled(raising(ValueError("v"))), {})

    if drive.name == "cluster":
        assert isinstance(caught.value.__cause__, RemoteTraceback)
        assert "in fails" in str(caught.value.__cause__)
        assert "raise error" in str(caught.value.__cause__)
    else:
        assert any(entry.name == "fails" for entry in caught.traceback)


@pytest.mark.ours_only("there, one of the errors is raised, by chance of timing")
@pytest.mark.not_on("inline-async", "siblings_finish")
def test_of_several_failures_the_first_by_name_is_raised_and_the_others_are_mentioned(drive: Drive) -> None:
    def fails(name: str) -> Any:
        def fail(_: Words) -> Update:
            raise ValueError(name)

        return fail

    builder = fan_out("ok")
    for name in ("c", "a", "b"):
        builder.add_node(name, fails(name))
        builder.add_edge(START, name)

    with pytest.raises(ValueError, match=r"^a") as caught:
        drive.invoke(compiled(builder), {})
    assert any("2 more tasks of this superstep failed (nodes: b, c)" in note for note in caught.value.__notes__)


@pytest.mark.rule("step-9")
@pytest.mark.parametrize("output", [5, "text", ["a list"], {"a set"}, object], ids=repr)
def test_a_node_must_return_a_dict(drive: Drive, output: object) -> None:
    def returns(_: Words) -> object:
        return output

    builder = StateGraph(Words)
    builder.add_node("returns", returns)
    builder.add_edge(START, "returns")

    more = "" if ON_REFERENCE else "the return value of node 'returns'"
    with pytest.raises(InvalidUpdateError, match=rf"^Expected dict, got .*{more}"):
        drive.invoke(compiled(builder), {})


def test_the_input_must_be_a_dict_too(drive: Drive) -> None:
    with pytest.raises(InvalidUpdateError, match=r"^Expected dict, got"):
        drive.invoke(compiled(chain("a")), "text")


# --- values that cannot travel ----------------------------------------------------------------------------------------


class Socket:
    """A class that has no safe encoding."""


def returning(value: object) -> StateGraph[Words]:
    def returns(_: Words) -> Update:
        return {"words": ["r"], "other": value}

    builder = chain("a")
    builder.add_node("returns", returns)
    builder.add_edge("a", "returns")
    return builder


def test_a_value_that_cannot_travel_is_refused_with_node_key_type_and_place(drive: Drive) -> None:
    value = {"deep": [1, Socket()]}
    if drive.name != "cluster":  # nothing travels
        assert drive.invoke(compiled(returning(value)), {})["other"] is value
        return

    with pytest.raises(UnserializableError) as caught:
        drive.invoke(compiled(returning(value)), {})
    message = str(caught.value)
    assert "node 'returns', state key 'other'" in message
    assert "Socket" in message
    assert "['deep'][1]" in message


def test_an_argument_that_cannot_travel_is_refused_with_both_nodes_and_its_type(drive: Drive) -> None:
    def path(_: Words) -> list[Send]:
        return [Send("works", 1), Send("works", Socket())]

    def works(arg: object) -> Update:
        return {"words": [type(arg).__name__]}

    builder = chain("plan")
    builder.add_node("works", works)
    builder.add_conditional_edges("plan", path)
    if drive.name != "cluster":
        assert drive.invoke(compiled(builder), {})["words"] == ["plan", "int", "Socket"]
        return

    with pytest.raises(UnserializableError, match=r"node 'plan', the argument of its Send to 'works': .*Socket"):
        drive.invoke(compiled(builder), {})


def test_an_input_that_cannot_travel_is_refused_before_anything_runs(drive: Drive) -> None:
    if drive.name != "cluster":
        assert drive.invoke(compiled(chain("a")), {"other": Socket()})["words"] == ["a"]
        return

    with pytest.raises(UnserializableError, match="Socket"):
        drive.invoke(compiled(chain("a")), {"other": Socket()})


def test_a_config_that_cannot_travel_is_refused(drive: Drive) -> None:
    config: Any = {"configurable": {"connection": Socket()}}
    if drive.name != "cluster":
        assert drive.invoke(compiled(chain("a")), {}, config)["words"] == ["a"]
        return

    with pytest.raises(UnserializableError, match="the run's config cannot go to workers"):
        drive.invoke(compiled(chain("a")), {}, config)


# --- graphs that are not whole ----------------------------------------------------------------------------------------


@pytest.mark.rule("build-1")
def test_a_graph_without_a_way_in_does_not_compile() -> None:
    builder = StateGraph(Words)
    builder.add_node("a", gives(None))

    with pytest.raises(ValueError, match="Graph must have an entrypoint"):
        builder.compile()


@pytest.mark.rule("build-1")
@pytest.mark.parametrize(
    ("edge", "message"),
    [
        (("a", "nobody"), "Found edge ending at unknown node `nobody`; the nodes are: a"),
        (("nobody", "a"), "Found edge starting at unknown node 'nobody'; the nodes are: a"),
        ((END, "a"), "END cannot be a start node"),
        (("a", START), "START cannot be an end node"),
        ((["a", "nobody"], "a"), "Need to add_node `nobody` first"),
    ],
    ids=["to nobody", "from nobody", "from the end", "to the start", "a join of nobody"],
)
def test_an_edge_that_leads_nowhere_does_not_compile(edge: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message.partition(";")[0] if ON_REFERENCE else message):
        chain("a").add_edge(*edge).compile()


@pytest.mark.rule("build-2")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a", "Node `a` already present"),
        (START, "is reserved"),
        (END, "is reserved"),
        ("x|y", "reserved character"),
        ("x:y", "reserved character"),
    ],
)
def test_a_node_s_name_must_be_free(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        chain("a").add_node(name, gives(None))


@pytest.mark.rule("build-2")
def test_a_node_must_be_callable() -> None:
    words = "Expected a Runnable" if ON_REFERENCE else "must be a function, a callable object or have invoke"
    with pytest.raises(TypeError, match=words):
        StateGraph(Words).add_node("a", 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def one(a: object) -> object:
    return a


class Unreducible(TypedDict):
    key: Annotated[list[int], one]


@pytest.mark.rule("build-3")
def test_a_reducer_must_take_two_arguments() -> None:
    with pytest.raises(ValueError, match="Invalid reducer signature"):
        StateGraph(Unreducible)


class Summed(TypedDict):
    key: Annotated[int, operator.add]


class Joined(TypedDict):
    key: Annotated[int, operator.mul]


@pytest.mark.rule("build-5")
def test_a_key_cannot_have_two_reducers() -> None:
    with pytest.raises(ValueError, match="Channel 'key' already exists with a different type"):
        StateGraph(Summed, output_schema=Joined)


@pytest.mark.rule("build-4")
def test_a_checkpointer_must_be_a_saver() -> None:
    with pytest.raises(TypeError, match="Invalid checkpointer provided"):
        chain("a").compile(object())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
