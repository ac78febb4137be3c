"""The cluster that graphs of this context run on when they were not given one; see ``Cluster.as_default``."""

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from phalanx.coordinator.cluster import Cluster

_default: "ContextVar[Cluster | None]" = ContextVar("phalanx_default_cluster", default=None)


def default_cluster() -> "Cluster | None":
    """The default cluster of this context, if one was set."""
    return _default.get()


def set_default_cluster(cluster: "Cluster | None") -> "Cluster | None":
    """Set the default and return the one before."""
    before = _default.get()
    _default.set(cluster)
    return before
