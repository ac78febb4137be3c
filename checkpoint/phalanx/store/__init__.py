"""Stores: what nodes remember beyond their thread, as dicts under a key in a namespace.

=============================  ===============================================================
:mod:`phalanx.store.base`      what a store is, its items, and the operations it carries out
:mod:`phalanx.store.memory`    in this process, with search by meaning
:mod:`phalanx.store.filters`   the conditions of a search
=============================  ===============================================================
"""

from phalanx.store.base import BaseStore

__all__ = ["BaseStore"]
