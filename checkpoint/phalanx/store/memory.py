"""A store in this process: for tests, examples, and graphs whose runs share a process.

A batch is carried out in this order: first its texts are embedded, which may take long; then what reads is answered;
then what writes is done, all at once. So a batch that fails has changed nothing, and nobody waits for a model but who
asked for it.
"""

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from operator import itemgetter, mul
from typing import Any, Final, NamedTuple, TypeAlias, cast

from phalanx.store.base import (
    BaseStore,
    Embeddings,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
)
from phalanx.store.base.fields import WHOLE
from phalanx.store.base.namespaces import Namespace
from phalanx.store.filters import fits

FullKey: TypeAlias = tuple[Namespace, str]
Path: TypeAlias = str | list[str]


class _Vector(NamedTuple):
    numbers: tuple[float, ...]
    norm: float

    def similarity(self, other: "_Vector") -> float:
        """The cosine of the angle between two vectors; 0 if one has no direction."""
        if len(self.numbers) != len(other.numbers):
            raise ValueError(
                f"vectors of {len(self.numbers)} and of {len(other.numbers)} numbers cannot be compared; "
                f"the index's embed must give one length for all texts"
            )
        if not self.norm or not other.norm:
            return 0.0
        return _dot(self.numbers, other.numbers) / (self.norm * other.norm)


@dataclass(frozen=True, slots=True)
class _Put:
    """What to store: ``None`` for nothing, and the texts to find it by."""

    value: dict[str, Any] | None
    texts: Sequence[str]


class _Held(NamedTuple):
    item: Item
    vectors: Sequence[_Vector]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a batch comes to: of several writes to one key the last one counts.

    Attributes:
        ops: what was asked for.
        puts: what to write.
        texts: what is to be found by meaning, each text once.
        queries: what is searched for, each text once.
    """

    ops: Sequence[Op]
    puts: Mapping[FullKey, _Put]
    texts: list[str]
    queries: list[str]


@dataclass(frozen=True, slots=True)
class _Embedded:
    """The vectors of a batch, by text."""

    texts: Mapping[str, _Vector]
    queries: Mapping[str, _Vector]


class InMemoryStore(BaseStore):
    """Keeps items in this process, and only as long as it lives.

    On a cluster every worker process has a store of its own, that of its own graph object: what a node puts there is
    not found by nodes in other processes. Take a store that keeps its items on a server for that.

    The dict that is put is copied, what lies in it is not; and what is got is what is stored. So put a new value rather
    than change one. Each ``put`` makes a new item, with new times. Items come in the order in which their namespaces
    were first put, and in these their keys.

    Args:
        index: find items by meaning; without it ``query`` and ``index`` arguments are ignored. Vectors are compared one
            by one, in Python: good for thousands of them.

    Raises:
        ValueError: the index has no ``embed``.

    Example:
        >>> store = InMemoryStore(index={"dims": 2, "embed": embed, "fields": ["text"]})
        >>> store.put(("users", "ada"), "tea", {"text": "Ada likes green tea"})
        >>> store.search(("users",), query="what to drink?")
    """

    def __init__(self, *, index: IndexConfig | None = None) -> None:
        self.index_config: Final = index.copy() if index else None
        self.embeddings: Final[Embeddings | None] = ensure_embeddings(index.get("embed")) if index else None
        self._paths: Final = _paths((index or {}).get("fields") or [WHOLE])
        self._lock: Final = threading.Lock()
        # Only namespaces that hold something: neither a look at a key nor an item of the past leaves one behind.
        self._held: Final[dict[Namespace, dict[str, _Held]]] = {}

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Carry out operations. Those that read see what was there before the batch.

        Raises:
            TypeError: a value is no mapping, or JSON does not know what is to be indexed as such.
            ValueError: ``embed`` is a coroutine function, or gives a wrong number of vectors.
        """
        plan, embeddings = self._plan(ops), self.embeddings
        if embeddings is None:
            return self._carry_out(plan, _Embedded({}, {}))
        of_queries = [*map(embeddings.embed_query, plan.queries)]
        of_texts = embeddings.embed_documents(plan.texts) if plan.texts else []
        return self._carry_out(plan, _embedded(plan, of_texts, of_queries))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """:meth:`batch`, with what embeds not blocking the event loop."""
        import asyncio  # loaded already, by whoever runs this

        plan, embeddings = self._plan(ops), self.embeddings
        if embeddings is None:
            return self._carry_out(plan, _Embedded({}, {}))
        of_queries = await asyncio.gather(*map(embeddings.aembed_query, plan.queries))
        of_texts = await embeddings.aembed_documents(plan.texts) if plan.texts else []
        return self._carry_out(plan, _embedded(plan, of_texts, of_queries))

    def _plan(self, ops: Iterable[Op]) -> _Plan:
        ops = [*ops]
        last: dict[FullKey, PutOp] = {}
        queries: list[str] = []
        for op in ops:
            match op:
                case PutOp():
                    last[op.namespace, op.key] = op
                case SearchOp():
                    queries += [op.query] if op.query and self.embeddings is not None else []
                case GetOp() | ListNamespacesOp():
                    pass
                case unknown:  # pyright: ignore[reportUnnecessaryComparison]
                    raise ValueError(f"{unknown!r} is no operation of a store")
        puts = {full_key: self._prepare(op) for full_key, op in last.items()}
        texts = dict.fromkeys(chain.from_iterable(put.texts for put in puts.values()))
        return _Plan(ops, puts, [*texts], [*dict.fromkeys(queries)])

    def _prepare(self, op: PutOp) -> _Put:
        if op.value is None:
            return _Put(None, ())
        if not isinstance(cast("object", op.value), Mapping):
            kind = type(op.value).__name__
            raise TypeError(f"the value of key {op.key!r} in namespace {op.namespace!r} must be a dict, not a {kind}")
        value = {**op.value}
        if self.embeddings is None or op.index is False:
            return _Put(value, ())
        paths = self._paths if op.index is None else _paths(op.index)
        return _Put(value, [*chain.from_iterable(get_text_at_path(value, path) for path in paths)])

    def _carry_out(self, plan: _Plan, embedded: _Embedded) -> list[Result]:
        results = [self._answer(op, embedded) for op in plan.ops]
        if plan.puts:
            now = datetime.now(UTC)
            with self._lock:
                for (namespace, key), put in plan.puts.items():
                    self._put(namespace, key, put, embedded, now)
                for namespace, _ in plan.puts:  # not before all was put, for a namespace to keep its place
                    if namespace in self._held and not self._held[namespace]:
                        del self._held[namespace]
        return results

    def _answer(self, op: Op, embedded: _Embedded) -> Result:
        match op:
            case GetOp():
                with self._lock:
                    held = self._held.get(op.namespace, {}).get(op.key)
                return None if held is None else held.item
            case SearchOp():
                query = embedded.queries.get(op.query) if op.query else None
                return _found(op, query, self._candidates(op, query))
            case ListNamespacesOp():
                with self._lock:
                    namespaces = [*self._held]
                return _listed(op, namespaces)
            case PutOp():
                return None

    def _candidates(self, op: SearchOp, query: _Vector | None) -> list[_Held]:
        """What to look through: no more than asked for, if nothing is left out or sorted, and nothing counts from the
        end. Copied, because what is compared may run code of the user's."""
        takes_the_first = not op.filter and query is None and min(op.offset, op.limit) >= 0
        with self._lock:
            return [*islice(self._under(op.namespace_prefix), op.offset + op.limit if takes_the_first else None)]

    def _under(self, prefix: Namespace) -> Iterator[_Held]:
        for namespace, held in self._held.items():
            if namespace[: len(prefix)] == prefix:
                yield from held.values()

    def _put(self, namespace: Namespace, key: str, put: _Put, embedded: _Embedded, now: datetime) -> None:
        if put.value is not None:
            item = Item(value=put.value, key=key, namespace=namespace, created_at=now, updated_at=now)
            vectors = [embedded.texts[text] for text in put.texts]
            self._held.setdefault(namespace, {})[key] = _Held(item, vectors)
        elif namespace in self._held:
            self._held[namespace].pop(key, None)


