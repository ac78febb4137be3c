"""numpy's arrays and scalars come back bit by bit, and no array is larger than the bytes that hold it."""

import math
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import msgpack  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from phalanx.checkpoint.serde import MissingLibraryError, Serializer, codecs
from phalanx.checkpoint.serde.dtypes import describe, dtype_of
from phalanx.errors import CorruptDataError, SerializationError, UnserializableError

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"
DType: TypeAlias = "np.dtype[np.generic]"

pack = cast("Callable[[object], bytes]", vars(msgpack)["packb"])
ext = cast("Callable[[int, bytes], object]", vars(msgpack)["ExtType"])
make_dtype = cast("Callable[..., DType]", np.dtype)

serializer = Serializer()


def again(value: object) -> object:
    return serializer.loads(serializer.dumps(value))


def array_again(value: Array) -> Array:
    back = again(value)
    assert type(back) is np.ndarray
    return cast("Array", back)


def stored(form: object, shape: Sequence[int], data: bytes, order: str = "C") -> bytes:
    return pack(ext(codecs.NDARRAY, pack([form, list(shape), order, data])))


def assert_same(back: Array, value: Array) -> None:
    assert back.dtype == value.dtype
    assert (back.dtype.char, back.dtype.type, back.dtype.isalignedstruct) == (
        value.dtype.char,
        value.dtype.type,
        value.dtype.isalignedstruct,
    )
    assert back.shape == value.shape
    assert describe(back.dtype) == describe(value.dtype)
    assert back.flags.writeable
    assert serializer.dumps(back) == serializer.dumps(value)
    if value.dtype.names is None and value.dtype.char not in "gGT":
        assert back.tobytes() == value.tobytes()
    elif value.dtype.char == "T":
        assert back.tolist() == value.tolist()


DTYPES: list[object] = [
    *"?bBhHiIlLqQefdgFDGcSUV",
    *(">f8", ">i4", "<u2", ">c8", ">g", ">U3", "S5", "U5", "V7", "V0"),
    *("M8", "M8[s]", "M8[25us]", ">M8[D]", "m8", "m8[Y]", "M8[ns]"),
    [],
    [("a", "i1"), ("b", "f8")],
    [("a", "i1"), (("title", "b"), ">f8")],
    [("a", "i4", (2, 3)), ("b", [("c", "S3"), ("d", "?")])],
]
STRUCTURES: list[DType] = [
    make_dtype([("a", "i1"), ("b", "g", (2,)), ("c", "U2")], align=True),
    make_dtype({"names": ["a", "b"], "formats": ["i4", "i2"], "offsets": [0, 1], "itemsize": 16}),
    make_dtype((np.record, [("x", "<i4"), ("y", [("z", "S3")])])),
    make_dtype((np.void, 3)),
]
ALL_DTYPES = [*map(make_dtype, DTYPES), *STRUCTURES]


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (0, 4), (2, 0, 2), (1, 1, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_of_any_dtype_shape_and_order_comes_back(dtype: DType, shape: tuple[int, ...], order: str) -> None:
    make = cast("Callable[..., Array]", np.ones if dtype.kind in "biufc" else np.zeros)
    value = make(shape, dtype, order)
    back = array_again(value)

    assert_same(back, value)
    if dtype.itemsize:
        assert (back.flags.c_contiguous, back.flags.f_contiguous) == (
            value.flags.c_contiguous,
            value.flags.f_contiguous,
        )
        assert back.flags.owndata


arrays = hnp.arrays(
    st.one_of(hnp.scalar_dtypes(), hnp.array_dtypes(allow_subarrays=True)),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)


@settings(max_examples=300)
@given(cast("st.SearchStrategy[Array]", arrays))
def test_any_array_comes_back(value: Array) -> None:
    assert_same(array_again(value), value)


def test_items_that_do_not_lie_in_a_row_come_back() -> None:
    whole = np.arange(60).reshape(3, 4, 5)

    for value in (whole[::2, ::-1, 1::2], whole.transpose(1, 0, 2), whole.T, np.broadcast_to(np.arange(3), (4, 3))):
        assert np.array_equal(array_again(value), value)
        assert array_again(value).flags.writeable


def test_special_numbers_keep_their_bits() -> None:
    value = np.array([0x7FF8000000001234, 0x8000000000000000, 0x7FF0000000000000], "u8").view("f8")

    assert array_again(value).tobytes() == value.tobytes()


def test_text_of_no_width_stays_so() -> None:
    for name in ("S0", "U0"):
        value = np.ndarray((2, 3), np.dtype(name))
        back = array_again(cast("Array", value))

        assert (back.dtype, back.shape) == (value.dtype, value.shape)


def test_text_of_any_length_comes_back() -> None:
    make = cast("Callable[..., DType]", vars(np.dtypes)["StringDType"])
    value = np.array([["a", "é" * 100], ["", "\0"]], make(coerce=False))
    back = array_again(cast("Array", value))

    assert back.tolist() == value.tolist()
    assert back.dtype == value.dtype
    assert array_again(cast("Array", np.array("x", make()))).shape == ()


def test_an_array_may_be_anywhere_in_a_value() -> None:
    back = cast("dict[str, list[Array]]", again({"k": [np.arange(3), (np.arange(2),)], "n": 1}))

    assert np.array_equal(back["k"][0], np.arange(3))


def test_memory_between_the_items_does_not_reach_the_store() -> None:
    dtype = make_dtype([("a", "i1"), ("b", "f8")], align=True)
    clean, dirty = np.zeros(3, dtype), np.frombuffer(b"\xaa" * 48, dtype).copy()
    field = cast("Callable[[str], Array]", dirty.__getitem__)
    field("a")[...], field("b")[...] = np.int8(0), np.float64(0)

    assert serializer.dumps(clean) == serializer.dumps(dirty)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="x86's long double")
