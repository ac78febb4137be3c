"""The kinds of class that can be registered, and how an object of each is taken apart and put together again.

No ``__init__``, ``__new__``, ``__post_init__``, validator or ``__setattr__`` of the class runs when an object is
rebuilt: the object is made empty by the builtin it is laid out as, and gets exactly the state it had. What may be set
is checked against the class, so stored data cannot give an object an attribute its class does not declare.
"""

from typing import Final

from phalanx.checkpoint.serde.kind import Kind
from phalanx.checkpoint.serde.models import MODELS
from phalanx.checkpoint.serde.records import ATTRS_CLASSES, DATACLASSES
from phalanx.checkpoint.serde.values import ENUMS, NAMEDTUPLES, SUBCLASSES

KINDS: Final = (ENUMS, MODELS, DATACLASSES, ATTRS_CLASSES, NAMEDTUPLES, SUBCLASSES)
"""In the order in which a class is asked what it is."""


def kind_of(cls: type) -> Kind | None:
    """The kind of class ``cls`` is, or ``None`` if objects of its kind cannot be stored."""
    return next((kind for kind in KINDS if kind.accepts(cls)), None)
