"""Names of classes in stored data, and which classes a schema brings in."""

import dataclasses
import datetime as dt
import enum
import gc
import sys
import types
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar, Union, cast

import pytest
import typing_extensions
from pydantic import BaseModel, PrivateAttr

from phalanx.checkpoint.serde import Serializer, TypeRegistry, default_registry, register
from phalanx.errors import UnknownTypeError
from phalanx.types import Command, Send

T = TypeVar("T")
B = TypeVar("B", bound="Bound")


@pytest.fixture
def registry() -> TypeRegistry:
    return TypeRegistry()


@dataclasses.dataclass
class Leaf:
    x: int


@dataclasses.dataclass
class Bound:
    x: int


def state_class(module: str) -> type[Any]:
    """A dataclass that says it comes from ``module``."""
    made = dataclasses.make_dataclass("State", [("x", int)])
    made.__module__ = module
    return made


def test_a_class_is_found_by_its_module_and_name(registry: TypeRegistry) -> None:
    assert registry.register(Leaf) is Leaf
    assert registry.name_of(Leaf) == f"{__name__}:Leaf"
    assert registry.lookup(f"{__name__}:Leaf") is Leaf


def test_a_class_that_is_not_registered_has_no_name(registry: TypeRegistry) -> None:
    assert registry.name_of(Leaf) is None
    with pytest.raises(UnknownTypeError, match=f"{__name__}:Leaf"):
        registry.lookup(f"{__name__}:Leaf")


def test_a_class_keeps_the_name_it_was_given(registry: TypeRegistry) -> None:
    registry.register(Leaf, "leaf")
    registry.register(Leaf)
    registry.register_schema(Leaf)

    assert registry.name_of(Leaf) == "leaf"


def test_data_under_an_old_name_can_still_be_read(registry: TypeRegistry) -> None:
    serializer = Serializer(registry)
    registry.register(Leaf, "old")
    data = serializer.dumps(Leaf(1))
    registry.register(Leaf, "new")

    assert registry.name_of(Leaf) == "new"
    assert serializer.loads(data) == Leaf(1)


def test_two_classes_cannot_share_a_name(registry: TypeRegistry) -> None:
    registry.register(Leaf, "state")

    with pytest.raises(ValueError, match=r"'state'.*\.Leaf and .*\.Bound"):
        registry.register(Bound, "state")
    assert registry.lookup("state") is Leaf


def make(cls: type) -> object:
    return cast("Callable[[int], object]", cls)(1)


def test_a_class_that_is_defined_again_takes_the_place_of_the_old_one(registry: TypeRegistry) -> None:
    def define() -> type:
        @dataclasses.dataclass
        class State:
            x: int

        return State

    old, new = define(), define()
    serializer = Serializer(registry)
    registry.register(old)
    registry.register(new)

    assert registry.lookup(f"{__name__}:{new.__qualname__}") is new
    assert type(serializer.loads(serializer.dumps(make(old)))) is new
    registry.register(old)
    assert type(serializer.loads(serializer.dumps(make(new)))) is old


def test_a_class_that_was_replaced_is_not_kept_alive(registry: TypeRegistry) -> None:
    def define() -> type:
        @dataclasses.dataclass
        class State:
            x: int

        return registry.register(State)

    old = weakref.ref(define())
    define()
    gc.collect()

    assert old() is None


