"""Objects of registered classes come back with the state they had, and no code of theirs is run for it."""

import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, NoReturn, TypeVar, cast

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, PrivateAttr, RootModel, computed_field

from phalanx.checkpoint.serde import Serializer, TypeRegistry
from phalanx.errors import CorruptDataError, UnknownTypeError, UnserializableError

T = TypeVar("T")


@pytest.fixture
def serializer() -> Serializer:
    return Serializer(TypeRegistry())


def again(serializer: Serializer, value: object, *classes: type) -> Any:
    for cls in (type(value), *classes):
        serializer.registry.register(cls)
    back = serializer.loads(serializer.dumps(value))
    assert type(back) is type(value)
    return back


def refuse(*_: object, **__: object) -> NoReturn:
    raise AssertionError("rebuilding ran code of the class")


# --- dataclasses -----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Invoice:
    number: int
    lines: tuple[str, ...] = ()
    note: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    x: int
    y: "Frozen | None" = None


@dataclasses.dataclass
class Computed:
    x: int
    scale: dataclasses.InitVar[int]
    total: int = dataclasses.field(init=False)
    unset: int = dataclasses.field(init=False)

    def __post_init__(self, scale: int) -> None:
        self.total = self.x * scale


@dataclasses.dataclass
class Box(Generic[T]):
    item: T


def test_a_dataclass_comes_back(serializer: Serializer) -> None:
    invoice = Invoice(7, ("a",))

    assert again(serializer, invoice) == invoice
    assert serializer.loads(serializer.dumps({"k": [invoice, (invoice,)]})) == {"k": [invoice, (invoice,)]}


def test_a_frozen_dataclass_with_slots_comes_back_and_can_be_a_key(serializer: Serializer) -> None:
    frozen = Frozen(x=1, y=Frozen(x=2))

    assert again(serializer, frozen) == frozen
    assert serializer.loads(serializer.dumps({frozen: 1})) == {frozen: 1}


def test_fields_that_are_not_arguments_come_back(serializer: Serializer) -> None:
    back = again(serializer, Computed(2, scale=5))

    assert (back.x, back.total) == (2, 10)
    assert not hasattr(back, "unset")


def test_a_generic_dataclass_comes_back(serializer: Serializer) -> None:
    assert again(serializer, Box[int](1)) == Box(1)


@dataclasses.dataclass
class Guarded:
    x: int
    armed: ClassVar[bool] = False

    def __new__(cls, *_: object) -> "Guarded":
        cls.check()
        return super().__new__(cls)

    def __post_init__(self) -> None:
        self.check()

    def __setattr__(self, name: str, value: object) -> None:
        self.check()
        super().__setattr__(name, value)

    @classmethod
    def check(cls) -> None:
        if cls.armed:
            refuse()


def test_no_code_of_a_dataclass_runs(serializer: Serializer, monkeypatch: pytest.MonkeyPatch) -> None:
    guarded = Guarded(7)
    monkeypatch.setattr(Guarded, "armed", True)

    assert again(serializer, guarded).x == 7


@dataclasses.dataclass
class Remembering:
    x: int

    def __post_init__(self) -> None:
        self.cache = {"x": self.x}


@dataclasses.dataclass
class Lazy:
    x: int

    @functools.cached_property
    def twice(self) -> int:
        return self.x * 2


def test_an_attribute_that_is_no_field_is_not_lost_silently(serializer: Serializer) -> None:
    serializer.registry.register(Remembering)

    with pytest.raises(UnserializableError, match="its attribute 'cache' is no field and would be lost") as caught:
        serializer.dumps({"k": Remembering(1)})
    assert caught.value.path == "['k']"


def test_what_a_cached_property_remembers_is_no_attribute(serializer: Serializer) -> None:
    lazy = Lazy(2)
    assert lazy.twice == 4

    assert again(serializer, lazy).__dict__ == {"x": 2}
    assert again(serializer, lazy).twice == 4


def test_deep_objects_come_back(serializer: Serializer) -> None:
    chain: Frozen | None = None
    for depth in range(200):
        chain = Frozen(x=depth, y=chain)
    assert chain is not None

    assert again(serializer, chain) == chain


