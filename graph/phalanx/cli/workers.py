"""``phalanx workers``: which worker processes are alive."""

import json
from collections.abc import Sequence

from phalanx.checkpoint.redis.client import check_reachable, connect
from phalanx.cli.progress import count
from phalanx.cli.streams import Results
from phalanx.coordinator.roster import Roster
from phalanx.protocol.keys import ClusterKeys
from phalanx.worker.heartbeat import WorkerInfo


def list_workers(url: str, prefix: str, results: Results, *, as_json: bool) -> None:
    """Write the live worker processes of a cluster: a table, or one JSON document.

    Raises:
        ClusterUnreachableError: nothing answers at ``url``.
        ValueError: it is no URL of a server.
    """
    check_reachable(url)
    client = connect(url)
    try:
        alive = sorted(Roster(client, ClusterKeys(prefix)).alive(), key=lambda worker: (worker.host, worker.pid))
    finally:
        client.close()
    if as_json:
        entries = [
            {
                "id": w.id,
                "host": w.host,
                "pid": w.pid,
                "queues": list(w.queues),
                "slots": w.slots,
                "graphs": list(w.graphs),
            }
            for w in alive
        ]
        results.write(f"{json.dumps(entries, indent=2)}\n")
    else:
        results.write(f"{table(alive)}\n")


def table(workers: Sequence[WorkerInfo]) -> str:
    """Worker processes as aligned columns, and how many there are."""
    if not workers:
        return "no live workers; start one: phalanx worker --url … --graph NAME=TARGET"
    rows = [("HOST", "PID", "SLOTS", "QUEUES", "GRAPHS")]
    rows += [(w.host, str(w.pid), str(w.slots), ",".join(w.queues), ",".join(w.graphs)) for w in workers]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    hosts = len({worker.host for worker in workers})
    return "\n".join([*lines, f"{count(len(workers), 'worker process', 'worker processes')} on {count(hosts, 'host')}"])
