"""From what a node returns to writes."""

# pyright: reportUnknownArgumentType=false

import dataclasses
import enum
import logging
from typing import Any

import pytest
from pydantic import BaseModel

from phalanx.constants import END, START
from phalanx.errors import InvalidUpdateError, ParentCommand
from phalanx.graph.writes import router_for, writer_for
from phalanx.protocol.names import ROOT, TASKS
from phalanx.types import Command, Overwrite, Send

KEYS = frozenset({"a", "b"})
writes = writer_for("n", KEYS, [("branch:to:static", None)], what="the return value of node", managed={"left"})
root_writes = writer_for("n", frozenset({ROOT}), [], what="the return value of node")

STATIC = ("branch:to:static", None)
GOTO = ("branch:to:x", None)


@dataclasses.dataclass
class Record:
    a: int | None = None
    b: int = 2
    unknown: int = 3


class Model(BaseModel):
    a: int | None = None
    b: int | None = 5


class Noted:
    a: int
    b: int = 7


class Lost:
    a: "Nowhere"  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore


class Bare:
    pass


def noted(**attributes: object) -> Noted:
    made = Noted()
    for name, value in attributes.items():
        setattr(made, name, value)
    return made


def lost() -> Any:
    made: Any = Lost()
    made.a = 1
    return made


@pytest.mark.parametrize(
    ("output", "updates"),
    [
        (None, []),
        ({}, []),
        ({"a": 1, "unknown": 2}, [("a", 1)]),
        ({"a": Overwrite(1)}, [("a", Overwrite(1))]),
        (Record(), [("a", None), ("b", 2)]),
        (Model(), [("b", 5)]),
        (Model(a=None, b=None), [("a", None), ("b", None)]),
        (noted(), [("b", 7)]),
        (noted(a=None, b=1), [("a", None), ("b", 1)]),
        (lost(), [("a", 1)]),
        (Command(), []),
        (Command(update={"a": 1}), [("a", 1)]),
        (Command(update=[("a", 1), ("a", 2), ("unknown", 3)]), [("a", 1), ("a", 2)]),
        (Command(update=(("a", 1),)), [("a", 1)]),
        (Command(update=[["a", 1]]), [("a", 1)]),
        (Command(update=[]), []),
        (Command(update=Record(a=1)), [("a", 1), ("b", 2)]),
        (Command(update=Model(a=1)), [("a", 1), ("b", 5)]),
        (Command(update=noted(a=1)), [("a", 1), ("b", 7)]),
        ([Command(update={"a": 1}), {"b": 2}, None, Record()], [("a", 1), ("b", 2), ("a", None), ("b", 2)]),
        ((Command(update={"a": 1}), [Command(update={"a": 2})]), [("a", 1), ("a", 2)]),
    ],
    ids=repr,
)
def test_what_a_node_returns_becomes_updates_in_its_order_and_then_come_its_edges(output: object, updates: Any) -> None:
    assert writes(output) == [*updates, STATIC]


@pytest.mark.parametrize(
    "output",
    [7, "a", [], [{"a": 1}], {1, 2}, Noted, Bare(), ValueError("x"), [Send("x", 1)], [Command(), 7], [Command(), [{}]]],
    ids=repr,
)
def test_what_is_no_update_is_refused_with_the_node_and_its_type(output: object) -> None:
    with pytest.raises(InvalidUpdateError, match=r"^Expected dict, got .* \(type .*\) as the return value of node 'n'"):
        writes(output)


@pytest.mark.parametrize("update", ["a", 7, [1, 2], ("a", 1), [("a", 1, 2)], [(1, 2)], Bare()], ids=repr)
def test_a_command_whose_update_is_none_is_refused_and_not_dropped(update: object) -> None:
    with pytest.raises(InvalidUpdateError, match=r"^Expected dict, got .* the update of a Command in the return value"):
        writes(Command(update=update))


class Color(str, enum.Enum):  # noqa: UP042 - what older code has
    RED = "x"


@pytest.mark.parametrize(
    ("output", "gotos"),
    [
        (Command(goto="x"), [GOTO]),
        (Command[str](goto=Color.RED), [GOTO]),
        (Command(goto=END), []),
        (Command[str](goto=["x", END, Send("y", 1)]), [GOTO, (TASKS, Send("y", 1))]),
        (Command(goto=("x", "x")), [GOTO, GOTO]),
        (Command(goto=Send(Color.RED, 1)), [(TASKS, Send("x", 1))]),
        (Send("y", 1), [(TASKS, Send("y", 1))]),
        ([Command(goto="x"), Send("y", 1), [Command(goto="x")]], [GOTO, (TASKS, Send("y", 1)), GOTO]),
        (Command(goto=None), []),  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    ],
    ids=repr,
)
def test_gotos_and_packets_come_before_the_node_s_edges(output: object, gotos: Any) -> None:
    assert writes(output) == [*gotos, STATIC]