def test_a_field_that_was_added_gets_its_default(serializer: Serializer) -> None:
    @dataclasses.dataclass
    class State:
        x: int

    serializer.registry.register(State, "State")
    data = serializer.dumps(State(1))

    @dataclasses.dataclass
    class Newer:
        x: int
        y: int = 5
        z: list[int] = dataclasses.field(default_factory=list[int])

    newer = Serializer(TypeRegistry())
    newer.registry.register(Newer, "State")
    assert newer.loads(data) == Newer(1, 5, [])


def test_a_field_that_was_removed_is_not_lost_silently(serializer: Serializer) -> None:
    serializer.registry.register(Invoice, "State")
    data = serializer.dumps(Invoice(1))

    @dataclasses.dataclass
    class Older:
        number: int

    older = Serializer(TypeRegistry())
    older.registry.register(Older, "State")
    with pytest.raises(CorruptDataError, match=r"'lines' that .*Older does not have"):
        older.loads(data)


def test_a_new_field_without_default_is_named(serializer: Serializer) -> None:
    serializer.registry.register(Box, "State")
    data = serializer.dumps(Box(1))

    @dataclasses.dataclass
    class Newer:
        item: int
        owner: str

    newer = Serializer(TypeRegistry())
    newer.registry.register(Newer, "State")
    with pytest.raises(CorruptDataError, match=r"lacks the field 'owner' of .*Newer"):
        newer.loads(data)


# --- attrs, by its protocol ------------------------------------------------------------------------------------------


class Attribute(NamedTuple):
    name: str
    default: object
    init: bool = True


