"""Servers that tests start: a Redis from the system beside the embedded Valkey, and a Redis Cluster of three."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from tests.support import wait_until

from phalanx.coordinator.local import server_binary

_SLOTS: Final = 16_384
_BUS_OFFSET: Final = 10_000  # from a server's port to the one on which it talks to the others


def redis_binary() -> str:
    """The system's Redis; without one the test is skipped, and fails in CI."""
    found = shutil.which("redis-server")
    if found is None:
        if os.environ.get("CI"):
            raise AssertionError("no redis-server here, and in CI there must be: install Debian's redis-server")
        pytest.skip("no redis-server here")
    return found


def any_binary() -> str:
    """The system's Redis, or else the embedded Valkey."""
    return shutil.which("redis-server") or str(server_binary())


@contextmanager
def running(binary: str, options: Sequence[str]) -> Generator[None]:
    """A server process, with nothing stored on disk, as long as the context lasts."""
    common = ["--save", "", "--appendonly", "no", "--daemonize", "no", "--loglevel", "warning"]
    process = subprocess.Popen([binary, *options, *common], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


@contextmanager
def one_server(binary: str) -> Generator[str]:
    """A server on a socket file; its URL."""
    with tempfile.TemporaryDirectory(prefix="phalanx-test-") as folder:
        path = f"{folder}/server.sock"
        with running(binary, ["--port", "0", "--unixsocket", path, "--dir", folder]):
            client = Redis(unix_socket_path=path)
            wait_until(lambda: _answers(client), "the server answers")
            client.close()
            yield f"unix://{path}"


@contextmanager
def cluster_of_three(binary: str) -> Generator[str]:
    """A cluster of three masters on loopback; the URL of one of them."""
    with tempfile.TemporaryDirectory(prefix="phalanx-test-") as folder, ExitStack() as stack:
        ports = _free_ports(3)
        clients = [stack.enter_context(_node(binary, port, Path(folder) / str(port))) for port in ports]
        for number, client in enumerate(clients):
            first, end = _SLOTS * number // 3, _SLOTS * (number + 1) // 3
            client.execute_command("CLUSTER ADDSLOTS", *range(first, end))
            client.execute_command("CLUSTER MEET", "127.0.0.1", ports[0])
        wait_until(lambda: all(_complete(client) for client in clients), "the servers know each other", timeout_s=60)
        yield f"redis+cluster://127.0.0.1:{ports[0]}/0"


@contextmanager
def _node(binary: str, port: int, folder: Path) -> Generator[Any]:
    folder.mkdir()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--cluster-enabled", "yes"]
    with running(binary, [*options, "--cluster-node-timeout", "15000"]), Redis(port=port) as client:
        wait_until(lambda: _answers(client), "a server of the cluster answers")
        yield client


def _answers(client: Any) -> bool:
    try:
        return bool(client.ping())
    except RedisConnectionError:
        return False


def _complete(client: Any) -> bool:
    found = client.execute_command("CLUSTER INFO")
    return bool(found["cluster_state"] == "ok" and found["cluster_known_nodes"] == "3")


def _free_ports(count: int) -> list[int]:
    """Ports that are free together with the ones that the cluster adds to them."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if port in found or port + _BUS_OFFSET > 65_535:
                port = 20_000 + port % 20_000
            try:
                other.bind(("127.0.0.1", port + _BUS_OFFSET))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found
