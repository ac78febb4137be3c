"""A Postgres server of the tests' own: in a folder that is gone afterwards, reached by a socket in it and no port."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import psycopg
from tests.support import wait_until

_STOP_S: Final = 30.0


class NoPostgresError(Exception):
    """The server's programs are not installed here."""


def programs() -> Path:
    """The folder of the newest server that is installed.

    Raises:
        NoPostgresError: there is none.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    elsewhere = shutil.which("initdb")
    if elsewhere:
        return Path(elsewhere).resolve().parent
    raise NoPostgresError("no Postgres server is installed here: apt-get install postgresql")


class PostgresServer:
    """A running server. The program refuses to run as root, so that root runs it as another user."""

    def __init__(self) -> None:
        self._programs = programs()
        self._user = "postgres" if os.geteuid() == 0 else None
        self.folder: Final = Path(tempfile.mkdtemp(prefix="phalanx-pg-"))
        if self._user:
            owner = pwd.getpwnam(self._user)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self._run("initdb", "-D", "data", "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync", "--no-locale")
        self.start()

    def conn_string(self, schema: str = "public") -> str:
        """The connection string, for a schema of its own."""
        return f"host={self.folder} user=tests dbname=postgres options='-c search_path={schema}'"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = {"listen_addresses": "", "unix_socket_directories": str(self.folder), "fsync": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", "data", *options],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                user=self._user,
                group=self._user,
                extra_groups=[] if self._user else None,
            )
        wait_until(self._answers, "the Postgres server answers")

    def stop(self) -> None:
        """Stop the server in good order; connections are cut."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait(_STOP_S)

    def close(self) -> None:
        """Stop the server at once, and delete its folder."""
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait(_STOP_S)
        shutil.rmtree(self.folder)

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text(encoding="utf-8"))
        try:
            psycopg.connect(self.conn_string()).close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
            user=self._user,
            group=self._user,
            extra_groups=[] if self._user else None,
        )
