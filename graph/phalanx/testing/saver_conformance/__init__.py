"""What every checkpoint saver promises, as tests that any saver can be put to. They need pytest and nothing else.

    from phalanx.testing.saver_conformance import SaverConformance

    class TestMySaver(SaverConformance):
        @pytest.fixture
        def saver(self):
            yield MySaver(...)

Each test runs twice: through the blocking methods, and through their async forms. What a saver may leave out is skipped
when the saver raises ``NotImplementedError``. The class attributes of :class:`SaverConformance` say what else a saver
may lawfully do differently.

A saver that is bound to an event loop is made in the one that the tests use:

    class TestMyAsyncSaver(SaverConformance):
        forms = ("async",)

        @pytest.fixture
        def saver(self, runner):
            saver = runner.run(MyAsyncSaver.open(...))
            yield saver
            runner.run(saver.close())
"""

import pytest

for _module in ("asking", "made", "checkpoints", "writes", "threads", "deltas"):
    pytest.register_assert_rewrite(f"{__name__}.{_module}")  # so that a failure shows what was compared

from phalanx.testing.saver_conformance.asking import Asking  # noqa: E402
from phalanx.testing.saver_conformance.checkpoints import CheckpointRules  # noqa: E402
from phalanx.testing.saver_conformance.deltas import DeltaRules  # noqa: E402
from phalanx.testing.saver_conformance.threads import ThreadRules  # noqa: E402
from phalanx.testing.saver_conformance.writes import WriteRules  # noqa: E402


class SaverConformance(CheckpointRules, WriteRules, ThreadRules, DeltaRules):
    """All rules. Override the fixture ``saver``, which gives a saver that holds nothing."""


__all__ = ["Asking", "SaverConformance"]
