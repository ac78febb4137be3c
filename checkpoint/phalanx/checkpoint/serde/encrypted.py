"""A serializer whose bytes only holders of a key can read or make.

Wraps any serializer. What the other one gives, its tag and its bytes, is encrypted together, so that a tag moved to
other bytes is found out; the tag also stands beside the ciphertext, with the cipher's name behind it:
``"msgpack+aes-gcm"``. :meth:`EncryptedSerializer.dumps`, for bytes without a tag, puts the name into the bytes.

Data that is not encrypted is refused, unless it is allowed for the time of a move: otherwise who can write to the store
could have plain data read, and a key would protect nothing but secrecy.
"""

import os
from collections.abc import Mapping
from typing import Final

from phalanx.checkpoint.serde.aes_gcm import AesGcmCipher
from phalanx.checkpoint.serde.base import CipherProtocol, SerializerProtocol
from phalanx.checkpoint.serde.serializer import Serializer
from phalanx.checkpoint.serde.wrapping import COMPRESSED_TAG, ENCRYPTED
from phalanx.errors import CorruptDataError, SerializationError

_ENVIRONMENT: Final = ("PHALANX_AES_KEY", "LANGGRAPH_AES_KEY")
_MAX_NAME_BYTES: Final = 255
_MAX_OVERHEAD_BYTES: Final = 4096


