"""The coordinator floor: planning supersteps, applying writes, and driving runs inline or over a cluster."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phalanx.coordinator.cluster import Cluster

__all__ = ["Cluster"]


def __getattr__(name: str) -> object:
    # Inline use must not pay for importing the cluster's clients.
    if name == "Cluster":
        from phalanx.coordinator.cluster import Cluster

        return Cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
