"""numpy's arrays and scalars: a dtype, a shape, and the bytes of the items.

numpy is never imported to look whether a value is one of its: a value can only exist when somebody else has imported
it. Reading imports it when stored data holds an array.

Bytes that belong to no item, between the fields of a structure or behind a long double, are stored as zeros: they are
whatever was in memory before, so storing them would give equal arrays different bytes, and give away what was there.

The number of bytes must be exactly what shape and dtype ask for, so no array is larger than the data that holds it.
Items without width count as one byte each for the same reason. A truth value other than 0 and 1, or a character beyond
Unicode, would be undefined behaviour in C, so both are looked for, in both directions.

An array comes back contiguous, in C's order or Fortran's, writable, and owning its memory. Only ``numpy.ndarray``
itself travels: a subclass such as a masked array has more to it than its items.
"""

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from phalanx.checkpoint.serde.codecs import (
    NDARRAY,
    NUMPY_SCALAR,
    Codec,
    Shape,
    codec,
    items_of,
    malformed,
)
from phalanx.checkpoint.serde.dtypes import describe, dtype_of, is_string_dtype, mantissa_bits, shape_of
from phalanx.checkpoint.serde.libraries import needed_for
from phalanx.errors import CorruptDataError, UnserializableError

if TYPE_CHECKING:
    import numpy

    from phalanx.checkpoint.serde.dtypes import DType

    Order: TypeAlias = Literal["C", "F"]
    Array: TypeAlias = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.generic]]


def _reduce_array(value: "Array") -> list[object]:
    form = describe(value.dtype)
    order: Order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    if is_string_dtype(value.dtype):
        return [form, list(value.shape), order, cast("list[object]", value.ravel(order).tolist())]
    return [form, list(value.shape), order, _bytes_of(value, order)]


def _rebuild_array(payload: object) -> "Array":
    match items_of(payload, "numpy.ndarray"):
        case [form, shape, "C" | "F" as letter, data]:
            dtype = dtype_of(form)
            order: Order = "F" if letter == "F" else "C"
            if is_string_dtype(dtype):
                return _texts(dtype, shape_of(shape), order, items_of(data, "numpy.ndarray"))
            if type(data) is bytes:
                return _array(dtype, shape_of(shape), order, data)
        case _:
            pass
    raise malformed("numpy.ndarray")


def _texts(dtype: "DType", shape: tuple[int, ...], order: "Order", texts: list[object]) -> "Array":
    import numpy

    if len(texts) != math.prod(shape) or not all(type(text) is str for text in texts):
        raise malformed("numpy.ndarray")
    flat = cast("Array", numpy.array(texts, dtype=dtype))
    return flat.reshape(shape, order=order)


def _array(dtype: "DType", shape: tuple[int, ...], order: "Order", data: bytes) -> "Array":
    import numpy

    size = math.prod(shape)
    if dtype.subdtype is not None:
        raise malformed("dtype")
    if len(data) != size * (dtype.itemsize or 1):
        raise CorruptDataError(
            f"stored data holds {len(data)} bytes for an array of {size} items of {dtype.itemsize} bytes"
        )
    view = cast("Array", numpy.ndarray(shape, dtype, data, order=order))
    wrong = _outlaw(view)
    if wrong:
        raise CorruptDataError(f"stored data holds an array with {wrong}")
    # A copy owns its memory and can be written to, but numpy widens text of no width when it copies.
    if dtype.itemsize:
        return view.copy(order)
    return cast("Array", numpy.ndarray(shape, dtype, bytearray(data), order=order))


def _bytes_of(value: "Array", order: "Order") -> bytes:
    wrong = _outlaw(value)
    if wrong:
        raise UnserializableError(f"numpy.ndarray of dtype {value.dtype}", hint=f"it holds {wrong}")
    if value.dtype.itemsize == 0:
        return bytes(value.size)
    if value.dtype.names is not None or _padding(value.dtype):
        import numpy

        clean = numpy.zeros(value.shape, value.dtype, order=order)
        for target, source in zip(_leaves(clean), _leaves(value), strict=True):
            target[...] = _without_padding(source)
        value = clean
    return value.tobytes(order)


