"""Ready-made nodes and agents: not there yet."""

from typing import TYPE_CHECKING, Final

from phalanx.graph.later import hints

_NAMES: Final = (
    *("InjectedState", "InjectedStore", "ToolCallTransformer", "ToolNode", "ToolRuntime"),
    *("ValidationNode", "create_react_agent", "tools_condition"),
)
_INSTEAD: Final = "write a node that calls the tools, and a conditional edge that leads to it"

if not TYPE_CHECKING:  # type checkers are to know names by themselves
    __getattr__ = hints(__name__, dict.fromkeys(_NAMES, _INSTEAD))
