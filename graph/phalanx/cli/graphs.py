"""Loading the graph that a command line names, with an answer to whatever can be wrong with it."""

from inspect import isfunction
from typing import Any, cast

from phalanx.cli.exits import wrong_usage
from phalanx.cli.failures import headline, own_frames
from phalanx.graph.state import CompiledStateGraph, StateGraph
from phalanx.pregel import Pregel
from phalanx.protocol.names import ROOT
from phalanx.worker.targets import TargetError, load_target


def load_graph(target: str) -> Pregel:
    """The compiled graph at ``target``.

    Raises:
        CommandError: it cannot be loaded, or is something else; the text says which and what to do.
    """
    try:
        found = load_target(target)
    except TargetError as error:
        raise wrong_usage(f"{error}{_form_hint(target)}") from error
    except KeyboardInterrupt:
        raise
    except SystemExit as error:
        raise wrong_usage(
            f"{target!r}: its module ends the program when it is imported (SystemExit: {error.code}); "
            f"put what only a script should do below: if __name__ == '__main__'"
        ) from error
    except BaseException as error:
        text = "\n".join([f"{target!r} cannot be imported: {headline(error)}", *own_frames(error)])
        raise wrong_usage(text) from error
    if not isinstance(found, Pregel):
        raise wrong_usage(f"{target!r} is not a compiled graph but {_kind(found)}{_compile_hint(found)}")
    return found


def input_keys(graph: Pregel) -> list[str] | None:
    """The keys that a graph's input may have; ``None`` where anything may be given."""
    if not isinstance(graph, CompiledStateGraph):
        return None
    builder = cast("CompiledStateGraph[Any]", graph).builder  # type: ignore[redundant-cast]
    keys = [*builder.schemas[builder.input_schema]]
    return None if keys == [ROOT] else keys


def _form_hint(target: str) -> str:
    return f", such as {target}:graph" if target.endswith(".py") else ""


def _kind(found: object) -> str:
    if isinstance(found, type):
        return f"the class {found.__name__}"
    kind = type(found).__name__
    return f"{'an' if kind[0] in 'AEIOUaeiou' else 'a'} {kind}"


def _compile_hint(found: object) -> str:
    if isinstance(found, StateGraph):
        return "; did you forget .compile()?"
    if isfunction(found):
        return "; if it makes a graph, call it in the module and name the result: graph = build()"
    return ""
