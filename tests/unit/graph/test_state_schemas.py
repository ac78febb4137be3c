"""What the annotations of a state class declare."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

import dataclasses
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, NotRequired, Required, TypeVar, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr
from typing_extensions import ReadOnly, TypedDict

from phalanx.channels import (
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    Topic,
    UntrackedValue,
)
from phalanx.graph.schema import Declared, builder_of, declared_by
from phalanx.managed import IsLastStep, RemainingSteps
from phalanx.managed.is_last_step import IsLastStepManager, RemainingStepsManager

T = TypeVar("T")


def add(one: int, other: int) -> int:
    return one + other


def declared(annotation: object) -> Declared:
    """What a state with the one key ``key`` declares."""
    return declared_by(TypedDict("Made", {"key": annotation}))  # type: ignore[operator]


def channel_of(annotation: object) -> Any:
    return declared(annotation).channels["key"]


# --- which kind of channel --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        (int, LastValue),
        (int | None, LastValue),
        (Annotated[int, "a note"], LastValue),
        (Annotated[int, add], BinaryOperatorAggregate),
        (Annotated[int, "a note", add], BinaryOperatorAggregate),
        (Annotated[int, add, "a note"], LastValue),
        (Annotated[int, functools.partial(add)], BinaryOperatorAggregate),
        (Annotated[int, max], BinaryOperatorAggregate),
        (Annotated[int, EphemeralValue], EphemeralValue),
        (Annotated[int, UntrackedValue(int)], UntrackedValue),
        (Annotated[int, EphemeralValue, add], EphemeralValue),
        (Annotated[int, add, EphemeralValue], EphemeralValue),
        (Annotated[int, EphemeralValue, UntrackedValue], EphemeralValue),
        (Annotated[list[int], Topic(int)], Topic),
        (Annotated[list[int], DeltaChannel(lambda value, writes: [*value, *writes])], DeltaChannel),
        (Required[Annotated[int, add]], BinaryOperatorAggregate),
        (NotRequired[Annotated[int, add]], BinaryOperatorAggregate),
        (ReadOnly[Annotated[int, add]], BinaryOperatorAggregate),
        (Required[ReadOnly[Annotated[int, add]]], BinaryOperatorAggregate),
        (Annotated[NotRequired[int], add], BinaryOperatorAggregate),
    ],
    ids=str,
)
def test_the_last_note_may_be_a_reducer_and_the_first_channel_among_the_notes_comes_before_it(
    annotation: object, kind: type
) -> None:
    channel = channel_of(annotation)

    assert (type(channel), channel.key) == (kind, "key")


@pytest.mark.parametrize(
    ("annotation", "start"),
    [
        (Annotated[list[int], operator.add], []),
        (Annotated[Sequence[int], operator.add], []),
        (Annotated[NotRequired[dict[str, int]], operator.or_], {}),
    ],
    ids=str,
)
def test_a_reducer_starts_at_what_the_type_makes_of_nothing(annotation: object, start: object) -> None:
    assert channel_of(annotation).get() == start


def test_a_delta_channel_takes_the_type_of_its_key() -> None:
    noted: DeltaChannel[dict[str, int]] = DeltaChannel(lambda value, _: value, snapshot_frequency=7)

    channel = channel_of(Annotated[dict[str, int], noted])

    assert (channel.typ, channel.snapshot_frequency) == (dict[str, int], 7)


def test_a_channel_that_is_a_note_is_not_the_graph_s_own() -> None:
    noted = Topic(int)

    channel_of(Annotated[list[int], noted]).update([1])

    assert not noted.is_available()
    assert noted.key == ""


@pytest.mark.parametrize(
    "reducer",
    [
        lambda: 1,
        lambda one: one,
        lambda one, other, third=1: one,
        lambda *both: both,
        functools.partial(add, 1),
        list,
        int,
    ],
    ids=["none", "one", "three", "any number", "a partial of one", "list", "int"],
)
def test_a_reducer_that_does_not_take_two_values_is_refused_with_its_key(reducer: Callable[..., object]) -> None:
    with pytest.raises(ValueError, match=r"^Invalid reducer signature. Expected \(a, b\) -> c. Got .* of key 'key'"):
        declared(Annotated[int, reducer])


def test_a_reducer_may_have_more_parameters_by_name() -> None:
    assert type(channel_of(Annotated[int, lambda one, other, *, more=1: one])) is BinaryOperatorAggregate


def test_an_annotation_that_cannot_be_found_is_refused_with_the_class() -> None:
    class Lost(TypedDict):
        key: "Nowhere"  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    with pytest.raises(NameError, match=r"cannot resolve the annotations of state class .*Lost: .*Nowhere"):
        declared_by(Lost)


# --- which classes ----------------------------------------------------------------------------------------------------


class Base(TypedDict):
    first: int


class Derived(Base, total=False):
    second: Annotated[list[int], operator.add]


@dataclasses.dataclass
class Record:
    first: int
    second: Annotated[list[int], operator.add]
    shared: ClassVar[int] = 3


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")

    first: int
    second: Annotated[list[int], operator.add] = Field(default_factory=list[int])
    shared: ClassVar[int] = 3
    _own: int = PrivateAttr(default=3)


class Plain:
    first: int
    second: Annotated[list[int], operator.add]


class Named(NamedTuple):
    first: int
    second: Annotated[list[int], operator.add]


@pytest.mark.parametrize("schema", [Derived, Record, Model, Plain, Named], ids=lambda schema: str(schema.__name__))
def test_a_class_with_annotations_declares_its_keys_and_those_it_inherits(schema: type) -> None:
    channels = declared_by(schema).channels

    assert {key: type(channel) for key, channel in channels.items()} == {
        "first": LastValue,
        "second": BinaryOperatorAggregate,
    }


class Nothing(TypedDict):
    pass


class Empty:
    pass


@pytest.mark.parametrize("schema", [Nothing, Empty])
def test_a_class_without_annotations_declares_no_keys(schema: type) -> None:
    assert declared_by(schema).channels == {}


@pytest.mark.parametrize(
    "schema",
    [int, list, list[int], Sequence[int], int | str, Annotated[list[int], add], Any, dict],
    ids=str,
)
def test_anything_else_is_a_state_of_one_value(schema: object) -> None:
    assert [*declared_by(schema).channels] == ["__root__"]


def test_a_state_of_one_value_may_have_a_reducer() -> None:
    assert type(declared_by(Annotated[list[int], operator.add]).channels["__root__"]) is BinaryOperatorAggregate


def test_a_schema_that_is_no_type_warns() -> None:
    with pytest.warns(UserWarning, match="Invalid state_schema: hello. Expected a type or Annotated"):
        declared_by("hello")


# --- generic classes --------------------------------------------------------------------------------------------------


class Box(TypedDict, Generic[T]):
    item: T
    items: Annotated[T, operator.add]


class Strings(Box[list[str]]):
    more: int


@dataclasses.dataclass
class Holder(Generic[T]):
    item: T
    items: Annotated[T, operator.add]


class Wrapper(BaseModel, Generic[T]):
    item: T
    items: Annotated[T, operator.add]


@pytest.mark.parametrize(
    "schema",
    [Box[list[str]], Strings, Holder[list[str]], Wrapper[list[str]]],
    ids=["TypedDict", "derived", "dataclass", "model"],
)
def test_the_parameters_of_a_generic_class_are_filled_in(schema: object) -> None:
    channels: Any = declared_by(schema).channels

    assert channels["item"].typ == list[str]
    assert channels["items"].get() == []


def test_a_generic_class_without_its_parameters_declares_its_keys_all_the_same() -> None:
    assert [*declared_by(Box).channels] == ["item", "items"]


# --- managed values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotation",
    [
        RemainingSteps,
        Required[RemainingSteps],
        NotRequired[RemainingSteps],
        ReadOnly[RemainingSteps],
        Annotated[RemainingSteps, "a note"],
        Annotated[NotRequired[RemainingSteps], "a note"],
        RemainingSteps | None,
    ],
    ids=str,
)
def test_a_managed_value_has_no_channel_however_it_is_wrapped(annotation: object) -> None:
    assert declared(annotation) == Declared({}, {"key": RemainingStepsManager})  # type: ignore[dict-item]


def test_a_model_may_have_managed_values() -> None:
    class Managed(BaseModel):
        count: int
        last: IsLastStep

    assert [*declared_by(Managed).channels] == ["count"]
    assert dict(declared_by(Managed).managed) == {"last": IsLastStepManager}


def test_a_list_of_managed_values_is_a_list() -> None:
    assert type(channel_of(list[RemainingSteps])) is LastValue


def test_a_managed_value_cannot_be_the_whole_state() -> None:
    with pytest.raises(ValueError, match="not allowed in this position"):
        declared_by(RemainingSteps)


# --- instances --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [Derived, Plain, Named, dict, int])
def test_nodes_get_a_dict_unless_the_state_is_a_dataclass_or_a_model(schema: object) -> None:
    assert builder_of(schema) is None


@pytest.mark.parametrize("schema", [Record, Model, Holder[int]])
def test_nodes_get_an_instance_of_a_dataclass_or_a_model(schema: Any) -> None:
    build = builder_of(schema)
    names = {"item": 1, "items": 2} if schema == Holder[int] else {"first": 1, "second": [2]}

    assert build is not None
    assert build(names) == schema(**names)


class Aliased(BaseModel):
    first: int = Field(default=0, alias="other")
    second: int = Field(validation_alias="given")


def test_a_model_s_fields_are_found_by_their_names_whatever_their_aliases() -> None:
    build = builder_of(Aliased)

    assert build is not None
    assert build({"first": 1, "second": 2}) == cast("Any", Aliased)(other=1, given=2)
