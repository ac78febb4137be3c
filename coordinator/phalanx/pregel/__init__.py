"""A graph that runs: the public face of the engine."""

from phalanx.pregel.pregel import Pregel

__all__ = ["Pregel"]
