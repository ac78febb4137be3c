"""Serialized values in a wrapping: compressed or encrypted bytes that say so themselves.

``dumps`` gives bytes without a tag beside them, so what kind they are must be in them. msgpack gives every first byte a
meaning but one: ``0xC1`` is never used. So bytes that start with it are no msgpack, and the byte behind it says what
they are: ``Z`` for a zstd frame around msgpack, ``E`` for ciphertext.
"""

from typing import Final

from phalanx.checkpoint.serde.libraries import needed_for
from phalanx.errors import CorruptDataError

COMPRESSED: Final = b"\xc1Z"
ENCRYPTED: Final = b"\xc1E"

COMPRESSED_TAG: Final = "msgpack+zstd"
"""What stands beside a zstd frame where there is a tag."""

_LEVEL: Final = 3
_BLOCK_BYTES: Final = 128 * 1024
_SMALLEST_BLOCK_BYTES: Final = 4


def compress(data: bytes) -> bytes:
    """``data`` as one zstd frame with its length and a checksum; equal data gives equal bytes.

    Raises:
        MissingLibraryError: ``zstandard`` is not installed.
    """
    with needed_for("compression", "zstandard"):
        import zstandard
    return zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compress(data)


def decompress(frame: bytes, max_bytes: int) -> bytes:
    """What :func:`compress` was given.

    Nothing is decompressed of a frame that claims more than ``max_bytes``, or more than frames of its length can hold:
    a block of zstd takes at least 4 bytes and gives at most 128 KiB.

    Raises:
        CorruptDataError: the frame is damaged, truncated, or claims too much.
        MissingLibraryError: ``zstandard`` is not installed.
    """
    with needed_for("reading compressed data", "zstandard"):
        import zstandard
    try:
        claimed = zstandard.get_frame_parameters(frame).content_size
        if claimed == zstandard.CONTENTSIZE_UNKNOWN:
            raise CorruptDataError("stored data does not say how large it is once it is decompressed")
        if claimed > max_bytes:
            raise CorruptDataError(
                f"stored data takes {claimed} bytes once it is decompressed, and the limit is {max_bytes}"
            )
        if claimed > (len(frame) // _SMALLEST_BLOCK_BYTES + 1) * _BLOCK_BYTES:
            raise CorruptDataError(f"{len(frame)} bytes of stored data claim to be {claimed} bytes once decompressed")
        return zstandard.ZstdDecompressor().decompress(frame, max_output_size=max_bytes, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptDataError(f"stored data cannot be decompressed: {error}") from error