@pytest.mark.parametrize("name", ["<g", ">g", "<G", ">G"])
def test_memory_behind_a_long_double_does_not_reach_the_store(name: str) -> None:
    value = np.array([1, 2], name)
    dirty = value.copy()
    padded = dirty.view(np.uint8).reshape(-1, 16)
    padded[:, slice(10, 16) if name[0] == "<" else slice(0, 6)] = 0xAA

    assert serializer.dumps(value) == serializer.dumps(dirty)
    assert np.array_equal(array_again(cast("Array", dirty)), value)


# --- scalars ---------------------------------------------------------------------------------------------------------

SCALARS: list[np.generic] = [
    *(np.bool_(True), np.int8(-1), np.uint64(2**64 - 1), np.longlong(5), np.ulonglong(5), np.intc(1)),
    *(np.float16(1.5), np.float32("-0.0"), np.float64(math.pi), np.longdouble("0.1"), np.complex64(1 - 2j)),
    *(np.complex128(complex(math.inf, -0.0)), np.clongdouble(1j), np.datetime64("2024-02-29T01:02:03.004", "ms")),
    *(np.datetime64("NaT"), np.datetime64(7, ("us", 25)), np.timedelta64(-3, "D"), np.timedelta64(4)),
    *(np.str_("é\ud800"), np.str_("ends in\0"), np.bytes_(b"\0"), np.void(b"abc")),
    cast("np.generic", np.zeros(1, [("a", "i4"), ("b", "S2")])[0]),
    cast("np.generic", np.zeros(1, make_dtype((np.record, [("a", "i4")])))[0]),
]


@pytest.mark.parametrize("value", SCALARS, ids=lambda value: type(value).__name__)
def test_a_scalar_comes_back(value: np.generic) -> None:
    back = again({"k": (value,)})
    held = cast("dict[str, tuple[np.generic]]", back)["k"][0]

    assert type(held) is type(value)
    assert held.dtype == value.dtype
    assert held.tobytes() == value.tobytes() or held == value


