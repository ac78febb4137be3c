"""The schemas of one graph taken together: what each key is, whichever schema declared it."""

from phalanx.channels import LastValue
from phalanx.graph.annotations import node_name
from phalanx.graph.schema import declared_by
from phalanx.managed import ManagedValueSpec
from phalanx.worker.blueprint import Channel


class Declarations:
    """Grows by one schema after another. A key may be declared again, plainly or in the same way.

    Attributes:
        channels: an empty channel of the right kind by key.
        managed: the keys that no channel holds.
        keys: those of each schema.
    """

    __slots__ = ("channels", "keys", "managed")

    def __init__(self) -> None:
        self.channels: dict[str, Channel] = {}
        self.managed: dict[str, ManagedValueSpec] = {}
        self.keys: dict[object, tuple[str, ...]] = {}

    def add(self, schema: object, *, managed_allowed: bool = True) -> None:
        """Add what a schema declares, if it is new.

        Raises:
            ValueError: a key is declared differently elsewhere, a reducer is none, or the schema holds a managed value
                where none may be. Nothing was added then.
            NameError: an annotation names what cannot be found.
        """
        if schema in self.keys:
            return
        declared = declared_by(schema)
        if declared.managed and not managed_allowed:
            raise ValueError(
                f"Invalid managed channels detected in {_name(schema)}: {', '.join(declared.managed)}. Managed "
                f"channels are not permitted in Input/Output schema: they are worked out while the graph runs. Leave "
                f"them to the state schema, or to what a node reads"
            )
        for key, spec in declared.managed.items():
            known = self.managed.get(key, self.channels.get(key))
            if known is not None and known is not spec:
                raise _declared_twice("Managed value", key, known, spec, schema)
        for key, channel in declared.channels.items():
            if key in self.managed:
                raise _declared_twice("Managed value", key, self.managed[key], channel, schema)
            if key in self.channels and self.channels[key] != channel and type(channel) is not LastValue:
                raise _declared_twice("Channel", key, self.channels[key], channel, schema)
        self.managed.update(declared.managed)
        self.channels.update((key, channel) for key, channel in declared.channels.items() if key not in self.channels)
        self.keys[schema] = (*declared.channels, *declared.managed)


def _declared_twice(what: str, key: str, known: object, other: object, schema: object) -> ValueError:
    return ValueError(
        f"{what} '{key}' already exists with a different type: {_kind(known)} in one schema, {_kind(other)} in "
        f"{_name(schema)}; declare it with the same reducer or channel in both"
    )


def _kind(declared: object) -> str:
    if isinstance(declared, type):
        return declared.__name__
    reducer = getattr(declared, "operator", None) or getattr(declared, "reducer", None)
    return type(declared).__name__ + ("" if reducer is None else f" of {node_name(reducer)}")


def _name(schema: object) -> str:
    return getattr(schema, "__name__", str(schema))
