"""Encrypted values can be read with the right key only, and every change to them is found."""

import os
import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phalanx.checkpoint.packing import Packer
from phalanx.checkpoint.serde import MissingLibraryError, Serializer, SerializerProtocol, TypeRegistry
from phalanx.checkpoint.serde.aes_gcm import DETERMINISTIC_MIN_BYTES, AesGcmCipher
from phalanx.checkpoint.serde.base import SerializerCompat
from phalanx.checkpoint.serde.encrypted import EncryptedSerializer
from phalanx.errors import CorruptDataError, UnknownTypeError, UnserializableError

OLD, NEW = bytes(range(16)), bytes(range(32))
LARGE = {"text": "secret " * 1000}


@dataclass
class Invoice:
    number: int


def make(*, deterministic: bool = False, accept_plaintext: bool = False) -> EncryptedSerializer:
    keys = {"2024": OLD, "2025": NEW}
    return EncryptedSerializer.aes_gcm(keys, deterministic=deterministic, accept_plaintext=accept_plaintext)


serializer = make()
deterministic = make(deterministic=True)


@pytest.mark.parametrize("value", [None, b"bytes", "text", (1, {2}), LARGE])
@pytest.mark.parametrize("using", [serializer, deterministic])
def test_a_value_comes_back_and_cannot_be_seen_in_its_bytes(value: object, using: EncryptedSerializer) -> None:
    tag, ciphertext = using.dumps_typed(value)
    data = using.dumps(value)

    assert using.loads_typed((tag, ciphertext)) == value
    assert using.loads(data) == value
    assert type(using.loads(data)) is type(value)
    assert b"secret" not in ciphertext + data


def test_the_tag_says_what_is_inside_and_which_cipher() -> None:
    compressing = EncryptedSerializer.aes_gcm({"k": NEW}, serde=Serializer(compress_above=100))
    values: list[object] = [None, b"x", 1]

    assert [serializer.dumps_typed(value)[0] for value in values] == [
        "null+aes-gcm",
        "bytes+aes-gcm",
        "msgpack+aes-gcm",
    ]
    assert compressing.dumps_typed(LARGE)[0] == "msgpack+zstd+aes-gcm"
    assert compressing.loads_typed(compressing.dumps_typed(LARGE)) == LARGE
    assert len(compressing.dumps(LARGE)) < 500
    assert compressing.loads(compressing.dumps(LARGE)) == LARGE


def test_it_stands_in_for_a_serializer() -> None:
    registry = TypeRegistry()
    registry.register(Invoice)
    inner = Serializer(registry, max_bytes=10_000, max_depth=9)
    wrapped = EncryptedSerializer.aes_gcm({"k": NEW}, serde=inner)

    assert isinstance(wrapped, Serializer)
    assert isinstance(wrapped, SerializerProtocol)
    assert (wrapped.registry, wrapped.max_bytes, wrapped.max_depth) == (registry, 10_000, 9)
    assert wrapped.loads(wrapped.dumps(Invoice(1))) == Invoice(1)
    with pytest.raises(UnknownTypeError, match="Invoice"):
        EncryptedSerializer.aes_gcm({"k": NEW}).loads(wrapped.dumps(Invoice(1)))
    with pytest.raises(UnserializableError):
        wrapped.dumps(print)


# --- keys ------------------------------------------------------------------------------------------------------------


def test_the_newest_key_encrypts_and_all_decrypt() -> None:
    before = EncryptedSerializer.aes_gcm({"2024": OLD})
    after = EncryptedSerializer.aes_gcm({"2025": NEW})

    assert serializer.loads(before.dumps(1)) == 1
    assert after.loads(serializer.dumps(1)) == 1
    with pytest.raises(CorruptDataError, match="the key '2025', and only these are here: 2024"):
        before.loads(serializer.dumps(1))


def test_a_new_key_can_be_known_before_it_is_used() -> None:
    prepared = EncryptedSerializer.aes_gcm({"2024": OLD, "2025": NEW}, current="2024")

    assert EncryptedSerializer.aes_gcm({"2024": OLD}).loads(prepared.dumps(1)) == 1


def test_another_key_of_the_same_name_does_not_decrypt() -> None:
    other = EncryptedSerializer.aes_gcm({"2025": bytes(32)})

    for large in (1, LARGE):
        for read in (serializer, deterministic):
            with pytest.raises(CorruptDataError, match="does not fit the key '2025'"):
                other.loads(read.dumps(large))
            with pytest.raises(CorruptDataError, match="does not fit the key '2025'"):
                other.loads_typed(read.dumps_typed(large))


