"""Operations that forget checkpoints, and with them the writes on them and the blobs that nothing else needs.

What stays is decided by :mod:`phalanx.checkpoint.retention`, here it is only carried out.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from phalanx.checkpoint.retention import LATEST_ONLY, Link, Retention, check_strategy, link_of, with_needed
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.checkpoint.sql.statements import Operation, Statement, Steps, decoded, encoded, key_of, with_list
from phalanx.checkpoint.sql.values import MARK, value_alone

_TABLES: Final = ("phalanx_refs", "phalanx_blobs", "phalanx_writes", "phalanx_checkpoints", "phalanx_threads")
"""The thread's own row last: until then others who change the thread wait."""

LOCK: Final = "UPDATE phalanx_threads SET written_at = written_at WHERE thread = ?"
_WRITTEN_AT: Final = "SELECT written_at FROM phalanx_threads WHERE thread = ?"
_EXPIRED: Final = "SELECT thread FROM phalanx_threads WHERE written_at <= ? ORDER BY thread"
_KNOWN: Final = "SELECT namespace, id, parent, run, held, metadata FROM phalanx_checkpoints WHERE thread = ?"
_KNOWN_THERE: Final = f"{_KNOWN} AND namespace = ?"
_THREADS_OF_RUNS: Final = "SELECT DISTINCT thread FROM phalanx_checkpoints WHERE run IN ({list})"
_DIGESTS: Final = "SELECT digest FROM phalanx_refs WHERE thread = ? AND namespace = ? AND checkpoint = ?"
_FORGET: Final = (
    "DELETE FROM phalanx_refs WHERE thread = ? AND namespace = ? AND checkpoint = ?",
    "DELETE FROM phalanx_writes WHERE thread = ? AND namespace = ? AND checkpoint = ?",
    "DELETE FROM phalanx_checkpoints WHERE thread = ? AND namespace = ? AND id = ?",
)
_ORPHAN: Final = "UPDATE phalanx_checkpoints SET parent = NULL WHERE thread = ? AND namespace = ? AND id = ?"
_FORGET_UNUSED: Final = """
DELETE FROM phalanx_blobs WHERE thread = ? AND digest IN ({list}) AND NOT EXISTS (
    SELECT 1 FROM phalanx_refs r WHERE r.thread = phalanx_blobs.thread AND r.digest = phalanx_blobs.digest
)
"""


class _Known(NamedTuple):
    link: Link
    run: str | None


Stay = Callable[[Sequence[_Known]], Collection[str]]
"""Given the checkpoints of a namespace: the ids of those that stay."""


