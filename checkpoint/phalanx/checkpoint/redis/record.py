"""A checkpoint as it is stored: its small parts packed, its values as references to blobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from phalanx.checkpoint.base import CheckpointMetadata, Version
from phalanx.checkpoint.serde import Serializer
from phalanx.protocol.batch import Ref
from phalanx.protocol.plain import pack, unpack

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class CheckpointRecord:
    """One stored checkpoint; see :class:`phalanx.checkpoint.base.Checkpoint` for what the parts mean."""

    v: int
    ts: str
    parent_id: str | None
    versions: Mapping[str, Version]
    seen: Mapping[str, Mapping[str, Version]]
    updated: list[str] | None
    metadata: CheckpointMetadata
    values: Mapping[str, Ref]

    def pack(self, serializer: Serializer) -> bytes:
        """The stored form."""
        metadata = serializer.dumps(self.metadata)
        fields = [
            _FORMAT,
            self.v,
            self.ts,
            self.parent_id,
            self.versions,
            self.seen,
            self.updated,
            metadata,
            self.values,
        ]
        return pack(fields)

    @classmethod
    def unpack(cls, data: bytes, serializer: Serializer) -> "CheckpointRecord":
        """Read the stored form.

        Raises:
            CorruptDataError: it is not one, or of another format.
        """

        def read(record: Any) -> CheckpointRecord:
            stored, v, ts, parent, versions, seen, updated, metadata, values = record
            if stored != _FORMAT:
                raise ValueError(f"format {stored!r} instead of {_FORMAT}")
            loaded = cast("CheckpointMetadata", serializer.loads(metadata))
            return cls(v, ts, parent, versions, seen, updated, loaded, values)

        return unpack(data, "a checkpoint", read)
