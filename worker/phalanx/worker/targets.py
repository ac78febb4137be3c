"""Targets: how a graph in code is named on a command line. ``pkg.module:attr`` or ``path/file.py:attr``."""

import difflib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from phalanx.errors import PhalanxError


class TargetError(PhalanxError, ValueError):
    """A target cannot be found or loaded. The text says which part of it is wrong."""


_loading: list[str] = []


def being_loaded() -> str | None:
    """The file or module that is being loaded as a target just now, if any; for what its import must not do."""
    return _loading[-1] if _loading else None


def load_target(target: str) -> object:
    """Import a target's module and return its attribute.

    A file is loaded under its own name with its folder on the import path, as ``python file.py`` would, so that what it
    imports from beside it is found, and its classes have the same names in every process.

    Raises:
        TargetError: naming the part that is wrong: form, file, module, or attribute.
    """
    where, separator, attribute = target.rpartition(":")
    if not separator or not where or not attribute or (where.startswith(".") and not _is_path(where)):
        raise TargetError(f"{target!r} is not a target; write pkg.module:attribute or path/file.py:attribute")
    _loading.append(where)
    try:
        module = _load_file(Path(where), target) if _is_path(where) else _load_module(where, target)
    finally:
        _loading.pop()
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise TargetError(f"{target!r}: {where} has no attribute {part!r}{_similar(part, dir(found))}")
        found = getattr(found, part)
    return found


def _is_path(where: str) -> bool:
    return where.endswith(".py") or "/" in where or "\\" in where


def _load_file(path: Path, target: str) -> ModuleType:
    if not path.is_file():
        raise TargetError(f"{target!r}: there is no file {path} (looked in {Path.cwd()})")
    resolved = path.resolve()
    loaded = sys.modules.get(path.stem)
    if loaded is not None and getattr(loaded, "__file__", None) == str(resolved):
        return loaded
    folder = str(resolved.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(path.stem, resolved)
    if spec is None or spec.loader is None:
        raise TargetError(f"{target!r}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if loaded is None:
            del sys.modules[path.stem]
        else:
            sys.modules[path.stem] = loaded
        raise
    return module


def _load_module(name: str, target: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise  # the module is there; something that it imports is not
        raise TargetError(
            f"{target!r}: there is no module {error.name!r} (looked on the import path and in {here})"
        ) from error


def _similar(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=3)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
