"""pandas' frames, series, indexes and single values come back with their dtypes, labels and names."""

import datetime as dt
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any, cast
from zoneinfo import ZoneInfo

import msgpack  # type: ignore[import-untyped]
import numpy as np
import pandas as pd
import pytest
from pandas.testing import assert_frame_equal, assert_index_equal, assert_series_equal

from phalanx.checkpoint.serde import MissingLibraryError, Serializer, codecs
from phalanx.checkpoint.serde.columns import Flags
from phalanx.errors import CorruptDataError, UnknownTypeError, UnserializableError

pack = cast("Callable[[object], bytes]", vars(msgpack)["packb"])
ext = cast("Callable[[int, bytes], object]", vars(msgpack)["ExtType"])
series_of = cast("Callable[..., pd.Series[Any]]", pd.Series)
index_of = cast("Callable[..., pd.Index[Any]]", pd.Index)
interval_of = cast("Callable[..., object]", pd.Interval)

serializer = Serializer()


def again(value: object) -> Any:
    return serializer.loads(serializer.dumps(value))


BERLIN = ZoneInfo("Europe/Berlin")
HOURS = pd.date_range("2024-10-27", periods=4, freq="h", tz=BERLIN)

COLUMNS: dict[str, object] = {
    "numbers": np.array([1.5, -0.0, np.nan]),
    "small": np.array([1, 2, 3], "i1"),
    "times": np.array(["2024-01-01", "NaT", "1969-01-01"], "M8[ms]"),
    "durations": np.array([1, "NaT", -1], "m8[ns]"),
    "truths": [True, False, True],
    "objects": series_of([(1, 2), [3], None], dtype=object),
    "mixed": series_of([Decimal("1.5"), pd.NA, float("nan")], dtype=object),
    "dates": series_of([dt.date(2024, 1, 1), pd.NaT, "x"], dtype=object),
    "text": series_of(["a", None, "é"], dtype=pd.StringDtype("python")),
    "text that is not a number": series_of(["a", None, ""], dtype=pd.StringDtype("python", na_value=np.nan)),
    "zoned": series_of(HOURS[1:], dtype="datetime64[us, Europe/Berlin]"),
    "utc": series_of(HOURS[1:].tz_convert(dt.UTC)),
    "Int8": pd.array([1, None, -3], dtype="Int8"),
    "UInt64": pd.array([2**64 - 1, None, 0], dtype="UInt64"),
    "Float32": pd.array([1.5, None, -0.0], dtype="Float32"),
    "boolean": pd.array([True, None, False], dtype="boolean"),
    "category": pd.Categorical(["b", None, "a"], categories=["a", "b", "c"], ordered=True),
    "numbers by name": pd.Categorical([3, 1, 3]),
    "period": pd.period_range("2024-01", periods=3, freq="M"),
    "interval": pd.interval_range(0, 3, closed="both"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_series_of_any_dtype_comes_back(name: str) -> None:
    value = series_of(COLUMNS[name], name=("a", 1)).set_axis(["x", "y", "x"])
    back = cast("pd.Series[Any]", again([value])[0])

    assert type(back) is pd.Series
    assert_series_equal(back, value, check_exact=True, check_freq=True, check_flags=True)
    assert [type(item) for item in back] == [type(item) for item in value]


def test_a_frame_of_many_dtypes_comes_back() -> None:
    value = pd.DataFrame({name: series_of(column) for name, column in COLUMNS.items()})
    value.index = pd.date_range("2024", periods=3, freq="D", name="day")
    value.attrs["source"] = {"file": ("a", 1)}
    cast("Flags", value.flags).allows_duplicate_labels = False
    back = cast("pd.DataFrame", again(value))

    assert_frame_equal(back, value, check_exact=True, check_freq=True, check_flags=True)
    assert back.dtypes.equals(value.dtypes)
    assert back.attrs == value.attrs
    assert not cast("Flags", back.flags).allows_duplicate_labels
    back.loc[back.index[0], "numbers"] = 7.0


FRAMES: list[pd.DataFrame] = [
    pd.DataFrame(),
    pd.DataFrame(index=[1, 2]),
    pd.DataFrame(columns=["a", "b"]),
    pd.DataFrame([[1, 2.5], [3, 4.5]], columns=["same", "same"]),
    pd.DataFrame(np.arange(6).reshape(2, 3), columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)])),
    pd.DataFrame({"a": [1]}).iloc[:0],
]


@pytest.mark.parametrize("value", FRAMES, ids=lambda value: str(value.shape))
def test_a_frame_of_any_shape_comes_back(value: pd.DataFrame) -> None:
    assert_frame_equal(cast("pd.DataFrame", again(value)), value, check_exact=True, check_flags=True)


