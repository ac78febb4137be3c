"""The values of a pandas column or index as plain data and numpy arrays, exactly, or not at all.

==================================================  ===================================================================
``["numpy", array]``                                numbers, naive times and durations
``["object", [value, …]]``                          Python objects, each stored by its own rules
``["category", categories, codes, ordered]``        the categories are an index
``["zoned", zone, unit, ticks]``                    times of a zone; the ticks are UTC's
``["masked", name, array, mask]``                   ``Int64``, ``Float32``, ``boolean``, …
``["string", storage, "NA" or "nan", [text, …]]``   pandas' text, ``None`` where one is missing
``["period", frequency, ordinals]``
``["interval", closed, left, right]``               both ends are an index
==================================================  ===================================================================

Anything else, a sparse array or another library's, is refused. pandas is reached through the protocols below: its own
annotations do not tell which of its classes a function gives.
"""

from collections.abc import Callable
from datetime import tzinfo
from typing import TYPE_CHECKING, Final, Protocol, cast

from phalanx.checkpoint.serde.codecs import items_of, malformed
from phalanx.checkpoint.serde.kind import full_name
from phalanx.checkpoint.serde.libraries import needed_for
from phalanx.errors import UnserializableError

if TYPE_CHECKING:
    from phalanx.checkpoint.serde.arrays import Array


class Pandas(Protocol):
    """The part of the pandas module that is used."""

    NA: object
    NaT: object
    RangeIndex: type
    MultiIndex: type
    PeriodDtype: Callable[[object], "Dtype"]
    StringDtype: Callable[..., "Dtype"]
    CategoricalDtype: type
    DatetimeTZDtype: type
    IntervalDtype: type
    arrays: "PandasArrays"
    Timestamp: Callable[[object], "Moment"]
    Timedelta: Callable[[object], object]
    Period: Callable[..., object]
    Interval: Callable[[object, object, str], object]

    def array(self, data: list[object], dtype: "Dtype") -> "Values": ...
    def Index(self, data: object, *, dtype: object, name: object) -> "IndexLike": ...  # noqa: N802
    def DatetimeIndex(self, data: object) -> "Zoned": ...  # noqa: N802
    def Series(self, data: object, *, index: object, name: object, dtype: object) -> "SeriesLike": ...  # noqa: N802
    def DataFrame(self, data: object, *, index: object) -> "FrameLike": ...  # noqa: N802


class PandasArrays(Protocol):
    IntegerArray: Callable[["Array", "Array"], "Values"]
    FloatingArray: Callable[["Array", "Array"], "Values"]
    BooleanArray: Callable[["Array", "Array"], "Values"]

    PeriodArray: "MakePeriods"
    IntervalArray: "MakeIntervals"
    Categorical: "MakeCategories"


class MakePeriods(Protocol):
    def __call__(self, ordinals: "Array", /, dtype: "Dtype") -> "Values": ...


class MakeIntervals(Protocol):
    def from_arrays(self, left: object, right: object, closed: str) -> "Values": ...


class MakeCategories(Protocol):
    def from_codes(self, codes: object, *, categories: object, ordered: bool) -> "Values": ...


class Dtype(Protocol):
    """What dtypes of pandas have, each some of it."""

    name: str
    unit: str
    tz: object
    storage: str
    na_value: object
    freq: "Frequency"
    closed: str
    numpy_dtype: object


class Frequency(Protocol):
    freqstr: str


class Values(Protocol):
    """An extension array, or what of it we need."""

    dtype: Dtype
    asi8: "Array"
    categories: object
    codes: "Array"
    ordered: bool | None
    left: object
    right: object

    def __len__(self) -> int: ...
    def isna(self) -> "Array": ...
    def to_numpy(self, *, dtype: object, na_value: object) -> "Array": ...


class IndexLike(Protocol):
    name: object
    names: list[object]
    dtype: object
    array: Values
    freq: Frequency | str | None
    start: int
    stop: int
    step: int
    levels: list[object]
    codes: list["Array"]

    def __len__(self) -> int: ...


class Zoned(Protocol):
    array: Values

    def tz_localize(self, zone: object) -> "Zoned": ...
    def tz_convert(self, zone: object) -> "Zoned": ...


class Moment(Protocol):
    asm8: object
    tz: object

    def tz_localize(self, zone: object) -> "Moment": ...
    def tz_convert(self, zone: object) -> "Moment": ...


class Flags(Protocol):
    allows_duplicate_labels: bool


class SeriesLike(Protocol):
    index: object
    name: object
    array: Values
    attrs: dict[object, object]
    flags: Flags

    def __len__(self) -> int: ...


class FrameLike(Protocol):
    index: object
    columns: object
    attrs: dict[object, object]
    flags: Flags
    shape: tuple[int, int]

    @property
    def iloc(self) -> "Located": ...


class Located(Protocol):
    def __getitem__(self, at: tuple[slice, int]) -> SeriesLike: ...


def pandas_for(what: str) -> Pandas:
    """The library, which is imported if it was not."""
    with needed_for(what, "pandas"):
        import pandas
    return cast("Pandas", pandas)


_MASKED: Final = {
    **{f"{sign}{bits}": "IntegerArray" for sign in ("Int", "UInt") for bits in (8, 16, 32, 64)},
    "Float32": "FloatingArray",
    "Float64": "FloatingArray",
    "boolean": "BooleanArray",
}