def test_updates_come_before_gotos() -> None:
    assert writes([Command(goto="x"), Command(update={"a": 1})]) == [("a", 1), GOTO, STATIC]


def test_a_packet_to_an_enum_keeps_what_else_it_says() -> None:
    (_, packet), _ = writes(Send(Color.RED, {"k": 1}, timeout=3))

    assert (type(packet.node), packet) == (str, Send("x", {"k": 1}, timeout=3))


@pytest.mark.parametrize("goto", [5, [5], {"a": 1}, [None]], ids=repr)
def test_a_goto_that_is_no_destination_is_refused(goto: Any) -> None:
    with pytest.raises(
        InvalidUpdateError, match=r"^Command\(goto=.*\) as the return value of node 'n': .* no destination"
    ):
        writes(Command(goto=goto))


@pytest.mark.parametrize("output", [Send(END, 1), Command(goto=Send(END, 1))], ids=repr)
def test_a_packet_to_the_end_is_refused(output: object) -> None:
    with pytest.raises(InvalidUpdateError, match="Cannot send a packet to the END node"):
        writes(output)


@pytest.mark.parametrize("writer", [writes, root_writes], ids=["keys", "one value"])
def test_a_command_for_the_graph_above_leaves_the_node(writer: Any) -> None:
    command: Command[str] = Command(graph=Command.PARENT, update={"a": 1})

    outputs: list[object] = [command, [Command[str](update={"a": 2}), command]]
    for output in outputs:
        with pytest.raises(ParentCommand) as caught:
            writer(output)
        assert caught.value.args == (command,)


@pytest.mark.parametrize("graph", ["other", ""])
def test_a_command_for_any_other_graph_is_refused(graph: str) -> None:
    with pytest.raises(
        InvalidUpdateError, match=r"^Command\(graph='.*'\) as the return value of node 'n': .*Command.PARENT"
    ):
        writes(Command(graph=graph, update={"a": 1}))


def test_writing_a_managed_value_warns_and_writes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "phalanx.graph"):
        assert writes({"left": 3, "a": 1}) == [("a", 1), STATIC]
    assert "the return value of node 'n' writes 3 to 'left', a managed value" in caplog.text


@pytest.mark.parametrize(
    ("output", "values"),
    [
        (None, []),
        ([], [[]]),
        (["x"], [["x"]]),
        ({"a": 1}, [{"a": 1}]),
        (Command(), []),
        (Command(update=["x"]), [["x"]]),
        (Command(update={"a": 1}), [{"a": 1}]),
        (Command(update=[("a", 1)]), [[("a", 1)]]),
        (Command(update={ROOT: 1}), [1]),
        (Command(update=[(ROOT, 1), (ROOT, 2)]), [1, 2]),
        ([Command(update=1), 2, None], [1, 2]),
        (Overwrite(1), [Overwrite(1)]),
    ],
    ids=repr,
)
def test_where_the_state_is_one_value_the_output_is_that_value(output: object, values: list[object]) -> None:
    assert root_writes(output) == [(ROOT, value) for value in values]


# --- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "ends", "found"),
    [
        ("x", None, [GOTO]),
        (Color.RED, None, [GOTO]),
        (["x", END], None, [GOTO]),
        (Send("y", 1), {"yes": "x"}, [(TASKS, Send("y", 1))]),
        (True, {True: "x"}, [GOTO]),
        ([True, False], {True: "x", False: END}, [GOTO]),
    ],
    ids=repr,
)
def test_a_path_s_answer_becomes_destinations(answer: object, ends: Any, found: object) -> None:
    assert [*router_for("n", "path", ends)(answer)] == found


@pytest.mark.parametrize("answer", [None, START, 5, [None]], ids=repr)
def test_an_answer_that_is_no_destination_is_refused(answer: object) -> None:
    with pytest.raises(ValueError, match=r"^Branch did not return a valid destination: path 'path' of node 'n'"):
        list(router_for("n", "path", None)(answer))


def test_an_answer_that_the_map_does_not_have_is_refused_with_what_it_has() -> None:
    with pytest.raises(KeyError, match=r"answered 'no', which is not in its path_map; it has: 'yes'"):
        list(router_for("n", "path", {"yes": "x"})("no"))