INDEXES: list[object] = [
    pd.RangeIndex(1, 9, 2, name="n"),
    index_of([1.5, 2.5]),
    index_of(["a", "b"], name="text"),
    index_of([1, "a", (2, 3)], dtype=object, tupleize_cols=False),
    index_of([], dtype="int8"),
    index_of(pd.array([1, None], dtype="Int64")),
    pd.MultiIndex.from_product([[1, 2], ["a", "b"], pd.date_range("2024", periods=2)], names=["n", None, "day"]),
    pd.CategoricalIndex(["a", "b", "a"], ordered=True),
    pd.IntervalIndex.from_breaks([1, 2, 3]),
    pd.period_range("2024", periods=3, freq="Q"),
    pd.timedelta_range("1D", periods=3, freq="2h"),
    pd.date_range("2024-01-31", periods=3, freq="ME", name="end of month"),
    HOURS,
    HOURS[[0, 2]],
]


@pytest.mark.parametrize("value", INDEXES, ids=lambda value: f"{type(value).__name__} {value.dtype}")
def test_an_index_comes_back(value: "pd.Index[Any]") -> None:
    back = cast("pd.Index[Any]", again({"k": value})["k"])

    assert_index_equal(back, value, exact=True)
    assert back.identical(value)
    assert getattr(back, "freq", None) == getattr(value, "freq", None)


VALUES: list[object] = [
    pd.Timestamp("2024-01-01 01:02:03.000000004"),
    HOURS[2],
    HOURS[3],
    pd.Timestamp("0001-01-01").as_unit("s"),
    pd.Timestamp("2024", tz=dt.timezone(dt.timedelta(hours=1))),
    pd.Timedelta("-1ns"),
    pd.Timedelta(days=1).as_unit("s"),
    pd.Period("2024-01", "M"),
    pd.Period("2024-01-01", "W-SUN"),
    interval_of(1, 2.5, "neither"),
    interval_of(pd.Timestamp("2024"), pd.Timestamp("2025"), "both"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_single_value_comes_back(value: object) -> None:
    back = again([value])[0]

    assert type(back) is type(value)
    assert back == value
    for name in ("unit", "tz", "fold", "freq", "closed"):
        assert getattr(back, name, None) == getattr(value, name, None)


def test_what_is_missing_comes_back_as_itself() -> None:
    assert again(pd.NA) is pd.NA
    assert again(pd.NaT) is pd.NaT


def test_a_list_inside_of_a_cell_stays_a_list() -> None:
    cells: list[object] = [[1, 2], (3,), np.array([4, 5]), np.array(6), {"k": 7}]
    back = cast("pd.Series[Any]", again(series_of(cells, dtype=object)))

    assert [type(cell) for cell in back] == [type(cell) for cell in series_of(cells, dtype=object)]


# --- what is refused -------------------------------------------------------------------------------------------------


class MyFrame(pd.DataFrame):
    pass


class Opaque:
    pass


REFUSED: list[tuple[object, str, str]] = [
    (series_of(pd.arrays.SparseArray([0, 1])), "Sparse", "dtype of numpy's"),
    (pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}), "Sparse", "dtype of numpy's"),
    (MyFrame({"a": [1]}), "MyFrame", "store plain values"),
    (pd.DataFrame({"a": [Opaque()]}), "Opaque", "dataclass"),
    (pd.DataFrame({Opaque(): [1]}), "Opaque", "dataclass"),
    (series_of([lambda: 0], dtype=object), "function", "functions cannot travel"),
    (pd.date_range("2024", periods=3, freq=pd.offsets.CustomBusinessDay(holidays=["2024-01-02"])), "freq", "freq"),
    (pd.Categorical(["a"]), "Categorical", "tolist"),
]


@pytest.mark.parametrize(("value", "named", "hint"), REFUSED, ids=[f"{named}" for _, named, _ in REFUSED])
def test_what_cannot_come_back_exactly_is_refused(value: object, named: str, hint: str) -> None:
    with pytest.raises(UnserializableError) as caught:
        serializer.dumps({"a": value})

    assert named in caught.value.type_name
    assert hint in caught.value.hint
    assert caught.value.path.startswith("['a']")


INDEX = ext(codecs.PANDAS_INDEX, pack(["RangeIndex", None, 0, 2, 1]))
TICKS = ext(codecs.NDARRAY, pack(["<i8", [2], "C", bytes(16)]))
CODES = ext(codecs.NDARRAY, pack(["|i1", [2], "C", b"\x00\x05"]))
MASK = ext(codecs.NDARRAY, pack(["|b1", [2], "C", b"\x00\x01"]))
SQUARE = ext(codecs.NDARRAY, pack(["|i1", [2, 1], "C", b"\x00\x05"]))
MOMENT = ext(codecs.NUMPY_SCALAR, pack(["<M8[s]", bytes(8)]))

