"""Lua files and how they are called. One file an operation; the module beside it has the one function that calls it."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from redis import Redis
    from redis.commands.core import Script

Argument = str | bytes | int


@lru_cache
def source(package: str, name: str) -> str:
    """The text of ``name``.lua in ``package``."""
    return files(package).joinpath(f"{name}.lua").read_text(encoding="utf-8")


class Scripts:
    """The scripts of one package, loaded into one server when first called."""

    def __init__(self, client: "Redis", package: str) -> None:
        self._client = client
        self._package = package
        self._loaded: dict[str, Script] = {}

    def run(self, name: str, keys: Sequence[str], arguments: Sequence[Argument], pipe: "Redis | None" = None) -> object:
        """Call a script. In a pipeline the reply comes with the pipeline's others."""
        script = self._loaded.get(name)
        if script is None:
            script = self._loaded[name] = self._client.register_script(source(self._package, name))
        return cast("object", script(keys, arguments, client=pipe))
