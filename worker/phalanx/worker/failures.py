"""What becomes of a task whose attempt failed, as it is recorded."""

from phalanx.checkpoint.serde import Serializer, encode_exception
from phalanx.errors import GraphBubbleUp, GraphInterrupt, is_invalid_resume
from phalanx.protocol.batch import BatchTask
from phalanx.protocol.outcome import Outcome, OutcomeKind
from phalanx.worker.attempt import Raised
from phalanx.worker.blueprint import Blueprint


def failure_outcome(
    blueprint: Blueprint,
    serializer: Serializer,
    task: BatchTask,
    ended: Raised,
    *,
    worker: str,
    seconds: float,
    drain: str | None = None,
) -> Outcome:
    """The outcome of an attempt that failed: to be tried again, left to its error handler, or final; or that asked.

    Args:
        worker: the worker process that ran it.
        seconds: how long it took.
        drain: why its node asked the run to stop, if it did.
    """
    error = ended.error
    if isinstance(error, GraphInterrupt):
        kind, told = OutcomeKind.INTERRUPTED, serializer.dumps([*error.interrupts])
    else:
        kind, told = _kind_of(blueprint, task, ended), serializer.dumps(encode_exception(error))
    return Outcome(
        kind,
        task.attempt,
        worker,
        seconds,
        error=told,
        retry_after_s=ended.retry_after_s or 0.0,
        first_try_at=ended.first_try_at,
        tries=task.tries,
        drain=drain,
        answers=serializer.dumps([*ended.answers]) if ended.answers else b"",
    )


def _kind_of(blueprint: Blueprint, task: BatchTask, ended: Raised) -> OutcomeKind:
    if ended.retry_after_s is not None:
        return OutcomeKind.RETRY
    if is_invalid_resume(ended.error):
        return OutcomeKind.INVALID_ANSWER
    handled = blueprint.nodes[task.node].policies.error_handler is not None
    return OutcomeKind.HANDED_OVER if handled and not isinstance(ended.error, GraphBubbleUp) else OutcomeKind.ERROR
