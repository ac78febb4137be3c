"""A server that dies in the middle of a reply, as its client sees it: a proxy that forwards a part and then no more."""

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_CHUNK: Final = 65_536


class HaltingProxy:
    """Forwards connections from a socket file to a server's, until it is told to halt one.

    Args:
        server: the server's socket file.
        folder: where to put the proxy's own.

    Attributes:
        path: the proxy's socket file.
        halted: set once a reply has been cut.
    """

    def __init__(self, server: Path, folder: Path) -> None:
        self.path = folder / "proxy.sock"
        self.halted = threading.Event()
        self._server = server
        self._marker = b""
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for end in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in [self._listener, *self._open]:
            end.close()

    def halt_after(self, marker: bytes) -> None:
        """Let the next reply that has ``marker`` in it end there. Its connection stays open, and silent."""
        with self._lock:
            self._marker = marker

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._server))
            self._open += [client, server]
            for ends in ((client, server, False), (server, client, True)):
                thread = threading.Thread(target=self._forward, args=ends)
                self._threads.append(thread)
                thread.start()

    def _forward(self, source: socket.socket, target: socket.socket, replies: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                part = self._first_part(data) if replies else None
                if part is not None:
                    target.sendall(part)
                    self.halted.set()
                    return
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def _first_part(self, data: bytes) -> bytes | None:
        with self._lock:
            if not self._marker or self._marker not in data:
                return None
            part, self._marker = data[: data.index(self._marker) + len(self._marker)], b""
            return part