def test_not_a_number_is_a_scalar_with_its_bits() -> None:
    value = np.array([0x7FF8000000001234], "u8").view("f8")[0]

    assert cast("np.generic", again(value)).tobytes() == value.tobytes()


def test_a_scalar_can_be_a_key() -> None:
    assert again({np.int64(3): 1, np.str_("x"): 2}) == {3: 1, "x": 2}


# --- what is refused -------------------------------------------------------------------------------------------------

OBJECTS = np.empty(2, object)

REFUSED: list[tuple[object, str]] = [
    (OBJECTS, "Python objects in an array"),
    (np.zeros(1, [("a", "O")]), "Python objects in an array"),
    (np.zeros(1, [("a", [("b", "O", (2,))])]), "Python objects in an array"),
    (np.ma.zeros(3), "only numpy.ndarray itself"),
    (np.zeros(2, make_dtype((np.record, [("a", "i4")]))).view(np.recarray), "only numpy.ndarray itself"),
    (np.zeros(1, make_dtype("f8", metadata={"a": 1})), "its metadata would be lost"),
    (np.zeros(1, [("a", make_dtype("f8", metadata={"a": 1}))]), "its metadata would be lost"),
    (np.array([2], "u1").view("?"), "truth values other than 0 and 1"),
    (np.array([0x110000], "u4").view("U1"), "characters beyond Unicode"),
    (np.zeros(1, cast("Callable[..., DType]", vars(np.dtypes)["StringDType"])(na_object=None)), "na_object"),
    (np.dtype("f8"), "store plain values"),
]


@pytest.mark.parametrize(("value", "hint"), REFUSED, ids=[hint for _, hint in REFUSED])
def test_what_cannot_come_back_exactly_is_refused(value: object, hint: str) -> None:
    with pytest.raises(UnserializableError, match=hint) as caught:
        serializer.dumps({"a": [value]})

    assert caught.value.path.startswith("['a'][0]")
    assert "numpy" in caught.value.type_name


HUGE = 2**62
BAD: list[tuple[object, object, object]] = [
    ("<f8", [1], b""),
    ("<f8", [1], b"1234567"),
    ("<f8", [1], b"123456789"),
    ("<f8", [25_000_000], b"12345678"),
    ("<f8", [HUGE], b""),
    ("<f8", [2**32, 2**32], b""),
    ("<f8", [HUGE, 0, HUGE, HUGE], b"x"),
    ("<f8", [1] * 100, b"12345678"),
    ("<f8", [-1], b""),
    ("<f8", [-1, -1], b"12345678"),
    ("<f8", [True], b"12345678"),
    ("<f8", [1.0], b"12345678"),
    ("<f8", [1], "12345678"),
    ("<f8", 1, b"12345678"),
    ("|S0", [HUGE], b""),
    (["struct", [], 0, False, False], [10**9], b""),
    ("|O", [1], b"12345678"),
    ("O", [1], b"12345678"),
    ("object", [1], b"12345678"),
    ("f8,O", [1], b"1" * 16),
    ("f8", [1], b"12345678"),
    ("|b1", [1], b"\x02"),
    ("<U1", [1], b"\xff\xff\xff\xff"),
    (">U1", [1], b"\x00\x11\x00\x00"),
    ("<M8[9999999999Y]", [1], b"12345678"),
    ("<f16", [1], b"1" * 16),
    (["long", "<f16", 112], [1], b"1" * 16),
    (["long", "|O", 63], [1], b"1" * 16),
    (["type", "|O", "O"], [1], b"12345678"),
    (["type", "<i8", "O"], [1], b"12345678"),
    (["array", "<f8", [2]], [1], b"1" * 16),
    (["array", "|O", [2]], [1], b"1" * 16),
    (["struct", [["a", None, 0, "|O"]], 8, False, False], [1], b"12345678"),
    (["struct", [["a", None, -8, "<f8"]], 8, False, False], [1], b"12345678"),
    (["struct", [["a", None, 8, "<f8"]], 8, False, False], [1], b"12345678"),
    (["struct", [["a", None, 0, "<f8"]] * 2, 8, False, False], [1], b"12345678"),
    (["struct", [["a", None, 0, "|b1"]], 1, False, False], [1], b"\x07"),
    (["struct", [["a", None, 0, "<f8"]], HUGE, False, False], [1], b"12345678"),
    (["struct", [["a", None, 0, ["array", "<f8", [2**31, 2**31]]]], 8, False, False], [1], b"12345678"),
    (["struct", [[1, None, 0, "<f8"]], 8, False, False], [1], b"12345678"),
    (["string", True], [2], ["a"]),
    (["string", True], [1], [1]),
    (["string", True], [HUGE], []),
    (["string", True], [1], b"x"),
    (["string", 1], [1], ["a"]),
    ([], [1], b"x"),
    (None, [1], b"x"),
]


