"""The same tests on the installed ``langgraph``, to check that they say what it does: ``make reference``.

With ``PHALANX_TESTS_ON=langgraph`` every ``phalanx`` module that a test imports is, in truth, the ``langgraph`` module
that offers the same; what only Phalanx has is a stand-in that does nothing, for tests that are skipped then.
"""

import importlib
import os
import sys
import warnings
from types import ModuleType
from typing import Any, Final

LIBRARY: Final = os.environ.get("PHALANX_TESTS_ON", "phalanx")
"""Whose behaviour is tested: ``phalanx`` or ``langgraph``."""

ON_REFERENCE: Final = LIBRARY == "langgraph"

SAME: Final = {
    "phalanx.cache.base": ["langgraph.cache.base"],
    "phalanx.cache.memory": ["langgraph.cache.memory"],
    "phalanx.channels": ["langgraph.channels", "langgraph.channels.delta"],
    "phalanx.checkpoint.base": ["langgraph.checkpoint.base"],
    "phalanx.checkpoint.memory": ["langgraph.checkpoint.memory"],
    "phalanx.config": ["langgraph.config", "langchain_core.runnables.config"],
    "phalanx.constants": ["langgraph.constants"],
    "phalanx.errors": ["langgraph.errors"],
    "phalanx.graph": ["langgraph.graph", "langgraph.graph.state"],
    "phalanx.managed": ["langgraph.managed"],
    "phalanx.prebuilt": ["langgraph.prebuilt"],
    "phalanx.pregel": ["langgraph.pregel"],
    "phalanx.runtime": ["langgraph.runtime"],
    "phalanx.store.base": ["langgraph.store.base"],
    "phalanx.store.memory": ["langgraph.store.memory"],
    "phalanx.types": ["langgraph.types"],
}
"""Our modules, and where the reference keeps what is in them."""

ONLY_OURS: Final = {
    "phalanx.coordinator": ["Cluster"],
    "phalanx.coordinator.cluster": ["Cluster"],
    "phalanx.coordinator.observe": ["RunObserver"],
    "phalanx.errors": [
        *("AsyncOnlyError", "ClusterError", "GraphNotNamedError", "RemoteNodeError", "RemoteTraceback"),
        *("ThreadBusyError", "UnknownNodeError", "UnserializableError"),
    ],
    "phalanx.testing": ["in_process_cluster"],
    "phalanx.testing.in_process": ["InProcessCluster"],
}
"""What the reference does not have."""


def stand_in(name: str) -> type[Exception]:
    """Something to import in the place of what only we have: a class, an exception even, that nothing ever raises."""
    return type(name, (Exception,), {"__doc__": "Only Phalanx has this."})


def alias(name: str, sources: list[str], only_ours: list[str]) -> ModuleType:
    """A module under our name with everything of its sources."""
    module = ModuleType(name)
    for source in sources:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the reference's own imports
            found = importlib.import_module(source)
        members: dict[str, Any] = {key: value for key, value in vars(found).items() if not key.startswith("__")}
        vars(module).update({**members, **vars(module)})
    vars(module).update({each: stand_in(each) for each in only_ours})
    return module


def install() -> None:
    """Put the reference in our place. To be called before anything imports ``phalanx``."""
    imported = [name for name in sys.modules if name.partition(".")[0] == "phalanx"]
    assert not imported, f"too late, there is already {imported[0]}"
    sys.modules["phalanx"] = ModuleType("phalanx")
    for name in {**SAME, **ONLY_OURS}:
        sys.modules[name] = alias(name, SAME.get(name, []), ONLY_OURS.get(name, []))
    _let_commands_be_generic()


def _let_commands_be_generic() -> None:
    """``Command[str](…)`` cannot be made there: ``typing`` notes the parameter on the instance, which has slots."""
    command: Any = importlib.import_module("langgraph.types").Command

    def unchanged(cls: object, _: object) -> object:
        return cls

    command.__class_getitem__ = classmethod(unchanged)
