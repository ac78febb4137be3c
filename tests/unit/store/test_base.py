"""What all stores share: the interface, items, namespaces, filters and paths."""

import asyncio
import copy
import pickle
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

import pytest

from phalanx.checkpoint.serde import Serializer
from phalanx.errors import PhalanxError
from phalanx.store.base import (
    NOT_PROVIDED,
    BaseStore,
    Embeddings,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    ensure_embeddings,
    get_text_at_path,
    validate_op_namespace,
)
from phalanx.store.base.embed import EmbeddingsLambda
from phalanx.store.filters import fits

NOW = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
ITEM = Item(value={"v": [1]}, key="k", namespace=("a", "b"), created_at=NOW, updated_at=NOW)
FOUND = SearchItem(("a", "b"), "k", {"v": [1]}, NOW, NOW, 0.5)


class Recorder(BaseStore):
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Op] = []

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        asked = [*ops]
        self.asked += asked
        return [None for _ in asked]

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return self.batch(ops)


class Ageing(Recorder):
    """One whose items can end by themselves."""

    supports_ttl = True


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], Op]] = [
    ("get", (("a",), "k"), {}, GetOp(("a",), "k")),
    ("get", (("a",), 5), {"refresh_ttl": False}, GetOp(("a",), "5", False)),
    ("put", (("a",), "k", {"v": 1}), {}, PutOp(("a",), "k", {"v": 1})),
    ("put", (("a",), 5, {"v": 1}, ["v"]), {"ttl": 2.5}, PutOp(("a",), "5", {"v": 1}, ["v"], 2.5)),
    ("delete", (("a",), 5), {}, PutOp(("a",), "5", None)),
    ("search", ((),), {}, SearchOp(())),
    (
        "search",
        (("a",),),
        {"query": "q", "filter": {"v": 1}, "limit": 2, "offset": 3, "refresh_ttl": False},
        SearchOp(("a",), {"v": 1}, 2, 3, "q", False),
    ),
    ("list_namespaces", (), {}, ListNamespacesOp(())),
    (
        "list_namespaces",
        (),
        {"prefix": ("a", "*"), "suffix": ("z",), "max_depth": 1, "limit": 2, "offset": 3},
        ListNamespacesOp((MatchCondition("prefix", ("a", "*")), MatchCondition("suffix", ("z",))), 1, 2, 3),
    ),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "op"), CALLS)
def test_both_forms_of_a_method_ask_for_the_same(name: str, args: Any, kwargs: Any, op: Op) -> None:
    store = Ageing()
    getattr(store, name)(*args, **kwargs)
    asyncio.run(getattr(store, f"a{name}")(*args, **kwargs))
    assert store.asked == [op, op]


def test_a_time_to_live_needs_a_store_that_knows_it() -> None:
    store = Recorder()
    with pytest.raises(NotImplementedError, match=r"items of a Recorder cannot end .* ttl=5 for key 'k'"):
        store.put(("a",), "k", {}, ttl=5)
    with pytest.raises(NotImplementedError):
        asyncio.run(store.aput(("a",), "k", {}, ttl=5))
    assert store.asked == []
    store.put(("a",), "k", {}, ttl=None)
    assert store.asked == [PutOp(("a",), "k", {})]


def test_times_come_from_the_settings_unless_given() -> None:
    store = Ageing()
    store.ttl_config = {"default_ttl": 10, "refresh_on_read": False}
    store.put(("a",), "k", {})
    store.put(("a",), "k", {}, ttl=None)
    store.put(("a",), "k", {}, ttl=3)
    store.get(("a",), "k")
    store.get(("a",), "k", refresh_ttl=True)
    store.search(())
    puts = [PutOp(("a",), "k", {}, None, ttl) for ttl in (10, None, 3)]
    assert store.asked == [*puts, GetOp(("a",), "k", False), GetOp(("a",), "k", True), SearchOp((), refresh_ttl=False)]


