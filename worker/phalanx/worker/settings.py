"""How a worker reaches its cluster and what it serves."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from phalanx.protocol.batch import DEFAULT_QUEUE
from phalanx.protocol.keys import DEFAULT_PREFIX

URL_VARIABLE: Final = "PHALANX_URL"
"""The environment variable that names the state server, to workers and to those who send them tasks."""

BROKER_URL_VARIABLE: Final = "PHALANX_BROKER_URL"
"""The environment variable that names the broker, where it is another server."""


def broker_of(url: str) -> str:
    """The URL by which Celery knows a state server that is the broker too: it has a name of its own for sockets."""
    return f"redis+socket://{url.removeprefix('unix://')}" if url.startswith("unix://") else url


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of one worker.

    Attributes:
        url: the state server.
        broker_url: the broker; the state server unless given.
        queues: what it takes tasks from.
        concurrency: how many worker processes it runs.
        graphs_file: where a local cluster writes which graphs there are.
        prefix: what all keys start with.
    """

    url: str
    broker_url: str = ""
    queues: tuple[str, ...] = (DEFAULT_QUEUE,)
    concurrency: int = field(default_factory=lambda: os.cpu_count() or 1)
    graphs_file: Path | None = None
    prefix: str = DEFAULT_PREFIX

    @property
    def broker(self) -> str:
        """The broker's URL."""
        return self.broker_url or broker_of(self.url)
