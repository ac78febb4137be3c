"""numpy's dtypes as plain data, exactly, or not at all.

======================================  ===============================================================================
``"<f8"``                               what numpy calls a dtype of fixed width, with byte order and unit
``["type", "<i8", "q"]``                one of several C types of this width; where there is no such one, just the width
``["long", "<f16", 63]``                a long double, and the bits of its mantissa: another machine's may be another
``["string", coerce]``                  ``numpy.dtypes.StringDType``
``["array", dtype, [length, …]]``       a field that is an array
``["struct", [[name, title, offset, dtype], …], bytes, aligned, record]``  a structure
======================================  ===============================================================================

What is built from such data is checked to be what the data says, so no text reaches numpy that could mean a Python
object. Python objects (``object``, also inside of a structure) are refused, and so are dtypes of other libraries, which
numpy itself would take for plain bytes.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from phalanx.checkpoint.serde.codecs import items_of, malformed
from phalanx.checkpoint.serde.libraries import needed_for
from phalanx.errors import CorruptDataError, UnserializableError

if TYPE_CHECKING:
    import numpy

    DType: TypeAlias = numpy.dtype[numpy.generic]

_SIMPLE: Final = re.compile(
    r"[<>|](?:[biufc][0-9]{1,2}|[SUV][0-9]{1,10}|[mM]8(?:\[[0-9]{0,10}(?:generic|[YMWDhms]|ms|us|ns|ps|fs|as)\])?)",
    re.ASCII,
)
_C_TYPES: Final = frozenset("?bhilqBHILQefdgFDGc")
_LONG_DOUBLES: Final = frozenset("gG")


def is_string_dtype(dtype: "DType") -> bool:
    """Whether ``dtype`` is numpy's own type for text of any length, whose items are no bytes in a row."""
    return dtype.char == "T" and type(dtype).__module__ == "numpy.dtypes"


def mantissa_bits() -> int:
    """How precise a long double is here: 63 on x86, 112 on most ARM machines, 52 where it is a double."""
    import numpy

    return int(numpy.finfo(numpy.longdouble).nmant)


def describe(dtype: "DType") -> object:
    """``dtype`` as plain data.

    Raises:
        UnserializableError: it holds Python objects, belongs to another library, or has metadata.
    """
    form = _describe(dtype)
    if type(form) is not str and not _alike(dtype_of(form), dtype):
        raise _refusal(dtype, "it has properties that numpy does not show")
    return form


def _describe(dtype: "DType") -> object:
    if cast("object", dtype.metadata) is not None:
        raise _refusal(dtype, "its metadata would be lost; make the array's dtype one without")
    if is_string_dtype(dtype):
        if hasattr(dtype, "na_object"):
            raise _refusal(dtype, "its na_object cannot travel; use a StringDType without")
        return ["string", bool(getattr(dtype, "coerce"))]  # noqa: B009
    if dtype.hasobject:
        raise _refusal(dtype, "Python objects in an array cannot travel; use a dtype of numbers or text, or tolist()")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return ["array", _describe(cast("DType", base)), list(shape)]
    if dtype.names is not None:
        return _describe_struct(dtype, dtype.names)
    return _describe_simple(dtype)


def _describe_struct(dtype: "DType", names: tuple[str, ...]) -> object:
    import numpy

    fields: list[object] = []
    declared = cast("Mapping[str, tuple[DType, int] | tuple[DType, int, str]]", dtype.fields)
    for name in names:
        inner, offset, *title = declared[name]
        fields.append([name, title[0] if title else None, offset, _describe(inner)])
    if dtype.type not in (numpy.void, numpy.record):
        raise _refusal(dtype, "its items are of a class of their own")
    return ["struct", fields, dtype.itemsize, bool(dtype.isalignedstruct), dtype.type is numpy.record]


