"""A person in the middle: a letter is drafted, a person is asked about it, and what they say decides.

`approve` asks with `interrupt`. The run ends there, and the thread keeps the question. The answer is given by another
run, whenever and wherever: yes sends the letter, no drops it, and anything else is a wish for the next draft::

    START -> draft -> approve -> send -> END
             draft <- approve -> END

    python examples/approval.py ask --customer "Ms Hale"
    python examples/approval.py answer "say when it arrives"
    python examples/approval.py answer yes

Between the commands nothing runs: the thread is in a file, `approval.db`. With `--url` it is in the state server of a
cluster, and its workers run the nodes::

    phalanx worker --url redis://state:6379/0 --graph approval=examples/approval.py:graph
    python examples/approval.py ask --url redis://state:6379/0
"""

import argparse
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal, TypedDict

from phalanx.checkpoint.sqlite import SqliteSaver
from phalanx.config import RunnableConfig
from phalanx.coordinator import Cluster
from phalanx.graph import END, START, CompiledStateGraph, StateGraph
from phalanx.types import Command, interrupt

# What a draft can do for a wish that has one of these words; other wishes become a postscript.
SENTENCES = {
    "arrives": "It will be with you within three days.",
    "sorry": "We are sorry that it took so long.",
    "thank": "Thank you for your patience.",
}


class Request(TypedDict, total=False):
    """Whom the letter is for."""

    customer: str


class Result(TypedDict):
    """The letter, and what became of it."""

    letter: str
    outcome: str


class State(Request, Result, total=False):
    """The request, the result, and what was wished for so far."""

    wishes: list[str]


Letters = CompiledStateGraph[State, Any, Request, Result]


def draft(state: State) -> dict[str, object]:
    """Write the letter, with a sentence for each wish; put a model in its place, and nothing else changes."""
    wishes = state.get("wishes", [])
    lines = [f"Dear {state.get('customer', 'customer')},", "your order is on its way."]
    for wish in wishes:
        lines += [sentence for word, sentence in SENTENCES.items() if word in wish.lower()] or [f"PS: {wish}"]
    return {"letter": "\n".join(lines)}


def approve(state: State) -> Command[Literal["draft", "send", "__end__"]]:
    """Ask a person. With the answer this node runs again from its first line, so it does nothing else."""
    answer = str(interrupt({"letter": state["letter"], "question": "Send it? yes, no, or what to change"})).strip()
    if answer.lower() == "yes":
        return Command(goto="send")
    if answer.lower() == "no":
        return Command(update={"outcome": "dropped", "wishes": []}, goto=END)
    return Command(update={"wishes": [*state.get("wishes", []), answer]}, goto="draft")


def send(state: State) -> dict[str, object]:
    """Send the letter. A node of its own: what must not happen twice does not belong before a question."""
    return {"outcome": f"sent to {state.get('customer', 'customer')}", "wishes": []}


builder = StateGraph(State, input_schema=Request, output_schema=Result)
builder.add_node("draft", draft)
builder.add_node("approve", approve)
builder.add_node("send", send)
builder.add_edge(START, "draft")
builder.add_edge("draft", "approve")
graph = builder.compile(name="approval")  # a cluster keeps its threads; inline it wants a saver


# --- The command line -------------------------------------------------------------------------------------------------


@contextmanager
def opened(file: str, url: str | None) -> Generator[Letters]:
    """The graph with a place for its threads: a cluster, or a file."""
    if url is not None:
        with Cluster(url) as cluster:
            yield graph.with_cluster(cluster)
    else:
        with SqliteSaver.from_conn_string(file) as saver:
            yield builder.compile(name="approval", checkpointer=saver)


def shown(result: dict[str, Any]) -> str:
    """What a run came to: a question, or the end."""
    if "__interrupt__" not in result:
        return str(result["outcome"])
    (asked,) = result["__interrupt__"]
    return f"{asked.value['letter']}\n\n{asked.value['question']}"


def main() -> None:
    """Begin a letter, or answer what was asked about one."""
    parser = argparse.ArgumentParser(description="Draft a letter, and send it once a person agrees.")
    commands = parser.add_subparsers(dest="command", required=True)
    ask = commands.add_parser("ask", help="draft a letter and ask about it")
    ask.add_argument("--customer", default="customer")
    answer = commands.add_parser("answer", help="answer: yes, no, or what to change")
    answer.add_argument("text")
    for command in (ask, answer):
        command.add_argument("--thread", default="letter", help="which letter; several can wait at a time")
        command.add_argument("--file", default="approval.db", help="where threads are kept")
        command.add_argument("--url", help="the state server of a cluster, to run there")
    options = parser.parse_args()

    config: RunnableConfig = {"configurable": {"thread_id": options.thread}}
    with opened(options.file, options.url) as letters:
        waiting = bool(letters.get_state(config).interrupts)
        if waiting != (options.command == "answer"):
            sys.exit(f"letter {options.thread!r} {'waits for an answer' if waiting else 'waits for no answer'}")
        given = Command[str](resume=options.text) if waiting else {"customer": options.customer}
        print(shown(letters.invoke(given, config)))


if __name__ == "__main__":
    main()
