"""What programs for LangGraph import and is not there yet says so."""

import importlib

import pytest

NAMES = [
    *[("phalanx.graph", name) for name in ("MessagesState", "add_messages", "MessageGraph")],
    *[("phalanx.graph.message", name) for name in ("MessagesState", "add_messages")],
    *[("phalanx.func", name) for name in ("task", "entrypoint")],
    *[("phalanx.prebuilt", name) for name in ("ToolNode", "tools_condition", "create_react_agent", "InjectedState")],
]


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_name_that_is_not_there_yet_says_so_when_it_is_imported(module: str, name: str) -> None:
    with pytest.raises(ImportError, match=rf"^{module}\.{name} is not there yet; \w") as caught:
        exec(f"from {module} import {name}")
    assert caught.value.name == module


@pytest.mark.parametrize("module", sorted({module for module, _ in NAMES}))
def test_a_name_that_was_never_meant_to_be_there_fails_as_in_any_module(module: str) -> None:
    with pytest.raises(ImportError, match="cannot import name 'StateGrph'"):
        exec(f"from {module} import StateGrph")
    assert not hasattr(importlib.import_module(module), "StateGrph")
