"""pandas' frames, series, indexes and single values, exactly, or not at all.

Only the classes of this table travel, not their subclasses. A column is stored with its dtype and never guessed from
its values. What a frame looks like inside, which columns share a block of memory, is not kept.
"""

from collections.abc import Callable
from datetime import tzinfo
from typing import Final, TypeVar, cast

from phalanx.checkpoint.serde.codecs import (
    DATAFRAME,
    PANDAS_INDEX,
    PANDAS_SCALAR,
    SERIES,
    Codec,
    Shape,
    codec,
    items_of,
    malformed,
    mapping_of,
)
from phalanx.checkpoint.serde.columns import (
    FrameLike,
    Frequency,
    IndexLike,
    Moment,
    SeriesLike,
    describe_values,
    index,
    pandas_for,
    text_of_period,
    values_of,
)
from phalanx.errors import UnserializableError

T = TypeVar("T")

_INDEXES: Final = (
    *("Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex"),
    *("PeriodIndex", "CategoricalIndex", "IntervalIndex"),
)

_FREQUENT: Final = ("DatetimeIndex", "TimedeltaIndex")


# --- indexes ---------------------------------------------------------------------------------------------------------


def _reduce_index(value: IndexLike) -> list[object]:
    name = type(value).__name__
    if name == "RangeIndex":
        return [name, value.name, value.start, value.stop, value.step]
    if name == "MultiIndex":
        return [name, list(value.names), list(value.levels), list(map(_plain, value.codes))]
    frequency = cast("Frequency | None", value.freq) if name in _FREQUENT else None
    return [name, value.name, frequency and _text_of(frequency), describe_values(value.array)]


def _plain(codes: object) -> object:
    import numpy

    return numpy.asarray(codes)


def _text_of(frequency: Frequency) -> str:
    from pandas.tseries.frequencies import to_offset

    if to_offset(frequency.freqstr) != frequency:
        raise UnserializableError(
            f"pandas index of frequency {frequency.freqstr}",
            hint="set its freq to None: this one cannot be written down",
        )
    return frequency.freqstr


def _rebuild_index(payload: object) -> IndexLike:
    pandas = pandas_for("a stored pandas index")
    match items_of(payload, "pandas index"):
        case ["RangeIndex", name, int() as start, int() as stop, int() as step]:
            return cast("IndexLike", pandas.RangeIndex(start, stop, step, name=name))
        case ["MultiIndex", names, levels, codes]:
            tables = [index(level) for level in items_of(levels, "pandas index")]
            return cast("IndexLike", pandas.MultiIndex(levels=tables, codes=codes, names=names))
        case [str() as kind, name, None | str() as frequency, form] if kind in _INDEXES:
            values = values_of(form)
            made = pandas.Index(values, dtype=getattr(values, "dtype", None), name=name)
            if frequency is not None and kind in _FREQUENT:
                made.freq = frequency
            if type(made).__name__ == kind and (frequency is None or kind in _FREQUENT):
                return made
        case _:
            pass
    raise malformed("pandas index")


# --- series and frames -----------------------------------------------------------------------------------------------


def _reduce_series(value: SeriesLike) -> list[object]:
    described = describe_values(value.array)
    return [described, value.index, value.name, value.attrs, value.flags.allows_duplicate_labels]


def _rebuild_series(payload: object) -> SeriesLike:
    match items_of(payload, "pandas.Series"):
        case [form, labels, name, attrs, bool() as may_repeat]:
            series = _series(form, index(labels), name)
        case _:
            raise malformed("pandas.Series")
    series.attrs = mapping_of(attrs, "pandas.Series")
    series.flags.allows_duplicate_labels = may_repeat
    return series


def _series(form: object, labels: IndexLike, name: object) -> SeriesLike:
    values = values_of(form)
    if len(cast("list[object]", values)) != len(labels):
        raise malformed("pandas.Series")
    return pandas_for("a stored pandas.Series").Series(
        values, index=labels, name=name, dtype=getattr(values, "dtype", None)
    )