@pytest.mark.parametrize(
    ("label", "fault"),
    [
        ("", "must not be empty"),
        ("a.b", "must not contain a period"),
        ("a\0", "must not contain a NUL"),
        (5, "must be a str, not a int"),
        (None, "must be a str, not a NoneType"),
    ],
)
def test_a_bad_label_is_refused_everywhere(label: Any, fault: str) -> None:
    store, namespace = Recorder(), ("a", label)
    for call in (
        partial(store.get, namespace, "k"),
        partial(store.put, namespace, "k", {}),
        partial(store.delete, namespace, "k"),
        partial(store.search, namespace),
        partial(store.list_namespaces, prefix=namespace),
        partial(store.list_namespaces, suffix=namespace),
        partial(validate_op_namespace, GetOp(namespace, "k")),
        partial(validate_op_namespace, PutOp(namespace, "k", {})),
        partial(validate_op_namespace, SearchOp(namespace)),
        partial(validate_op_namespace, ListNamespacesOp((MatchCondition("suffix", namespace),))),
    ):
        with pytest.raises(InvalidNamespaceError) as caught:
            call()
        assert str(caught.value) == f"label {label!r} of namespace {namespace!r} {fault}"
    assert store.asked == []


@pytest.mark.parametrize("namespace", [(), ("langgraph",), ("langgraph", "a")])
def test_nothing_is_put_without_a_namespace_or_under_the_reserved_root(namespace: tuple[str, ...]) -> None:
    store = Recorder()
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {})
    with pytest.raises(InvalidNamespaceError):
        asyncio.run(store.aput(namespace, "k", {}))
    store.get(namespace, "k")
    store.delete(namespace, "k")
    store.put(("a", "langgraph"), "k", {})
    assert len(store.asked) == 3


def test_a_bad_namespace_is_one_of_our_errors_and_survives_the_way() -> None:
    error = pickle.loads(pickle.dumps(InvalidNamespaceError("it is bad")))
    assert isinstance(error, PhalanxError)
    assert isinstance(error, ValueError)
    assert str(error) == "it is bad"


@pytest.mark.parametrize(
    ("match_type", "path", "matches"),
    [
        ("prefix", (), True),
        ("prefix", ("a", "b"), True),
        ("prefix", ("b",), False),
        ("prefix", ("*", "b", "*"), True),
        ("prefix", ("*", "*", "*", "*"), False),
        ("suffix", ("b", "c"), True),
        ("suffix", ("a", "*", "c"), True),
        ("suffix", ("b",), False),
        ("suffix", (), True),
    ],
)
def test_a_condition_matches_one_end_of_a_namespace(match_type: Any, path: Any, matches: bool) -> None:
    assert MatchCondition(match_type, path).holds_for(("a", "b", "c")) is matches


def test_a_condition_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="'prefix' or 'suffix', not 'middle'"):
        MatchCondition(cast("Any", "middle"), ("a", "b")).holds_for(("a",))


@pytest.mark.parametrize("item", [ITEM, FOUND])
def test_items_can_lie_in_a_state(item: Item) -> None:
    serializer = Serializer()
    for back in (serializer.loads(serializer.dumps(item)), pickle.loads(pickle.dumps(item)), copy.deepcopy(item)):
        assert type(back) is type(item)
        assert back == item
        assert back.dict() == item.dict()


def test_items_say_what_they_are() -> None:
    times = "created_at='2020-01-02T03:04:05+00:00', updated_at='2020-01-02T03:04:05+00:00'"
    assert repr(ITEM) == f"Item(namespace=['a', 'b'], key='k', value={{'v': [1]}}, {times})"
    assert repr(FOUND) == f"SearchItem(namespace=['a', 'b'], key='k', value={{'v': [1]}}, {times}, score=0.5)"


def test_items_are_equal_by_content() -> None:
    assert ITEM == FOUND
    assert hash(ITEM) == hash(FOUND)
    assert SearchItem(("a", "b"), "other", {"v": [1]}, NOW, NOW) != ITEM
    assert ITEM.dict() != ITEM


def test_an_argument_left_out_is_false() -> None:
    assert not NOT_PROVIDED
    assert repr(NOT_PROVIDED) == "NOT_PROVIDED"


