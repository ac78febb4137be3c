"""A team of teams: a supervisor sends graphs to work, each of which fans out by itself.

`supervise` sends a reading team to every shelf that may know something, then has a team of checkers look at what came
back, and then has the report written. Both teams are graphs that are nodes::

    START -> supervise -> readers, readers, ... -> supervise -> checkers -> supervise -> write -> END

    readers:   START -> read, read, ...  -> END       a task a source
    checkers:  START -> check, check, ... -> END      a task a note

On a cluster each team is a run of its own: the tasks of all teams share the workers, and a team that waits for its
tasks holds none.

    python examples/research_team.py
    python examples/research_team.py --question keeper --workers 2
"""

import argparse
import operator
import re
from typing import Annotated, Literal, TypedDict

from phalanx.graph import END, START, StateGraph
from phalanx.types import Command, Send

SHELVES = {
    "engineering": {
        "On lamps": "Whale oil burned bright and dear. Rape oil burned longer, and cost half as much.",
        "On lenses": "A lens bends the light of a lamp into a beam. The largest lens weighs four tons.",
    },
    "daily life": {
        "A keeper's log": "The keeper trimmed the wick of the lamp each evening. Oil was carried up by hand.",
        "Letters home": "The keeper wrote of fog, gulls and long nights. In winter the oil froze.",
    },
    "accounts": {
        "Ledger of 1858": "Oil: forty barrels. Rape oil cost half of what whale oil did.",
    },
}
COMMON = "a and as at by did each for half his in it much of on the to up was what with"


class Note(TypedDict):
    """A sentence that may answer the question, and how many other sources say something like it."""

    source: str
    text: str
    support: int


class Request(TypedDict, total=False):
    """What to find out about: a word; oil unless given."""

    question: str


class Report(TypedDict):
    """What the team found."""

    report: str


class State(Request, Report):
    """The request, the report, and what the teams brought back."""

    notes: Annotated[list[Note], operator.add]
    checked: Annotated[list[Note], operator.add]
    stage: str


# --- The reading team: one shelf, a task a source ---------------------------------------------------------------------


class Errand(TypedDict):
    """What a reading team is sent for."""

    question: str
    shelf: str


class Found(TypedDict):
    """What it brings back. An output schema of its own: what the supervisor has already would come back twice."""

    notes: Annotated[list[Note], operator.add]


class Reading(Errand, Found):
    """The errand, and what was found."""


class Source(TypedDict):
    """What one reader is sent."""

    question: str
    title: str
    text: str


def open_shelf(errand: Reading) -> list[Send]:
    """Hand each source of the shelf to a reader."""
    sources = SHELVES[errand["shelf"]]
    return [Send("read", Source(question=errand["question"], title=title, text=sources[title])) for title in sources]


def read(source: Source) -> dict[str, object]:
    """Note the sentences that have the word."""
    sentences = re.split(r"(?<=\.) ", source["text"])
    hits = [sentence for sentence in sentences if source["question"].lower() in words(sentence)]
    return {"notes": [Note(source=source["title"], text=text, support=0) for text in hits]}


reading = StateGraph(Reading, input_schema=Errand, output_schema=Found)
reading.add_node("read", read)
reading.add_conditional_edges(START, open_shelf, ["read"])
readers = reading.compile()


# --- The checkers: a task a note --------------------------------------------------------------------------------------


class Doubt(TypedDict):
    """What the checkers are given: the notes of all readers."""

    question: str
    notes: list[Note]


class Checked(TypedDict):
    """What they bring back."""

    checked: Annotated[list[Note], operator.add]


class Checking(Doubt, Checked):
    """The notes, and what was checked."""


class Claim(TypedDict):
    """What one checker is sent: a note, and what other sources say."""

    question: str
    note: Note
    others: list[Note]


def share_out(doubt: Checking) -> list[Send]:
    """Hand each note to a checker, with those of other sources."""
    claims = [
        Claim(
            question=doubt["question"],
            note=note,
            others=[other for other in doubt["notes"] if other["source"] != note["source"]],
        )
        for note in doubt["notes"]
    ]
    return [Send("check", claim) for claim in claims]


def check(claim: Claim) -> dict[str, object]:
    """Count the other sources that share two words with the note, beside the one that was asked about."""
    own = words(claim["note"]["text"]) - {claim["question"].lower()}
    support = {other["source"] for other in claim["others"] if len(own & words(other["text"])) >= 2}
    return {"checked": [Note(source=claim["note"]["source"], text=claim["note"]["text"], support=len(support))]}


checking = StateGraph(Checking, input_schema=Doubt, output_schema=Checked)
checking.add_node("check", check)
checking.add_conditional_edges(START, share_out, ["check"])
checkers = checking.compile()


# --- The supervisor ---------------------------------------------------------------------------------------------------


def supervise(state: State) -> Command[Literal["readers", "checkers", "write"]]:
    """Say who is next; a model could, if it answered with one of these names."""
    question = state.get("question", "oil")
    if "stage" not in state:
        errands = [Send("readers", Errand(question=question, shelf=shelf)) for shelf in SHELVES]
        return Command(update={"stage": "read", "question": question}, goto=errands)
    if state["stage"] == "read" and state["notes"]:
        return Command(update={"stage": "checked"}, goto="checkers")
    return Command(goto="write")


def write(state: State) -> dict[str, object]:
    """Write what was found, the best supported first."""
    notes = sorted(state["checked"], key=lambda note: -note["support"])
    lines = [f"- {note['text']} ({note['source']}; supported by {note['support']})" for note in notes]
    return {"report": "\n".join([f"About {state.get('question')}:", *(lines or ["nothing was found."])])}


def words(text: str) -> set[str]:
    """The words of a text that say something."""
    return set(re.findall(r"[a-z]+", text.lower())).difference(COMMON.split())


builder = StateGraph(State, input_schema=Request, output_schema=Report)
builder.add_node("supervise", supervise)
builder.add_node("readers", readers)
builder.add_node("checkers", checkers)
builder.add_node("write", write)
builder.add_edge(START, "supervise")
builder.add_edge("readers", "supervise")
builder.add_edge("checkers", "supervise")
builder.add_edge("write", END)
graph = builder.compile(name="research_team")


def main() -> None:
    """Have the team find something out."""
    parser = argparse.ArgumentParser(description="Have a team of teams read, check and report.")
    parser.add_argument("--question", default="oil", help="a word to find out about")
    parser.add_argument("--workers", type=int, default=0, help="local worker processes (default: none, run inline)")
    options = parser.parse_args()
    request: Request = {"question": options.question}
    if options.workers:
        from phalanx.coordinator import Cluster  # only now: inline needs neither broker nor server

        with Cluster.local(workers=options.workers) as cluster:
            print(graph.with_cluster(cluster).invoke(request)["report"])
    else:
        print(graph.invoke(request)["report"])


if __name__ == "__main__":
    main()
