"""How many supersteps are left."""

from typing import Annotated, TypeAlias

from phalanx.managed.base import ManagedValue, StepLimits


class IsLastStepManager(ManagedValue[bool]):
    """Whether no superstep may follow this one."""

    @staticmethod
    def get(limits: StepLimits) -> bool:
        """The value in this superstep."""
        return limits.step == limits.stop - 1


class RemainingStepsManager(ManagedValue[int]):
    """How many supersteps may still run, this one included."""

    @staticmethod
    def get(limits: StepLimits) -> int:
        """The value in this superstep."""
        return limits.stop - limits.step


IsLastStep: TypeAlias = Annotated[bool, IsLastStepManager]
"""A state key that is true in the last superstep that the recursion limit allows."""

RemainingSteps: TypeAlias = Annotated[int, RemainingStepsManager]
"""A state key that holds how many supersteps may still run, this one included."""
