"""Running compiled graphs, and graphs over bare channels."""

from phalanx.pregel.node_builder import ChannelWriteEntry, NodeBuilder
from phalanx.pregel.pregel import Pregel

__all__ = ["ChannelWriteEntry", "NodeBuilder", "Pregel"]
