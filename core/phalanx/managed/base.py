"""What a managed value is made from."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class StepLimits:
    """Where a run stands.

    Attributes:
        step: the superstep that runs.
        stop: the superstep before which the run must have come to its end.
    """

    step: int
    stop: int


class ManagedValue(ABC, Generic[Value]):
    """A value that is worked out for each task that reads it, and never stored."""

    @staticmethod
    @abstractmethod
    def get(limits: StepLimits) -> Value:
        """The value in this superstep."""


ManagedValueSpec: TypeAlias = type[ManagedValue[object]]
"""A kind of managed value."""

ManagedValueMapping: TypeAlias = dict[str, ManagedValueSpec]
"""Managed values by state key."""