def _describe_simple(dtype: "DType") -> object:
    import numpy

    text = dtype.str
    if _SIMPLE.fullmatch(text) is None:
        raise _refusal(dtype, "it is no dtype of numpy's own")
    if dtype.char in _LONG_DOUBLES and dtype.itemsize > (16 if dtype.kind == "c" else 8):
        return ["long", text, mantissa_bits()]
    if _alike(numpy.dtype(text), dtype):
        return text
    if dtype.char in _C_TYPES and _alike(_of_c_type(text, dtype.char), dtype):
        return ["type", text, dtype.char]
    raise _refusal(dtype, "it is no dtype of numpy's own")


def _alike(one: "DType", other: "DType") -> bool:
    return one == other and (one.char, one.type, one.isalignedstruct) == (other.char, other.type, other.isalignedstruct)


def _refusal(dtype: "DType", hint: str) -> UnserializableError:
    return UnserializableError(f"numpy.ndarray of dtype {dtype}", hint=hint)


def dtype_of(form: object) -> "DType":
    """The dtype that :func:`describe` described.

    Raises:
        CorruptDataError: the data describes none, or one whose values mean something else on this machine.
        MissingLibraryError: numpy is not installed.
    """
    with needed_for("a stored numpy array", "numpy"):
        import numpy
    if type(form) is str:
        return _of_text(form)
    match items_of(form, "dtype"):
        case ["type", str() as text, str() as char] if char in _C_TYPES:
            return _of_c_type(text, char)
        case ["long", str() as text, int() as bits]:
            return _long_double(text, bits)
        case ["string", bool() as coerce]:
            make = cast("Callable[..., DType]", getattr(numpy.dtypes, "StringDType"))  # noqa: B009
            return make(coerce=coerce)
        case ["array", base, shape]:
            return cast("DType", numpy.dtype((dtype_of(base), shape_of(shape))))
        case ["struct", fields, int() as size, bool() as aligned, bool() as record]:
            dtype = _struct(items_of(fields, "dtype"), size, aligned)
            return cast("DType", numpy.dtype((numpy.record, dtype))) if record else dtype
        case _:
            raise malformed("dtype")


def shape_of(payload: object) -> tuple[int, ...]:
    """The lengths of an array's dimensions."""
    lengths: list[int] = []
    for length in items_of(payload, "shape"):
        if type(length) is not int or length < 0:
            raise malformed("shape")
        lengths.append(length)
    return tuple(lengths)


def _of_text(text: str) -> "DType":
    import numpy

    if _SIMPLE.fullmatch(text) is None:
        raise malformed("dtype")
    dtype = cast("DType", numpy.dtype(text))
    if dtype.str != text or dtype.char in _LONG_DOUBLES:
        raise malformed("dtype")
    return dtype


def _of_c_type(text: str, char: str) -> "DType":
    import numpy

    dtype = cast("DType", numpy.dtype(char))
    if dtype.str[1:] == text[1:]:
        return dtype if dtype.str == text else dtype.newbyteorder()
    return _of_text(text)


def _long_double(text: str, bits: int) -> "DType":
    import numpy

    dtype = cast("DType", numpy.dtype("G" if text[1:2] == "c" else "g"))
    if dtype.str[1:] != text[1:] or bits != mantissa_bits():
        raise CorruptDataError(
            f"stored data holds long doubles ({text}) with {bits} bits of mantissa, and this machine's have "
            f"{mantissa_bits()}; store float64"
        )
    return dtype if dtype.str == text else dtype.newbyteorder()


def _struct(fields: list[object], size: int, aligned: bool) -> "DType":
    import numpy

    names: list[str] = []
    titles: list[str | None] = []
    offsets: list[int] = []
    formats: list[DType] = []
    for field in fields:
        match items_of(field, "dtype"):
            case [str() as name, None | str() as title, int() as offset, form]:
                names.append(name)
                titles.append(title)
                offsets.append(offset)
                formats.append(dtype_of(form))
            case _:
                raise malformed("dtype")
    spec = {"names": names, "formats": formats, "offsets": offsets, "titles": titles, "itemsize": size}
    make = cast("Callable[..., DType]", numpy.dtype)
    return make(spec, align=aligned)
