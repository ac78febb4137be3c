"""A code census: count a folder of Python files, one task per chunk of files, on as many workers as there are.

`plan` lists the files, `Send` hands them out in chunks of about equal weight, `count` parses each file once, reducers
merge what comes back in any order, and `report` draws the table::

    START -> plan -> count, count, count, ... -> report -> END

    python examples/census.py                      # the standard library, in this process
    python examples/census.py ~/src --workers 4    # any folder, on four local worker processes
"""

import argparse
import ast
import heapq
import os
import socket
import sysconfig
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypedDict

from phalanx.graph import END, START, StateGraph
from phalanx.types import Send

FILES_PER_CHUNK = 12  # about 150 tasks for the standard library: enough to balance, few enough to cost little
MOST_COMPLEX = 10
INSTALLED = {"site-packages", "dist-packages"}
TOTALS = ("files", "lines", "code", "comment", "blank", "classes", "functions", "complexity")

Counts = dict[str, int]


class Function(TypedDict):
    """One function: its qualified name in its file, where it is, and its cyclomatic complexity."""

    name: str
    file: str
    line: int
    complexity: int


# --- The state, and how partial results merge. The reducers are commutative and associative: the order in which the
# --- tasks end never shows. All values are plain dicts, lists, ints and strings, for they cross processes. ------------


def merge(left: Counts, right: Counts) -> Counts:
    """Add two tables of counts, key by key."""
    return {key: left.get(key, 0) + right.get(key, 0) for key in left | right}


def leaders(left: list[Function], right: list[Function]) -> list[Function]:
    """Keep the ten most complex functions of both lists, the most complex first, equals by name."""
    return heapq.nsmallest(MOST_COMPLEX, left + right, key=rank)


def rank(function: Function) -> tuple[int, str, str, int]:
    """Order functions by falling complexity, then by name and place."""
    return -function["complexity"], function["name"], function["file"], function["line"]


def gather(left: list[str], right: list[str]) -> list[str]:
    """Join two lists in sorted order."""
    return sorted(left + right)


class Request(TypedDict, total=False):
    """What to count: a folder (else the running Python's standard library), and how many files make up a task."""

    root: str
    chunk: int


class Report(TypedDict):
    """The result; `hosts` and `processes` (named `host:pid`) tell who counted how many files."""

    files: int
    totals: Annotated[Counts, merge]
    hosts: Annotated[Counts, merge]
    processes: Annotated[Counts, merge]
    most_complex: Annotated[list[Function], leaders]
    unparsable: Annotated[list[str], gather]
    table: str


class State(Report):
    """The report, the request with its defaults settled, and the files to count: path below the root, bytes."""

    root: str
    chunk: int
    modules: Counts


class Chunk(TypedDict):
    """The work of one task: some files below a folder."""

    root: str
    paths: list[str]


# --- The nodes --------------------------------------------------------------------------------------------------------


def plan(state: State) -> dict[str, object]:
    """List the files to count, and settle the defaults."""
    root = state.get("root", sysconfig.get_path("stdlib"))
    return {
        "root": root,
        "chunk": state.get("chunk", FILES_PER_CHUNK),
        "modules": python_files(root),
        "totals": dict.fromkeys(TOTALS, 0),
    }


def hand_out(state: State) -> list[Send] | str:
    """Send every chunk to `count`; an empty folder goes straight to the report."""
    chunks = balanced(state["modules"], state["chunk"])
    return [Send("count", Chunk(root=state["root"], paths=paths)) for paths in chunks] or "report"


def count(chunk: Chunk) -> dict[str, object]:
    """Count the files of one chunk. A file that Python cannot parse is listed; it does not end the census."""
    totals: Counts = dict.fromkeys(TOTALS, 0)
    functions: list[Function] = []
    unparsable: list[str] = []
    for path in chunk["paths"]:
        source = Path(chunk["root"], path).read_bytes()
        totals = merge(totals, {"files": 1, **line_counts(source)})
        try:
            tree = parse(source, path)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:  # the last two: nested too deep
            unparsable.append(f"{path}: {str(exc) or type(exc).__name__}")
            continue
        found, classes = measure(tree, path)
        complexity = sum(function["complexity"] for function in found)
        totals = merge(totals, {"classes": classes, "functions": len(found), "complexity": complexity})
        functions += found
    host, files = socket.gethostname(), len(chunk["paths"])
    return {
        "totals": totals,
        "hosts": {host: files},
        "processes": {f"{host}:{os.getpid()}": files},
        "most_complex": leaders(functions, []),
        "unparsable": unparsable,
    }


def report(state: State) -> dict[str, object]:
    """Draw the table once every chunk is in."""
    return {"files": state["totals"]["files"], "table": table(state)}


builder = StateGraph(State, input_schema=Request, output_schema=Report)
builder.add_node("plan", plan)
builder.add_node("count", count)
builder.add_node("report", report)
builder.add_edge(START, "plan")
builder.add_conditional_edges("plan", hand_out, ["count", "report"])
builder.add_edge("count", "report")
builder.add_edge("report", END)
graph = builder.compile(name="census")


# --- Finding the files, and sharing them out --------------------------------------------------------------------------


def python_files(root: str) -> Counts:
    """Return the size in bytes of every `.py` file below `root`, installed packages left out."""
    if not os.path.isdir(root):
        raise NotADirectoryError(f"cannot take a census of {root!r}: there is no such folder")
    sizes: Counts = {}
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(set(subfolders) - INSTALLED)
        files = (Path(folder, name) for name in sorted(names) if name.endswith(".py"))
        sizes |= {file.relative_to(root).as_posix(): file.stat().st_size for file in files if file.is_file()}
    return sizes