class EncryptedSerializer(Serializer):
    """Encrypts what another serializer gives. It can be used wherever a :class:`Serializer` can.

    Args:
        cipher: encrypts and authenticates; :meth:`aes_gcm` brings one.
        serde: the serializer inside; a :class:`Serializer` unless given. Compression belongs into it.
        accept_plaintext: also read data that is not encrypted. For moving a store to encryption, and only for that:
            it lets whoever can write to the store choose what is read.

    Example:
        >>> serializer = EncryptedSerializer.aes_gcm({"2025": secret})
        >>> serializer.loads(serializer.dumps({"answer": 42}))
        {'answer': 42}
    """

    def __init__(
        self, cipher: CipherProtocol, serde: SerializerProtocol | None = None, *, accept_plaintext: bool = False
    ) -> None:
        inner = Serializer() if serde is None else serde
        if isinstance(inner, Serializer):
            super().__init__(inner.registry, max_bytes=inner.max_bytes, max_depth=inner.max_depth)
        else:
            super().__init__()
        self.cipher: Final = cipher
        self.serde: Final = inner
        self.accept_plaintext: Final = accept_plaintext

    @classmethod
    def aes_gcm(
        cls,
        keys: Mapping[str, bytes],
        *,
        serde: SerializerProtocol | None = None,
        current: str | None = None,
        deterministic: bool = False,
        accept_plaintext: bool = False,
    ) -> "EncryptedSerializer":
        """One that encrypts with AES-GCM (``pip install 'phalanx[crypto]'``).

        Args:
            keys: by id, 16, 24 or 32 random bytes each. To rotate, add a key at the end: it encrypts from then on, and
                the others still decrypt.
            serde: the serializer inside.
            current: the id of the key that encrypts, if it is not the last. So a new key can be given to every process
                before the first one uses it.
            deterministic: give equal large values equal bytes, so that a store by content keeps them once. Reveals
                which stored values are equal; see :mod:`phalanx.checkpoint.serde.aes_gcm`.
            accept_plaintext: also read data that is not encrypted.

        Raises:
            ValueError: a key's length or id is not allowed.
            MissingLibraryError: ``cryptography`` is not installed.
        """
        cipher = AesGcmCipher(keys, current=current, deterministic=deterministic)
        return cls(cipher, serde, accept_plaintext=accept_plaintext)

    @classmethod
    def from_pycryptodome_aes(
        cls, serde: SerializerProtocol | None = None, *, key: bytes | None = None, **options: object
    ) -> "EncryptedSerializer":
        """The name LangGraph has for an AES serializer. The cipher is ours, AES-GCM, and not pycryptodome's EAX mode:
        data that LangGraph encrypted cannot be read.

        Args:
            serde: the serializer inside.
            key: 16, 24 or 32 bytes; the text in ``PHALANX_AES_KEY`` or ``LANGGRAPH_AES_KEY`` unless given. Its id is
                ``default``, by which :meth:`aes_gcm` takes it over when it is time for another key.
            options: none; pycryptodome's, such as ``mode``, have no meaning here.

        Raises:
            TypeError: an option was given.
            ValueError: there is no key, or its length is not allowed.
        """
        if options:
            raise TypeError(f"AES-GCM takes no {', '.join(sorted(options))}: only key and serde have a meaning here")
        secret = key
        for name in _ENVIRONMENT:
            if secret is None and name in os.environ:
                secret = os.environ[name].encode()
        if secret is None:
            raise ValueError(f"pass key=..., or set {' or '.join(_ENVIRONMENT)}")
        return cls.aes_gcm({"default": secret}, serde=serde)

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        """``obj`` as the inner serializer's tag with the cipher's name behind it, and ciphertext."""
        tag, name, ciphertext = self._encrypt(obj)
        return f"{tag}+{name}", ciphertext

    def loads_typed(self, data: tuple[str, bytes]) -> object:
        """The value of what :meth:`dumps_typed` gave.

        Raises:
            CorruptDataError: the bytes or the tag were changed, the key is another one, or nothing was encrypted.
            UnknownTypeError: see :meth:`Serializer.loads`.
        """
        tag, ciphertext = data
        inner_tag, plus, name = tag.rpartition("+")
        if not plus or tag == COMPRESSED_TAG:
            if self.accept_plaintext:
                return self.serde.loads_typed(data)
            raise CorruptDataError(
                f"stored data has the tag {tag!r}, so it is not encrypted; "
                f"EncryptedSerializer(..., accept_plaintext=True) reads it"
            )
        found = self._decrypt(name, ciphertext)
        if found[0] != inner_tag:
            raise CorruptDataError(f"stored data was encrypted as {found[0]!r}, and its tag now says {inner_tag!r}")
        return self.serde.loads_typed(found)

    def dumps(self, value: object) -> bytes:
        """``value`` as bytes that say what they are.

        Raises:
            UnserializableError: see :meth:`Serializer.dumps`.
        """
        _, name, ciphertext = self._encrypt(value)
        return ENCRYPTED + _framed(name) + ciphertext

    def loads(self, data: bytes) -> object:
        """The value of what :meth:`dumps` gave; see :meth:`loads_typed` for the errors."""
        if data[:2] != ENCRYPTED:
            if self.accept_plaintext and isinstance(self.serde, Serializer):
                return self.serde.loads(data)
            raise CorruptDataError(
                "stored data is not encrypted; EncryptedSerializer(..., accept_plaintext=True) reads it"
            )
        name, ciphertext = _unframed(data[2:])
        return self.serde.loads_typed(self._decrypt(name, ciphertext))

    def _encrypt(self, value: object) -> tuple[str, str, bytes]:
        tag, packed = self.serde.dumps_typed(value)
        name, ciphertext = self.cipher.encrypt(_framed(tag) + packed)
        if "+" in name:
            raise ValueError(f"a cipher's name may hold no '+', which separates it from the tag: {name!r}")
        return tag, name, ciphertext

    def _decrypt(self, name: str, ciphertext: bytes) -> tuple[str, bytes]:
        if len(ciphertext) > self.max_bytes + _MAX_OVERHEAD_BYTES:
            raise CorruptDataError(f"stored data takes {len(ciphertext)} bytes, and the limit is {self.max_bytes}")
        try:
            return _unframed(self.cipher.decrypt(name, ciphertext))
        except SerializationError:
            raise
        except Exception as error:
            raise CorruptDataError(f"stored data cannot be decrypted: {type(error).__name__}: {error}") from error


def _framed(name: str) -> bytes:
    encoded = name.encode()
    if len(encoded) > _MAX_NAME_BYTES:
        raise ValueError(f"the name of an encoding or cipher may take {_MAX_NAME_BYTES} bytes, and {name!r} takes more")
    return bytes((len(encoded),)) + encoded


def _unframed(data: bytes) -> tuple[str, bytes]:
    end = 1 + data[0] if data else 1
    if len(data) < end:
        raise CorruptDataError("encrypted data is truncated")
    return data[1:end].decode("utf-8", "replace"), data[end:]