def _paths(fields: Iterable[str]) -> list[Path]:
    return [field if field == WHOLE else tokenize_path(field) for field in fields]


def _embedded(plan: _Plan, of_texts: Sequence[Iterable[float]], of_queries: Iterable[Iterable[float]]) -> _Embedded:
    if len(of_texts) != len(plan.texts):
        raise ValueError(f"the index's embed gave {len(of_texts)} vectors for {len(plan.texts)} texts")
    return _Embedded(
        dict(zip(plan.texts, map(_vector, of_texts), strict=True)),
        dict(zip(plan.queries, map(_vector, of_queries), strict=True)),
    )


def _vector(numbers: Iterable[float]) -> _Vector:
    own = tuple(map(float, numbers))
    return _Vector(own, math.sqrt(_dot(own, own)))


def _dot(one: Iterable[float], other: Iterable[float]) -> float:
    products: Iterable[float] = map(mul, one, other)
    return sum(products)


def _found(op: SearchOp, query: _Vector | None, candidates: Iterable[_Held]) -> list[SearchItem]:
    fitting = [held for held in candidates if not op.filter or fits(held.item.value, op.filter)]
    page = slice(op.offset, op.offset + op.limit)
    ranked = [(None, held.item) for held in fitting] if query is None else _ranked(query, fitting)
    return [
        SearchItem(item.namespace, item.key, item.value, item.created_at, item.updated_at, score)
        for score, item in ranked[page]
    ]


def _ranked(query: _Vector, candidates: Iterable[_Held]) -> Sequence[tuple[float | None, Item]]:
    """What is nearest to the query first, each by its nearest text; then what has no texts."""
    scored: list[tuple[float, Item]] = []
    unscored: list[tuple[None, Item]] = []
    for held in candidates:
        if held.vectors:
            scored.append((max(map(query.similarity, held.vectors)), held.item))
        else:
            unscored.append((None, held.item))
    return [*sorted(scored, key=itemgetter(0), reverse=True), *unscored]


def _listed(op: ListNamespacesOp, namespaces: Iterable[Namespace]) -> list[Namespace]:
    conditions = op.match_conditions or ()
    matching = {
        namespace[: op.max_depth]
        for namespace in namespaces
        if all(condition.holds_for(namespace) for condition in conditions)
    }
    return sorted(matching)[op.offset : op.offset + op.limit]


__all__ = ["InMemoryStore"]
