"""A graph as the text of a Mermaid flowchart.

Names come from users and may hold anything. Ids are made of letters, digits, ``_`` and ``-``, with other characters as
their code; labels that hold more than plain words are quoted, with what Mermaid or HTML would read as its own written
as entities.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, cast

from phalanx.pregel.drawing.text import visible

if TYPE_CHECKING:
    from phalanx.pregel.drawing.graph import Edge, Graph, Node

_NESTING: Final = ":"
_KEYWORDS: Final = frozenset(
    {"call", "class", "classdef", "click", "default", "direction", "end", "flowchart", "graph", "href", "interpolate"}
    | {"linkstyle", "style", "subgraph"}
)
_PLAIN_CHARACTER: Final = re.compile(r"[\w.,!?+/= -]")
_PLAIN_LABEL: Final = re.compile(r"(?:[\w ]|[.,!?+/=](?=[\w ]|$)|(?<=\w)-(?=\w))*")
"""Words, with single marks between or behind them: two of them may be an arrow."""

_CODED_IN_ID: Final = re.compile(r"[^A-Za-z0-9_-]|(?<![A-Za-z0-9_])-|-(?![A-Za-z0-9_])")
_PLAIN_SCALAR: Final = re.compile(r"[A-Za-z_][\w./-]*")
_YAML_WORDS: Final = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
_MARKDOWN: Final = tuple("*_`")


class CurveStyle(Enum):
    """How edges bend, by Mermaid's names."""

    BASIS = "basis"
    BUMP_X = "bumpX"
    BUMP_Y = "bumpY"
    CARDINAL = "cardinal"
    CATMULL_ROM = "catmullRom"
    LINEAR = "linear"
    MONOTONE_X = "monotoneX"
    MONOTONE_Y = "monotoneY"
    NATURAL = "natural"
    STEP = "step"
    STEP_AFTER = "stepAfter"
    STEP_BEFORE = "stepBefore"


@dataclass(frozen=True)
class NodeStyles:
    """The styles of nodes, as Mermaid writes them.

    Attributes:
        default: for ordinary nodes.
        first, last: for the nodes where the graph starts and ends.
    """

    default: str = "fill:#f2f0ff,line-height:1.2"
    first: str = "fill-opacity:0"
    last: str = "fill:#bfb6fc"


@dataclass(frozen=True, slots=True)
class MermaidStyle:
    """What ``draw_mermaid`` takes."""

    with_styles: bool
    curve: CurveStyle | str
    node_styles: NodeStyles
    words_a_line: int
    header: Mapping[str, Any]


@dataclass
class _Block:
    """A subgraph, or the whole.

    Attributes:
        blocks: what lies inside, by name, in the order of their edges; a node's edge to itself is a block too.
    """

    prefix: str = ""
    nodes: list["Node"] = field(default_factory=list["Node"])
    edges: list["Edge"] = field(default_factory=list["Edge"])
    blocks: dict[str, "_Block"] = field(default_factory=dict[str, "_Block"])

    def at(self, path: list[str]) -> "_Block":
        """The block at a path of names."""
        block = self
        for name in path:
            prefix = f"{block.prefix}{_NESTING}{name}" if block.prefix else name
            block = block.blocks.setdefault(name, _Block(prefix))
        return block


def mermaid_of(graph: "Graph", style: MermaidStyle) -> str:
    """The flowchart's text."""
    lines = [*(_header(style) if style.with_styles else ()), "graph TD;"]
    lines += _Writer(graph, style).lines(_blocks_of(graph, with_nodes=style.with_styles))
    if style.with_styles:
        lines += [f"\tclassDef {name} {css}" for name, css in _styles(style.node_styles)]
    return "\n".join(lines) + "\n"


def _blocks_of(graph: "Graph", *, with_nodes: bool) -> _Block:
    whole = _Block()
    for edge in graph.edges:
        source, target = edge.source.split(_NESTING), edge.target.split(_NESTING)
        if source == target:
            whole.at(source).edges.append(edge)
        else:
            common = takewhile(lambda pair: pair[0] == pair[1], zip(source[:-1], target[:-1], strict=False))
            whole.at([name for name, _ in common]).edges.append(edge)
    if with_nodes:
        for node in graph.nodes.values():
            whole.at(node.id.split(_NESTING)[:-1]).nodes.append(node)
    return whole


