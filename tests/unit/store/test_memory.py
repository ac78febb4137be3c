"""The store in this process."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from phalanx.store.base import GetOp, IndexConfig, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from phalanx.store.memory import InMemoryStore

USERS = ("users",)


def embed(texts: Sequence[str]) -> list[list[float]]:
    """How many r, g and b there are."""
    return [[float(text.count(letter)) for letter in "rgb"] for text in texts]


async def aembed(texts: Sequence[str]) -> list[list[float]]:
    return embed(texts)


class Model:
    """An object that gives vectors."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return embed(texts)

    def embed_query(self, text: str) -> list[float]:
        return embed([text])[0]


class AsyncModel(Model):
    """One that has async methods of its own, and is not to be blocked on."""

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return super().embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return super().embed_query(text)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise AssertionError("blocking")

    def embed_query(self, text: str) -> list[float]:
        raise AssertionError("blocking")


def index(embed: Any = embed, fields: list[str] | None = None) -> IndexConfig:
    return {"dims": 3, "embed": embed, "fields": fields or ["text"]}


def keys(store: InMemoryStore, **kwargs: Any) -> list[str]:
    return [item.key for item in store.search((), **kwargs)]


def test_an_item_says_where_it_lies_and_since_when() -> None:
    store = InMemoryStore()
    store.put(USERS, "ada", {"likes": "tea"})
    item = store.get(USERS, "ada")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (USERS, "ada", {"likes": "tea"})
    assert item.created_at == item.updated_at
    assert item.created_at.utcoffset() == timedelta(0)


def test_a_batch_reads_before_it_writes_and_keeps_the_last_write_of_a_key() -> None:
    store = InMemoryStore()
    results = store.batch(
        [
            PutOp(USERS, "ada", {"n": 1}),
            GetOp(USERS, "ada"),
            PutOp(USERS, "ada", {"n": 2}),
            ListNamespacesOp(),
            SearchOp(()),
        ]
    )
    assert results == [None, None, None, [], []]
    assert [item.value for item in store.search(())] == [{"n": 2}]


@pytest.mark.parametrize(
    "broken",
    [
        SearchOp((), filter={"n": {"$near": 1}}),
        SearchOp((), filter={"n": {"$gt": "many"}}),
        PutOp(USERS, "other", cast("Any", 5)),
        ListNamespacesOp((MatchCondition(cast("Any", "middle"), ()),)),
        cast("Any", "get"),
    ],
)
def test_a_batch_that_fails_has_changed_nothing(broken: Any) -> None:
    store = InMemoryStore()
    store.put(USERS, "ada", {"n": 1})
    with pytest.raises((ValueError, TypeError)):
        store.batch([PutOp(USERS, "ada", {"n": 2}), PutOp(USERS, "bob", {}), broken])
    assert [(item.key, item.value) for item in store.search(())] == [("ada", {"n": 1})]


def test_a_failing_model_changes_nothing() -> None:
    def fail(texts: Sequence[str]) -> list[list[float]]:
        raise ConnectionError("no answer")

    store = InMemoryStore(index=index(fail))
    with pytest.raises(ConnectionError, match="no answer"):
        store.put(USERS, "ada", {"text": "r"})
    assert store.get(USERS, "ada") is None


def test_a_model_that_gives_too_few_vectors_is_named() -> None:
    def forgetful(texts: Sequence[str]) -> list[list[float]]:
        return embed(texts)[:1]

    store = InMemoryStore(index=index(forgetful))
    with pytest.raises(ValueError, match="gave 1 vectors for 2 texts"):
        store.batch([PutOp(USERS, "a", {"text": "r"}), PutOp(USERS, "b", {"text": "g"})])
    assert store.search(()) == []


def test_vectors_of_two_lengths_are_not_compared() -> None:
    def ragged(texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] * len(text) for text in texts]

    store = InMemoryStore(index=index(ragged))
    store.put(USERS, "ada", {"text": "rr"})
    with pytest.raises(ValueError, match="of 3 and of 2 numbers"):
        store.search((), query="rrr")


async def _search_by_meaning(model: Any) -> list[tuple[str, float | None]]:
    store = InMemoryStore(index=index(model))
    await store.aput(USERS, "red", {"text": "rr"})
    await store.aput(USERS, "mixed", {"text": "rb"})
    await store.aput(USERS, "none", {"other": "r"})
    await store.aput(USERS, "green", {"text": "g"})
    return [(item.key, item.score and round(item.score, 3)) for item in await store.asearch((), query="r")]


@pytest.mark.parametrize("model", [embed, aembed, Model(), AsyncModel()], ids=["function", "async", "object", "both"])
def test_what_is_nearest_in_meaning_comes_first(model: Any) -> None:
    found = asyncio.run(_search_by_meaning(model))
    assert found == [("red", 1.0), ("mixed", 0.707), ("green", 0.0), ("none", None)]


def test_a_coroutine_function_cannot_embed_for_a_blocking_call() -> None:
    store = InMemoryStore(index=index(aembed))
    with pytest.raises(ValueError, match="use the async methods"):
        store.put(USERS, "ada", {"text": "r"})


