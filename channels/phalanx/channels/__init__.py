"""The kinds of channels: how the writes of one superstep become one value.

- :class:`LastValue`: one write a superstep; the value stays. What a plain state key is.
- :class:`BinaryOperatorAggregate`: any number of writes, folded by a reducer. What an annotated state key is.
- :class:`DeltaChannel`: the same, stored as its writes. For values that grow long.
- :class:`Topic`: a list of what was written, in the last superstep or in all.
- :class:`AnyValue`: any number of writes that are equal; gone when nothing is written.
- :class:`EphemeralValue`: a write that lives for one superstep. What triggers are.
- :class:`UntrackedValue`: a value of the run that is never stored.
- :class:`NamedBarrierValue`: opens when every name was written. What an edge from several nodes is.
- :class:`LastValueAfterFinish`: shows when nothing else is left to do. What a deferred trigger is.
- :class:`NamedBarrierValueAfterFinish`: a barrier that opens when, besides, nothing else is left to do.
"""

from phalanx.channels.any_value import AnyValue
from phalanx.channels.base import BaseChannel
from phalanx.channels.binop import BinaryOperatorAggregate
from phalanx.channels.delta import DeltaChannel
from phalanx.channels.ephemeral_value import EphemeralValue
from phalanx.channels.last_value import LastValue, LastValueAfterFinish
from phalanx.channels.named_barrier_value import NamedBarrierValue, NamedBarrierValueAfterFinish
from phalanx.channels.topic import Topic
from phalanx.channels.untracked_value import UntrackedValue

__all__ = [
    "AnyValue",
    "BaseChannel",
    "BinaryOperatorAggregate",
    "DeltaChannel",
    "EphemeralValue",
    "LastValue",
    "LastValueAfterFinish",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
    "Topic",
    "UntrackedValue",
]