class _Writer:
    """Writes the lines of blocks.

    Args:
        graph: the graph.
        style: how it is drawn.
    """

    def __init__(self, graph: "Graph", style: MermaidStyle) -> None:
        self._graph = graph
        self._style = style
        first, last = graph.first_node(), graph.last_node()
        self._ends = {node.id: name for node, name in ((last, "last"), (first, "first")) if node}
        self._taken = {id_of(node) for node in graph.nodes}

    def lines(self, block: _Block) -> Iterator[str]:
        """The lines of a block: its nodes, its edges, and the blocks in it."""
        yield from map(self._node, block.nodes)
        yield from map(self._edge, block.edges)
        for inner in block.blocks.values():
            if inner.prefix in self._graph.nodes:  # an edge of a node to itself
                yield from self.lines(inner)
                continue
            yield f"\tsubgraph {self._subgraph_id(inner.prefix)}"
            yield from self.lines(inner)
            yield "\tend"

    def _subgraph_id(self, prefix: str) -> str:
        name = prefix.split(_NESTING)[-1]
        short = id_of(name)
        chosen = short if short not in self._taken else id_of(f"{prefix}{_NESTING}")
        self._taken.add(chosen)
        return chosen if chosen == name else f'{chosen}["{_escaped(name)}"]'

    def _node(self, node: "Node") -> str:
        end = self._ends.get(node.id)
        opening, closing = ("([", f"]):::{end}") if end else ("(", ")")
        return f"\t{id_of(node.id)}{opening}{_node_label(node)}{closing}"

    def _edge(self, edge: "Edge") -> str:
        start, tip = ("-.", ".->") if edge.conditional else ("--", "-->")
        bare = "-.->" if edge.conditional else "-->"
        arrow = bare if edge.data is None else f"{start} {self._edge_label(edge.data)} {tip}"
        return f"\t{id_of(edge.source)} {arrow} {id_of(edge.target)};"

    def _edge_label(self, label: str) -> str:
        words = visible(label).split() if label.strip() else [visible(label)]
        size = max(1, self._style.words_a_line)
        parts = [" ".join(words[at : at + size]) for at in range(0, len(words), size)]
        text = "&nbsp<br>&nbsp".join(map(_escaped, parts)) if len(parts) > 1 else _escaped(visible(label))
        return f"&nbsp;{text}&nbsp;" if _is_plain(label) else f'"&nbsp;{text}&nbsp;"'


def id_of(name: str) -> str:
    """An id that Mermaid takes: different for different names, and none of its keywords."""
    coded = _CODED_IN_ID.sub(lambda found: f"\\{ord(found[0]):x}", name)
    return f"\\{ord(coded[0]):x}{coded[1:]}" if coded.lower() in _KEYWORDS else coded


def _node_label(node: "Node") -> str:
    name = node.name.split(_NESTING)[-1]
    text = _escaped(name)
    lines = [*_metadata_lines(node.metadata or {})]
    is_plain = _is_plain(name) and not any("#" in line for line in lines)  # entities go into quotes
    if name.startswith(_MARKDOWN) and name.endswith(_MARKDOWN):
        text = f"<p>{text}</p>"
    if lines:
        text = f"{text}<hr/><small><em>{chr(10).join(lines)}</em></small>"
    return text if is_plain else f'"{text}"'


def _metadata_lines(metadata: Mapping[str, Any]) -> Iterator[str]:
    for key, value in metadata.items():
        text = _scalar(value)
        if text is not None:
            yield _escaped(f"{key} = {text}")


def _scalar(value: object) -> str | None:
    """A value that fits beside its key; ``None`` for others."""
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, (list, tuple, set)):
        items = [_scalar(item) for item in cast("list[object]", value) if isinstance(item, (str, int, float))]
        if len(items) == len(cast("list[object]", value)):
            texts = [item for item in items if item is not None]
            return ", ".join(sorted(texts) if isinstance(value, set) else texts)
    return None


def _is_plain(label: str) -> bool:
    return bool(_PLAIN_LABEL.fullmatch(label)) and label.lower() not in _KEYWORDS - {"default"}


def _escaped(text: str) -> str:
    """Plain words as they are; every other character of ASCII as its entity."""
    return "".join(
        char if _PLAIN_CHARACTER.fullmatch(char) or not char.isascii() else f"#{ord(char)};" for char in visible(text)
    )


def _styles(styles: NodeStyles) -> Iterator[tuple[str, str]]:
    for name, css in asdict(styles).items():
        yield name, " ".join(str(css).split())


def _header(style: MermaidStyle) -> Iterator[str]:
    given = dict(style.header)
    config = dict(given.get("config") or {})
    curve: object = getattr(style.curve, "value", style.curve)
    config["flowchart"] = {**(config.get("flowchart") or {}), "curve": curve}
    yield "---"
    yield from _yaml({**given, "config": config})
    yield "---"


def _yaml(values: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    for key, value in sorted(values.items()):
        if isinstance(value, Mapping) and value:
            yield f"{indent}{_yaml_scalar(key)}:"
            yield from _yaml(cast("Mapping[str, Any]", value), f"{indent}  ")
        else:
            yield f"{indent}{_yaml_scalar(key)}: {_yaml_scalar(cast('object', value))}"


def _yaml_scalar(value: object) -> str:
    """A word as it is; a text in single quotes; anything else as JSON, which is YAML too."""
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN_SCALAR.fullmatch(value) and value.lower() not in _YAML_WORDS:
        return value
    return f"'{value.replace(chr(39), 2 * chr(39))}'" if value.isprintable() else json.dumps(value)
