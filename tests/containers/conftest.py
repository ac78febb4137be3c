"""A Redis and any number of workers in containers on a private network, new for every test.

Settings: `PHALANX_TEST_REDIS_IMAGE` (default `redis:7`) and `PHALANX_TEST_PHALANX_IMAGE` (default `phalanx`, which
`make image` builds). Without Docker or without one of the images the tests are skipped on a laptop and fail in CI.
"""

import gc
import importlib.util
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import docker
import pytest
from docker.errors import DockerException, ImageNotFound
from testcontainers.core.container import DockerContainer
from testcontainers.core.docker_client import DockerClient
from testcontainers.core.network import Network
from tests.support import wait_until

from phalanx.protocol.keys import ClusterKeys

PROJECT = Path(__file__).parents[2]
REDIS_IMAGE = os.environ.get("PHALANX_TEST_REDIS_IMAGE", "redis:7")
PHALANX_IMAGE = os.environ.get("PHALANX_TEST_PHALANX_IMAGE", "phalanx")
IN_CI = bool(os.environ.get("CI"))

GraphLoader = Callable[[str], Any]
"""From the name of a graph file to its `graph`. The tests use the public methods of compiled graphs only."""


class StartWorker(Protocol):
    """Start a worker container called `name` with more arguments, and with folders mounted where they are here."""

    def __call__(self, name: str, *args: str, folders: tuple[Path, ...] = ()) -> DockerContainer: ...


def missing() -> str | None:
    """Say why the containers cannot be started, if so."""
    with warnings.catch_warnings():
        # A client that finds no daemon leaves its socket to the garbage collector, which would end the test run.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            client = DockerClient().client
        except DockerException as exc:
            reason = f"Docker cannot be reached ({exc})"
        else:
            with closing(client):
                return missing_image(client)
        gc.collect()
        return reason


def missing_image(client: docker.DockerClient) -> str | None:
    """Say what is wrong with the worker image, if anything. Docker fetches the public Redis image by itself."""
    try:
        client.images.get(PHALANX_IMAGE)
    except ImageNotFound:
        return f"there is no image {PHALANX_IMAGE!r}: run `make image`, or set PHALANX_TEST_PHALANX_IMAGE"
    except DockerException as exc:
        return f"Docker does not answer ({exc})"
    return None


@pytest.fixture(scope="session")
def docker_is_there() -> None:
    """Docker and the worker image; a skip on a laptop, a failure in CI."""
    reason = missing()
    if reason and IN_CI:
        pytest.fail(f"{reason}; in CI the container tests must run")
    if reason:
        pytest.skip(reason)


@pytest.fixture
def network(docker_is_there: None) -> Iterator[Network]:
    """A private network, on which containers find each other by name."""
    with Network() as network:
        yield network


@dataclass(frozen=True)
class RedisServer:
    """The Redis of a test: `url` for this process, `private_url` for the containers."""

    container: DockerContainer
    private_url: str = "redis://redis:6379/0"

    @property
    def url(self) -> str:
        """Where the published port is."""
        return f"redis://{self.container.get_container_host_ip()}:{self.container.get_exposed_port(6379)}/0"

    def command(self, *words: str) -> str:
        """Run one command in the container."""
        return self.container.exec(["redis-cli", *words]).output.decode()

    def has_worker(self, host: str) -> bool:
        """Whether a worker process of that host has joined the cluster."""
        return f"{host}:" in self.command("hkeys", ClusterKeys().workers)


@pytest.fixture
def redis_container(network: Network) -> Iterator[RedisServer]:
    """A Redis, reachable from here by a published port and from containers as `redis`."""
    with DockerContainer(REDIS_IMAGE, network=network, network_aliases=["redis"], ports=[6379]) as container:
        server = RedisServer(container)
        wait_until(lambda: "PONG" in server.command("ping"), f"an answer from Redis in {REDIS_IMAGE}", timeout_s=30)
        yield server


@pytest.fixture
def graph_folder(tmp_path: Path) -> Path:
    """The graph files that the workers see as `/graphs`."""
    folder = tmp_path / "graphs"
    folder.mkdir()
    for file in (PROJECT / "examples" / "census.py", Path(__file__).parent / "graphs" / "slow.py"):
        shutil.copy(file, folder)
    return open_to_all(folder)


def open_to_all(folder: Path) -> Path:
    """Let the container's own user read `folder`: pytest keeps its temporary folders to the user who runs it."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder


@pytest.fixture
def load_graph(graph_folder: Path) -> GraphLoader:
    """Load a graph in this process from the very file that the workers load."""

    def load(name: str) -> Any:
        spec = importlib.util.spec_from_file_location(name, graph_folder / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.graph

    return load


@pytest.fixture
def worker_container(network: Network, redis_container: RedisServer, graph_folder: Path) -> Iterator[StartWorker]:
    """A factory of worker containers with one slot each, as locked down as the deployment's.

    Their logs are shown when the test fails.
    """
    with ExitStack() as stack:

        def start(name: str, *args: str, folders: tuple[Path, ...] = ()) -> DockerContainer:
            command = ["worker", "--url", redis_container.private_url, "--concurrency", "1", *args]
            container = DockerContainer(PHALANX_IMAGE, network=network).with_command(command)
            container.with_kwargs(hostname=name, init=True, read_only=True, cap_drop=["ALL"])
            container.with_tmpfs_mount("/tmp")
            container.with_volume_mapping(graph_folder, "/graphs", "ro")
            for folder in folders:
                container.with_volume_mapping(open_to_all(folder), str(folder), "ro")
            stack.enter_context(container)
            stack.callback(show_logs, name, container)
            wait_until(
                lambda: ended(container) or redis_container.has_worker(name),
                f"worker {name} to join the cluster",
                timeout_s=30,
            )
            if ended(container):
                pytest.fail(f"worker {name} ended at its start")
            return container

        yield start


def ended(container: DockerContainer) -> bool:
    """Whether a container's process is gone."""
    container.reload()
    return container.status not in ("created", "running")


def show_logs(name: str, container: DockerContainer) -> None:
    """Print what a container said; pytest shows it beside a failure."""
    for stream in container.get_logs():
        print(f"--- {name}", stream.decode(errors="replace"), sep="\n")
