"""A server and a worker for the commands that need some."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.acceptance.processes import JOBS, PHALANX, PROJECT, environment, phalanx
from tests.support import wait_until

from phalanx.coordinator.local import LocalServer


@dataclass(frozen=True)
class Service:
    """An embedded server with one worker that serves the graph ``jobs``.

    Attributes:
        options: how commands reach it.
    """

    server: LocalServer

    @property
    def options(self) -> list[str]:
        return ["--url", self.server.url, "--broker-url", self.server.broker_url]


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    """A server and ``phalanx worker``, as on a cluster."""
    server = LocalServer.start()
    service = Service(server)
    command = [PHALANX, "worker", *service.options, "--graph", f"jobs={JOBS}:graph", "--concurrency", "1", "--quiet"]
    worker = subprocess.Popen(command, cwd=PROJECT, env=environment())
    try:
        wait_until(lambda: "1 worker" in phalanx("workers", "--url", server.url).stdout, "the worker to join")
        yield service
    finally:
        worker.terminate()
        worker.wait(timeout=20)
        server.close()