def _reduce_frame(value: FrameLike) -> list[object]:
    columns = [describe_values(value.iloc[:, number].array) for number in range(value.shape[1])]
    return [value.columns, value.index, columns, value.attrs, value.flags.allows_duplicate_labels]


def _rebuild_frame(payload: object) -> FrameLike:
    pandas = pandas_for("a stored pandas.DataFrame")
    match items_of(payload, "pandas.DataFrame"):
        case [names, labels, forms, attrs, bool() as may_repeat]:
            rows, held = index(labels), items_of(forms, "pandas.DataFrame")
        case _:
            raise malformed("pandas.DataFrame")
    # Numbers for names at first: what the columns are called need not be unique.
    frame = pandas.DataFrame({number: _series(form, rows, None) for number, form in enumerate(held)}, index=rows)
    frame.columns = index(names)
    frame.attrs = mapping_of(attrs, "pandas.DataFrame")
    frame.flags.allows_duplicate_labels = may_repeat
    return frame


# --- single values ---------------------------------------------------------------------------------------------------


def _reduce_missing(value: object) -> list[object]:
    return [type(value).__name__]


def _reduce_moment(value: Moment) -> list[object]:
    # In UTC, so that an hour which happens twice is no question.
    return ["Timestamp", value.asm8, value.tz]


def _reduce_duration(value: Moment) -> list[object]:
    return ["Timedelta", value.asm8]


def _reduce_period(value: object) -> list[object]:
    dtype = pandas_for("a period").PeriodDtype(getattr(value, "freq"))  # noqa: B009
    return ["Period", text_of_period(dtype), getattr(value, "ordinal")]  # noqa: B009


def _reduce_interval(value: object) -> list[object]:
    return ["Interval", *(getattr(value, part) for part in ("left", "right", "closed"))]


def _rebuild_scalar(payload: object) -> object:
    pandas = pandas_for("a stored pandas value")
    import numpy

    match items_of(payload, "pandas value"):
        case ["NAType"]:
            return pandas.NA
        case ["NaTType"]:
            return pandas.NaT
        case ["Timestamp", numpy.datetime64() as moment, None]:
            return pandas.Timestamp(moment)
        case ["Timestamp", numpy.datetime64() as moment, tzinfo() as zone]:
            return pandas.Timestamp(moment).tz_localize("UTC").tz_convert(zone)
        case ["Timedelta", numpy.timedelta64() as duration]:
            return pandas.Timedelta(duration)
        case ["Period", str() as frequency, int() as ordinal]:
            return pandas.Period(ordinal=ordinal, freq=frequency)
        case ["Interval", left, right, str() as closed]:
            return pandas.Interval(left, right, closed)
        case _:
            raise malformed("pandas value")


def _scalar(reduce: Callable[[T], list[object]]) -> Codec:
    return codec(PANDAS_SCALAR, Shape.PARTS, reduce, cast("Callable[[object], T]", _rebuild_scalar))


_INDEX_CODEC: Final = codec(PANDAS_INDEX, Shape.PARTS, _reduce_index, _rebuild_index)

FRAMES: Final[dict[str, tuple[str, Codec]]] = {
    **dict.fromkeys(_INDEXES, ("pandas", _INDEX_CODEC)),
    "Series": ("pandas", codec(SERIES, Shape.PARTS, _reduce_series, _rebuild_series)),
    "DataFrame": ("pandas", codec(DATAFRAME, Shape.PARTS, _reduce_frame, _rebuild_frame)),
    "NAType": ("pandas.api.typing", _scalar(_reduce_missing)),
    "NaTType": ("pandas.api.typing", _scalar(_reduce_missing)),
    "Timestamp": ("pandas", _scalar(_reduce_moment)),
    "Timedelta": ("pandas", _scalar(_reduce_duration)),
    "Period": ("pandas", _scalar(_reduce_period)),
    "Interval": ("pandas", _scalar(_reduce_interval)),
}
"""By class name, with the module whose attribute of that name is the class."""
