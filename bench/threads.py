"""What keeping threads costs: time for each superstep, and room on the server."""

import importlib
import operator
import statistics
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

from bench.rows import Row, micro, ratio, seconds, timed

from phalanx.channels import DeltaChannel
from phalanx.checkpoint.memory import InMemorySaver
from phalanx.checkpoint.redis import RedisSaver
from phalanx.checkpoint.sqlite import SqliteSaver
from phalanx.coordinator.local import LocalServer
from phalanx.graph import END, START, StateGraph
from phalanx.types import Send

MESSAGE = "x" * 1000
DOCUMENT = "y" * 1_000_000
LARGE, SMALL = 10_000_000, 1_000
STEPS = 300


class State(TypedDict, total=False):
    """Something large that does not change, a counter, and results."""

    large: str
    n: int
    found: Annotated[list[int], operator.add]


def extend(value: list[str], writes: Sequence[list[str]]) -> list[str]:
    """What was said, and what is said now."""
    return [*value, *(message for each in writes for message in each)]


class Talk(TypedDict, total=False):
    """A conversation that is stored as what was said, and a counter."""

    messages: Annotated[list[str], DeltaChannel(extend)]
    n: int


def counting(package: str, steps: int, saver: Any) -> Any:
    """A node that counts to ``steps``, its thread kept by ``saver``."""

    def count(state: State) -> State:
        return {"n": state.get("n", 0) + 1}

    def again(state: State) -> str:
        return "count" if state.get("n", 0) < steps else "__end__"

    graph = importlib.import_module(f"{package}.graph")
    builder = graph.StateGraph(State)
    builder.add_node("count", count)
    builder.add_edge("__start__", "count")
    builder.add_conditional_edges("count", again)
    return builder.compile(checkpointer=saver)


def step_seconds(graph: Any, thread: str, large: int = 0, steps: int = STEPS) -> float:
    """Seconds that a superstep takes in a thread that holds ``large`` characters."""
    config = {"configurable": {"thread_id": thread}, "recursion_limit": steps + 10}
    if large:
        graph.invoke({"large": "x" * large, "n": steps - 1}, config)
    return timed(lambda: graph.invoke({"n": 0}, config)) / steps


def saver_rows(times: int) -> list[Row]:
    """A superstep whose checkpoint is kept in memory, or in SQLite, against LangGraph's savers."""
    from langgraph.checkpoint.memory import InMemorySaver as TheirMemory
    from langgraph.checkpoint.sqlite import SqliteSaver as TheirSqlite

    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        SqliteSaver.from_conn_string(str(Path(folder, "ours.db"))) as ours,
        TheirSqlite.from_conn_string(str(Path(folder, "theirs.db"))) as theirs,
    ):
        pairs: Sequence[tuple[str, Any, Any]] = [
            ("memory", InMemorySaver(), TheirMemory()),
            ("SQLite", ours, theirs),
        ]
        for name, mine, other in pairs:
            graphs = counting("phalanx", STEPS, mine), counting("langgraph", STEPS, other)
            figures = [[step_seconds(graph, f"thread {turn}") for graph in graphs] for turn in range(max(times, 2))]
            a, b = (statistics.median(column) for column in zip(*figures, strict=True))
            rows.append(Row(f"a superstep kept in {name}", micro(a), f"LangGraph {micro(b)}", ratio(a, b), "≤ 0.25"))
    return rows


def unchanged_rows(times: int, server: LocalServer) -> list[Row]:
    """A superstep beside 10 MB that do not change, against one beside 1 kB."""
    rows: list[Row] = []
    for name, saver in (("memory", InMemorySaver()), ("Redis", RedisSaver(server.url))):
        graph = counting("phalanx", STEPS, saver)
        figures = [
            [step_seconds(graph, f"{size}-{turn}", size) for size in (LARGE, SMALL)] for turn in range(max(times, 3))
        ]
        a, b = (min(column) for column in zip(*figures, strict=True))
        what = f"a superstep beside 10 MB that do not change, kept in {name}"
        rows.append(Row(what, micro(a), f"beside 1 kB {micro(b)}", ratio(a, b), "0.9 – 1.1"))
    return rows


def growth_bytes(saver: RedisSaver, run: Callable[[], object]) -> int:
    """How much of the server's memory a run takes that stays."""
    before = used_bytes(saver)
    run()
    return used_bytes(saver) - before


def used_bytes(saver: RedisSaver) -> int:
    """The server's memory in use."""
    client: Any = saver.client
    return int(client.info("memory")["used_memory"])


def packets_graph(saver: RedisSaver, packets: int = 200) -> Any:
    """Packets that share one document of a megabyte, and differ in a number."""

    def read(packet: dict[str, Any]) -> State:
        return {"found": [len(packet["document"]) + packet["number"]]}

    def send(_: State) -> list[Send]:
        return [Send("read", {"document": DOCUMENT, "number": number}) for number in range(packets)]

    builder = StateGraph(State)
    builder.add_node("read", read)
    builder.add_conditional_edges(START, send, ["read"])
    return builder.compile(checkpointer=saver)


def talk_graph(saver: Any, messages: int) -> Any:
    """A node that says one more thing each superstep."""

    def say(state: Talk) -> Talk:
        return {"messages": [MESSAGE], "n": state.get("n", 0) + 1}

    def again(state: Talk) -> str:
        return "say" if state.get("n", 0) < messages else END

    builder = StateGraph(Talk)
    builder.add_node("say", say)
    builder.add_edge(START, "say")
    builder.add_conditional_edges("say", again)
    return builder.compile(checkpointer=saver)


def room_rows(server: LocalServer, messages: int) -> list[Row]:
    """The server's memory that packets and a long conversation take."""
    saver = RedisSaver(server.url)
    graph = packets_graph(saver)
    grown = growth_bytes(saver, lambda: graph.invoke({"n": 1}, {"configurable": {"thread_id": "packets"}}))
    talk = talk_graph(saver, messages)
    config: Any = {"configurable": {"thread_id": "talk"}, "recursion_limit": messages + 10}
    said = growth_bytes(saver, lambda: talk.invoke({"n": 0}, config))
    load_s = timed(lambda: talk.get_state(config))
    return [
        Row("200 `Send`s that share 1 MB: the server grows by", _megabytes(grown), "", "", "< 5 MB"),
        Row(f"{messages:,} supersteps that each add 1 kB to a delta channel: the server grows by", _megabytes(said),
            f"said were {_megabytes(messages * len(MESSAGE))}", ratio(said, messages * len(MESSAGE)), "≤ 30 MB"),
        Row("loading that state", seconds(load_s), "", "", "< 1 s"),
    ]  # fmt: skip


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def thread_rows(times: int, messages: int) -> list[Row]:
    """All of it."""
    server = LocalServer.start()
    try:
        return [*saver_rows(times), *unchanged_rows(times, server), *room_rows(server, messages)]
    finally:
        server.close()