def test_each_text_is_embedded_once() -> None:
    asked: list[Sequence[str]] = []

    def counting(texts: Sequence[str]) -> list[list[float]]:
        asked.append([*texts])
        return embed(texts)

    store = InMemoryStore(index=index(counting, ["text", "title"]))
    store.batch([PutOp(USERS, "a", {"text": "r", "title": "g"}), PutOp(USERS, "b", {"text": "g", "title": "g"})])
    store.batch([SearchOp((), query="b"), SearchOp(USERS, query="b")])
    store.batch([PutOp(USERS, "c", {"text": "r"}, index=False), PutOp(USERS, "a", None), SearchOp(())])
    assert asked == [["r", "g"], ["b"]]


def test_an_item_is_as_near_as_its_nearest_text() -> None:
    store = InMemoryStore(index=index(fields=["parts[*].text"]))
    store.put(USERS, "both", {"parts": [{"text": "g"}, {"text": "r"}]})
    store.put(USERS, "near", {"parts": [{"text": "rrrb"}]})
    assert keys(store, query="r") == ["both", "near"]
    assert keys(store, query="r", limit=1, offset=1) == ["near"]


def test_the_vectors_are_the_stores_own() -> None:
    vectors = [[1.0, 0.0]]

    def same(_: Sequence[str]) -> list[list[float]]:
        return vectors

    store = InMemoryStore(index=index(same))
    store.put(USERS, "ada", {"text": "r"})
    vectors[0][:] = [0.0, 1.0]
    assert [item.score for item in store.search((), query="r")] == [0.0]


def test_without_an_index_nothing_is_embedded_or_ranked() -> None:
    store = InMemoryStore()
    store.put(USERS, "ada", {"text": object()}, index=["text"])
    assert [item.score for item in store.search((), query="r")] == [None]


def test_deleting_leaves_nothing_behind() -> None:
    store = InMemoryStore()
    store.put(USERS, "ada", {})
    store.delete(USERS, "ada")
    store.delete(USERS, "ada")
    store.delete(("nobody",), "ada")
    assert store.get(("nobody",), "ada") is None
    assert store.list_namespaces() == []


def test_a_namespace_keeps_its_place_while_a_batch_replaces_all_its_items() -> None:
    store = InMemoryStore()
    store.batch([PutOp(("a",), "old", {}), PutOp(("b",), "k", {})])
    store.batch([PutOp(("a",), "old", None), PutOp(("a",), "new", {})])
    assert keys(store) == ["new", "k"]


def test_many_threads_may_use_it_at_once() -> None:
    store = InMemoryStore(index=index())
    start = threading.Barrier(8)
    errors: list[BaseException] = []

    def use(number: int) -> None:
        start.wait()
        try:
            for step in range(200):
                store.put(("t", str(step % 7)), f"{number}-{step}", {"text": "r"})
                store.search((), query="g", filter={"text": "r"})
                store.list_namespaces(prefix=("t",))
                if step % 2:
                    store.delete(("t", str(step % 7)), f"{number}-{step}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(store.search((), limit=10_000)) == 8 * 100


def test_code_of_values_may_use_the_store_while_it_searches() -> None:
    store = InMemoryStore()

    class Curious:
        def __eq__(self, other: object) -> bool:
            store.put(("seen",), "k", {})
            return True

        __hash__ = None  # type: ignore[assignment]

    store.put(USERS, "ada", {"x": Curious()})
    assert keys(store, filter={"x": 1}) == ["ada"]
    assert store.list_namespaces() == [("seen",), USERS]


def test_several_coroutines_embed_at_the_same_time() -> None:
    async def run() -> int:
        waiting = 0
        all_there = asyncio.Event()

        async def meet(texts: Sequence[str]) -> list[list[float]]:
            nonlocal waiting
            waiting += 1
            if waiting == 3:
                all_there.set()
            await all_there.wait()
            return embed(texts)

        store = InMemoryStore(index=index(meet))
        await asyncio.gather(*(store.aput(USERS, f"k{n}", {"text": "r" * n}) for n in range(3)))
        return len(await store.asearch(()))

    assert asyncio.run(run()) == 3


def test_importing_it_loads_nothing_heavy() -> None:
    heavy = ["asyncio", "celery", "json", "langchain_core", "numpy", "pydantic", "redis"]
    code = f"import sys, phalanx.store.memory; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"


def test_the_settings_of_the_index_are_the_stores_own() -> None:
    config = index()
    store = InMemoryStore(index=config)
    config["fields"] = ["other"]
    assert store.index_config == index()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: InMemoryStore(index={"dims": 3}), ValueError, "an index needs an embed"),
        (lambda: InMemoryStore(index=index(5)), TypeError, "5 is neither"),
        (lambda: InMemoryStore(index=index("no:model")), ValueError, "'no:model' come from LangChain"),
    ],
)
def test_an_index_that_cannot_embed_is_refused(make: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()
