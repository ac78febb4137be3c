"""What the tests of savers over SQL databases share: databases, checkpoints, and what other processes do to them."""

import multiprocessing
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from phalanx.checkpoint.base import Checkpoint
from phalanx.checkpoint.ids import checkpoint_id
from phalanx.checkpoint.serde import Serializer
from phalanx.checkpoint.sql import SaverUnavailableError
from phalanx.checkpoint.sql.saver import SqlSaver
from phalanx.config import RunnableConfig

LARGE: Final = ["text" * 5_000]
TABLES: Final = ("threads", "checkpoints", "writes", "blobs", "refs")
INJECTIONS: Final = (
    *("' OR '1'='1", "source') = 'x' OR 1=1 --", "'; DROP TABLE phalanx_checkpoints; --", "a' UNION SELECT 1 --"),
    *('"', "\\", "?", "%s", "%", ":name", "$1", "$.a", "a.b", "[0]", "{}", "\x00", "\ud83d", "🦉", ""),
)


class Database(Protocol):
    """An empty database, savers over it, and what its tests look up in it."""

    def saver(self, **options: Any) -> AbstractContextManager[SqlSaver]:
        """A saver with a connection of its own."""
        ...

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement that is run on a connection of its own."""
        ...

    def opener(self) -> Callable[[], AbstractContextManager[SqlSaver]]:
        """What makes a saver in another process."""
        ...


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Counting:
    """A serializer of another kind than ours, which counts what it is given."""

    inner: Serializer = field(default_factory=Serializer)
    given: list[object] = field(default_factory=list[object])

    def dumps_typed(self, obj: object) -> tuple[str, bytes]:
        self.given.append(obj)
        tag, data = self.inner.dumps_typed(obj)
        return f"counted+{tag}", data[::-1]

    def loads_typed(self, data: tuple[str, bytes]) -> object:
        tag, packed = data
        return self.inner.loads_typed((tag.removeprefix("counted+"), packed[::-1]))


def at(thread: str = "t", checkpoint: str | None = None, namespace: str = "") -> RunnableConfig:
    """The config that addresses a thread, or a checkpoint in it."""
    configurable: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": namespace}
    return {"configurable": {**configurable, "checkpoint_id": checkpoint} if checkpoint else configurable}


def made(values: dict[str, Any], versions: dict[str, Any] | None = None, identity: str | None = None) -> Checkpoint:
    """A checkpoint."""
    return {
        "v": 4,
        "id": identity or checkpoint_id(0),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, 1) if versions is None else versions,
        "versions_seen": {},
        "updated_channels": None,
    }


def put(
    saver: SqlSaver,
    where: RunnableConfig,
    values: dict[str, Any],
    versions: dict[str, Any] | None = None,
    *,
    new: set[str] | None = None,
    identity: str | None = None,
    **metadata: Any,
) -> RunnableConfig:
    """Store a checkpoint in which the channels of ``new`` have changed; all, if not given. Its config."""
    checkpoint = made(values, versions, identity)
    changed = {name: checkpoint["channel_versions"][name] for name in (values if new is None else new)}
    return saver.put(where, checkpoint, {"source": "loop", "step": 0, **metadata}, changed)  # type: ignore[typeddict-item]


def chain(saver: SqlSaver, count: int, where: RunnableConfig | None = None) -> list[RunnableConfig]:
    """Store checkpoints of numbers, each with a large value of its own and a write; each the parent of the next."""
    configs = [where or at()]
    for number in range(count):
        values = {"number": number, "large": [*LARGE, number]}
        configs.append(put(saver, configs[-1], values, dict.fromkeys(values, number + 1), step=number))
        saver.put_writes(configs[-1], [("number", number), ("large", [*LARGE, number + 1])], f"task {number}")
    return configs[1:]


def steps(saver: SqlSaver, where: RunnableConfig | None = None) -> list[int | None]:
    """The steps of a thread's checkpoints, newest first."""
    return [found.metadata.get("step") for found in saver.list(where or at())]


def counts(database: Database) -> dict[str, int]:
    """How many rows each table has."""
    return {table: database.query(f"SELECT COUNT(*) FROM phalanx_{table}")[0][0] for table in TABLES}


def dangling(database: Database) -> int:
    """How many checkpoints need a blob that is not there."""
    query = """
        SELECT COUNT(*) FROM phalanx_refs r WHERE NOT EXISTS (
            SELECT 1 FROM phalanx_blobs b WHERE b.thread = r.thread AND b.digest = r.digest
        )
    """
    return int(database.query(query)[0][0])


def write_chain(opener: Callable[[], AbstractContextManager[SqlSaver]], name: str, turns: int = 25) -> list[str]:
    """Runs in another process: store a branch of its own in the thread that all share; the ids."""
    identities: list[str] = []
    with opener() as saver:
        where = at()
        for turn in range(turns):
            values = {"of": name, "turn": turn, "large": LARGE}
            new = {"of", "turn"} if turn else None
            where = put(saver, where, values, {"of": 1, "turn": turn + 1, "large": 1}, new=new)
            saver.put_writes(where, [("large", LARGE), ("turn", turn)], f"task of {name}")
            identities.append(str(where.get("configurable", {})["checkpoint_id"]))
    return identities


def set_up(opener: Callable[[], AbstractContextManager[SqlSaver]]) -> int:
    """Runs in another process: be among the first to use a database."""
    with opener() as saver:
        return len([*saver.list(None)])


def use_inherited(saver: SqlSaver, outcome: "multiprocessing.SimpleQueue[str]") -> None:
    """Runs in a forked process."""
    try:
        saver.get_tuple(at())
    except SaverUnavailableError as error:
        outcome.put(str(error))
    else:
        outcome.put("nothing was said")
    finally:
        os._exit(0)  # without closing what is the parent's
