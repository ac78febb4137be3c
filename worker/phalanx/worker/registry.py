"""Which graphs a worker process knows, by name. A message can only name one of them; it can never bring one."""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from phalanx.errors import GraphNotRegisteredError, GraphVersionError, PhalanxError
from phalanx.worker.blueprint import Blueprint
from phalanx.worker.fingerprint import fingerprint
from phalanx.worker.targets import load_target


class CompiledGraph(Protocol):
    """What ``compile`` returns, as far as a worker cares."""

    @property
    def name(self) -> str: ...

    @property
    def blueprint(self) -> Blueprint: ...


@dataclass(frozen=True, slots=True)
class RegisteredGraph:
    """A graph and its version, and what it was compiled to keep threads with."""

    blueprint: Blueprint
    fingerprint: str
    saver: object = None


class NotAGraphError(PhalanxError, TypeError):
    """What a target names is not a compiled graph."""


class GraphRegistry:
    """Graphs by name. Safe to use from several threads.

    Args:
        more: asked for targets by name when an unknown graph is wanted; a local cluster's workers learn this way about
            graphs that their owner adopted after they had started.
    """

    def __init__(self, more: Callable[[], Mapping[str, str]] | None = None) -> None:
        self._graphs: dict[str, RegisteredGraph] = {}
        self._more = more
        self._lock = threading.RLock()

    def __contains__(self, name: str) -> bool:
        return name in self._graphs

    @property
    def names(self) -> list[str]:
        """The names of all graphs, sorted."""
        return sorted(self._graphs)

    def add(self, name: str, graph: object) -> RegisteredGraph:
        """Register a compiled graph; a graph of that name is replaced.

        Raises:
            NotAGraphError: it is something else.
        """
        blueprint = getattr(graph, "blueprint", None)
        if not isinstance(blueprint, Blueprint):
            hint = "; did you forget .compile()?" if hasattr(graph, "compile") else ""
            raise NotAGraphError(f"{name!r} is not a compiled graph but a {type(graph).__name__}{hint}")
        registered = RegisteredGraph(blueprint, fingerprint(blueprint), getattr(graph, "checkpointer", None))
        with self._lock:
            self._graphs[name] = registered
        return registered

    def add_target(self, name: str, target: str) -> RegisteredGraph:
        """Load ``pkg.module:attr`` or ``path/file.py:attr`` and register it.

        Raises:
            TargetError: it cannot be loaded.
            NotAGraphError: it is not a compiled graph, or one of another name.
        """
        graph = load_target(target)
        own = getattr(graph, "name", name)
        if isinstance(getattr(graph, "blueprint", None), Blueprint) and own != name:
            called = f"is called {own!r}" if own else "has no name"
            raise NotAGraphError(
                f"the graph at {target!r} {called}, but is to be registered as {name!r}; coordinators ask for a graph "
                f"by its own name: compile(name={name!r}), or --graph {own or name}={target}"
            )
        return self.add(name, graph)

    def find(self, name: str, version: str, worker: str) -> RegisteredGraph:
        """The graph a message names.

        Raises:
            GraphNotRegisteredError: there is none of that name.
            GraphVersionError: it has another version.
        """
        with self._lock:
            found = self._graphs.get(name) or self._learn(name)
        if found is None:
            raise GraphNotRegisteredError(name, self.names, worker)
        if found.fingerprint != version:
            raise GraphVersionError(name, version, found.fingerprint, worker)
        return found

    def _learn(self, name: str) -> RegisteredGraph | None:
        target = self._more().get(name) if self._more is not None else None
        return self.add_target(name, target) if target is not None else None


def targets_in_file(path: Path) -> Callable[[], Mapping[str, str]]:
    """A source of targets: a JSON object from names to targets, read anew each time, in a file this user owns."""

    def read() -> Mapping[str, str]:
        if not path.exists():
            return {}
        with path.open(encoding="utf-8") as file:
            return {str(name): str(target) for name, target in json.load(file).items()}

    return read
