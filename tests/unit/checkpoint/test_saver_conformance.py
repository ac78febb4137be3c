"""What every saver promises: the one in memory, one that only has the interface's default methods, and LangGraph's."""

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import pytest
from langgraph.checkpoint.memory import InMemorySaver as TheirSaver
from langgraph.types import Send as TheirSend

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.testing.saver_conformance import SaverConformance

NECESSARY: Final = ("get_tuple", "list", "put", "put_writes", "delete_thread")


class TestInMemorySaver(SaverConformance):
    """The saver in memory."""

    @pytest.fixture
    def saver(self) -> Any:
        return InMemorySaver()


class Least(BaseCheckpointSaver):
    """A saver with nothing but the methods that every saver has; the rest is the interface's."""

    def __init__(self) -> None:
        super().__init__()
        inner = InMemorySaver()
        for method in NECESSARY:
            setattr(self, method, getattr(inner, method))


class TestSaverWithOnlyTheNecessary(SaverConformance):
    """What a saver leaves out is skipped, and what the interface adds by itself works."""

    @pytest.fixture
    def saver(self) -> Any:
        return Least()


class LeastAsync(BaseCheckpointSaver):
    """The same with the async forms alone."""

    def __init__(self) -> None:
        super().__init__()
        inner = InMemorySaver()
        for method in NECESSARY:
            setattr(self, f"a{method}", getattr(inner, f"a{method}"))


class TestSaverThatIsAsyncOnly(SaverConformance):
    """A saver need not have the blocking methods."""

    forms: ClassVar[Sequence[str]] = ("async",)

    @pytest.fixture
    def saver(self) -> Any:
        return LeastAsync()


class TestSaverOfLangGraph(SaverConformance):
    """The tests ask for nothing that is ours alone: a saver made for the other library passes."""

    packet: ClassVar[type[Any]] = TheirSend
    values_lost = frozenset({"a larger number", "a tuple"})
    thread_ids_may_be_numbers: ClassVar[bool] = False

    @pytest.fixture
    def saver(self) -> Any:
        return TheirSaver()
