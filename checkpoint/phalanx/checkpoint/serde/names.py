"""The name a class has in stored data: the same in every process that loads the same code."""

import os.path
import sys
from typing import cast, get_args, get_origin


def main_stem() -> str:
    """The name that the script being run has for a process that loads its file as a module: the stem of the file."""
    file = cast("str | None", getattr(sys.modules.get("__main__"), "__file__", None))
    return os.path.splitext(os.path.basename(file))[0] if file else "__main__"


def stable_name(cls: type) -> str:
    """``module:qualname``, with the parameters of a generic pydantic model written by their stable names.

    The module ``__main__`` is written as the stem of its file, so that a script and a worker which loads that script by
    its path agree.
    """
    metadata = cast("dict[str, object] | None", cls.__dict__.get("__pydantic_generic_metadata__"))
    origin = metadata["origin"] if metadata else None
    if metadata is not None and isinstance(origin, type):
        parameters = cast("tuple[object, ...]", metadata["args"])
        return f"{stable_name(origin)}[{', '.join(map(_parameter_name, parameters))}]"
    module = main_stem() if cls.__module__ == "__main__" else cls.__module__
    return f"{module}:{cls.__qualname__}"


def _parameter_name(parameter: object) -> str:
    origin = get_origin(parameter)
    if origin is not None:
        arguments = ", ".join(map(_parameter_name, get_args(parameter)))
        return f"{_parameter_name(origin)}[{arguments}]"
    if isinstance(parameter, type):
        return parameter.__qualname__ if parameter.__module__ == "builtins" else stable_name(parameter)
    return repr(parameter)
