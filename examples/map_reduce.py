"""Map and reduce: a verse for each topic of a theme, all of them written at once, and the best one chosen.

`find_topics` looks up what there is to write about, one `Send` a topic hands out the work, the reducer of `verses`
gathers what comes back, and `choose` takes the verse that pleases most::

    START -> find_topics -> write, write, write, ... -> choose -> END

`write` picks words that begin like its topic; put a model in its place, and nothing else changes.

    python examples/map_reduce.py
    python examples/map_reduce.py --theme kitchen
"""

import argparse
import operator
from typing import Annotated, TypedDict

from phalanx.graph import END, START, StateGraph
from phalanx.types import Send

THEMES = {
    "sea": ["sailors", "waves", "lighthouses", "gulls"],
    "kitchen": ["pans", "bakers", "spoons"],
}
WORDS = (
    "bake before big bread brown calm dozens for gather glide gravely grey half hidden large late light lines long "
    "loud low over past patiently peel pears pile plenty salt seven shine ships silver sing softly soup steer stir "
    "swiftly towards warm wash west while wide wind with worn"
)


class Request(TypedDict, total=False):
    """The theme to write about; the sea unless given."""

    theme: str


class Verse(TypedDict):
    """A line about a topic."""

    topic: str
    text: str


class Result(TypedDict):
    """The verse that was chosen, and all there were."""

    best: Verse
    verses: Annotated[list[Verse], operator.add]


class State(Result):
    """The result, and what is on the way to it."""

    topics: list[str]


class Topic(TypedDict):
    """What one `write` is sent."""

    topic: str


def find_topics(state: Request) -> dict[str, object]:
    """Look up the topics of the theme."""
    theme = state.get("theme", "sea")
    if theme not in THEMES:
        raise ValueError(f"no topics for the theme {theme!r}; there are: {', '.join(sorted(THEMES))}")
    return {"topics": THEMES[theme]}


def hand_out(state: State) -> list[Send]:
    """Send each topic to a `write` of its own."""
    return [Send("write", {"topic": topic}) for topic in state["topics"]]


def write(task: Topic) -> dict[str, object]:
    """Write a line of words that begin like the topic."""
    topic = task["topic"]
    words = [word for word in WORDS.split() if word.startswith(topic[0])]
    return {"verses": [Verse(topic=topic, text=" ".join([topic.capitalize(), *words]))]}


def choose(state: State) -> dict[str, object]:
    """Take the longest line; of equals, the first by the alphabet."""
    return {"best": min(state["verses"], key=lambda verse: (-len(verse["text"].split()), verse["topic"]))}


builder = StateGraph(State, input_schema=Request, output_schema=Result)
builder.add_node("find_topics", find_topics)
builder.add_node("write", write)
builder.add_node("choose", choose)
builder.add_edge(START, "find_topics")
builder.add_conditional_edges("find_topics", hand_out, ["write"])
builder.add_edge("write", "choose")
builder.add_edge("choose", END)
graph = builder.compile(name="map_reduce")


def main() -> None:
    """Write verses from the command line."""
    parser = argparse.ArgumentParser(description="Write a verse for each topic of a theme and choose the best.")
    parser.add_argument("--theme", choices=sorted(THEMES), default="sea")
    result = graph.invoke({"theme": parser.parse_args().theme})
    for verse in result["verses"]:
        print(("* " if verse == result["best"] else "  ") + verse["text"])


if __name__ == "__main__":
    main()
