"""Texts to vectors, with whatever the user has for it."""

import importlib
import inspect
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias, TypedDict, cast, runtime_checkable

from phalanx.store.base.fields import get_text_at_path, tokenize_path

EmbeddingsFunc: TypeAlias = Callable[[Sequence[str]], list[list[float]]]
"""Gives the vector of each text; all vectors have one length."""

AEmbeddingsFunc: TypeAlias = Callable[[Sequence[str]], Awaitable[list[list[float]]]]
"""The same as a coroutine function."""


@runtime_checkable
class BlockingEmbeddings(Protocol):
    """An object that gives vectors, and cannot do so without blocking."""

    @abstractmethod
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vector of each text that is to be found."""
        ...

    @abstractmethod
    def embed_query(self, text: str) -> list[float]:
        """The vector of a text that is searched for."""
        ...


@runtime_checkable
class Embeddings(BlockingEmbeddings, Protocol):
    """An object that gives vectors, such as the embeddings of LangChain.

    Subclasses write the blocking methods; the async forms run them in a thread unless overridden.
    """

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """:meth:`embed_documents` without blocking the event loop."""
        import asyncio  # loaded already, by whoever runs this

        return await asyncio.to_thread(self.embed_documents, texts)

    async def aembed_query(self, text: str) -> list[float]:
        """:meth:`embed_query` without blocking the event loop."""
        import asyncio

        return await asyncio.to_thread(self.embed_query, text)


class IndexConfig(TypedDict, total=False):
    """How a store finds items by their meaning.

    Attributes:
        dims: the length of the vectors.
        embed: gives the vectors: an object, a function, a coroutine function, or the name of a model, such as
            ``"openai:text-embedding-3-small"``, if LangChain is installed.
        fields: where in a value its texts are, as paths (:mod:`phalanx.store.base.fields`). Default: all of it as one
            text, ``["$"]``.
    """

    dims: int
    embed: Embeddings | BlockingEmbeddings | EmbeddingsFunc | AEmbeddingsFunc | str
    fields: list[str] | None


class EmbeddingsLambda(Embeddings):
    """A function in the form of an object. A query is embedded like any text.

    Args:
        func: gives the vectors. A coroutine function serves the async methods only.
    """

    def __init__(self, func: EmbeddingsFunc | AEmbeddingsFunc) -> None:
        self._func = func
        self._is_async = _is_coroutine_function(func)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """The vector of each text.

        Raises:
            ValueError: the function is a coroutine function.
        """
        if self._is_async:
            raise ValueError(
                f"{self._func!r} is a coroutine function: use the async methods of the store (aput, asearch), "
                f"or give it a function that is none"
            )
        return cast("EmbeddingsFunc", self._func)(texts)

    def embed_query(self, text: str) -> list[float]:
        """The vector of one text.

        Raises:
            ValueError: the function is a coroutine function.
        """
        return self.embed_documents([text])[0]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        if self._is_async:
            return await cast("AEmbeddingsFunc", self._func)(texts)
        return await super().aembed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return (await self.aembed_documents([text]))[0]


class _InThreads(Embeddings):
    """An object without async methods of its own."""

    def __init__(self, embeddings: BlockingEmbeddings) -> None:
        self._embeddings = embeddings

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._embeddings.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self._embeddings.embed_query(text)


def ensure_embeddings(
    embed: Embeddings | BlockingEmbeddings | EmbeddingsFunc | AEmbeddingsFunc | str | None,
) -> Embeddings:
    """Whatever gives vectors, as an object with all four methods.

    Args:
        embed: see :class:`IndexConfig`.

    Raises:
        ValueError: there is none, or it is the name of a model and LangChain is not installed.
        TypeError: it cannot give vectors.
    """
    if embed is None:
        raise ValueError("an index needs an embed: an object with embed_documents and embed_query, or a function")
    if isinstance(embed, str):
        return _of_langchain(embed)
    if isinstance(embed, Embeddings):
        return embed
    if isinstance(embed, BlockingEmbeddings):
        return _InThreads(embed)
    if callable(cast("object", embed)):
        return EmbeddingsLambda(embed)
    raise TypeError(f"embed must have embed_documents and embed_query, or be a function; {embed!r} is neither")


def _of_langchain(model: str) -> Embeddings:
    try:
        init_embeddings = importlib.import_module("langchain.embeddings").init_embeddings
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"the embeddings {model!r} come from LangChain: install langchain>=0.3.9 and the package of the provider, "
            f"or give an object or a function"
        ) from error
    return cast("Callable[[str], Embeddings]", init_embeddings)(model)


def _is_coroutine_function(function: object) -> bool:
    while isinstance(function, partial):
        function = cast("partial[object]", function).func
    call = getattr(function, "__call__", None)  # noqa: B004 - of an object with a coroutine for it
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


__all__ = [
    "AEmbeddingsFunc",
    "BlockingEmbeddings",
    "Embeddings",
    "EmbeddingsFunc",
    "EmbeddingsLambda",
    "IndexConfig",
    "ensure_embeddings",
    "get_text_at_path",
    "tokenize_path",
]
