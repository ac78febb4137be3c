"""Commands as a user starts them, and who of a family of processes is still there."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[2]
GRAPHS: Final = Path(__file__).parent / "graphs"
JOBS: Final = GRAPHS / "jobs.py"
PHALANX: Final = str(Path(sys.executable).with_name("phalanx"))
TIMEOUT_S: Final = 60


def environment(**more: str) -> dict[str, str]:
    """The environment for a command: ours, without a cluster of the developer's own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PHALANX_")}
    return {**kept, "COLUMNS": "100", **more}


def phalanx(
    *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Run ``phalanx`` to its end."""
    return subprocess.run(
        [PHALANX, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=PROJECT,
        env=environment(**(env or {})),
        timeout=timeout_s,
        check=False,
    )


def family(mark: str) -> set[int]:
    """The live processes that have ``mark`` in their environment: a command, and all that came of it.

    A process hands its environment down, whatever session or parent it moves to.
    """
    found: set[int] = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if mark.encode() in (folder / "environ").read_bytes():
                    found.add(int(folder.name))
            except OSError:  # it has ended, or is somebody else's
                continue
    return found
