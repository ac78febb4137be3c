"""A graph that a registry learns about late."""

from types import SimpleNamespace

from tests.unit.blueprints import graph, node

compiled = SimpleNamespace(blueprint=graph(node("late")))