@pytest.mark.parametrize(
    ("keys", "current", "match"),
    [
        ({}, None, "at least one key"),
        ({"k": b"short"}, None, "16, 24 or 32 bytes, and has 5"),
        ({"no spaces": NEW}, None, "a key's id"),
        ({"": NEW}, None, "a key's id"),
        ({"x" * 65: NEW}, None, "a key's id"),
        ({"k": NEW}, "other", "current names the key 'other'"),
    ],
)
def test_keys_without_sense_are_refused(keys: dict[str, bytes], current: str | None, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        EncryptedSerializer.aes_gcm(keys, current=current)


def test_keys_are_not_shown() -> None:
    assert repr(AesGcmCipher({"a": OLD, "b": NEW})) == "AesGcmCipher(keys=['a', 'b'], current='b')"


@pytest.mark.parametrize("size", [16, 24, 32])
def test_keys_of_each_size_work(size: int) -> None:
    made = EncryptedSerializer.aes_gcm({"k": bytes(size)})

    assert made.loads(made.dumps(1)) == 1


# --- what changed ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("using", [serializer, deterministic])
@given(st.data())
def test_a_flipped_bit_or_a_cut_is_found_wherever_it_is(using: EncryptedSerializer, data: st.DataObject) -> None:
    untagged, (tag, tagged) = using.dumps("x" * 2000), using.dumps_typed("x" * 2000)
    position, bit = data.draw(st.integers(0, len(tagged) - 1)), 1 << data.draw(st.integers(0, 7))

    def read_tagged(bad: bytes) -> object:
        return using.loads_typed((tag, bad))

    for good, read in ((untagged, using.loads), (tagged, read_tagged)):
        flipped = good[:position] + bytes((good[position] ^ bit,)) + good[position + 1 :]
        for bad in (flipped, good[:position], good + b"\0", good[position + 1 :]):
            with pytest.raises(CorruptDataError):
                read(bad)


@given(st.binary(max_size=200))
def test_random_bytes_are_corrupt_data(data: bytes) -> None:
    for bad in (data, b"\xc1E" + data, b"\xc1E\x07aes-gcm" + data, b"\xc1E\x07aes-gcm\x01\x042025" + data):
        with pytest.raises(CorruptDataError):
            serializer.loads(bad)


def test_a_tag_moved_to_other_bytes_is_found() -> None:
    _, ciphertext = serializer.dumps_typed([1])

    for tag in ("bytes+aes-gcm", "null+aes-gcm", "msgpack+zstd+aes-gcm", "+aes-gcm"):
        with pytest.raises(CorruptDataError, match="was encrypted as 'msgpack'"):
            serializer.loads_typed((tag, ciphertext))


@pytest.mark.parametrize("tag", ["msgpack+aes", "msgpack+zstd", "msgpack", "bytes", "null", "", "pickle"])
def test_another_cipher_or_none_is_refused(tag: str) -> None:
    with pytest.raises(CorruptDataError):
        serializer.loads_typed((tag, Serializer().dumps(1)))


def test_plain_data_is_refused_unless_it_is_allowed_for_a_move() -> None:
    plain, moving = Serializer(compress_above=100), make(accept_plaintext=True)

    for value in (1, LARGE, None, b"x"):
        with pytest.raises(CorruptDataError, match="accept_plaintext"):
            serializer.loads(plain.dumps(value))
        with pytest.raises(CorruptDataError, match="accept_plaintext"):
            serializer.loads_typed(plain.dumps_typed(value))
        assert moving.loads(plain.dumps(value)) == value
        assert moving.loads_typed(plain.dumps_typed(value)) == value
        assert moving.loads(serializer.dumps(value)) == value
        assert moving.loads_typed(serializer.dumps_typed(value)) == value


def test_a_size_beyond_the_limit_is_not_decrypted() -> None:
    small = EncryptedSerializer.aes_gcm({"2025": NEW}, serde=Serializer(max_bytes=1000))

    with pytest.raises(CorruptDataError, match="the limit is 1000"):
        small.loads(serializer.dumps(LARGE))
    with pytest.raises(UnserializableError, match="the limit is 1000"):
        small.dumps(LARGE)


def test_an_unencrypted_reader_says_that_it_cannot() -> None:
    with pytest.raises(CorruptDataError, match="stored data is encrypted"):
        Serializer().loads(serializer.dumps(1))
    with pytest.raises(UnknownTypeError, match=r"encoding msgpack\+aes-gcm"):
        Serializer().loads_typed(serializer.dumps_typed(1))


# --- equal values ----------------------------------------------------------------------------------------------------


def test_equal_values_differ_unless_they_shall_be_stored_once() -> None:
    assert serializer.dumps(LARGE) != serializer.dumps(LARGE)
    assert deterministic.dumps(LARGE) == deterministic.dumps(LARGE)
    assert deterministic.dumps(LARGE) != deterministic.dumps({**LARGE, "more": 1})
    assert serializer.loads(deterministic.dumps(LARGE)) == LARGE


def test_equal_values_are_one_blob() -> None:
    packer = Packer(deterministic)
    refs = {packer.ref({"text": "x" * 2048}) for _ in range(3)}

    assert len(refs) == len(packer.take_blobs()) == 1


def test_every_value_that_becomes_a_blob_has_a_seed_of_its_own_bytes() -> None:
    for size in range(1900, 2100, 10):
        data = [deterministic.dumps(b"x" * size) for _ in range(2)]
        assert len(data[0]) < 2048 or data[0] == data[1]


def test_short_values_never_show_that_they_are_equal() -> None:
    assert deterministic.dumps(True) != deterministic.dumps(True)
    assert DETERMINISTIC_MIN_BYTES > 1000


def test_a_seed_does_not_depend_on_another_key() -> None:
    other = EncryptedSerializer.aes_gcm({"2025": bytes(32)}, deterministic=True)

    assert len(other.dumps(LARGE)) == len(deterministic.dumps(LARGE))
    assert other.dumps(LARGE)[16:44] != deterministic.dumps(LARGE)[16:44]


# --- other ciphers and serializers -----------------------------------------------------------------------------------


class Rot:
    """A cipher of the test's own, of the form people bring along."""

    def __init__(self, name: str = "rot", fails: type[Exception] | None = None) -> None:
        self.name = name
        self.fails = fails

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return self.name, plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        if self.fails:
            raise self.fails("no")
        assert ciphername == self.name
        return ciphertext[::-1]


class Lines:
    """An untyped serializer."""

    def dumps(self, obj: object) -> bytes:
        return repr(obj).encode()

    def loads(self, data: bytes) -> object:
        return data.decode()


def test_any_cipher_will_do() -> None:
    made = EncryptedSerializer(Rot())

    assert made.dumps_typed([1])[0] == "msgpack+rot"
    assert made.loads_typed(made.dumps_typed([1])) == [1]
    assert made.loads(made.dumps([1])) == [1]


@pytest.mark.parametrize("error", [ValueError, KeyError, AssertionError])
def test_whatever_a_cipher_raises_is_corrupt_data(error: type[Exception]) -> None:
    data = EncryptedSerializer(Rot()).dumps(1)

    with pytest.raises(CorruptDataError, match=f"cannot be decrypted: {error.__name__}"):
        EncryptedSerializer(Rot(fails=error)).loads(data)


@pytest.mark.parametrize("name", ["a+b", "x" * 300])
def test_a_name_that_could_not_be_read_back_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        EncryptedSerializer(Rot(name)).dumps(1)


def test_any_serializer_can_be_inside() -> None:
    made = EncryptedSerializer(Rot(), SerializerCompat(Lines()))

    assert made.dumps_typed(7)[0] == "Lines+rot"
    assert made.loads_typed(made.dumps_typed(7)) == "7"
    assert made.loads(made.dumps(7)) == "7"


# --- for people who move over ----------------------------------------------------------------------------------------


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("PHALANX_AES_KEY", "LANGGRAPH_AES_KEY"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_the_name_of_the_other_library_takes_a_key(no_keys: pytest.MonkeyPatch) -> None:
    made = EncryptedSerializer.from_pycryptodome_aes(key=OLD)

    assert made.dumps_typed(1)[0] == "msgpack+aes-gcm"
    assert EncryptedSerializer.aes_gcm({"default": OLD, "2025": NEW}).loads(made.dumps(1)) == 1
    with pytest.raises(ValueError, match="PHALANX_AES_KEY"):
        EncryptedSerializer.from_pycryptodome_aes()
    with pytest.raises(TypeError, match="takes no mode"):
        EncryptedSerializer.from_pycryptodome_aes(key=OLD, mode=9)


@pytest.mark.parametrize("name", ["PHALANX_AES_KEY", "LANGGRAPH_AES_KEY"])
def test_a_key_can_come_from_the_environment(name: str, no_keys: pytest.MonkeyPatch) -> None:
    no_keys.setenv(name, "0123456789abcdef")
    made = EncryptedSerializer.from_pycryptodome_aes(Serializer())

    assert EncryptedSerializer.from_pycryptodome_aes(key=b"0123456789abcdef").loads(made.dumps(1)) == 1
    no_keys.setenv(name, "too short")
    with pytest.raises(ValueError, match="has 9"):
        EncryptedSerializer.from_pycryptodome_aes()


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith("cryptography.hazmat.primitives.ciphers")]:
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingLibraryError, match=r"pip install 'phalanx\[crypto\]'"):
        EncryptedSerializer.aes_gcm({"k": NEW})


def test_the_format_of_ciphertext_never_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fixed(size: int) -> bytes:
        return bytes(size)

    monkeypatch.setattr(os, "urandom", fixed)
    stored = (
        "c145076165732d67636d01043230323500000000000000000000000000000000000000000000"
        "0000000000004c6f0c1b8031b0045521d2e882103f1ef680079668aac05f10fe"
    )

    assert make().dumps([1]).hex() == stored
    assert serializer.loads(bytes.fromhex(stored)) == [1]