@pytest.mark.parametrize(
    ("value", "conditions", "fit"),
    [
        ({}, {}, True),
        ({"x": 1}, {"x": 1}, True),
        ({"x": 1}, {"x": 1, "y": None}, True),
        ({"x": 1}, {"y": 1}, False),
        ({"x": 3}, {"x": {"$gt": 2, "$lt": 4}}, True),
        ({"x": 3}, {"x": {"$gte": 3, "$lte": 3}}, True),
        ({"x": 3}, {"x": {"$gt": 3}}, False),
        ({"x": "3"}, {"x": {"$lt": 4}}, True),
        ({}, {"x": {"$lt": 4}}, False),
        ({}, {"x": {"$ne": 4}}, True),
        ({"x": [1]}, {"x": {"$eq": [1]}}, True),
        ({"x": {"y": 1, "z": 2}}, {"x": {"y": 1}}, True),
        ({"x": {"y": {"z": 2}}}, {"x": {"y": {"z": {"$gt": 1}}}}, True),
        ({"x": 1}, {"x": {"y": 1}}, False),
        ({"x": {5: 1}}, {"x": {5: 1}}, True),
        ({"x": [1, 2]}, {"x": (1, {"$gt": 1})}, True),
        ({"x": [1, 2]}, {"x": [1]}, False),
        ({"x": 1}, {"x": [1]}, False),
    ],
)
def test_conditions(value: dict[str, Any], conditions: dict[str, Any], fit: bool) -> None:
    assert fits(value, conditions) is fit


@pytest.mark.parametrize(
    ("condition", "error", "text"),
    [
        ({"$in": [1]}, ValueError, r"unknown operator '\$in'"),
        ({"$gt": "many"}, ValueError, r"the operator \$gt of a filter compares numbers, and 'many' is none"),
        ({"$lt": [1]}, TypeError, r"the operator \$lt of a filter compares numbers, and \[1\] is none"),
    ],
)
def test_conditions_that_make_no_sense(condition: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        fits({"x": 1}, {"x": condition})


VALUE = {"a": {"b": "text", "n": None, "f": True}, "l": [{"t": 1}, {"t": 2.5}, "x"], "o": object()}


@pytest.mark.parametrize(
    ("path", "texts"),
    [
        ("a.b", ["text"]),
        ("a.n", []),
        ("a.f", ["True"]),
        ("a.missing.b", []),
        ("l[0].t", ["1"]),
        ("l[-2].t", ["2.5"]),
        ("l[3]", []),
        ("l[x]", []),
        ("a[0]", []),
        ("l[*].t", ["1", "2.5"]),
        ("l[*]", ['{"t": 1}', '{"t": 2.5}', "x"]),
        ("l.*.t", ["1", "2.5"]),
        ("a.*", ["text", "True"]),
        ("a.{b, f}", ["text", "True"]),
        ("{a.b, l, none, }", ["text", '[{"t": 1}, {"t": 2.5}, "x"]']),
        ("l.{t}", []),
        ("o", []),
        (["a", "b"], ["text"]),
    ],
)
def test_paths_lead_to_texts(path: str | list[str], texts: list[str]) -> None:
    assert get_text_at_path(VALUE, path) == texts


@pytest.mark.parametrize("path", ["", "$", []])
def test_the_whole_value_is_a_text_whose_order_says_nothing(path: str | list[str]) -> None:
    assert get_text_at_path({"b": "ü", "a": 1}, path) == ['{"a": 1, "b": "ü"}']


def lengths(texts: Iterable[str]) -> list[list[float]]:
    return [[float(len(text))] for text in texts]


async def alengths(texts: Iterable[str]) -> list[list[float]]:
    return lengths(texts)


class Called:
    """An object whose call is a coroutine."""

    async def __call__(self, texts: Iterable[str]) -> list[list[float]]:
        return lengths(texts)


class Lengths(Embeddings):
    """A subclass that writes what it must."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return lengths(texts)

    def embed_query(self, text: str) -> list[float]:
        return lengths([text])[0]


@pytest.mark.parametrize("embed", [lengths, alengths, partial(alengths), Called(), Lengths()])
def test_whatever_embeds_does_so_from_coroutines(embed: Any) -> None:
    embeddings = ensure_embeddings(embed)
    assert isinstance(embeddings, Embeddings)
    assert asyncio.run(embeddings.aembed_documents(["a", "bc"])) == [[1.0], [2.0]]
    assert asyncio.run(embeddings.aembed_query("abc")) == [3.0]


def test_an_object_that_has_all_methods_stays_itself() -> None:
    embeddings = Lengths()
    assert ensure_embeddings(embeddings) is embeddings
    assert EmbeddingsLambda(lengths).embed_query("abc") == [3.0]
    with pytest.raises(ValueError, match="coroutine function"):
        EmbeddingsLambda(alengths).embed_query("abc")
    with pytest.raises(ValueError, match="needs an embed"):
        ensure_embeddings(None)
