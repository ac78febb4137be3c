"""A coordinator that dies between two commands to the state server, and what a thread is worth after that."""

import re
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest

from phalanx.checkpoint.base import BaseCheckpointSaver
from phalanx.config import RunnableConfig
from phalanx.coordinator import Cluster, cluster_loop, lost_tasks
from phalanx.graph import CompiledStateGraph
from phalanx.testing import InProcessCluster

Graph = CompiledStateGraph[Any]

_CHANGING: Final = frozenset({"EVALSHA", "EVAL", "HSET", "HSETNX", "HDEL", "UNLINK", "DEL", "RPUSH", "LPOP"})
"""The commands that leave the server other than it was. A death at one that only reads is a death after the one before
it."""

_TASK_ID: Final = re.compile(r":[0-9a-f-]{32,36}")


class CrashedError(BaseException):
    """The process of the coordinator is gone. No ``except Exception`` on its way hears of it, as of SIGKILL."""


@dataclass(slots=True)
class Wire:
    """A connection that counts two moments for each command that changes something, before it and after it, and breaks
    for ever at one of them.

    Attributes:
        breaks_at: that moment, from 1.
        passed: the moments so far.
        broken: whether it was reached.
    """

    breaks_at: int
    passed: int = 0
    broken: bool = False

    def moment(self) -> None:
        """One moment passes."""
        self.passed += 1
        if self.passed == self.breaks_at:
            self.broken = True
            raise CrashedError(self.passed)

    def around(self, command: Callable[..., object], changing: Callable[..., bool]) -> Callable[..., object]:
        """The command, over this connection."""

        def sent(*arguments: object, **options: object) -> object:
            if self.broken:
                raise CrashedError(self.passed)
            changes = changing(*arguments)
            if changes:
                self.moment()
            reply = command(*arguments, **options)
            if changes or (arguments[:1] == ("BLPOP",) and reply is not None):  # else it waited in vain
                self.moment()
            return reply

        return sent


@contextmanager
def breaking(cluster: Cluster, wire: Wire) -> Generator[Cluster]:
    """Another coordinator's view of the cluster, over a connection that breaks."""
    other = Cluster(cluster.url, broker_url=cluster.broker_url)
    client: Any = other.saver.client
    pipeline = client.pipeline

    def changes(name: str, *_: object) -> bool:
        return name in _CHANGING

    def breaking_pipeline(*arguments: object, **options: object) -> object:
        made: Any = pipeline(*arguments, **options)
        made.execute = wire.around(made.execute, lambda *_: any(part[0][0] in _CHANGING for part in made.command_stack))
        return made

    client.execute_command = wire.around(client.execute_command, changes)
    client.pipeline = breaking_pipeline
    try:
        yield other
    finally:
        wire.broken = False
        wire.breaks_at = 0
        other.close()


def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have coordinators look for what nobody rings for at once, rather than once a second."""
    monkeypatch.setattr(cluster_loop, "BLOCK_S", 0.04)
    monkeypatch.setattr(cluster_loop, "LOOK_EVERY_S", 0.02)
    monkeypatch.setattr(lost_tasks, "LOOK_EVERY_S", 0.02)


@dataclass(slots=True)
class Story:
    """A thread whose coordinators may die, and the calls that a client makes, each again until it is through.

    Attributes:
        graph: as it runs on the cluster.
        thread_id: the thread.
        crashes: how often a coordinator has died.
    """

    cluster: InProcessCluster
    graph: Graph
    thread_id: str
    crashes: int = 0

    @classmethod
    def of(cls, cluster: InProcessCluster, graph: Graph) -> "Story":
        return cls(cluster, graph.with_cluster(cluster), f"story-{uuid.uuid4()}")

    @property
    def config(self) -> RunnableConfig:
        return {"configurable": {"thread_id": self.thread_id}}

    def broken(self, breaks_at: int, call: Callable[[Graph], object]) -> int:
        """Make a call whose coordinator dies at that moment, and wait until its lease is over.

        Returns:
            How many moments there were; fewer than ``breaks_at`` if it went through.
        """
        wire = Wire(breaks_at)
        with breaking(self.cluster, wire) as other:
            try:
                call(self.graph.with_cluster(other))
            except CrashedError:
                self.crashes += 1
                self.expire_lease()
            return wire.passed

    def expire_lease(self) -> None:
        """As if the coordinator had been silent for too long."""
        for thread_id in (self.thread_id, self._working):
            lease = self.cluster.saver.keys(thread_id).lease
            if self.cluster.saver.client.exists(lease):
                self.cluster.saver.client.hset(lease, "until", "1")

    @property
    def _working(self) -> str:
        """Whose keys hold the superstep under way of a thread that a saver of the graph's own keeps."""
        return f"{self.thread_id}\x00\x00working"

    @property
    def saver(self) -> BaseCheckpointSaver:
        """What keeps the thread."""
        own = self.graph.checkpointer
        return own if isinstance(own, BaseCheckpointSaver) else self.cluster.saver

    def begun(self) -> bool:
        """Whether the thread has taken an input."""
        return self.graph.get_state(self.config).created_at is not None

    def history(self) -> list[tuple[str, object, object, object]]:
        """What every checkpoint of the thread holds, those of graphs inside included, without what differs from thread
        to thread: namespace, source, step, values. Each namespace from its beginning."""
        found = [
            (
                _TASK_ID.sub("", str(cast("Any", each.config)["configurable"]["checkpoint_ns"])),
                each.metadata.get("source"),
                each.metadata.get("step"),
                self._shown(each.checkpoint["channel_values"]),
            )
            for each in self.saver.list(self.config)
        ]
        return sorted(found, key=repr)

    @staticmethod
    def _shown(values: dict[str, object]) -> object:
        return {
            name: value for name, value in sorted(values.items()) if not name.startswith(("__", "branch:", "join:"))
        }

    def keys(self) -> list[str]:
        """The keys the thread has."""
        client: Any = self.cluster.saver.client
        tags = (self.cluster.saver.keys(each).lease.removesuffix("lease") for each in (self.thread_id, self._working))
        return sorted(key.decode() for tag in tags for key in client.scan_iter(f"{tag}*", count=1000))

    def delete(self) -> list[str]:
        """Forget the thread; what is left of it, but for working keys that have an end."""
        self.saver.delete_thread(self.thread_id)
        own, client = self.cluster.saver.keys(self.thread_id).lease.removesuffix("lease"), self.cluster.saver.client
        return [key for key in self.keys() if key.startswith(own) or client.ttl(key) < 0]
