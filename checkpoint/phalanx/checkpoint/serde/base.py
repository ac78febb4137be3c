"""What savers, stores and caches ask of a serializer, and what an encrypting one asks of a cipher."""

from typing import Protocol, runtime_checkable


@runtime_checkable
class UntypedSerializerProtocol(Protocol):
    """A serializer of one encoding, such as ``json`` or ``marshal`` behind two methods."""

    def dumps(self, obj: object, /) -> bytes:
        """``obj`` as bytes."""
        ...

    def loads(self, data: bytes, /) -> object:
        """The value of what :meth:`dumps` gave."""
        ...


@runtime_checkable
class SerializerProtocol(Protocol):
    """What a checkpoint saver asks of a serializer."""

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        """``obj`` as a tag that names the encoding, and bytes."""
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> object:
        """The value of what :meth:`dumps_typed` gave."""
        ...


class CipherProtocol(Protocol):
    """What :class:`phalanx.checkpoint.serde.encrypted.EncryptedSerializer` asks of a cipher.

    It must authenticate: bytes that anybody changed must fail to decrypt.
    """

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The cipher's name and the ciphertext."""
        ...

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """The plaintext. Raises an error of any kind if the bytes are not what :meth:`encrypt` gave."""
        ...


class SerializerCompat(SerializerProtocol):
    """An untyped serializer as a typed one: its tag is the name of its class.

    Args:
        serde: the serializer.
    """

    def __init__(self, serde: UntypedSerializerProtocol) -> None:
        self.serde = serde

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        return type(self.serde).__name__, self.serde.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> object:
        return self.serde.loads(data[1])


def maybe_add_typed_methods(serde: SerializerProtocol | UntypedSerializerProtocol) -> SerializerProtocol:
    """``serde`` itself if it is typed, or wrapped so that it is."""
    return serde if isinstance(serde, SerializerProtocol) else SerializerCompat(serde)
