"""What a saver keeps and how it is asked for it. The interface is the public one of checkpoint savers; a saver from
elsewhere that has these methods works as it is, and ``phalanx.testing.saver_conformance`` tells whether it has."""

from phalanx.checkpoint.base.history import HistoryWalk
from phalanx.checkpoint.base.metadata import (
    EXCLUDED_METADATA_KEYS,
    get_checkpoint_id,
    get_checkpoint_metadata,
    get_serializable_checkpoint_metadata,
)
from phalanx.checkpoint.base.records import (
    CHECKPOINT_FORMAT,
    LATEST_VERSION,
    SCHEDULED,
    SPECIAL_WRITES,
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    Version,
    copy_checkpoint,
    create_checkpoint,
    empty_checkpoint,
    writes_sort_key,
)
from phalanx.checkpoint.base.saver import BaseCheckpointSaver, V
from phalanx.checkpoint.serde import SerializerProtocol
from phalanx.errors import EmptyChannelError
from phalanx.protocol.names import ERROR, INTERRUPT, RESUME

__all__ = [
    "CHECKPOINT_FORMAT",
    "ERROR",
    "EXCLUDED_METADATA_KEYS",
    "INTERRUPT",
    "LATEST_VERSION",
    "RESUME",
    "SCHEDULED",
    "SPECIAL_WRITES",
    "WRITES_IDX_MAP",
    "BaseCheckpointSaver",
    "ChannelVersions",
    "Checkpoint",
    "CheckpointMetadata",
    "CheckpointTuple",
    "DeltaChannelHistory",
    "EmptyChannelError",
    "HistoryWalk",
    "PendingWrite",
    "SerializerProtocol",
    "V",
    "Version",
    "copy_checkpoint",
    "create_checkpoint",
    "empty_checkpoint",
    "get_checkpoint_id",
    "get_checkpoint_metadata",
    "get_serializable_checkpoint_metadata",
    "writes_sort_key",
]