@pytest.fixture
def attr(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A stand-in for the library, which the tests do not need installed."""
    module = types.ModuleType("attr")
    module.__dict__["NOTHING"] = object()
    monkeypatch.setitem(sys.modules, "attr", module)
    return module


class Point:
    __slots__ = ("x", "y")
    __attrs_attrs__: tuple[Attribute, ...] = ()

    def __init__(self, x: int, y: int) -> None:
        self.x = x
        self.y = y


def test_an_attrs_class_comes_back(
    serializer: Serializer, attr: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = attr.__dict__["NOTHING"]
    monkeypatch.setattr(Point, "__attrs_attrs__", (Attribute("x", nothing), Attribute("y", 0)))
    back = again(serializer, Point(1, 2))

    assert (back.x, back.y) == (1, 2)


# --- pydantic --------------------------------------------------------------------------------------------------------


class Item(BaseModel):
    name: str


class Order(BaseModel):
    model_config = ConfigDict(frozen=True)

    number: int
    items: list[Item] = []
    checked: Annotated[int, AfterValidator(lambda value: value + 1)] = 0
    _cache: dict[str, int] = PrivateAttr(default_factory=dict)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def size(self) -> int:
        return len(self.items)


class Open(BaseModel, extra="allow"):
    x: int


class Page(BaseModel, Generic[T]):
    items: list[T]


class Names(RootModel[list[str]]):
    pass


def test_a_pydantic_model_comes_back_with_its_exact_state(serializer: Serializer) -> None:
    order = Order(number=1, items=[Item(name="a")], checked=5)
    getattr(order, "_cache")["k"] = 1  # noqa: B009
    back = again(serializer, order, Item)

    assert back == order
    assert back.checked == 6
    assert back.model_fields_set == {"number", "items", "checked"}
    assert back._cache == {"k": 1}
    assert back.model_dump() == order.model_dump()


def test_extra_fields_and_root_models_come_back(serializer: Serializer) -> None:
    extra = again(serializer, Open.model_validate({"x": 1, "more": (1, 2)}))

    assert extra.model_extra == {"more": (1, 2)}
    assert again(serializer, Names(["a"])) == Names(["a"])


def test_a_model_that_was_never_valid_comes_back_as_it_is(serializer: Serializer) -> None:
    back = again(serializer, Order.model_construct(items="none"))

    assert back.items == "none"
    assert not hasattr(back, "number")


def test_no_validator_of_a_model_runs(serializer: Serializer, monkeypatch: pytest.MonkeyPatch) -> None:
    item = Item(name="a")
    for name in ("__init__", "__setattr__", "model_validate", "model_post_init"):
        monkeypatch.setattr(Item, name, refuse)

    assert again(serializer, item).name == "a"


def test_a_generic_model_comes_back_as_the_parametrised_class(serializer: Serializer) -> None:
    page = Page[Item](items=[Item(name="a")])
    back = again(serializer, page, Item)

    assert back == page
    assert serializer.registry.name_of(Page[Item]) == f"{__name__}:Page[{__name__}:Item]"
    with pytest.raises(UnserializableError, match=r"Page\[int\]"):
        serializer.dumps(Page[int](items=[1]))


def test_a_field_that_was_added_to_a_model_gets_its_default(serializer: Serializer) -> None:
    serializer.registry.register(Item, "Item")
    data = serializer.dumps(Item(name="a"))

    class Newer(BaseModel):
        name: str
        size: int = 3
        tags: list[str] = []

    newer = Serializer(TypeRegistry())
    newer.registry.register(Newer, "Item")
    back = newer.loads(data)
    assert isinstance(back, Newer)
    assert (back.size, back.tags, back.model_fields_set) == (3, [], {"name"})


# --- enums, named tuples, subclasses of builtins ---------------------------------------------------------------------


class Color(enum.Enum):
    RED = (1, 2)
    ALSO_RED = (1, 2)  # noqa: PIE796

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        refuse()


class Level(enum.IntEnum):
    LOW = 1


class Kind(enum.StrEnum):
    A = "a"


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


class Pair(NamedTuple):
    x: int
    y: object = None


class UserId(str):
    pass


class Grams(float):
    pass


class Count(int):
    def __index__(self) -> int:
        return 0


class Blob(bytes):
    pass


class Bag(dict[str, int]):
    owner: str

    def __init__(self) -> None:
        refuse()

    def __iter__(self) -> Iterator[str]:
        refuse()


class Items(list[int]):
    pass


class Tags(set[str]):
    pass


class Fixed(frozenset[int]):
    pass


class Row(tuple[int, ...]):
    pass


@pytest.mark.parametrize("member", [Color.RED, Level.LOW, Kind.A], ids=repr)
def test_an_enum_member_comes_back_as_itself(serializer: Serializer, member: enum.Enum) -> None:
    assert again(serializer, member) is member
    assert serializer.loads(serializer.dumps({"k": [member], "t": (member,)})) == {"k": [member], "t": (member,)}


def test_an_enum_is_a_key_and_stays_an_enum(serializer: Serializer) -> None:
    serializer.registry.register(Kind)
    back = serializer.loads(serializer.dumps({Kind.A: 1}))

    assert isinstance(back, dict)
    assert [type(key) for key in cast("dict[object, int]", back)] == [Kind]


@pytest.mark.parametrize("flags", [Access.READ, Access.READ | Access.WRITE, Access(0)], ids=repr)
def test_flags_and_their_combinations_come_back(serializer: Serializer, flags: Access) -> None:
    assert again(serializer, flags) is flags


def test_a_named_tuple_comes_back(serializer: Serializer) -> None:
    pair = Pair(1, Pair(2))

    assert again(serializer, pair) == pair
    assert type(again(serializer, pair).y) is Pair


def test_a_named_tuple_that_has_grown_is_not_guessed(serializer: Serializer) -> None:
    serializer.registry.register(Pair, "Pair")
    data = serializer.dumps(Pair(1))

    class Triple(NamedTuple):
        x: int
        y: int
        z: int

    newer = Serializer(TypeRegistry())
    newer.registry.register(Triple, "Pair")
    with pytest.raises(CorruptDataError, match="2 fields"):
        newer.loads(data)


@pytest.mark.parametrize(
    "value",
    [
        UserId("u"),
        Grams(1.5),
        Blob(b"x"),
        Items([1, 2]),
        Tags({"a"}),
        Fixed({1}),
        Row((1, 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_subclass_of_a_builtin_comes_back(serializer: Serializer, value: object) -> None:
    assert again(serializer, value) == value
    assert again(serializer, value).__dict__ == {}


def test_what_a_subclass_overrides_is_not_asked(serializer: Serializer) -> None:
    bag: Bag = dict.__new__(Bag)
    dict[str, int].update(bag, {"a": 1})
    bag.owner = "me"
    back = again(serializer, bag)

    assert dict[str, int].copy(back) == {"a": 1}
    assert back.owner == "me"
    assert int.__add__(again(serializer, Count(5)), 0) == 5


def test_an_unregistered_class_is_unknown_when_read(serializer: Serializer) -> None:
    serializer.registry.register(Invoice)
    data = serializer.dumps({"k": Invoice(1)})

    with pytest.raises(UnknownTypeError, match=f"{__name__}:Invoice"):
        Serializer(TypeRegistry()).loads(data)
