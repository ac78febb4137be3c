"""Bounding an attempt: the clocks, a thread that is left behind, a coroutine that is cancelled."""

import asyncio
import contextvars
import gc
import logging
import threading
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import pytest

from phalanx.errors import NodeTimeoutError
from phalanx.types import TimeoutPolicy
from phalanx.worker.call_on_loop import await_bounded
from phalanx.worker.timeouts import LONGEST_WAIT_S, Clockwork, run_bounded

T = TypeVar("T")
LONG_S: Final = 20.0  # longer than anything here takes; only a failing test waits for it
SHORT_S: Final = 0.02


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that a clockwork reads; who waits reads the real one."""
    made = Clock()
    monkeypatch.setattr("phalanx.worker.timeouts.time.monotonic", made)
    return made


class StoppedClockwork(Clockwork):
    """Has time left as often as a test says, and from then on none."""

    def __init__(self, *left_s: float) -> None:
        super().__init__("node", TimeoutPolicy(LONG_S))
        self._left = [*left_s]

    def left_s(self) -> float:
        if self._left:
            return self._left.pop(0)
        raise NodeTimeoutError("node", LONG_S, kind="run", run_timeout=LONG_S)


# --- clocks -----------------------------------------------------------------------------------------------------------


def test_the_time_left_is_that_of_the_limit_that_is_reached_first(clock: Clock) -> None:
    made = Clockwork("node", TimeoutPolicy(10.0, 4.0))
    assert made.left_s() == 4.0

    clock.now += 3.0
    assert made.left_s() == 1.0
    made.beat()
    assert made.left_s() == 4.0

    clock.now += 3.5
    made.beat()
    assert made.left_s() == 3.5


def test_time_runs_out_exactly_at_the_limit(clock: Clock) -> None:
    made = Clockwork("node", TimeoutPolicy(10.0))
    clock.now += 9.75
    assert made.left_s() == 0.25

    clock.now += 0.25
    with pytest.raises(NodeTimeoutError):
        made.left_s()


def test_a_node_that_took_too_long_is_named_with_its_limit_and_how_long_it_took(clock: Clock) -> None:
    made = Clockwork("review", TimeoutPolicy(10.0, 60.0))
    clock.now += 12.5

    with pytest.raises(NodeTimeoutError, match=r"^Node 'review' exceeded its run timeout of 10.000s \(elapsed: 12"):
        made.left_s()


def test_a_node_without_a_sign_of_life_is_named_with_its_idle_limit_and_how_long_it_took_in_all(clock: Clock) -> None:
    made = Clockwork("review", TimeoutPolicy(None, 2.0))
    clock.now += 5.0
    made.beat()
    clock.now += 2.0

    with pytest.raises(NodeTimeoutError) as caught:
        made.left_s()

    error = caught.value
    assert (error.kind, error.idle_timeout, error.run_timeout, error.elapsed) == ("idle", 2.0, None, 7.0)
    assert "idle timeout of 2.000s without making progress (elapsed: 7.000s)" in str(error)


def test_when_both_limits_are_over_it_is_the_whole_time_that_ran_out(clock: Clock) -> None:
    made = Clockwork("node", TimeoutPolicy(5.0, 5.0))
    clock.now += 5.0

    with pytest.raises(NodeTimeoutError) as caught:
        made.left_s()

    assert caught.value.kind == "run"


def test_signs_of_life_do_not_lengthen_the_time_in_all(clock: Clock) -> None:
    made = Clockwork("node", TimeoutPolicy(3.0, 2.0))
    for _ in range(3):
        assert made.left_s() <= 2.0
        clock.now += 1.0
        made.beat()

    with pytest.raises(NodeTimeoutError, match="run timeout"):
        made.left_s()


@pytest.mark.parametrize("limit_s", [float("inf"), 1e300])
def test_a_limit_longer_than_anyone_can_wait_is_waited_for_piece_by_piece(limit_s: float) -> None:
    left = Clockwork("node", TimeoutPolicy(limit_s)).left_s()

    assert left == LONGEST_WAIT_S
    assert run_bounded(Clockwork("node", TimeoutPolicy(limit_s)), lambda: 5) == 5


@pytest.mark.parametrize(("refresh_on", "counts"), [("auto", True), ("heartbeat", False)])
def test_what_a_node_streams_is_a_sign_of_life_unless_only_heartbeats_are(refresh_on: Any, counts: bool) -> None:
    assert Clockwork("node", TimeoutPolicy(1.0, refresh_on=refresh_on)).counts_streams is counts


# --- in a thread ------------------------------------------------------------------------------------------------------


def test_a_function_in_time_gives_what_it_returns() -> None:
    assert run_bounded(Clockwork("node", TimeoutPolicy(LONG_S)), lambda: "done") == "done"


class OddError(BaseException):
    """No ordinary error."""


@pytest.mark.parametrize("error", [ValueError("mine"), OddError(), SystemExit(3)])
def test_what_a_function_raises_is_raised_here(error: BaseException) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        run_bounded(Clockwork("node", TimeoutPolicy(LONG_S)), fail)

    assert caught.value is error


def test_a_timeout_of_the_function_s_own_is_not_taken_for_the_engine_s() -> None:
    own = NodeTimeoutError("inner", 1.0, kind="run", run_timeout=1.0)

    def fail() -> None:
        raise own

    with pytest.raises(NodeTimeoutError) as caught:
        run_bounded(Clockwork("node", TimeoutPolicy(LONG_S)), fail)

    assert caught.value is own


name: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")


def test_a_bounded_function_runs_in_another_thread_with_a_copy_of_the_context() -> None:
    def look() -> tuple[int, str]:
        found = name.get()
        name.set("inner")
        return threading.get_ident(), found

    token = name.set("caller")
    thread, found = run_bounded(Clockwork("node", TimeoutPolicy(LONG_S)), look)

    assert thread != threading.get_ident()
    assert (found, name.get()) == ("caller", "caller")
    name.reset(token)


def test_a_function_whose_time_is_up_is_left_behind_in_a_thread_that_does_not_keep_the_process() -> None:
    release, ended = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def hang() -> None:
        threads.append(threading.current_thread())
        release.wait(LONG_S)
        ended.set()

    with pytest.raises(NodeTimeoutError, match=r"Node 'node' exceeded its run timeout of 0\.020s"):
        run_bounded(Clockwork("node", TimeoutPolicy(SHORT_S)), hang)

    assert threads[0].daemon
    assert not ended.is_set()
    release.set()
    assert ended.wait(LONG_S)


def test_what_a_function_raises_after_its_time_disturbs_nobody() -> None:
    release = threading.Event()
    threads: list[threading.Thread] = []

    def fail_late() -> None:
        threads.append(threading.current_thread())
        release.wait(LONG_S)
        raise ValueError("too late")

    with pytest.raises(NodeTimeoutError):
        run_bounded(Clockwork("node", TimeoutPolicy(SHORT_S)), fail_late)

    release.set()
    threads[0].join(LONG_S)  # a thread that raised would be a warning, and so an error


def test_a_function_that_shows_life_is_waited_for_longer_than_its_idle_limit() -> None:
    clockwork = Clockwork("node", TimeoutPolicy(None, 0.1))

    def works() -> float:
        started = time.monotonic()
        while time.monotonic() - started < 0.25:
            clockwork.beat()
            time.sleep(0.005)
        return time.monotonic() - started

    assert run_bounded(clockwork, works) >= 0.25


def test_a_function_that_shows_no_life_fails_though_it_has_time_in_all() -> None:
    release = threading.Event()

    with pytest.raises(NodeTimeoutError, match="idle timeout"):
        run_bounded(Clockwork("node", TimeoutPolicy(LONG_S, SHORT_S)), lambda: release.wait(LONG_S))

    release.set()


def test_what_a_function_returned_in_the_very_moment_its_time_was_up_counts() -> None:
    ended = threading.Event()

    class OverAfterTheFunction(StoppedClockwork):
        def left_s(self) -> float:
            assert ended.wait(LONG_S)
            return super().left_s()

    def work() -> str:
        threading.Timer(SHORT_S, ended.set).start()  # when the function has returned
        return "in time"

    assert run_bounded(OverAfterTheFunction(), work) == "in time"


# --- on a loop --------------------------------------------------------------------------------------------------------


def on_loop(coroutine: Coroutine[object, object, T]) -> T:
    """Run it, and fail should the loop complain about anything."""
    complaints: list[dict[str, Any]] = []

    async def watched() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: complaints.append(what))
        try:
            return await coroutine
        finally:
            gc.collect()
            await asyncio.sleep(0)

    try:
        return asyncio.run(watched())
    finally:
        gc.collect()
        assert complaints == []


def test_a_coroutine_in_time_gives_what_it_returns() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    assert on_loop(await_bounded(Clockwork("node", TimeoutPolicy(LONG_S)), work())) == "done"


def test_what_a_coroutine_raises_is_raised_here() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        on_loop(await_bounded(Clockwork("node", TimeoutPolicy(LONG_S)), fail()))


def test_a_timeout_of_the_coroutine_s_own_is_not_taken_for_the_engine_s() -> None:
    own = NodeTimeoutError("inner", 1.0, kind="run", run_timeout=1.0)

    async def fail() -> None:
        raise own

    with pytest.raises(NodeTimeoutError) as caught:
        on_loop(await_bounded(Clockwork("node", TimeoutPolicy(LONG_S)), fail()))

    assert caught.value is own


def test_a_coroutine_whose_time_is_up_is_cancelled_and_cleans_up_before_the_error_is_told() -> None:
    ended: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.sleep(LONG_S)
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    with pytest.raises(NodeTimeoutError, match="run timeout"):
        on_loop(await_bounded(Clockwork("node", TimeoutPolicy(SHORT_S)), hang()))

    assert ended == ["cleaned up"]


def test_a_coroutine_that_shows_life_is_waited_for_longer_than_its_idle_limit() -> None:
    async def works() -> str:
        clockwork = Clockwork("node", TimeoutPolicy(None, 0.1))

        async def beats() -> str:
            for _ in range(25):
                await asyncio.sleep(0.01)
                clockwork.beat()
            return "done"

        return await await_bounded(clockwork, beats())

    assert on_loop(works()) == "done"


def test_a_coroutine_that_shows_no_life_fails_though_it_has_time_in_all() -> None:
    with pytest.raises(NodeTimeoutError, match="idle timeout"):
        on_loop(await_bounded(Clockwork("node", TimeoutPolicy(LONG_S, SHORT_S)), asyncio.sleep(LONG_S)))


def test_a_coroutine_that_swallows_its_cancellation_and_goes_on_is_left_behind_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("phalanx.worker.call_on_loop._CANCEL_PATIENCE_S", SHORT_S)
    ended: list[str] = []

    async def both() -> None:
        may_end = asyncio.Event()

        async def stubborn() -> None:
            while not may_end.is_set():
                try:
                    await may_end.wait()
                except asyncio.CancelledError:
                    ended.append("swallowed")

        with pytest.raises(NodeTimeoutError):
            await await_bounded(Clockwork("stubborn", TimeoutPolicy(SHORT_S)), stubborn())
        assert ended == ["swallowed"]
        may_end.set()

    with caplog.at_level(logging.WARNING, "phalanx.worker"):
        on_loop(both())

    assert [record.getMessage() for record in caplog.records] == [
        "node 'stubborn' was cancelled when its time was up and goes on nevertheless; it is left behind"
    ]


@pytest.mark.parametrize("says", ["late", None])
def test_what_a_coroutine_returns_when_it_is_cancelled_is_lost(
    says: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def answers() -> str | None:
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            return says
        return "never"

    with pytest.raises(NodeTimeoutError):
        on_loop(await_bounded(Clockwork("node", TimeoutPolicy(SHORT_S)), answers()))
    assert caplog.records == []


def test_what_a_coroutine_raises_when_it_is_cancelled_is_lost_and_nobody_complains() -> None:
    async def breaks() -> None:
        try:
            await asyncio.sleep(LONG_S)
        finally:
            raise ValueError("while cleaning up")

    async def both() -> None:
        with pytest.raises(NodeTimeoutError):
            await await_bounded(Clockwork("node", TimeoutPolicy(SHORT_S)), breaks())

    on_loop(both())


def test_what_a_coroutine_returned_in_the_very_moment_its_time_was_up_counts() -> None:
    async def both() -> str:
        ended = asyncio.Event()

        class Over(StoppedClockwork):
            """Over as soon as the coroutine has ended, before anyone has seen that."""

            def left_s(self) -> float:
                return 0.0 if not ended.is_set() else super().left_s()

        async def work() -> str:
            await asyncio.sleep(SHORT_S)
            ended.set()
            return "in time"

        return await await_bounded(Over(), work())

    assert on_loop(both()) == "in time"


def test_a_cancellation_from_outside_cancels_the_coroutine_and_waits_for_its_end() -> None:
    ended: list[str] = []

    async def both() -> None:
        started = asyncio.Event()

        async def hang() -> None:
            started.set()
            try:
                await asyncio.sleep(LONG_S)
            finally:
                await asyncio.sleep(0)
                ended.append("cleaned up")

        bounded = asyncio.ensure_future(await_bounded(Clockwork("node", TimeoutPolicy(LONG_S)), hang()))
        await started.wait()
        bounded.cancel()
        with pytest.raises(asyncio.CancelledError):
            await bounded

    on_loop(both())
    assert ended == ["cleaned up"]


def test_a_coroutine_that_raises_a_cancellation_of_its_own_raises_it_here() -> None:
    async def cancels() -> None:
        raise asyncio.CancelledError("mine")

    async def both() -> None:
        with pytest.raises(asyncio.CancelledError, match="mine"):
            await await_bounded(Clockwork("node", TimeoutPolicy(LONG_S)), cancels())
        current = asyncio.current_task()
        assert current is not None
        assert not current.cancelling()

    on_loop(both())
