"""What a store is.

====================================  =============================================
:mod:`phalanx.store.base.store`       :class:`BaseStore`
:mod:`phalanx.store.base.items`       what is stored
:mod:`phalanx.store.base.ops`         what a store is asked to do
:mod:`phalanx.store.base.namespaces`  which namespaces there may be, and which match
:mod:`phalanx.store.base.embed`       texts to vectors
:mod:`phalanx.store.base.fields`      the texts in a value
====================================  =============================================
"""

from phalanx.store.base.embed import (
    AEmbeddingsFunc,
    Embeddings,
    EmbeddingsFunc,
    IndexConfig,
    ensure_embeddings,
)
from phalanx.store.base.fields import get_text_at_path, tokenize_path
from phalanx.store.base.items import Item, SearchItem
from phalanx.store.base.namespaces import InvalidNamespaceError
from phalanx.store.base.ops import (
    NOT_PROVIDED,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    NamespaceMatchType,
    NamespacePath,
    NotProvided,
    Op,
    PutOp,
    Result,
    SearchOp,
    TTLConfig,
    validate_op_namespace,
)
from phalanx.store.base.store import BaseStore

__all__ = [
    "NOT_PROVIDED",
    "AEmbeddingsFunc",
    "BaseStore",
    "Embeddings",
    "EmbeddingsFunc",
    "GetOp",
    "IndexConfig",
    "InvalidNamespaceError",
    "Item",
    "ListNamespacesOp",
    "MatchCondition",
    "NamespaceMatchType",
    "NamespacePath",
    "NotProvided",
    "Op",
    "PutOp",
    "Result",
    "SearchItem",
    "SearchOp",
    "TTLConfig",
    "ensure_embeddings",
    "get_text_at_path",
    "tokenize_path",
    "validate_op_namespace",
]