def balanced(sizes: Mapping[str, int], files_per_chunk: int) -> list[list[str]]:
    """Share files out over chunks of about equal bytes, `files_per_chunk` files each on average.

    The largest file first, always to the lightest chunk: Graham's rule, at most 4/3 of the best possible split.
    """
    if files_per_chunk < 1:
        raise ValueError(f"a chunk must hold at least one file, not {files_per_chunk}")
    chunks: list[list[str]] = [[] for _ in range(-(-len(sizes) // files_per_chunk))]
    lightest = [(0, number) for number in range(len(chunks))]
    for path in sorted(sizes, key=lambda path: (-sizes[path], path)):
        weight, number = lightest[0]
        chunks[number].append(path)
        heapq.heapreplace(lightest, (weight + sizes[path] + 1, number))  # + 1: an empty file is work too
    return chunks


# --- Counting ---------------------------------------------------------------------------------------------------------

DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
BRANCHES = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.Assert)
DECISIONS = frozenset((*BRANCHES, ast.comprehension, ast.BoolOp, ast.match_case))


# Python 3.11 counts the depth of a tree it builds for all threads together: two at once look like one that is wrong.
ONE_AT_A_TIME = threading.Lock()


def parse(source: bytes, path: str) -> ast.Module:
    """Parse a module; what Python has to say about its escape sequences stays unsaid."""
    warnings.filterwarnings("ignore", module="<census>/")
    with ONE_AT_A_TIME:
        return ast.parse(source, f"<census>/{path}")


def line_counts(source: bytes) -> Counts:
    """Count lines by how they begin: blank, comment (`#`), or code, docstrings included."""
    lines = [line.strip() for line in source.splitlines()]
    blank = lines.count(b"")
    comment = sum(line.startswith(b"#") for line in lines)
    return {"lines": len(lines), "code": len(lines) - blank - comment, "comment": comment, "blank": blank}


def measure(tree: ast.Module, path: str) -> tuple[list[Function], int]:
    """Measure every function of a module in one walk; return the functions and the number of classes.

    Cyclomatic complexity (McCabe, 1976) is 1 plus the decisions in a function: `if` and `elif`, the ternary, `for`,
    `while`, `except`, `assert`, each `for` and `if` of a comprehension, each `and` and `or`, and each `case` but a bare
    `case _`. `else`, `finally` and `with` decide nothing. Nested functions and methods are functions of their own
    (`Class.method`, `outer.inner`) and add nothing to what surrounds them; a lambda belongs to its function.
    """
    functions: list[Function] = []
    classes = 0
    scopes: list[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]] = [("", tree)]
    for name, scope in scopes:  # grows as we go: a scope appends the scopes inside it
        complexity = 1
        nodes = [*ast.iter_child_nodes(scope)]
        while nodes:  # no recursion, so no nesting is too deep
            node = nodes.pop()
            if isinstance(node, DEFINITIONS):
                scopes.append((f"{name}.{node.name}" if name else node.name, node))
                continue
            if type(node) in DECISIONS:
                complexity += decisions(node)
            nodes.extend(ast.iter_child_nodes(node))
        if isinstance(scope, ast.ClassDef):
            classes += 1
        elif not isinstance(scope, ast.Module):
            functions.append(Function(name=name, file=path, line=scope.lineno, complexity=complexity))
    return functions, classes


def decisions(node: ast.AST) -> int:
    """Return how many ways out a deciding node adds."""
    match node:
        case ast.BoolOp(values=values):
            return len(values) - 1
        case ast.comprehension(ifs=ifs):
            return 1 + len(ifs)
        case ast.match_case(pattern=ast.MatchAs(pattern=None, name=None), guard=None):
            return 0
        case _:
            return 1


# --- Showing ----------------------------------------------------------------------------------------------------------


def table(state: State) -> str:
    """Render totals and the most complex functions as plain text."""
    totals = state["totals"]
    rows = [(f"{function['complexity']}", function["name"], place(function)) for function in state["most_complex"]]
    parts = [
        f"Census of {state['root']}",
        columns([(f"{totals[key]:,}", key) for key in TOTALS] + [(f"{len(state['unparsable'])}", "unparsable")]),
    ]
    if rows:
        mean = totals["complexity"] / totals["functions"]
        parts.append(f"Most complex functions (the mean is {mean:.1f})")
        parts.append(columns([("complexity", "function", "file:line"), *rows]))
    return "\n\n".join(parts)


def place(function: Function) -> str:
    """Return `file:line` of a function."""
    return f"{function['file']}:{function['line']}"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Align rows of cells, the first column to the right for its numbers, the others to the left."""
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].rjust(first), *(cell.ljust(width) for cell, width in zip(row[1:], others, strict=True))])
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def main() -> None:
    """Take a census from the command line."""
    parser = argparse.ArgumentParser(description="Count a folder of Python files.")
    parser.add_argument("root", nargs="?", help="folder (default: the standard library)")
    parser.add_argument("--workers", type=int, default=0, help="local worker processes (default: none, count inline)")
    options = parser.parse_args()
    request: Request = {"root": os.path.abspath(options.root)} if options.root else {}
    if options.workers:
        from phalanx.coordinator import Cluster  # only now: counting inline needs neither broker nor server

        with Cluster.local(workers=options.workers) as cluster:
            result = graph.with_cluster(cluster).invoke(request)
    else:
        # Parsing holds the interpreter's lock: more threads would not be faster, only keep more syntax trees in memory.
        result = graph.invoke(request, {"max_concurrency": 1})
    print(result["table"])
    print("\nCounted by", ", ".join(f"{name} ({files:,} files)" for name, files in sorted(result["processes"].items())))


if __name__ == "__main__":
    main()
