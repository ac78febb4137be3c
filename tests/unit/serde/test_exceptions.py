"""Errors cross from a worker with their class, arguments, notes and traceback, or as much of that as can travel."""

import asyncio
import sys
import threading
import types
from dataclasses import dataclass
from typing import NoReturn, cast

import pytest
from pydantic import BaseModel, ValidationError

from phalanx.checkpoint.serde import Serializer, TypeRegistry, decode_exception, encode_exception
from phalanx.errors import (
    CorruptDataError,
    GraphRecursionError,
    GraphVersionError,
    NodeLostError,
    RemoteNodeError,
    RemoteTraceback,
    ThreadBusyError,
    UnknownTypeError,
    UnserializableError,
)


@dataclass
class Invoice:
    number: int


class OrderError(Exception):
    """Gives its base other arguments than it takes."""

    def __init__(self, order: int, reason: str) -> None:
        super().__init__(f"order {order}: {reason}")
        self.order = order
        self.reason = reason


class Guarded(Exception):
    armed = False

    def __new__(cls, *args: object) -> "Guarded":
        if cls.armed:
            raise AssertionError("rebuilding ran __new__")
        return super().__new__(cls, *args)

    def __init__(self, *args: object) -> None:
        if self.armed:
            raise AssertionError("rebuilding ran __init__")
        super().__init__(*args)

    def __setattr__(self, name: str, value: object) -> None:
        if self.armed:
            raise AssertionError("rebuilding ran __setattr__")
        super().__setattr__(name, value)


class DiskError(OSError):
    def __init__(self, path: str) -> None:
        super().__init__(28, "disk full", path)
        self.path = path


class Mixed(OrderError, KeyError, OSError):
    pass


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.fixture
def serializer() -> Serializer:
    return Serializer(TypeRegistry())


def raised(exc: BaseException) -> BaseException:
    try:
        raise exc
    except BaseException as caught:
        return caught


def across(exc: BaseException, serializer: Serializer | None = None) -> Exception:
    """The exception after its way through a message."""
    message = Serializer(TypeRegistry())
    return decode_exception(message.loads(message.dumps(encode_exception(raised(exc), serializer))), serializer)


