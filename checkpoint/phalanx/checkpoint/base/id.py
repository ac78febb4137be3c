"""UUIDs of version 6 (RFC 9562), which sort by the time they were made.

:func:`phalanx.checkpoint.ids.checkpoint_id` makes the same as text, with the superstep in the clock sequence.
"""

import random
import uuid

from phalanx.checkpoint.ids import next_ticks, process_node

_TICKS_PER_S = 10_000_000
_VARIANT = 0b10


class UUID(uuid.UUID):
    """A UUID whose version may be 6, 7 or 8 too, and whose time can be read when it is 6.

    Args: as of ``uuid.UUID``; exactly one of the first six says what the value is.
    """

    __slots__ = ()

    def __init__(
        self,
        hex: str | None = None,  # noqa: A002 - the names of the class it extends
        bytes: bytes | None = None,  # noqa: A002
        bytes_le: bytes | None = None,
        fields: tuple[int, int, int, int, int, int] | None = None,
        int: int | None = None,  # noqa: A002
        version: int | None = None,
        *,
        is_safe: uuid.SafeUUID = uuid.SafeUUID.unknown,
    ) -> None:
        if version is not None and version not in range(1, 9):
            raise ValueError(f"a UUID's version is from 1 to 8, not {version}")
        super().__init__(hex, bytes, bytes_le, fields, int, is_safe=is_safe)
        if version is not None:
            value = self.int & ~(0xF << 76) & ~(0b11 << 62) | (version << 76) | (_VARIANT << 62)
            object.__setattr__(self, "int", value)

    @property
    def time(self) -> int:
        """When it was made, in 100 ns since 1582-10-15."""
        if self.version != 6:
            return super().time
        return ((self.int >> 80) << 12) | ((self.int >> 64) & 0x0FFF)

    @property
    def subsec(self) -> int:
        """The part of :attr:`time` below a second, in 100 ns."""
        return self.time % _TICKS_PER_S


def uuid6(node: int | None = None, clock_seq: int | None = None) -> UUID:
    """A new UUID, greater than every one that this process made before.

    Args:
        node: 48 bits that tell the maker from others; random, and the same within a process, if left out.
        clock_seq: 14 bits of any meaning; random if left out.
    """
    ticks = next_ticks()
    sequence = (random.getrandbits(14) if clock_seq is None else clock_seq) & 0x3FFF
    maker = (process_node() if node is None else node) & 0xFFFF_FFFF_FFFF
    value = (ticks >> 12) << 80 | (ticks & 0x0FFF) << 64 | sequence << 48 | maker
    return UUID(int=value, version=6)


__all__ = ["UUID", "uuid6"]
