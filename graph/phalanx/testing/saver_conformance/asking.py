"""How the tests ask a saver: through its blocking methods or through their async forms, with the same calls."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar

import pytest

from phalanx.types import Send

T = TypeVar("T")


Listed = list[Any]  # inside of a class with a method of that name, `list` is that method


class Asking:
    """A saver, asked in one of the two forms.

    Attributes:
        saver: the saver.
        packet: makes a packet for a node; those of another library, if the saver is made for it.
    """

    def __init__(self, saver: Any, runner: asyncio.Runner | None, packet: Callable[[str, Any], Any]) -> None:
        self.saver: Final = saver
        self.packet: Final = packet
        self._runner: Final = runner

    def _ask(self, method: str, *args: object, **options: object) -> Any:
        if self._runner is None:
            return getattr(self.saver, method)(*args, **options)
        return self._runner.run(getattr(self.saver, f"a{method}")(*args, **options))

    def _ask_if_it_can(self, method: str, *args: object, **options: object) -> Any:
        try:
            return self._ask(method, *args, **options)
        except (NotImplementedError, AttributeError) as error:
            if isinstance(error, AttributeError) and hasattr(self.saver, method):
                raise
            pytest.skip(f"{type(self.saver).__name__} has no {method}, which a saver may leave out")

    def get(self, config: Mapping[str, Any]) -> Any:
        """The checkpoint alone."""
        return self._ask("get", config)

    def get_tuple(self, config: Mapping[str, Any]) -> Any:
        """The checkpoint with all about it, or ``None``."""
        return self._ask("get_tuple", config)

    def list(self, config: Mapping[str, Any] | None, **options: Any) -> Listed:
        """All that is listed."""
        if self._runner is None:
            return [*self.saver.list(config, **options)]
        return self._runner.run(self._listed(config, options))

    async def _listed(self, config: Mapping[str, Any] | None, options: Mapping[str, Any]) -> Listed:
        return [found async for found in self.saver.alist(config, **options)]

    def put(
        self, config: Mapping[str, Any], checkpoint: Any, metadata: Mapping[str, Any], new: Mapping[str, Any]
    ) -> Any:
        """Store a checkpoint; its config."""
        return self._ask("put", config, checkpoint, metadata, new)

    def put_writes(
        self, config: Mapping[str, Any], writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store a task's writes."""
        self._ask("put_writes", config, writes, task_id, task_path)

    def put_writes_at_once(self, config: Mapping[str, Any], by_task: Mapping[str, Sequence[tuple[str, Any]]]) -> None:
        """Store the writes of many tasks, all at the same time."""
        if self._runner is None:
            in_threads([_putting(self.saver, config, writes, task) for task, writes in by_task.items()])
        else:
            self._runner.run(self._gathered([self.saver.aput_writes(config, w, task) for task, w in by_task.items()]))

    async def _gathered(self, calls: Sequence[Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(*calls)

    def delete_thread(self, thread_id: str) -> None:
        """Forget a thread."""
        self._ask("delete_thread", thread_id)

    def copy_thread(self, source: str, target: str) -> None:
        """Copy a thread, or skip the test."""
        self._ask_if_it_can("copy_thread", source, target)

    def prune(self, thread_ids: Sequence[str], strategy: str | None = None) -> None:
        """Prune threads, or skip the test."""
        options = {} if strategy is None else {"strategy": strategy}
        self._ask_if_it_can("prune", thread_ids, **options)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete what runs made, or skip the test."""
        self._ask_if_it_can("delete_for_runs", run_ids)

    def delta_history(self, config: Mapping[str, Any], channels: Sequence[str]) -> Any:
        """The history of delta channels, or skip the test."""
        return self._ask_if_it_can("get_delta_channel_history", config=config, channels=channels)


def _putting(saver: Any, config: Mapping[str, Any], writes: Sequence[tuple[str, Any]], task: str) -> Callable[[], None]:
    return lambda: saver.put_writes(config, writes, task)


def in_threads(calls: Sequence[Callable[[], object]]) -> None:
    """Run all calls at the same time, each in a thread, and raise what the first of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        start.wait()
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class Rules:
    """What all rules share: the saver, how it is asked, and what it may do in its own way.

    Attributes:
        forms: the forms in which the saver can be asked: ``"sync"``, ``"async"`` or both.
        packet: the class of packets; another library's, if the saver is made for it.
        thread_ids_may_be_numbers: whether a number and its text are one thread. Engines give texts.
        lists_all_threads: whether ``list(None)`` works.
        values_lost: the names of values, as :data:`~phalanx.testing.saver_conformance.checkpoints.VALUES` has them,
            that the saver's serializer refuses or does not restore exactly.
    """

    forms: ClassVar[Sequence[str]] = ("sync", "async")
    packet: ClassVar[type[Any]] = Send
    thread_ids_may_be_numbers: ClassVar[bool] = True
    lists_all_threads: ClassVar[bool] = True
    values_lost: ClassVar[frozenset[str]] = frozenset()

    @pytest.fixture
    def saver(self) -> Any:
        """A saver that holds nothing."""
        raise NotImplementedError("override the fixture `saver`: it gives a saver that holds nothing")

    @pytest.fixture
    def runner(self) -> Iterator[asyncio.Runner]:
        """The event loop in which the async forms are asked."""
        with asyncio.Runner() as runner:
            yield runner

    @pytest.fixture(params=["sync", "async"])
    def asking(self, request: pytest.FixtureRequest, saver: Any, runner: asyncio.Runner) -> Asking:
        """The saver, asked in each form in turn."""
        if request.param not in self.forms:
            pytest.skip(f"this saver is asked {' and '.join(self.forms)} only")
        return Asking(saver, runner if request.param == "async" else None, type(self).packet)
