"""Which checkpoints a saver keeps, decided without I/O; every saver of ours applies it in its own storage.

What is chosen is a number of the latest checkpoints of each namespace, and of the older ones those of every k-th
superstep. The choice goes by the superstep's number and not by the place in a list, so that pruning again chooses the
same ones: history does not get thinner each time.

Chosen checkpoints are not all that stays. A delta channel's value is in the writes that are pending on a checkpoint's
ancestors, back to the nearest that holds it whole, and those ancestors stay too. Which channels that concerns a saver
knows from ``counters_since_delta_snapshot`` in the metadata: the channels named there whose value is not stored.

A checkpoint's other values are its own: a saver must not read them through ancestors. Nor may it leave a link to what
it removed: the children of a removed checkpoint have no parent afterwards.

Pruning looks at a whole namespace, so it is done when half as many checkpoints have come in as stayed the last time.
That makes it cheap for each checkpoint however long the history, and a namespace holds at most one and a half times
what it is to keep.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

STRATEGIES: Final = ("keep_latest", "delete")
"""What ``prune`` of a saver can be asked for."""


class Link(NamedTuple):
    """A checkpoint as far as pruning cares.

    Attributes:
        id: its id; ids of a namespace sort by time.
        parent_id: the checkpoint before it.
        step: its superstep.
        stored: the channels whose value it holds.
        needs: the delta channels whose value its ancestors hold.
    """

    id: str
    parent_id: str | None
    step: int
    stored: Collection[str]
    needs: Collection[str] = ()


def link_of(checkpoint_id: str, parent_id: str | None, stored: Collection[str], metadata: Mapping[str, object]) -> Link:
    """A checkpoint as far as pruning cares, from what is stored of it."""
    step = metadata.get("step")
    counters = metadata.get("counters_since_delta_snapshot")
    needs: Collection[str] = ()
    if counters and isinstance(counters, Mapping):
        needs = [name for name in cast("Mapping[str, object]", counters) if name not in stored]
    return Link(checkpoint_id, parent_id, step if isinstance(step, int) else 0, stored, needs)


@dataclass(frozen=True, slots=True)
class Retention:
    """What a saver keeps. Without arguments: everything.

    Args:
        keep_last: how many of the latest checkpoints of each namespace; at most half as many more may be there before
            the older ones are removed.
        keep_every: of the older checkpoints, keep those whose superstep is a multiple of this; none if left out.
        ttl_s: how long a thread is kept after it was last written, in seconds; then all of it goes at once.

    Raises:
        ValueError: a number is not positive, or ``keep_every`` comes without ``keep_last``.

    Example:
        >>> Retention(keep_last=20, keep_every=100, ttl_s=30 * 24 * 3600)
        Retention(keep_last=20, keep_every=100, ttl_s=2592000)
    """

    keep_last: int | None = None
    keep_every: int | None = None
    ttl_s: float | None = None

    def __post_init__(self) -> None:
        for name, number in (("keep_last", self.keep_last), ("keep_every", self.keep_every), ("ttl_s", self.ttl_s)):
            if number is not None and number <= 0:
                raise ValueError(f"{name} must be greater than 0, not {number}")
        if self.keep_every is not None and self.keep_last is None:
            raise ValueError("keep_every thins out what is older than the last ones: say how many with keep_last")

    def sweep_at(self, kept: int | None = None) -> int:
        """How many checkpoints a namespace has when it is time to prune it.

        Args:
            kept: how many stayed the last time; ``None`` before the first.
        """
        stayed = max(self.keep_last or 0, kept or 0)
        return stayed + max(1, stayed // 2)

    def survivors(self, links: Collection[Link]) -> set[str]:
        """The ids of what stays, out of all checkpoints of a namespace."""
        if self.keep_last is None:
            return {link.id for link in links}
        newest_first = sorted(links, reverse=True)
        chosen = {link.id for link in newest_first[: self.keep_last]}
        if self.keep_every is not None:
            chosen |= {link.id for link in newest_first[self.keep_last :] if link.step % self.keep_every == 0}
        return with_needed(links, chosen)


LATEST_ONLY: Final = Retention(keep_last=1)
"""What ``prune`` with the strategy ``"keep_latest"`` keeps."""


def with_needed(links: Iterable[Link], chosen: Collection[str]) -> set[str]:
    """The chosen checkpoints and the ancestors that their delta channels need.

    Each ancestor is visited once for each channel at most, however many of the chosen lead to it.
    """
    by_id = {link.id: link for link in links}
    kept = {each for each in chosen if each in by_id}
    walked: dict[str, set[str]] = {}  # by ancestor, the channels that were looked for from there on
    for start in [*kept]:
        missing = {*by_id[start].needs}
        at = by_id.get(by_id[start].parent_id or "")
        while at is not None and missing:
            kept.add(at.id)
            known = walked.setdefault(at.id, set())
            missing -= known
            known |= missing
            missing.difference_update(at.stored)
            at = by_id.get(at.parent_id or "")
    return kept


def check_strategy(strategy: str) -> None:
    """Refuse a strategy that there is not.

    Raises:
        ValueError: naming those there are.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"cannot prune with strategy {strategy!r}; there are: {', '.join(map(repr, STRATEGIES))}")


__all__ = ["LATEST_ONLY", "STRATEGIES", "Link", "Retention", "check_strategy", "link_of", "with_needed"]
