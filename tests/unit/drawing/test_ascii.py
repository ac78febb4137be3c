"""Pictures in characters."""

from typing import Any

import pytest
from tests.unit.drawing import graphs

from phalanx.pregel.drawing.text import width_of


def drawn(graph: Any, xray: bool = False) -> str:
    text: str = graph.get_graph(xray=xray).draw_ascii()
    return text


def test_a_chain() -> None:
    assert drawn(graphs.chain()).splitlines() == [
        "+-----------+",
        "| __start__ |",
        "+-----------+",
        "      |",
        "      |",
        "      v",
        "  +-------+",
        "  | load  |",
        "  +-------+",
        "      |",
        "      |",
        "      v",
        "  +-------+",
        "  | clean |",
        "  +-------+",
        "      |",
        "      |",
        "      v",
        "  +-------+",
        "  | train |",
        "  +-------+",
        "      |",
        "      |",
        "      v",
        " +---------+",
        " | __end__ |",
        " +---------+",
    ]


def test_conditional_edges_are_dotted_and_carry_their_labels() -> None:
    text = drawn(graphs.diamond())
    plan, merge = text.index("plan"), text.index("merge")
    assert "yes" in text[plan:merge]
    assert "no" in text[plan:merge]
    assert ":" in text[plan : text.index("left")]
    assert ":" not in text[text.index("left") :]


def test_an_edge_back_has_an_arrow_up_and_a_loop_an_arrow_to_the_side() -> None:
    text = drawn(graphs.loop())
    assert "^" in text[text.index("write") : text.index("review")]
    assert "+<." in text
    for label in ("again", "wait", "good"):
        assert label in text


def test_a_deferred_node_is_marked() -> None:
    assert "(defer)" in drawn(graphs.map_reduce())


def test_every_name_of_a_large_graph_stands_in_a_box_of_its_own() -> None:
    text = drawn(graphs.twenty_nodes())
    lines = text.splitlines()
    for number in range(20):
        line = next(line for line in lines if f" node_{number} " in line)
        before, after = line.split(f" node_{number} ")
        assert before.rstrip().endswith("|")
        assert after.lstrip().startswith("|")
    assert max(map(len, lines)) < 60


def test_every_edge_has_an_arrowhead() -> None:
    graph = graphs.twenty_nodes().get_graph()
    text = graph.draw_ascii()
    outside = "\n".join(line for line in text.splitlines() if "_" not in line)  # without names, which hold a v
    heads = sum(outside.count(head) for head in "v^<>")
    assert heads == len(graph.edges)


def test_a_subgraph_is_framed() -> None:
    lines = drawn(graphs.with_subgraph(), xray=True).splitlines()
    top = next(line for line in lines if "+- inner graph -" in line)
    assert lines.index(top) < next(number for number, line in enumerate(lines) if "| plan" in line)


def test_nothing_in_a_name_reaches_the_terminal_as_a_command() -> None:
    text = drawn(graphs.odd_names())
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "two\\x0alines\\x1b[2J" in text


def test_wide_characters_keep_the_box_straight() -> None:
    lines = drawn(graphs.odd_names()).splitlines()
    place = next(number for number, line in enumerate(lines) if "日本語" in line)
    assert width_of(lines[place - 1]) == width_of(lines[place]) == width_of(lines[place + 1])


def test_a_long_name_is_cut() -> None:
    assert f"| {'x' * 39}~  |" in drawn(graphs.new("x" * 500).compile())


@pytest.mark.parametrize("make", [graphs.loop, graphs.twenty_nodes, graphs.with_subgraph])
def test_the_same_graph_is_always_drawn_the_same(make: Any) -> None:
    assert drawn(make(), xray=True) == drawn(make(), xray=True)


def test_it_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    graph = graphs.chain().get_graph()
    graph.print_ascii()
    assert capsys.readouterr().out == f"{graph.draw_ascii()}\n"
