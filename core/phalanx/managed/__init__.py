"""State keys whose value the engine works out when a node reads them."""

from phalanx.managed.base import ManagedValue, ManagedValueMapping, ManagedValueSpec, StepLimits
from phalanx.managed.is_last_step import IsLastStep, IsLastStepManager, RemainingSteps, RemainingStepsManager

__all__ = [
    "IsLastStep",
    "IsLastStepManager",
    "ManagedValue",
    "ManagedValueMapping",
    "ManagedValueSpec",
    "RemainingSteps",
    "RemainingStepsManager",
    "StepLimits",
]
