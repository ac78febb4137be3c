"""Large values can be stored compressed, and what claims to be large is not believed."""

import sys
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from phalanx.checkpoint.serde import MissingLibraryError, Serializer
from phalanx.checkpoint.serde.wrapping import COMPRESSED
from phalanx.errors import CorruptDataError, SerializationError, UnknownTypeError, UnserializableError

plain = Serializer()
serializer = Serializer(compress_above=100)

LONG = {"text": "over and over " * 1000}


Read = Callable[[], object]


def frame_of(data: bytes, *, content_size: bool = True) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=content_size).compress(data)


def test_a_large_value_is_stored_in_fewer_bytes_and_every_serializer_reads_it() -> None:
    data = serializer.dumps(LONG)

    assert data.startswith(COMPRESSED)
    assert len(data) < len(plain.dumps(LONG)) / 10
    assert serializer.loads(data) == plain.loads(data) == LONG


def test_the_typed_form_says_that_it_is_compressed() -> None:
    tag, frame = serializer.dumps_typed(LONG)

    assert tag == "msgpack+zstd"
    assert not frame.startswith(COMPRESSED)
    assert serializer.loads_typed((tag, frame)) == plain.loads_typed((tag, frame)) == LONG


def test_a_serializer_that_compresses_reads_what_is_not_compressed() -> None:
    assert serializer.loads(plain.dumps(LONG)) == LONG
    assert serializer.loads_typed(plain.dumps_typed(LONG)) == LONG
    assert serializer.loads_typed(plain.dumps_typed(b"x" * 1000)) == b"x" * 1000


@pytest.mark.parametrize("value", [None, 1, "short", b"short", "x" * 98])
def test_small_values_stay_as_they_are(value: object) -> None:
    assert serializer.dumps(value) == plain.dumps(value)
    assert serializer.dumps_typed(value) == plain.dumps_typed(value)


def test_what_gets_no_smaller_stays_as_it_is() -> None:
    noise = bytes(range(256))

    assert serializer.dumps(noise) == plain.dumps(noise)
    assert serializer.dumps_typed(noise)[0] == "msgpack"
    assert serializer.loads_typed(serializer.dumps_typed(noise)) == noise


def test_large_bytes_are_compressed_too() -> None:
    tag, frame = serializer.dumps_typed(b"x" * 10_000)

    assert (tag, len(frame) < 100) == ("msgpack+zstd", True)
    assert serializer.loads_typed((tag, frame)) == b"x" * 10_000
    assert Serializer(compress_above=0).dumps_typed(b"")[0] == "bytes"


def test_equal_values_give_equal_bytes() -> None:
    assert serializer.dumps(LONG) == Serializer(compress_above=7).dumps(dict(LONG))


def test_nothing_is_compressed_unless_asked_for() -> None:
    assert not plain.dumps(LONG).startswith(COMPRESSED)
    assert plain.dumps_typed(LONG)[0] == "msgpack"


plain_values: st.SearchStrategy[object] = st.one_of(st.none(), st.text(), st.binary())


@given(st.recursive(plain_values, lambda inner: st.lists(inner, max_size=4).map(tuple), max_leaves=8))
def test_any_value_comes_back(value: object) -> None:
    eager = Serializer(compress_above=0)

    assert plain.loads(eager.dumps(value)) == value
    assert plain.loads_typed(eager.dumps_typed(value)) == value


@given(st.binary(max_size=100))
def test_random_frames_are_a_value_or_a_typed_error(data: bytes) -> None:
    reads: list[Read] = [lambda: plain.loads(COMPRESSED + data), lambda: plain.loads_typed(("msgpack+zstd", data))]
    for read in reads:
        with pytest.raises(SerializationError):
            read()


@given(st.data())
def test_a_changed_or_missing_byte_is_found(data: st.DataObject) -> None:
    good = serializer.dumps(LONG)
    position = data.draw(st.integers(2, len(good) - 1))
    changed = bytearray(good)
    changed[position] ^= data.draw(st.integers(1, 255))

    for bad in (good[:position], good + b"\0"):
        with pytest.raises(CorruptDataError):
            plain.loads(bad)
    # A bit of the frame's header may mean nothing here.
    with suppress(CorruptDataError):
        assert plain.loads(bytes(changed)) == LONG


# --- bombs -----------------------------------------------------------------------------------------------------------

ZEROS = plain.dumps(b"\0" * 200_000_000)


def bombs() -> dict[str, bytes]:
    claim = zstandard.ZstdCompressor(write_content_size=True).compress(b"x")
    # A frame header with a content size of 4 bytes, of a claim of 200 MB, and one raw block of one byte.
    lie = claim[:4] + b"\xa0" + (200_000_000).to_bytes(4, "little") + b"\x09\x00\x00x"
    return {
        "zeros": frame_of(ZEROS),
        "zeros of no given length": frame_of(ZEROS, content_size=False),
        "a claim": lie,
    }


@pytest.mark.parametrize(("kind", "frame"), bombs().items(), ids=lambda part: part if isinstance(part, str) else "")
def test_a_small_message_does_not_become_a_large_one(kind: str, frame: bytes) -> None:
    bounded = Serializer(max_bytes=1_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(CorruptDataError):
            bounded.loads(COMPRESSED + frame)
        with pytest.raises(CorruptDataError):
            bounded.loads_typed(("msgpack+zstd", frame))
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_claim_that_cannot_be_true_is_not_believed_within_the_limit() -> None:
    with pytest.raises(CorruptDataError, match="13 bytes of stored data claim to be 200000000"):
        plain.loads(COMPRESSED + bombs()["a claim"])


def test_a_compressed_value_is_not_decompressed_twice() -> None:
    with pytest.raises(CorruptDataError):
        plain.loads(COMPRESSED + frame_of(serializer.dumps(LONG)))
    with pytest.raises(CorruptDataError):
        plain.loads_typed(("msgpack", serializer.dumps(LONG)))


def test_the_limit_is_about_what_is_inside() -> None:
    with pytest.raises(UnserializableError, match="the limit is 1000"):
        Serializer(max_bytes=1000, compress_above=10).dumps("x" * 10_000)


def test_deep_values_stay_refused() -> None:
    with pytest.raises(CorruptDataError, match="deeper"):
        plain.loads(COMPRESSED + frame_of(b"\x91" * 1000 + b"\xc0"))


# --- settings --------------------------------------------------------------------------------------------------------


def test_a_limit_without_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="compress_above must be at least 0"):
        Serializer(compress_above=-1)


def test_an_unknown_compression_is_an_unknown_encoding() -> None:
    with pytest.raises(UnknownTypeError, match=r"encoding msgpack\+gzip"):
        plain.loads_typed(("msgpack+gzip", b""))


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    data = serializer.dumps(LONG)
    monkeypatch.setitem(sys.modules, "zstandard", None)

    with pytest.raises(MissingLibraryError, match=r"pip install 'phalanx\[zstd\]'"):
        Serializer(compress_above=10)
    with pytest.raises(MissingLibraryError, match=r"reading compressed data needs zstandard"):
        plain.loads(data)
    assert plain.loads(plain.dumps(LONG)) == LONG