@pytest.mark.parametrize(("form", "shape", "data"), BAD, ids=[f"{form}-{shape}"[:50] for form, shape, _ in BAD])
def test_a_malformed_array_is_corrupt_data(form: object, shape: object, data: object) -> None:
    with pytest.raises(CorruptDataError):
        serializer.loads(pack(ext(codecs.NDARRAY, pack([form, shape, "C", data]))))


@pytest.mark.parametrize(
    "payload", [[], ["<f8"], ["<f8", [1], "A", b"12345678"], ["<f8", [1], "C", b"12345678", 1], {}]
)
def test_a_malformed_payload_is_corrupt_data(payload: object) -> None:
    with pytest.raises(CorruptDataError):
        serializer.loads(pack(ext(codecs.NDARRAY, pack(payload))))


@pytest.mark.parametrize("payload", [["<f8", b"1"], ["|O", b"12345678"], ["str", b"x"], ["<U1", b"abcd"], ["x"], []])
def test_a_malformed_scalar_is_corrupt_data(payload: object) -> None:
    with pytest.raises(CorruptDataError):
        serializer.loads(pack(ext(codecs.NUMPY_SCALAR, pack(payload))))


def test_a_dtype_may_not_nest_without_end() -> None:
    form: object = "<f8"
    for _ in range(400):
        form = ["array", form, [1]]

    with pytest.raises(CorruptDataError, match="deeper than 256"):
        serializer.loads(stored(form, [1], b"12345678"))


def test_a_c_type_that_is_another_width_here_becomes_one_of_its_width() -> None:
    assert dtype_of(["type", "<i4", "q"]) == np.dtype("<i4")
    assert dtype_of(["type", ">i8", "q"]) == np.dtype(">i8")


forms = st.recursive(
    st.one_of(
        st.sampled_from(["<f8", "|O", "|S3", "<U2", "<M8[s]", "|V0", "|b1", "struct", "array", "long", "type", "q"]),
        st.none(),
        st.booleans(),
        st.integers(-4, 70),
    ),
    lambda inner: st.lists(inner, max_size=5),
    max_leaves=12,
)


@settings(max_examples=300)
@given(
    forms,
    st.lists(st.integers(-1, 5), max_size=4),
    st.sampled_from("CF"),
    st.one_of(st.binary(max_size=64), st.lists(st.text())),
)
def test_any_payload_is_an_array_or_a_typed_error(form: object, shape: object, order: str, data: object) -> None:
    try:
        back = serializer.loads(pack(ext(codecs.NDARRAY, pack([form, shape, order, data]))))
    except SerializationError:
        return
    assert isinstance(back, np.ndarray)
    dtype = cast("Array", back).dtype
    assert not dtype.hasobject or dtype.char == "T"


def test_without_the_library_the_error_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    data, number = serializer.dumps([np.arange(3)]), serializer.dumps(np.float64(1))
    monkeypatch.setitem(sys.modules, "numpy", None)

    for held in (data, number):
        with pytest.raises(MissingLibraryError, match="needs numpy, which is not installed here") as caught:
            serializer.loads(held)
        assert caught.value.library == "numpy"