@dataclass(frozen=True, slots=True)
class Forgetter:
    """Makes the operations that forget."""

    serde: SerializerProtocol

    def delete_thread(self, thread_id: str) -> Operation[None]:
        """Forget everything about a thread."""
        return Operation(deletion(key_of(thread_id)), writes=True)

    def prune(self, thread_ids: Sequence[str], strategy: str) -> Iterator[Operation[None]]:
        """Forget what is old of these threads, or all; a transaction each.

        Raises:
            ValueError: there is no such strategy.
        """
        check_strategy(strategy)
        for thread in dict.fromkeys(key_of(str(thread_id)) for thread_id in thread_ids):
            steps = deletion(thread) if strategy == "delete" else self._reduced(thread, survivors(LATEST_ONLY))
            yield Operation(steps, writes=True)

    def delete_for_runs(self, run_ids: Sequence[str]) -> Operation[None]:
        """Forget the checkpoints that these runs made."""
        runs = {str(run) for run in run_ids}

        def of_others(found: Sequence[_Known]) -> Collection[str]:
            return with_needed([known.link for known in found], [k.link.id for k in found if k.run not in runs])

        def steps() -> Steps[None]:
            rows = yield with_list(_THREADS_OF_RUNS, [], sorted(map(encoded, runs)))
            threads = {bytes(row[0]) for some in rows for row in some}
            for thread in sorted(threads):  # in order, or two of us could wait for each other
                yield from self._reduced(thread, of_others)

        return Operation(steps(), writes=True)

    def sweep(
        self, thread: bytes, namespace: bytes, retention: Retention, swept: Callable[[int], None]
    ) -> Operation[None]:
        """Prune a namespace if it is time to.

        Args:
            swept: is told how many checkpoints it has then.
        """

        def steps() -> Steps[None]:
            _, rows = yield [Statement(LOCK, [thread]), Statement(_KNOWN_THERE, [thread, namespace])]
            left = len(rows)
            if left >= retention.sweep_at():
                left = yield from self._without(thread, self._known(rows), survivors(retention))
            swept(left)

        return Operation(steps(), writes=True)

    def _reduced(self, thread: bytes, stay: Stay) -> Steps[None]:
        _, rows = yield [Statement(LOCK, [thread]), Statement(_KNOWN, [thread])]
        yield from self._without(thread, self._known(rows), stay)

    def _known(self, rows: Sequence[Sequence[object]]) -> dict[bytes, list[_Known]]:
        """Checkpoints by namespace."""
        found: dict[bytes, list[_Known]] = {}
        for row in rows:
            namespace, identity, parent, run, held, packed = cast("tuple[bytes, ...]", row)
            metadata = cast("Mapping[str, object]", value_alone(packed, self.serde))
            stored = [decoded(name) for name in bytes(held).split(MARK) if name]
            link = link_of(decoded(identity), _text(parent), stored, metadata)
            found.setdefault(bytes(namespace), []).append(_Known(link, _text(run)))
        return found

    def _without(self, thread: bytes, found: Mapping[bytes, Sequence[_Known]], stay: Stay) -> Steps[int]:
        """Forget the checkpoints that do not stay; how many are left."""
        doomed: list[tuple[bytes, bytes, bytes]] = []
        orphans: list[tuple[bytes, bytes, bytes]] = []
        left = 0
        for namespace, known in found.items():
            kept = stay(known)
            gone = {each.link.id for each in known} - {*kept}
            left += len(known) - len(gone)
            doomed += [(thread, namespace, encoded(each)) for each in sorted(gone)]
            parents = [(each.link.id, each.link.parent_id) for each in known if each.link.id not in gone]
            orphans += [(thread, namespace, encoded(each)) for each, parent in parents if parent in gone]
        if doomed:
            digests = yield [Statement(_DIGESTS, place) for place in doomed]
            yield [
                *(Statement(sql, place) for place in doomed for sql in _FORGET),
                *(Statement(_ORPHAN, place) for place in orphans),
            ]
            yield with_list(_FORGET_UNUSED, [thread], sorted({bytes(row[0]) for rows in digests for row in rows}))
        return left


def survivors(retention: Retention) -> Stay:
    """What a retention keeps."""
    return lambda found: retention.survivors([known.link for known in found])


def deletion(thread: bytes) -> Steps[None]:
    """Forget everything about a thread."""
    deletes = [Statement(f"DELETE FROM {table} WHERE thread = ?", [thread]) for table in _TABLES]
    yield [Statement(LOCK, [thread]), *deletes]


def expiry(thread: bytes, cutoff: float | None) -> Steps[None]:
    """Forget a thread that nobody wrote since, if there is such a time."""
    if cutoff is not None:
        _, rows = yield [Statement(LOCK, [thread]), Statement(_WRITTEN_AT, [thread])]
        if rows and rows[0][0] <= cutoff:
            yield from deletion(thread)


def expire_all(cutoff: float) -> Operation[None]:
    """Forget all threads that nobody wrote since."""

    def steps() -> Steps[None]:
        (rows,) = yield [Statement(_EXPIRED, [cutoff])]
        for row in rows:
            yield from expiry(bytes(row[0]), cutoff)

    return Operation(steps(), writes=True)


def _text(name: bytes | None) -> str | None:
    return None if name is None else decoded(name)