def test_a_script_and_a_module_of_its_file_agree_on_names(
    registry: TypeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = types.ModuleType("__main__")
    main.__file__ = "examples/census.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    in_script = state_class("__main__")
    in_module = state_class("census")
    registry.register(in_script)
    worker = TypeRegistry()
    worker.register(in_module)

    assert registry.name_of(in_script) == "census:State"
    assert type(Serializer(worker).loads(Serializer(registry).dumps(in_script(1)))) is in_module


def test_the_main_module_keeps_its_name_without_a_file(registry: TypeRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", types.ModuleType("__main__"))
    state = state_class("__main__")
    registry.register(state)

    assert registry.name_of(state) == "__main__:State"


def test_the_decorator_registers_in_the_process() -> None:
    @register
    @dataclasses.dataclass
    class Decorated:
        x: int

    @register(name="tests.named")
    @dataclasses.dataclass
    class Named:
        x: int

    assert default_registry().lookup(f"{__name__}:{Decorated.__qualname__}") is Decorated
    assert default_registry().name_of(Named) == "tests.named"
    assert Serializer().loads(Serializer().dumps([Decorated(1), Named(2)])) == [Decorated(1), Named(2)]


class Handle:
    pass


@dataclasses.dataclass
class Table(dict[str, int]):
    x: int = 0


class Slots(str):
    __slots__ = ("extra",)


@pytest.mark.parametrize("cls", [Handle, Slots, object, int, dict, Send], ids=lambda cls: cls.__name__)
def test_a_class_that_cannot_be_rebuilt_cannot_be_registered(registry: TypeRegistry, cls: type) -> None:
    with pytest.raises(TypeError, match=f"{cls.__name__} cannot be registered"):
        registry.register(cls)


def test_a_dataclass_that_is_a_dict_is_stored_as_the_dict_it_is(registry: TypeRegistry) -> None:
    registry.register(Table)
    serializer = Serializer(registry)
    table = Table(3)
    table["a"] = 1
    back = serializer.loads(serializer.dumps(table))

    assert isinstance(back, Table)
    assert (dict(back), back.x) == ({"a": 1}, 3)


def test_only_classes_can_be_registered(registry: TypeRegistry) -> None:
    with pytest.raises(TypeError, match="takes a class"):
        registry.register(Leaf(1))  # type: ignore[type-var]  # pyright: ignore[reportArgumentType]


# --- schemas ---------------------------------------------------------------------------------------------------------


class Color(enum.Enum):
    RED = 1


class Model(BaseModel):
    leaf: Leaf
    color: Color | None = None
    _secret: "Secret" = PrivateAttr()


@dataclasses.dataclass
class Secret:
    x: int


class Page(BaseModel, Generic[T]):
    items: list[T]


class Pair(NamedTuple):
    leaf: Leaf
    other: "Pair | None" = None


@dataclasses.dataclass
class Tree:
    children: "list[Tree]"
    color: Color
    broken: "Missing"  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore


class State(TypedDict):
    tree: Tree
    when: dt.datetime


class Newer(typing_extensions.TypedDict, total=False):
    leaf: typing_extensions.NotRequired[Leaf]


class Failure(Exception):
    pass


class UserId(str):
    pass


Alias = NewType("Alias", Leaf)
Nested = typing_extensions.TypeAliasType("Nested", "dict[str, Nested] | Leaf")


def reduce(left: object, right: object) -> object:
    return right


@pytest.mark.parametrize(
    ("annotation", "classes"),
    [
        (Leaf, {Leaf}),
        (list[Leaf], {Leaf}),
        (dict[str, list[tuple[Leaf, ...]]], {Leaf}),
        (Leaf | None, {Leaf}),
        (Optional[Leaf], {Leaf}),  # noqa: UP045
        (Union[Leaf, Color], {Leaf, Color}),  # noqa: UP007
        (Annotated[list[Leaf], reduce], {Leaf}),
        (Annotated[Leaf | None, reduce, Color], {Leaf}),
        (Sequence[Mapping[str, Leaf]], {Leaf}),
        (Callable[[Leaf], Color], {Leaf, Color}),
        (Literal[Color.RED, 1], {Color}),
        (type[Leaf], {Leaf}),
        (T, set()),
        (B, set()),
        (Alias, {Leaf}),
        (Nested, set()),
        (Model, {Model, Leaf, Color, Secret}),
        (Page[Leaf], {Page[Leaf], Leaf}),
        (list[Page[Leaf]], {Page[Leaf], Leaf}),
        (Pair, {Pair, Leaf}),
        (Tree, {Tree, Color}),
        (State, {Tree, Color}),
        (Newer, {Leaf}),
        (Failure, {Failure}),
        (list[ValueError], set()),
        (UserId, {UserId}),
        (Send | Command[str], set()),
        (dt.datetime | uuid.UUID | Decimal, set()),
        (Any, set()),
        (None, set()),
        ("Unresolved", set()),
        (list["Unresolved"], set()),  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore
        (7, set()),
        ([1, "x"], set()),
        (Handle, set()),
    ],
    ids=str,
)
def test_a_schema_brings_in_its_classes(registry: TypeRegistry, annotation: object, classes: set[type]) -> None:
    registry.register_schema(annotation)
    known = [Leaf, Bound, Color, Model, Secret, Page[Leaf], Pair, Tree, Failure, UserId, Handle, State, Newer, Send]

    assert {cls for cls in known if registry.name_of(cls) is not None} == classes


def test_a_schema_can_be_given_twice(registry: TypeRegistry) -> None:
    registry.register_schema(State)
    registry.register_schema(State)

    assert registry.lookup(f"{__name__}:Tree") is Tree


def test_a_schema_that_cannot_be_read_is_passed_over(registry: TypeRegistry) -> None:
    class Odd(TypedDict):
        leaf: Leaf

    Odd.__annotations__["broken"] = "no such name"
    Odd.__annotations__["worse"] = "1 +"
    registry.register_schema(Odd)

    assert registry.name_of(Leaf) is not None
