"""A server, worker processes that come and go, and clients in processes of their own."""

import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.acceptance.processes import PHALANX, PROJECT, TIMEOUT_S, environment
from tests.support import wait_until

from phalanx.config import RunnableConfig
from phalanx.coordinator import Cluster
from phalanx.coordinator.local import LocalServer
from phalanx.graph import CompiledStateGraph

Graph = CompiledStateGraph[Any]


@dataclass
class Serving:
    """A server, with workers that serve all graphs of some modules.

    Attributes:
        cluster: as this process, a client, sees it.
    """

    server: LocalServer
    cluster: Cluster
    modules: tuple[ModuleType, ...]
    _workers: "list[subprocess.Popen[bytes]]" = field(default_factory=list["subprocess.Popen[bytes]"])

    @classmethod
    @contextmanager
    def of(cls, *modules: ModuleType, processes: int = 2) -> "Generator[Serving]":
        """Serve the graphs of these modules, for as long as the context lasts."""
        server = LocalServer.start()
        serving = cls(server, Cluster(server.url, broker_url=server.broker_url), modules)
        try:
            serving.start_worker(processes)
            yield serving
        finally:
            serving.stop_workers()
            serving.cluster.close()
            server.close()

    def start_worker(self, processes: int = 2) -> None:
        """Start ``phalanx worker``, and wait until its processes have joined."""
        before = {worker.id for worker in self.cluster.workers()}
        graphs = [
            f"--graph={name}={module.__name__}:{name}"
            for module in self.modules
            for name, value in vars(module).items()
            if getattr(value, "blueprint", None) is not None and value.name == name
        ]
        urls = ["--url", self.server.url, "--broker-url", self.server.broker_url]
        command = [PHALANX, "worker", *urls, *graphs, "--concurrency", str(processes), "--quiet"]
        self._workers.append(subprocess.Popen(command, cwd=PROJECT, env=environment(PYTHONPATH=str(PROJECT))))
        wait_until(
            lambda: len({each.id for each in self.cluster.workers()} - before) == processes, "the worker to join"
        )

    def stop_workers(self) -> None:
        """Stop all workers, and wait until they are gone."""
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait(timeout=20)
        self._workers.clear()

    def run(self, graph: Graph, given: object, thread: str | None = None, **options: Any) -> Any:
        """Run a graph on the cluster, from this process."""
        return graph.with_cluster(self.cluster).invoke(given, None if thread is None else config_of(thread), **options)

    @contextmanager
    def client(self, graph: Graph, thread: str, **order: Any) -> "Generator[subprocess.Popen[str]]":
        """A client process that makes one call."""
        (module,) = [each for each in self.modules if vars(each).get(graph.name) is graph]
        where = {"url": self.server.url, "broker_url": self.server.broker_url, "thread": thread}
        told = json.dumps({**where, "module": module.__name__, "graph": graph.name, **order})
        process = subprocess.Popen(
            [sys.executable, str(PROJECT / "tests/acceptance/graphs/client.py"), told],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(PYTHONPATH=str(PROJECT)),
        )
        with process:
            try:
                yield process
            finally:
                process.kill()

    def call(self, graph: Graph, thread: str, **order: Any) -> dict[str, Any]:
        """Make a call from a client process; what it printed."""
        with self.client(graph, thread, **order) as process:
            stdout, stderr = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, stderr
        printed: dict[str, Any] = json.loads(stdout.splitlines()[-1])
        return printed

    def dies(self, graph: Graph, thread: str, operation: str, number: int, *, before: bool, **order: Any) -> None:
        """Make a call from a client process that kills itself at a certain moment; and let its lease be over."""
        with self.client(graph, thread, die_at=[operation, number, before], **order) as process:
            _, stderr = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == -9, stderr
        self.expire_lease(thread)

    def expire_lease(self, thread: str) -> None:
        """As if the coordinator of a thread had been silent for as long as its lease is valid."""
        self.cluster.saver.client.hset(self.cluster.saver.keys(thread).lease, "until", "1")

    def keys(self, thread: str) -> list[str]:
        """The keys of a thread."""
        client: Any = self.cluster.saver.client
        return sorted(key.decode() for key in client.scan_iter(f"phalanx:{{{thread}}}:*", count=1000))


def config_of(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def new_thread() -> str:
    """The id of a thread that nobody has used."""
    return f"thread-{uuid.uuid4()}"


def new_folder(under: Path) -> Path:
    """An empty folder for what nodes note."""
    return Path(tempfile.mkdtemp(dir=under))
