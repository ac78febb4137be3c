"""A client in a process of its own: runs one call of a graph on a cluster, and prints what it came to as JSON.

It may be told to kill itself at a certain command to the state server, where nothing outside could hit the moment.
"""

import importlib
import json
import os
import signal
import sys
from typing import Any

from phalanx.checkpoint.redis.thread_store import ThreadStore
from phalanx.coordinator import Cluster
from phalanx.types import Command


def die_at(operation: str, number: int, *, before: bool) -> None:
    """Have this process killed at the n-th time that it does something to a thread."""
    does = getattr(ThreadStore, operation)
    left = [number]

    def dies(self: ThreadStore, *arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and before:
            os.kill(os.getpid(), signal.SIGKILL)
        result = does(self, *arguments, **options)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(ThreadStore, operation, dies)


def main(order: dict[str, Any]) -> None:
    """Carry out what the arguments say; see :class:`tests.acceptance.serving.Serving`."""
    if "die_at" in order:
        operation, number, before = order["die_at"]
        die_at(operation, number, before=before)
    graph = getattr(importlib.import_module(order["module"]), order["graph"])
    given: Any = Command[str](resume=order["resume"]) if "resume" in order else order["input"]
    with Cluster(order["url"], broker_url=order["broker_url"]) as cluster:
        result = graph.with_cluster(cluster).invoke(given, {"configurable": {"thread_id": order["thread"]}})
    asked = {each.id: each.value for each in result.pop("__interrupt__", ())}
    print(json.dumps({"result": result, "asked": asked}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