FORMS: list[object] = [
    [],
    None,
    ["numpy"],
    ["numpy", [1, 2]],
    ["numpy", SQUARE],
    ["numpy", TICKS, 1],
    ["object", b"ab"],
    ["object", [1]],
    ["category", INDEX, CODES, False],
    ["category", TICKS, CODES, False],
    ["zoned", "Europe/Berlin", "ns", TICKS],
    ["zoned", "dateutil//etc/localtime", "ns", TICKS],
    ["zoned", None, "ns", TICKS],
    ["zoned", ext(codecs.TIMEZONE, pack([])), "D", TICKS],
    ["zoned", ext(codecs.TIMEZONE, pack([])), "ns", CODES],
    ["masked", "Int64", TICKS, TICKS],
    ["masked", "Int8", TICKS, MASK],
    ["masked", "object", TICKS, MASK],
    ["string", "python", "NA", [1, 2]],
    ["string", "C", "NA", ["a", "b"]],
    ["period", "no such", TICKS],
    ["period", "M", CODES],
    ["interval", "open", INDEX, INDEX],
    ["interval", "left", TICKS, TICKS],
    ["sparse", TICKS],
]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: repr(form)[:40])
def test_malformed_values_are_corrupt_data(form: object) -> None:
    empty: dict[str, object] = {}
    for payload, code in (
        ([form, INDEX, None, empty, True], codecs.SERIES),
        ([INDEX, INDEX, [form], empty, True], codecs.DATAFRAME),
        (["Index", None, None, form], codecs.PANDAS_INDEX),
    ):
        if code == codecs.PANDAS_INDEX and form == ["object", [1]]:
            continue
        with pytest.raises(CorruptDataError):
            serializer.loads(pack(ext(code, pack(payload))))


OTHERS: list[tuple[int, object]] = [
    (codecs.SERIES, [["numpy", TICKS], TICKS, None, {"a": 1}, True]),
    (codecs.SERIES, [["numpy", TICKS], INDEX, [1], {"a": 1}, True]),
    (codecs.SERIES, [["numpy", TICKS], INDEX, None, [1], True]),
    (codecs.SERIES, [["numpy", TICKS], ext(codecs.PANDAS_INDEX, pack(["RangeIndex", None, 0, 3, 1])), None, {}, True]),
    (codecs.SERIES, []),
    (codecs.DATAFRAME, [INDEX, INDEX, [["numpy", TICKS]], {}, True]),
    (codecs.DATAFRAME, [INDEX, INDEX, INDEX, {}, True]),
    (codecs.PANDAS_INDEX, ["RangeIndex", None, 0, 1, 0]),
    (codecs.PANDAS_INDEX, ["RangeIndex", [], 0, 1, 1]),
    (codecs.PANDAS_INDEX, ["MultiIndex", ["a"], [INDEX], [CODES]]),
    (codecs.PANDAS_INDEX, ["MultiIndex", ["a"], [TICKS], [CODES]]),
    (codecs.PANDAS_INDEX, ["DataFrame", None, None, ["numpy", TICKS]]),
    (codecs.PANDAS_INDEX, ["DatetimeIndex", None, None, ["numpy", TICKS]]),
    (codecs.PANDAS_INDEX, ["Index", None, "D", ["numpy", TICKS]]),
    (codecs.PANDAS_SCALAR, ["Timestamp", MOMENT, "dateutil//etc/localtime"]),
    (codecs.PANDAS_SCALAR, ["Timestamp", "2024", None]),
    (codecs.PANDAS_SCALAR, ["Interval", 2, 1, "both"]),
    (codecs.PANDAS_SCALAR, ["Interval", "a", "b", "both"]),
    (codecs.PANDAS_SCALAR, ["Period", "no such", 1]),
    (codecs.PANDAS_SCALAR, ["read_pickle", "x"]),
    (codecs.PANDAS_SCALAR, []),
]


@pytest.mark.parametrize(("code", "payload"), OTHERS, ids=lambda part: repr(part)[:50])
def test_malformed_objects_are_corrupt_data(code: int, payload: object) -> None:
    with pytest.raises(CorruptDataError):
        serializer.loads(pack(ext(code, pack(payload))))


@pytest.mark.parametrize("value", [series_of([1]), pd.DataFrame({"a": [1]}), pd.RangeIndex(3), pd.NaT], ids=repr)
def test_without_the_library_the_error_says_what_is_missing(value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    data = serializer.dumps([value])
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(MissingLibraryError, match="needs pandas, which is not installed here: pip install 'pandas'"):
        serializer.loads(data)


def test_text_that_needs_another_library_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    form = ["string", "pyarrow", "NA", ["a", None]]
    empty: dict[str, object] = {}

    with pytest.raises(UnknownTypeError, match="pyarrow"):
        serializer.loads(pack(ext(codecs.SERIES, pack([form, INDEX, None, empty, True]))))
