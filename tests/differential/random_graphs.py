"""Random graphs for Hypothesis, for tests that look at graphs without running them."""

from typing import Final

from hypothesis import strategies as st
from tests.differential.building import Book, Build
from tests.differential.plans import GraphPlan, graph_plan
from tests.differential.states import LibraryName

_NUMBERS: Final = 1_000_000


def graph_plans() -> st.SearchStrategy[GraphPlan]:
    """Any graph without policies."""
    return st.integers(0, _NUMBERS).map(lambda number: graph_plan("shapes", number))


class Built:
    """A graph built with one library.

    Args:
        name: whose ``StateGraph`` to use.
        plan: the graph.
        keep: whether it gets a saver.
    """

    def __init__(self, name: LibraryName, plan: GraphPlan, *, keep: bool) -> None:
        build = Build(name, plan, Book(), None)
        self.graph = build.compiled(build.library.saver() if keep else None)


__all__ = ["Built", "GraphPlan", "LibraryName", "graph_plans"]