@pytest.mark.parametrize(
    "exc",
    [
        ValueError(),
        ValueError("text", 1, None, 2**70),
        KeyError(("a", 1)),
        ZeroDivisionError("division by zero"),
        OSError("only text"),
        FileNotFoundError(2, "No such file", "a.txt"),
        OSError(18, "cross-device", "a", None, "b"),
        ImportError("no module", name="json", path="/x"),
        AttributeError("no x", name="x"),
        NameError("no y", name="y"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        SyntaxError("bad", ("f.py", 1, 2, "x =", 1, 3)),
        StopIteration(5),
        RecursionError("deep"),
        TimeoutError("late"),
        OrderError(7, "late"),
        Guarded("x"),
        DiskError("/data"),
        Mixed(1, "x"),
        GraphRecursionError("limit of 25 reached"),
        GraphVersionError("g", "1", "2", "w"),
        ThreadBusyError("t", "run", 1.5),
        NodeLostError("n", "t", 3, ["a", "b"]),
        UnserializableError("lock", "['a']", "do not", "node 'x'"),
        UnknownTypeError("a:B"),
        RemoteNodeError("a:B", "text"),
    ],
    ids=lambda exc: type(exc).__name__,
)
def test_an_exception_keeps_its_class_and_state(exc: Exception) -> None:
    back = across(exc)

    assert type(back) is type(exc)
    assert back.args == exc.args
    assert str(back) == str(exc)
    assert dict(vars(back).items()) == vars(exc)


def test_no_code_of_the_class_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    report = encode_exception(raised(Guarded("x")))
    monkeypatch.setattr(Guarded, "armed", True)

    assert type(decode_exception(report)) is Guarded


def test_the_traceback_of_the_worker_is_the_cause() -> None:
    def work() -> NoReturn:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    with pytest.raises(ValueError, match="second") as caught:
        work()
    back = decode_exception(encode_exception(caught.value))

    assert isinstance(back.__cause__, RemoteTraceback)
    assert "in work" in str(back.__cause__)
    assert "KeyError: 'first'" in str(back.__cause__)
    assert "direct cause" in str(back.__cause__)


def test_notes_come_along() -> None:
    exc = ValueError("x")
    exc.add_note("attempt 2 of 3")

    assert across(exc).__notes__ == ["attempt 2 of 3"]


def test_a_group_comes_back_as_a_group() -> None:
    group = across(ExceptionGroup("several", [ValueError(1), ExceptionGroup("inner", [OSError(2, "x")])]))

    assert isinstance(group, ExceptionGroup)
    members = cast("ExceptionGroup[Exception]", group)
    assert [type(member) for member in members.exceptions] == [ValueError, ExceptionGroup]
    assert members.subgroup(OSError) is not None


def test_registered_classes_travel_as_arguments_and_attributes(serializer: Serializer) -> None:
    serializer.registry.register(Invoice)
    exc = ValueError(Invoice(1), (1, 2))
    exc.__dict__["invoice"] = Invoice(2)
    back = across(exc, serializer)

    assert back.args == (Invoice(1), (1, 2))
    assert vars(back)["invoice"] == Invoice(2)


def test_what_cannot_travel_becomes_its_text_or_is_left_out(serializer: Serializer) -> None:
    exc = ValueError("x", Invoice(1), threading.Lock())
    exc.__dict__.update(lock=threading.Lock(), kept=None)
    back = across(exc, serializer)

    assert back.args[:2] == ("x", "Invoice(number=1)")
    assert back.args[2].startswith("<unlocked _thread.lock")
    assert vars(back) == {"kept": None}


def test_an_argument_whose_class_only_the_worker_knows_leaves_the_others_alone(serializer: Serializer) -> None:
    worker = Serializer(TypeRegistry())
    worker.registry.register(Invoice, "billing.Invoice")
    back = decode_exception(encode_exception(raised(ValueError("x", Invoice(1))), worker), serializer)

    assert type(back) is ValueError
    assert back.args == ("x", "<billing.Invoice, which is not registered here>")


def test_a_class_of_a_module_that_is_not_loaded_becomes_a_remote_error(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("worker_only")
    exec("class Lost(Exception): pass", module.__dict__)
    monkeypatch.setitem(sys.modules, "worker_only", module)
    report = encode_exception(raised(module.__dict__["Lost"]("gone")))
    monkeypatch.delitem(sys.modules, "worker_only")
    back = decode_exception(report)

    assert isinstance(back, RemoteNodeError)
    assert str(back) == "worker_only:Lost: gone"
    assert "Lost: gone" in str(back.__cause__)
    assert "worker_only" not in sys.modules


def test_a_registered_class_is_found_wherever_it_lives(serializer: Serializer) -> None:
    class Local(Exception):
        pass

    assert isinstance(across(Local("x"), serializer), RemoteNodeError)
    serializer.registry.register(Local)
    assert isinstance(across(Local("x"), serializer), Local)


def test_a_class_of_the_script_is_found_under_the_name_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    main = types.ModuleType("__main__")
    main.__file__ = "/app/census.py"
    exec("class Lost(Exception): pass", main.__dict__)
    lost = main.__dict__["Lost"]
    monkeypatch.setitem(sys.modules, "__main__", main)
    report = encode_exception(raised(lost("x")))

    assert report["type"] == "census:Lost"
    assert type(decode_exception(report)) is lost


def test_a_module_that_makes_its_attributes_up_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("lazy")

    def make_up(name: str) -> type:
        raise AssertionError(f"asked for {name}")

    module.__dict__["__getattr__"] = make_up
    monkeypatch.setitem(sys.modules, "lazy", module)
    report = {**encode_exception(ValueError("x")), "type": "lazy:Error"}

    assert isinstance(decode_exception(report), RemoteNodeError)


@pytest.mark.parametrize("exc", [KeyboardInterrupt(), SystemExit(1), GeneratorExit(), asyncio.CancelledError("x")])
def test_what_would_end_the_coordinator_does_not(exc: BaseException) -> None:
    back = across(exc)

    assert isinstance(back, RemoteNodeError)
    assert type(exc).__name__ in back.type_name


def test_an_exception_with_memory_of_its_own_is_not_rebuilt_without_it() -> None:
    class Model(BaseModel):
        x: int

    with pytest.raises(ValidationError) as caught:
        Model.model_validate({"x": "no"})
    back = across(caught.value)

    assert isinstance(back, RemoteNodeError)
    assert "valid integer" in str(back)


def test_an_exception_that_cannot_be_printed_still_arrives() -> None:
    back = across(Unprintable(Unprintable("inner")))

    assert type(back) is Unprintable
    assert "RuntimeError" in str(encode_exception(Unprintable())["text"])


def test_a_huge_message_is_shortened() -> None:
    report = encode_exception(raised(ValueError("a" * 1_000_000)))

    assert len(str(report["text"])) < 70_000
    assert "characters left out" in str(report["traceback"])


def test_an_error_of_a_recursion_too_deep_arrives() -> None:
    def dive() -> None:
        dive()

    with pytest.raises(RecursionError) as caught:
        dive()

    assert type(across(caught.value)) is RecursionError


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"type": "builtins:ValueError"},
        {"type": 1, "text": "", "args": [], "attributes": {}, "state": {}, "traceback": ""},
        {"type": "a:b", "text": "", "args": {}, "attributes": {}, "state": {}, "traceback": ""},
        {"type": "a:b", "text": "", "args": [], "attributes": {1: 2}, "state": {}, "traceback": ""},
    ],
)
def test_a_report_that_is_none_is_corrupt_data(data: object) -> None:
    with pytest.raises(CorruptDataError):
        decode_exception(data)


def test_a_report_with_broken_parts_still_gives_the_text() -> None:
    report = {**encode_exception(raised(ValueError("x"))), "args": [b"\xc1"]}
    back = decode_exception(report)

    assert isinstance(back, RemoteNodeError)
    assert back.message == "x"


# --- exceptions as data ----------------------------------------------------------------------------------------------


def test_an_exception_in_a_value_comes_back(serializer: Serializer) -> None:
    exc = OrderError(7, "late")
    exc.add_note("note")
    back = serializer.loads(serializer.dumps({"errors": [exc, FileNotFoundError(2, "gone", "a.txt")]}))

    first, second = cast("dict[str, list[Exception]]", back)["errors"]
    assert type(first) is OrderError
    assert vars(first) == vars(exc)
    assert first.args == exc.args
    assert str(second) == "[Errno 2] gone: 'a.txt'"


def test_an_exception_in_a_value_whose_class_cannot_be_found_is_refused(serializer: Serializer) -> None:
    class Local(Exception):
        pass

    with pytest.raises(UnserializableError, match="register its class"):
        serializer.dumps([Local()])
    serializer.registry.register(Local)
    data = serializer.dumps([Local("x")])
    with pytest.raises(UnknownTypeError, match="Local"):
        Serializer(TypeRegistry()).loads(data)