def _leaves(array: "Array") -> "Iterator[Array]":
    """Views of the array's fields, and of their fields, down to those that are no structures."""
    if array.dtype.names is None:
        yield array
    for name in array.dtype.names or ():
        field = cast("Callable[[str], Array]", array.__getitem__)  # its annotation knows structures only by their dtype
        yield from _leaves(field(name))


def _padding(dtype: "DType") -> slice | None:
    """The bytes of a number that say nothing: of the 16 of x86's long double, 6."""
    if dtype.char not in "gG" or mantissa_bits() != 63:
        return None
    width = dtype.itemsize // (2 if dtype.char == "G" else 1)
    return slice(10, width) if dtype.isnative else slice(0, width - 10)


def _without_padding(array: "Array") -> "Array":
    padding = _padding(array.dtype)
    if padding is None:
        return array
    import numpy

    clean = array.copy("C")
    width = array.dtype.itemsize // (2 if array.dtype.char == "G" else 1)
    clean.reshape(-1).view(numpy.uint8).reshape(-1, width)[:, padding] = 0
    return clean


def _outlaw(array: "Array") -> str | None:
    """What no item may be and one of these is."""
    import numpy

    for leaf in _leaves(array):
        kind, width = leaf.dtype.kind, leaf.dtype.itemsize
        if kind not in "bU" or not leaf.size or not width:
            continue
        whole = leaf if leaf.flags.c_contiguous else leaf.copy("C")
        flat = whole.reshape(-1)
        if kind == "b" and int(flat.view(numpy.uint8).max()) > 1:
            return "truth values other than 0 and 1"
        if kind == "U" and int(flat.view(leaf.dtype.str[0] + "u4").max()) > 0x10FFFF:
            return "characters beyond Unicode"
    return None


# --- scalars ---------------------------------------------------------------------------------------------------------


def _reduce_scalar(value: "numpy.generic") -> list[object]:
    import numpy

    # These two may end in NULs, which an array would drop, and numpy's own str() too.
    if type(value) is numpy.str_:
        return ["str", str.__str__(value)]
    if type(value) is numpy.bytes_:
        return ["bytes", bytes(value)]
    array = cast("Array", numpy.asarray(value))
    return [describe(array.dtype), _bytes_of(array, "C")]


def _rebuild_scalar(payload: object) -> "numpy.generic":
    with needed_for("a stored numpy number", "numpy"):
        import numpy
    match items_of(payload, "numpy.generic"):
        case ["str", str() as text]:
            return numpy.str_(text)
        case ["bytes", bytes() as data]:
            return numpy.bytes_(data)
        case [form, bytes() as data]:
            dtype = dtype_of(form)
            if dtype.kind in "SU" or is_string_dtype(dtype):
                raise malformed("numpy.generic")
            return cast("numpy.generic", _array(dtype, (), "C", data)[()])
        case _:
            raise malformed("numpy.generic")


_SCALARS: Final = (
    *("bool", "bool_", "int8", "int16", "int32", "int64", "longlong", "intc", "long"),
    *("uint8", "uint16", "uint32", "uint64", "ulonglong", "uintc", "ulong"),
    *("float16", "float32", "float64", "longdouble", "float128", "complex64", "complex128", "clongdouble"),
    *("complex256", "datetime64", "timedelta64", "str_", "bytes_", "void", "record"),
)
_SCALAR_CODEC: Final = codec(NUMPY_SCALAR, Shape.PARTS, _reduce_scalar, _rebuild_scalar)

ARRAYS: Final[dict[str, tuple[str, Codec]]] = {
    "ndarray": ("numpy", codec(NDARRAY, Shape.PARTS, _reduce_array, _rebuild_array)),
    **dict.fromkeys(_SCALARS, ("numpy", _SCALAR_CODEC)),
}
"""By class name, with the module whose attribute of that name is the class."""
