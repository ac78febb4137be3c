"""The store in memory beside the one of the installed ``langgraph``: the same operations, the same answers.

Where we differ on purpose, :class:`Theirs` does as we do, so that all else can be compared, and a test at the end says
so.
"""

# pyright: reportMissingTypeStubs=false

import asyncio
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeAlias, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store import base as theirs
from langgraph.store.memory import InMemoryStore as TheirStore

from phalanx.store import base as ours
from phalanx.store.memory import InMemoryStore

LOOP: Final = asyncio.Runner()

Stores: TypeAlias = tuple[InMemoryStore, "Theirs"]


@pytest.fixture(scope="module", autouse=True)
def loop_is_closed() -> Iterator[None]:
    yield
    LOOP.close()


class Namespaces(dict[Any, Any]):
    """Does not keep what is only looked at."""

    def __missing__(self, namespace: object) -> dict[str, Any]:
        return {}


class Theirs(TheirStore):
    """The reference without what we do not follow."""

    def __init__(self, *, index: theirs.IndexConfig | None = None) -> None:
        super().__init__(index=index)
        self.private: Any = self
        self.private._data = Namespaces()

    def _apply_put_ops(self, put_ops: Any) -> None:
        for (namespace, _), op in put_ops.items():
            if op.value is not None:
                self.private._data.setdefault(namespace, {})
        cast("Any", super())._apply_put_ops(put_ops)
        for namespace, _ in put_ops:
            if not self.private._data[namespace]:
                self.private._data.pop(namespace, None)

    def _extract_texts(self, put_ops: Any) -> Any:
        found = cast("dict[str, list[Any]]", cast("Any", super())._extract_texts(put_ops))
        for namespace, key in put_ops:  # what an item was found by before
            self.private._vectors[namespace].pop(key, None)
        return found

    def _insertinmem_store(self, to_embed: dict[str, list[Any]], embeddings: list[list[float]]) -> None:
        each = [vector for text, vector in zip(to_embed, embeddings, strict=True) for _ in to_embed[text]]
        cast("Any", super())._insertinmem_store(to_embed, each)  # one vector for each place of a text


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Vectors that depend on the texts, some of them alike, some of them without a direction."""
    return [[float(zlib.crc32(text.encode()) >> shift & 3) - 1 for shift in (0, 8, 16)] for text in texts]


LABELS: Final = st.sampled_from(["a", "b", "c"])
BAD_LABELS: Final[st.SearchStrategy[Any]] = st.sampled_from(["", "a.b", "a\0", 1, None])
NAMESPACES: Final = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
PREFIXES: Final = st.lists(LABELS, max_size=2).map(tuple)
PATTERNS: Final = st.lists(st.sampled_from(["a", "b", "*"]), max_size=3).map(tuple)
KEYS: Final = st.sampled_from(["j", "k", "l"])
WORDS: Final = st.sampled_from(["red", "green", "blue", ""])
SCALARS: Final[st.SearchStrategy[Any]] = st.sampled_from([None, True, 0, 1, 2.5, "1", "red", "green"])
FIELDS: Final = st.sampled_from(["x", "y", "z"])
NESTED: Final = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(FIELDS, inner, max_size=2)),
    max_leaves=4,
)
VALUES: Final = st.dictionaries(FIELDS, NESTED, max_size=3)
OPERATORS: Final = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "y"])
WISHES: Final = st.one_of(
    NESTED, st.dictionaries(OPERATORS, st.one_of(st.integers(0, 2), st.just("1"), st.just("red")), max_size=2)
)
FILTERS: Final = st.one_of(st.none(), st.dictionaries(FIELDS, WISHES, max_size=2))
PATHS: Final = st.sampled_from(["x", "y.z", "x[*]", "x[0]", "x[-1].y", "*", "*.x", "{x,y}", "{x, y.z}.x", ""])
LIMITS: Final = st.integers(-1, 4)

PUTS: Final = st.builds(
    lambda *args: ("PutOp", *args),
    NAMESPACES,
    KEYS,
    st.one_of(VALUES, VALUES, VALUES, st.none()),
    st.one_of(st.none(), st.just(False), st.lists(PATHS, max_size=3)),
)
GETS: Final = st.builds(lambda *args: ("GetOp", *args), NAMESPACES, KEYS)
LISTINGS: Final = st.builds(
    lambda *args: ("ListNamespacesOp", *args),
    st.lists(st.tuples(st.sampled_from(["prefix", "suffix"]), PATTERNS), max_size=2).map(tuple),
    st.one_of(st.none(), st.integers(0, 3)),
    LIMITS,
    LIMITS,
)
SEARCHES: Final = st.builds(lambda *args: ("SearchOp", *args), PREFIXES, FILTERS, LIMITS, LIMITS)
QUERIES: Final = st.builds(
    lambda *args: ("SearchOp", *args), PREFIXES, FILTERS, st.integers(0, 4), st.just(0), st.one_of(st.none(), WORDS)
)
BATCHES: Final = st.lists(st.lists(st.one_of(PUTS, PUTS, GETS, LISTINGS, SEARCHES), max_size=4), max_size=8)
INDEXED_BATCHES: Final = st.lists(st.lists(st.one_of(PUTS, PUTS, GETS, QUERIES), max_size=4), max_size=8)


def made(module: Any, ops: list[tuple[Any, ...]]) -> list[Any]:
    """Operations of that library."""

    def made_one(name: str, *args: Any) -> Any:
        if name == "ListNamespacesOp":
            args = (tuple(module.MatchCondition(*condition) for condition in args[0]), *args[1:])
        return getattr(module, name)(*args)

    return [made_one(*op) for op in ops]


def plain(result: Any) -> Any:
    """A result without the times, and with scores that calculating in another order does not change."""
    if isinstance(result, list):
        return [plain(part) for part in cast("list[object]", result)]
    if not isinstance(result, ours.Item | theirs.Item):
        return result
    score = getattr(result, "score", "none")
    return (
        *(type(result).__name__, result.namespace, result.key, result.value),
        round(score, 9) if isinstance(score, float) else score,
    )


def outcome(action: Callable[[], Any]) -> object:
    try:
        return plain(action())
    except Exception as error:
        return type(error).__name__


def compared_with_none(filters: Any) -> bool:
    """Whether a condition on order may meet a field without a value, which is an error there and none here."""
    return "'$gt" in repr(filters) or "'$lt" in repr(filters)


def as_blocking(store: Any, ops: list[Any]) -> Any:
    return store.batch(ops)


def as_coroutine(store: Any, ops: list[Any]) -> Any:
    return LOOP.run(store.abatch(ops))


def compare(stores: Stores, batches: list[list[tuple[Any, ...]]], run: Callable[[Any, list[Any]], Any]) -> None:
    mine, other = stores
    for ops in batches:
        answer = outcome(partial(run, mine, made(ours, ops)))
        expected = outcome(partial(run, other, made(theirs, ops)))
        if expected == "TypeError" and answer != expected:
            filters = [op[2] for op in ops if op[0] == "SearchOp"]
            assert any(map(compared_with_none, filters)), ops
            if isinstance(answer, list):
                run(other, made(theirs, [op for op in ops if op[0] == "PutOp"]))
        else:
            assert answer == expected, ops
    everything = [("SearchOp", (), None, 1000), ("ListNamespacesOp", (), None, 1000)]
    assert outcome(lambda: mine.batch(made(ours, everything))) == outcome(lambda: other.batch(made(theirs, everything)))


@settings(max_examples=300, deadline=None)
@given(batches=BATCHES)
def test_the_same_operations_give_the_same_answers(batches: list[list[tuple[Any, ...]]]) -> None:
    compare((InMemoryStore(), Theirs()), batches, as_blocking)


@pytest.mark.parametrize("run", [as_blocking, as_coroutine])
@settings(max_examples=100, deadline=None)
@given(batches=INDEXED_BATCHES, fields=st.one_of(st.none(), st.just(["$"]), st.lists(PATHS, max_size=2)))
def test_the_same_searches_by_meaning_find_the_same(
    run: Callable[[Any, list[Any]], Any],
    batches: list[list[tuple[Any, ...]]],
    fields: list[str] | None,
) -> None:
    def asked(where: list[object]) -> Callable[[Sequence[str]], list[list[float]]]:
        def function(texts: Sequence[str]) -> list[list[float]]:
            where.append(list(texts))
            return embed(texts)

        return function

    here: list[object] = []
    there: list[object] = []
    stores = (
        InMemoryStore(index={"dims": 3, "embed": asked(here), "fields": fields}),
        Theirs(index={"dims": 3, "embed": asked(there), "fields": fields}),
    )
    compare(stores, batches, run)

    assert all(texts in here for texts in there)


def indexed(make: Callable[..., Any], *fields: str) -> Any:
    """A store that finds by how many r, g and b there are."""

    def count(texts: Sequence[str]) -> list[list[float]]:
        return [[float(text.count(letter)) for letter in "rgb"] for text in texts]

    return make(index={"dims": 3, "embed": count, "fields": [*fields]})


PHRASES: Final = st.text("rgb", max_size=4)
DOCUMENTS: Final = st.fixed_dictionaries({"x": PHRASES}, optional={"y": st.lists(PHRASES, max_size=3)})


@settings(max_examples=100, deadline=None)
@given(
    documents=st.lists(DOCUMENTS, min_size=2, max_size=8),
    query=PHRASES,
    limit=st.integers(1, 8),
    offset=st.integers(0, 3),
)
def test_the_same_ranks(documents: list[dict[str, Any]], query: str, limit: int, offset: int) -> None:
    stores = indexed(InMemoryStore, "x", "y[*]"), indexed(Theirs, "x", "y[*]")
    for store in stores:
        for key, document in enumerate(documents):
            store.put(("a",), str(key), document)
    mine, other = (plain(store.search((), query=query, limit=limit, offset=offset)) for store in stores)
    assert mine == other


LISTS: Final = st.lists(st.sampled_from([1, 2, "1"]), max_size=3)


@settings(max_examples=100, deadline=None)
@given(values=st.lists(LISTS, min_size=1, max_size=5), wish=st.one_of(LISTS, LISTS.map(tuple)))
def test_the_same_lists_fit(values: list[list[object]], wish: object) -> None:
    mine, other = InMemoryStore(), Theirs()
    for store in (mine, other):
        for key, value in enumerate(values):
            store.put(("a",), str(key), {"x": value})
    assert plain(mine.search((), filter={"x": wish})) == plain(other.search((), filter={"x": wish}))


@settings(max_examples=300, deadline=None)
@given(path=st.text("xyz.*[]{}0-1,$ ", max_size=10), value=NESTED)
def test_a_path_leads_to_the_same_texts(path: str, value: object) -> None:
    assert ours.tokenize_path(path) == theirs.tokenize_path(path)
    assert ours.get_text_at_path(value, path) == theirs.get_text_at_path(value, path)


METHODS: Final = st.one_of(
    st.tuples(st.just("get"), st.tuples(NAMESPACES, st.sampled_from(["k", 1])), st.just({})),
    st.tuples(
        st.just("put"),
        st.tuples(NAMESPACES, st.sampled_from(["k", 1]), VALUES),
        st.sampled_from([{}, {"ttl": None}, {"ttl": 1}]),
    ),
    st.tuples(st.just("put"), st.tuples(st.sampled_from([(), ("langgraph",)]), KEYS, VALUES), st.just({})),
    st.tuples(st.just("delete"), st.tuples(NAMESPACES, KEYS), st.just({})),
    st.tuples(st.just("delete"), st.just((("langgraph",), "k")), st.just({})),
    st.tuples(st.just("get"), st.just(((), "k")), st.just({})),
    st.tuples(
        st.just("search"),
        st.tuples(PREFIXES),
        st.fixed_dictionaries({"limit": LIMITS, "offset": LIMITS, "query": WORDS}),
    ),
    st.tuples(st.just("list_namespaces"), st.just(()), st.fixed_dictionaries({"prefix": PATTERNS, "suffix": PATTERNS})),
    st.tuples(st.just("list_namespaces"), st.just(()), st.fixed_dictionaries({"prefix": st.tuples(BAD_LABELS)})),
    st.tuples(st.just("list_namespaces"), st.just(()), st.fixed_dictionaries({"suffix": st.tuples(BAD_LABELS)})),
    st.tuples(st.sampled_from(["get", "delete"]), st.tuples(st.tuples(LABELS, BAD_LABELS), KEYS), st.just({})),
    st.tuples(st.just("put"), st.tuples(st.tuples(LABELS, BAD_LABELS), KEYS, VALUES), st.just({})),
    st.tuples(st.just("search"), st.tuples(st.tuples(LABELS, BAD_LABELS)), st.just({})),
)


@settings(max_examples=300, deadline=None)
@given(calls=st.lists(st.tuples(METHODS, st.booleans()), max_size=8))
def test_the_same_calls_give_the_same_answers(calls: list[tuple[tuple[str, Any, Any], bool]]) -> None:
    def called(store: Any, call: tuple[str, Any, Any], asynchronous: bool) -> Any:
        name, args, kwargs = call
        if asynchronous:
            return LOOP.run(getattr(store, f"a{name}")(*args, **kwargs))
        return getattr(store, name)(*args, **kwargs)

    mine, other = InMemoryStore(), Theirs()
    for each in calls:
        assert outcome(partial(called, mine, *each)) == outcome(partial(called, other, *each)), each


@pytest.mark.parametrize(
    "op",
    [
        ("GetOp", ("a",), "k"),
        ("PutOp", ("a",), "k", {}),
        ("PutOp", ("a.b",), "k", None),
        ("SearchOp", ("a.b",)),
        ("ListNamespacesOp", (("prefix", ("a.b",)),)),
        ("ListNamespacesOp", (("prefix", ("a", "*")),)),
    ],
)
def test_operations_have_the_same_defaults_and_checks(op: tuple[Any, ...]) -> None:
    (mine,), (other,) = made(ours, [op]), made(theirs, [op])
    assert mine == other
    assert mine._fields == other._fields
    assert outcome(lambda: ours.validate_op_namespace(mine)) == outcome(lambda: theirs.validate_op_namespace(other))


@pytest.mark.parametrize("make", [InMemoryStore, TheirStore])
def test_what_is_put_is_copied_and_what_lies_in_it_is_not(make: Callable[[], Any]) -> None:
    store = make()
    inner = [1]
    value = {"inner": inner}
    store.put(("a",), "k", value)
    value["other"] = [2]
    inner.append(3)
    assert store.get(("a",), "k").value == {"inner": [1, 3]}
    store.get(("a",), "k").value["got"] = True
    assert store.get(("a",), "k").value == store.search(())[0].value == {"inner": [1, 3], "got": True}


@pytest.mark.parametrize("make", [InMemoryStore, TheirStore])
def test_an_item_put_again_is_a_new_one_at_the_old_place(make: Callable[[], Any]) -> None:
    store = make()
    store.put(("a",), "k", {"n": 1})
    store.put(("a",), "l", {})
    first = store.get(("a",), "k")
    store.put(("a",), "k", {"n": 2})
    second = store.get(("a",), "k")
    assert (first.value, second.value) == ({"n": 1}, {"n": 2})
    assert first.created_at < second.created_at <= second.updated_at
    assert second.created_at.utcoffset() == timedelta(0)
    assert [item.key for item in store.search(())] == ["k", "l"]


@pytest.mark.parametrize("module", [ours, theirs])
def test_items_as_json(module: Any) -> None:
    time = "2020-01-02T03:04:05+00:00"
    kwargs: dict[str, Any] = {
        "value": {"v": 1},
        "key": "k",
        "namespace": ["a", "b"],
        "created_at": time,
        "updated_at": time,
    }
    item, found = module.Item(**kwargs), module.SearchItem(**kwargs, score=0.5)
    assert item.dict() == kwargs
    assert found.dict() == {**kwargs, "score": 0.5}
    assert item.namespace == ("a", "b")
    assert (item == found, found == item, hash(item) == hash(found), item == kwargs) == (True, True, True, False)


def keys_and_scores(store: Any, **kwargs: Any) -> list[tuple[str, float | None]]:
    return [(item.key, item.score) for item in store.search((), **kwargs)]


def test_difference_only_namespaces_that_hold_something_are_listed() -> None:
    mine, other = InMemoryStore(), TheirStore()
    for store in (mine, other):
        store.get(("seen",), "k")
        store.put(("left",), "k", {})
        store.delete(("left",), "k")
    assert mine.list_namespaces() == []
    assert other.list_namespaces() == [("left",), ("seen",)]


def test_difference_an_item_is_found_by_its_last_value_only() -> None:
    mine, other = indexed(InMemoryStore, "x[*]"), indexed(TheirStore, "x[*]")
    for store in (mine, other):
        store.put(("a",), "k", {"x": ["r", "g"]})
        store.put(("a",), "k", {"x": ["b"]})
        store.put(("a",), "l", {"x": ["r"]})
        store.put(("a",), "l", {"x": ["r"]}, index=False)
    assert keys_and_scores(mine, query="r") == [("k", 0.0), ("l", None)]
    assert keys_and_scores(other, query="r") == [("k", 1.0), ("l", 1.0)]


def test_difference_the_same_text_may_be_at_several_places() -> None:
    mine, other = indexed(InMemoryStore, "x", "y"), indexed(TheirStore, "x", "y")
    mine.put(("a",), "k", {"x": "r", "y": "r"})
    assert keys_and_scores(mine, query="r") == [("k", 1.0)]
    with pytest.raises(ValueError, match="Number of embeddings"):
        other.put(("a",), "k", {"x": "r", "y": "r"})


def test_difference_pages_neither_repeat_nor_leave_out_what_has_no_score() -> None:
    mine, other = indexed(InMemoryStore, "x"), indexed(TheirStore, "x")
    for store in (mine, other):
        for key in "klmn":
            store.put(("a",), key, {"x": "r"} if key == "k" else {})

    def pages(store: Any) -> list[str]:
        return [item.key for offset in range(4) for item in store.search((), query="r", limit=1, offset=offset)]

    assert pages(mine) == ["k", "l", "m", "n"]
    assert pages(other) == ["k", "l", "l", "l"]


def test_difference_an_item_without_a_field_is_neither_above_nor_below() -> None:
    mine, other = InMemoryStore(), TheirStore()
    for store in (mine, other):
        store.put(("a",), "k", {})
        store.put(("a",), "l", {"stars": 3})
    assert keys_and_scores(mine, filter={"stars": {"$gte": 3}}) == [("l", None)]
    with pytest.raises(TypeError, match="NoneType"):
        other.search((), filter={"stars": {"$gte": 3}})


def test_difference_the_whole_value_may_be_asked_for_when_putting() -> None:
    mine, other = indexed(InMemoryStore, "x"), indexed(TheirStore, "x")
    for store in (mine, other):
        store.put(("a",), "k", {"b": "g"}, index=["$"])
    assert [score is not None for _, score in keys_and_scores(mine, query="g")] == [True]
    assert keys_and_scores(other, query="g") == [("k", None)]


def test_difference_a_value_that_is_no_dict_is_refused_by_name() -> None:
    mine, other = InMemoryStore(), TheirStore()
    pairs: Any = [("x", 1)]
    other.put(("a",), "k", pairs)
    with pytest.raises(TypeError, match=r"key 'k' in namespace \('a',\) must be a dict, not a list"):
        mine.put(("a",), "k", pairs)
