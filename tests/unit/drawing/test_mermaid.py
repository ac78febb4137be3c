"""Pictures as the text of Mermaid."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.drawing import graphs

from phalanx.pregel.drawing import CurveStyle, NodeStyles
from phalanx.pregel.drawing.mermaid import id_of


def body(graph: Any, **options: Any) -> list[str]:
    """The lines without header and styles."""
    text: str = graph.get_graph(xray=options.pop("xray", False)).draw_mermaid(**options)
    return [line.strip() for line in text.split("graph TD;\n")[1].splitlines() if "classDef" not in line]


def test_edges_and_shapes() -> None:
    assert body(graphs.loop()) == [
        "__start__([<p>__start__</p>]):::first",
        "write(write)",
        "review(review)",
        "__end__([<p>__end__</p>]):::last",
        "__start__ --> write;",
        "review -. &nbsp;good&nbsp; .-> __end__;",
        "review -. &nbsp;again&nbsp; .-> write;",
        "write --> review;",
        "review -. &nbsp;wait&nbsp; .-> review;",
    ]


def test_without_styles_there_are_only_edges() -> None:
    text = graphs.chain().get_graph().draw_mermaid(with_styles=False)
    assert text == "graph TD;\n\t__start__ --> load;\n\tclean --> train;\n\tload --> clean;\n\ttrain --> __end__;\n"


def test_a_subgraph_is_a_block_with_a_safe_id() -> None:
    lines = body(graphs.with_subgraph(), xray=True)
    start = lines.index('subgraph inner\\20graph["inner graph"]')
    assert "inner\\20graph\\3aplan(plan)" in lines[start : lines.index("end", start)]


def test_subgraphs_of_one_name_stay_apart() -> None:
    inner = graphs.new("same").compile()
    builder = graphs.new("before")
    builder.add_node("same", graphs.with_subgraph())
    builder.add_node("one", inner)
    builder.add_edge("before", "same")
    builder.add_edge("same", "one")
    opened = [line for line in body(builder.compile(), xray=True) if line.startswith("subgraph")]
    ids = [re.split(r"[ \[]", line)[1] for line in opened]
    assert len(ids) == len(set(ids)) == 3


@pytest.mark.parametrize("name", graphs.ODD_NAMES)
def test_ids_hold_no_character_that_mermaid_reads(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_\\-]+", id_of(name))
    assert id_of(name).lower() not in {"end", "graph"}


@pytest.mark.parametrize(
    ("name", "id_"), [("my-node", "my-node"), ("--", "\\2d\\2d"), ("-a", "\\2da"), ("a--b", "a\\2d\\2db")]
)
def test_hyphens_stay_only_where_they_cannot_be_an_arrow(name: str, id_: str) -> None:
    assert id_of(name) == id_


def test_ids_of_different_names_differ() -> None:
    assert (
        len({id_of(name) for name in [*graphs.ODD_NAMES, "\\65nd", "a b", "a_b", "a20b"]}) == len(graphs.ODD_NAMES) + 4
    )


def test_labels_of_odd_names_are_quoted_and_escaped() -> None:
    for line in body(graphs.odd_names()):
        inside = re.sub(r"^\S+\(\"|\"\)$|-\. \"|\" \.->", "", line)
        assert "<script" not in line
        assert "<b>" not in line
        assert '"' not in inside
        assert "\x1b" not in line


def test_metadata_is_shown_below_the_name() -> None:
    builder = graphs.new("a")
    builder.add_node("b", graphs.work, metadata={"team": "blue", "html": "<i>", "deep": {"x": 1}})
    builder.add_edge("a", "b")
    text = builder.compile().get_graph().draw_mermaid()
    assert 'b("b<hr/><small><em>team = blue\nhtml = #60;i#62;</em></small>")' in text


def test_long_labels_are_wrapped() -> None:
    builder = graphs.new("a", "b")
    builder.add_conditional_edges("a", graphs.path, {"one two three": "b"})
    text = builder.compile().get_graph().draw_mermaid(wrap_label_n_words=2)
    assert "a -. &nbsp;one two&nbsp<br>&nbspthree&nbsp; .-> b;" in text


def test_styles_and_header_can_be_chosen() -> None:
    text = (
        graphs.chain()
        .get_graph()
        .draw_mermaid(
            curve_style=CurveStyle.STEP,
            node_colors=NodeStyles(first="fill:#ffdfba"),
            frontmatter_config={"config": {"theme": "neutral", "themeVariables": {"primaryColor": "#e2e2e2"}}},
        )
    )
    assert text.startswith(
        "---\nconfig:\n  flowchart:\n    curve: step\n"
        "  theme: neutral\n  themeVariables:\n    primaryColor: '#e2e2e2'\n---\n"
    )
    assert "classDef first fill:#ffdfba" in text


def test_a_curve_style_of_another_library_is_taken() -> None:
    text = graphs.chain().get_graph().draw_mermaid(curve_style=SimpleNamespace(value="basis"))
    assert "curve: basis" in text
