"""Checkpoints and configs for the tests."""

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Final

from phalanx.checkpoint.ids import checkpoint_id
from phalanx.testing.saver_conformance.asking import Asking

_numbers: Final = itertools.count(1)

TASKS: Final = "__pregel_tasks"
SPECIAL: Final = ("__error__", "__scheduled__", "__interrupt__", "__resume__")


def at(thread: Any = "t", checkpoint: str | None = None, namespace: str | None = "") -> dict[str, Any]:
    """The config that addresses a thread, or a checkpoint in it; without a namespace, all of them are meant."""
    configurable: dict[str, Any] = {"thread_id": thread}
    if namespace is not None:
        configurable["checkpoint_ns"] = namespace
    if checkpoint is not None:
        configurable["checkpoint_id"] = checkpoint
    return {"configurable": configurable}


def id_of(config: Mapping[str, Any]) -> str:
    """The checkpoint that a config names."""
    return str(config["configurable"]["checkpoint_id"])


def metadata(step: int = 0, **more: Any) -> dict[str, Any]:
    """Metadata of a checkpoint."""
    return {"source": "loop", "step": step, "parents": {}, **more}


def made(
    asking: Asking,
    values: Mapping[str, Any],
    *,
    after: Mapping[str, Any] | None = None,
    changed: Iterable[str] | None = None,
    identity: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A checkpoint, and the versions of what is new in it.

    Args:
        after: the checkpoint before; its versions are counted on.
        changed: the channels that are new; all, if not given.
    """
    versions = dict(after["channel_versions"]) if after else {}
    new = {name: next_version(asking, versions.get(name)) for name in (values if changed is None else changed)}
    versions |= new
    checkpoint = {
        "v": 4,
        "id": identity or checkpoint_id(next(_numbers) % 1000, after["id"] if after else ""),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": dict(values),
        "channel_versions": versions,
        "versions_seen": {"node": dict(versions)},
        "updated_channels": sorted(new),
    }
    return checkpoint, new


def next_version(asking: Asking, current: Any) -> Any:
    """The version that the saver lets follow."""
    return asking.saver.get_next_version(current, None)


def put(
    asking: Asking,
    where: Mapping[str, Any],
    values: Mapping[str, Any],
    about: Mapping[str, Any] | None = None,
    *,
    identity: str | None = None,
    changed: Iterable[str] | None = None,
) -> Any:
    """Store a checkpoint after the one that ``where`` names; its config."""
    before = asking.get(where) if "checkpoint_id" in where["configurable"] else None
    checkpoint, new = made(asking, values, after=before, identity=identity, changed=changed)
    return asking.put(where, checkpoint, about or metadata(), new)


def chain(asking: Asking, count: int, where: Mapping[str, Any] | None = None, **about: Any) -> list[Any]:
    """Store checkpoints, each the parent of the next, numbered from 0; their configs."""
    configs: list[Any] = [where or at()]
    for number in range(count):
        source = "input" if number == 0 else "loop"
        configs.append(put(asking, configs[-1], {"number": number}, metadata(number, source=source, **about)))
    return configs[1:]


def loaded(asking: Asking, where: Mapping[str, Any]) -> Any:
    """What is stored there."""
    found = asking.get_tuple(where)
    assert found is not None, f"nothing is stored at {where}"
    return found


def values_at(asking: Asking, where: Mapping[str, Any]) -> dict[str, Any]:
    """The values stored there."""
    return dict(loaded(asking, where).checkpoint["channel_values"])


def numbers(found: Iterable[Any]) -> list[int]:
    """The numbers of listed checkpoints of a :func:`chain`."""
    return [each.checkpoint["channel_values"]["number"] for each in found]


def writes_at(asking: Asking, where: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """The pending writes stored there, in order."""
    return [tuple(write) for write in loaded(asking, where).pending_writes or ()]
