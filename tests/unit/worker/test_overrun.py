"""Batches that kept their process for too long: what is left when that cannot be said."""

import logging

import pytest

from phalanx.worker.overrun import Overruns
from phalanx.worker.registry import GraphRegistry
from phalanx.worker.settings import WorkerSettings


def test_a_message_that_is_no_batch_does_not_keep_the_pool_from_ending_its_process(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "phalanx.worker"):
        Overruns(WorkerSettings("redis://nowhere.invalid"), GraphRegistry()).record(["no batch"], 2.0)

    assert "a batch took longer than 2.0 s" in caplog.text
