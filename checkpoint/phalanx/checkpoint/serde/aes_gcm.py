"""AES-256-GCM with key rotation, and with nonces that cannot run out.

A ciphertext is ``version ‖ length of key id ‖ key id ‖ seed ‖ body``, and all before the body is authenticated with it.

**Why it is safe.** AES-GCM breaks when one key meets one nonce twice with different plaintexts: then their difference
shows and tags can be forged. With 12-byte nonces drawn at random that limits a key to about 2³² messages. So each
message gets a key of its own: a seed of 28 bytes is made, its first 16 bytes and the user's key give the message's key
(HMAC-SHA-256, a pseudorandom function), and its last 12 bytes are the nonce. Two messages can only meet under one key
and nonce if all 224 bits of their seeds agree, which after 2⁶⁴ messages has a chance of less than 2⁻⁹⁶. (The same idea
as XAES-256-GCM and AES-GCM-SIV's derived keys.)

**Two kinds of seed.** Usually a seed is random. A *deterministic* cipher makes the seed of a large message from the
message: 28 bytes of HMAC-SHA-256 under a key of its own over the plaintext (SIV, Rogaway and Shrimpton 2006). Equal
seeds then mean equal plaintexts, unless HMAC collides, so a key and nonce still never meet two plaintexts. Since the
seed is checked against the plaintext after decryption, a forger would have to break HMAC as well as GCM.

**What it reveals.** Always: the length of a value, its encoding (the tag beside it) and the id of its key.
Deterministic: in addition, which stored large values are equal, and thereby which of them did not change; nothing about
what they are. Whoever can have values of their choice stored can find out whether one of them is stored already. Short
messages have random seeds in any case: a yes or no would be told by its equals, and short values are not stored by
content anyway. Either way, bytes are not bound to a place: who can write to the store can put an old value, or another
thread's, where this one's was.
"""

import hmac
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from phalanx.checkpoint.serde.libraries import needed_for
from phalanx.errors import CorruptDataError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NAME: Final = "aes-gcm"

DETERMINISTIC_MIN_BYTES: Final = 1536
"""Plaintexts of fewer bytes get a random seed always. Savers store values by content from 2048 bytes on."""

_VERSION: Final = 1
_SALT_BYTES: Final = 16
_NONCE_BYTES: Final = 12
_SEED_BYTES: Final = _SALT_BYTES + _NONCE_BYTES
_TAG_BYTES: Final = 16
_KEY_ID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)


class _Key(NamedTuple):
    """What is derived from one of the user's keys, so that no two uses share a key."""

    random: bytes
    synthetic: bytes
    seeds: bytes


def _derive(secret: bytes, purpose: bytes) -> bytes:
    return hmac.digest(secret, b"phalanx aes-gcm v1 " + purpose, "sha256")


class AesGcmCipher:
    """Encrypts with one of several keys, and decrypts with each.

    Args:
        keys: by id, 16, 24 or 32 bytes each; from a random generator, not from a password. Ids are stored in the clear.
        current: the id of the key that encrypts; the last one of ``keys`` unless given.
        deterministic: give equal large values equal bytes, so that what is stored by content is stored once; the
            module's head says what that reveals.

    Raises:
        ValueError: a key's length or id is not allowed, or there is no key.
        MissingLibraryError: ``cryptography`` is not installed.
    """

    def __init__(self, keys: Mapping[str, bytes], *, current: str | None = None, deterministic: bool = False) -> None:
        with needed_for("encryption with AES-GCM", "cryptography"):
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        if not keys:
            raise ValueError("keys must hold at least one key")
        for key_id, key in keys.items():
            if _KEY_ID.fullmatch(key_id) is None:
                raise ValueError(f"a key's id is 1 to 64 letters, digits, dots, colons and dashes, not {key_id!r}")
            if len(key) not in (16, 24, 32):
                raise ValueError(f"key {key_id!r} must have 16, 24 or 32 bytes, and has {len(key)}")
        self.current: Final = list(keys)[-1] if current is None else current
        if self.current not in keys:
            raise ValueError(f"current names the key {current!r}, and keys has only: {', '.join(keys)}")
        self.deterministic: Final = deterministic
        self._aes = AESGCM
        self._keys: Final = {
            key_id: _Key(_derive(key, b"random"), _derive(key, b"synthetic"), _derive(key, b"seeds"))
            for key_id, key in keys.items()
        }

    def __repr__(self) -> str:
        return f"AesGcmCipher(keys={sorted(self._keys)}, current={self.current!r})"

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The cipher's name, ``"aes-gcm"``, and the ciphertext."""
        key = self._keys[self.current]
        synthetic = self.deterministic and len(plaintext) >= DETERMINISTIC_MIN_BYTES
        seed = self._seed(key, plaintext) if synthetic else os.urandom(_SEED_BYTES)
        key_id = self.current.encode("ascii")
        head = bytes((_VERSION, len(key_id) | (0x80 if synthetic else 0))) + key_id + seed
        return NAME, head + self._cipher(key, seed, synthetic).encrypt(seed[_SALT_BYTES:], plaintext, head)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """The plaintext.

        Raises:
            CorruptDataError: the bytes were changed or cut, are of another cipher or version, or need a key that is not
                among ours.
        """
        from cryptography.exceptions import InvalidTag

        if ciphername != NAME:
            raise CorruptDataError(f"stored data is encrypted with {ciphername!r}, and this cipher is {NAME!r}")
        if len(ciphertext) < 2 or ciphertext[0] != _VERSION:
            raise CorruptDataError(f"stored data is not encrypted with version {_VERSION} of {NAME!r}")
        synthetic, end_of_id = bool(ciphertext[1] & 0x80), 2 + (ciphertext[1] & 0x7F)
        head, body = ciphertext[: end_of_id + _SEED_BYTES], ciphertext[end_of_id + _SEED_BYTES :]
        key_id, seed = head[2:end_of_id].decode("ascii", "replace"), head[end_of_id:]
        if len(body) < _TAG_BYTES:
            raise CorruptDataError("encrypted data is truncated")
        key = self._keys.get(key_id)
        if key is None:
            known = ", ".join(sorted(self._keys))
            raise CorruptDataError(
                f"stored data is encrypted with the key {key_id!r}, and only these are here: {known}"
            )
        try:
            plaintext = self._cipher(key, seed, synthetic).decrypt(seed[_SALT_BYTES:], body, head)
        except InvalidTag as error:
            raise CorruptDataError(
                f"encrypted data does not fit the key {key_id!r}: another key was used, or the bytes were changed"
            ) from error
        if synthetic and not hmac.compare_digest(seed, self._seed(key, plaintext)):
            raise CorruptDataError("encrypted data does not fit its seed")
        return plaintext

    @staticmethod
    def _seed(key: _Key, plaintext: bytes) -> bytes:
        return hmac.digest(key.seeds, plaintext, "sha256")[:_SEED_BYTES]

    def _cipher(self, key: _Key, seed: bytes, synthetic: bool) -> "AESGCM":
        secret = key.synthetic if synthetic else key.random
        return self._aes(_derive(secret, b"message " + seed[:_SALT_BYTES]))
