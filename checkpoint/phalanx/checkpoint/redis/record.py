"""A checkpoint as it is stored: its small parts packed, its values as references to blobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from phalanx.checkpoint.base import CheckpointMetadata, Version
from phalanx.checkpoint.serde import Serializer
from phalanx.protocol.batch import Ref, expect_ref
from phalanx.protocol.plain import expect, expect_dict, expect_list, pack, unpack

_FORMAT: Final = 1


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
            stored, v, ts, parent, versions, seen, updated, metadata, values = expect_list(record)
            if stored != _FORMAT:
                raise ValueError(f"format {stored!r} instead of {_FORMAT}")
            return cls(
                expect(int, v),
                expect(str, ts),
                None if parent is None else expect(str, parent),
                _versions(versions),
                {expect(str, node): _versions(known) for node, known in expect_dict(seen).items()},
                None if updated is None else [expect(str, name) for name in expect_list(updated)],
                cast("CheckpointMetadata", expect_dict(serializer.loads(expect(bytes, metadata)))),
                {expect(str, name): expect_ref(ref) for name, ref in expect_dict(values).items()},
            )

        return unpack(data, "a checkpoint", read)


def _versions(found: object) -> dict[str, Version]:
    versions: dict[str, Version] = {}
    for name, version in expect_dict(found).items():
        if not isinstance(version, (int, str, float)):
            raise TypeError(f"a {type(version).__name__} where a version belongs")
        versions[expect(str, name)] = version
    return versions