def describe_values(values: Values) -> list[object]:
    """The values of a column or index as plain data.

    Raises:
        UnserializableError: they are of a dtype that cannot be rebuilt exactly.
    """
    import numpy

    dtype = cast("object", values.dtype)
    if isinstance(dtype, numpy.dtype) or type(dtype).__name__ == "NumpyEADtype":
        plain = cast("Array", numpy.asarray(values))
        return ["object", list(cast("list[object]", plain))] if plain.dtype.kind == "O" else ["numpy", plain]
    kind, ours = type(dtype).__name__, type(dtype).__module__.partition(".")[0] == "pandas"
    describe = _DESCRIBE.get(kind) if ours else None
    if ours and values.dtype.name in _MASKED:
        describe = _masked
    if describe is None:
        hint = "pandas columns of this dtype cannot travel; convert them to a dtype of numpy's"
        raise UnserializableError(f"pandas column of dtype {dtype} ({full_name(type(dtype))})", hint=hint)
    return describe(values)


def _masked(values: Values) -> list[object]:
    hidden = values.dtype.name == "boolean"
    data = values.to_numpy(dtype=values.dtype.numpy_dtype, na_value=False if hidden else 0)
    return ["masked", values.dtype.name, data, values.isna()]


def _category(values: Values) -> list[object]:
    return ["category", values.categories, values.codes, bool(values.ordered)]


def _zoned(values: Values) -> list[object]:
    return ["zoned", values.dtype.tz, values.dtype.unit, values.asi8]


def _string(values: Values) -> list[object]:
    missing, storage = values.dtype.na_value, values.dtype.storage
    if storage not in ("python", "pyarrow"):
        raise UnserializableError(
            f"pandas column of dtype {values.dtype} in {storage}", hint="use the storage 'python'"
        )
    texts = [text if isinstance(text, str) else None for text in cast("list[object]", values)]
    return ["string", storage, "nan" if isinstance(missing, float) else "NA", texts]


def _period(values: Values) -> list[object]:
    return ["period", text_of_period(values.dtype), values.asi8]


def text_of_period(dtype: Dtype) -> str:
    """A period's frequency, as text that means the same when it is read."""
    text = dtype.name.removeprefix("period[").removesuffix("]")
    if pandas_for("a period").PeriodDtype(text) != dtype:
        raise UnserializableError(f"pandas period of frequency {text}", hint="this frequency cannot be written down")
    return text


def _interval(values: Values) -> list[object]:
    return ["interval", values.dtype.closed, values.left, values.right]


_DESCRIBE: Final[dict[str, Callable[[Values], list[object]]]] = {
    "CategoricalDtype": _category,
    "DatetimeTZDtype": _zoned,
    "StringDtype": _string,
    "PeriodDtype": _period,
    "IntervalDtype": _interval,
}


def values_of(form: object) -> object:
    """The values that :func:`describe_values` described: an array of numpy's or of pandas'."""
    import numpy

    pandas = pandas_for("a stored pandas column")
    match items_of(form, "pandas column"):
        case ["numpy", numpy.ndarray() as data] if data.ndim == 1:
            return cast("object", data)
        case ["object", items]:
            return objects(items_of(items, "pandas column"))
        case ["category", categories, numpy.ndarray() as codes, bool() as ordered]:
            return pandas.arrays.Categorical.from_codes(codes, categories=index(categories), ordered=ordered)
        case ["zoned", tzinfo() as zone, "s" | "ms" | "us" | "ns" as unit, numpy.ndarray() as ticks] if _ticks(ticks):
            naive = pandas.DatetimeIndex(ticks.view(f"M8[{unit}]"))
            return naive.tz_localize("UTC").tz_convert(zone).array
        case ["masked", str() as name, numpy.ndarray() as data, numpy.ndarray() as mask] if name in _MASKED:
            made = cast("Values", getattr(pandas.arrays, _MASKED[name])(data, mask))
            if made.dtype.name == name:
                return made
        case ["string", "python" | "pyarrow" as storage, "NA" | "nan" as missing, texts]:
            return _texts(pandas, str(storage), str(missing), items_of(texts, "pandas column"))
        case ["period", str() as text, numpy.ndarray() as ordinals] if _ticks(ordinals):
            return pandas.arrays.PeriodArray(cast("Array", ordinals), dtype=pandas.PeriodDtype(text))
        case ["interval", str() as closed, left, right]:
            return pandas.arrays.IntervalArray.from_arrays(index(left), index(right), closed)
        case _:
            pass
    raise malformed("pandas column")


def _ticks(array: object) -> bool:
    return getattr(array, "dtype", None) == "int64"


def index(value: object) -> IndexLike:
    """``value`` if it is an index: only one that was rebuilt from stored data can be here."""
    import pandas

    if not isinstance(value, pandas.Index):
        raise malformed("pandas index")
    return cast("IndexLike", value)


def objects(items: list[object]) -> "Array":
    """An array of Python objects, which numpy does not look into: a list stays one item."""
    import numpy

    array = numpy.empty(len(items), dtype=object)
    for position, item in enumerate(items):
        array[position] = item
    return cast("Array", array)


def _texts(pandas: Pandas, storage: str, missing: str, texts: list[object]) -> Values:
    if not all(text is None or type(text) is str for text in texts):
        raise malformed("pandas column")
    with needed_for("a stored pandas column of text", "pyarrow"):
        # Without na_value it is pandas.NA, and older releases of pandas do not know the argument.
        dtype = pandas.StringDtype(storage, **({"na_value": float("nan")} if missing == "nan" else {}))
    return pandas.array([pandas.NA if text is None else text for text in texts], dtype=dtype)
