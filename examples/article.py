"""An article from notes: two writers at once, then a review that sends the draft back until it reads well.

`plan` finds the sections, the writers pick their sentences in parallel, `assemble` waits for both, and `review` either
accepts or sends the draft to `revise`, three rounds at most::

    START -> plan -> write_intro, write_body -> assemble -> review -> END
                                                            review <-> revise

Every step is plain text processing, so the graph runs without a model and always gives the same article; put your
own writers in their places. The writers are extractive: a sentence matters as much as the words in it are frequent
in all the notes (Luhn, 1958).

    python examples/article.py                                   # from examples/data/notes.txt
    python examples/article.py --topic Bees --notes bees.txt
"""

import argparse
import operator
import re
import textwrap
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from phalanx.graph import END, START, StateGraph
from phalanx.types import Command

MAX_ROUNDS = 3
MAX_WORDS = 30  # a longer sentence is hard to follow
MIN_CLAUSE = 5  # words a clause needs to stand as a sentence of its own
KEEP = 0.6  # the share of its sentences a section keeps


class Section(TypedDict):
    """A heading of the notes and what they say below it."""

    title: str
    text: str


class Complaint(TypedDict):
    """What the reviewer dislikes, and the very words."""

    about: Literal["long sentence", "repeated word", "filler"]
    text: str


class Review(TypedDict):
    """One round's verdict; no complaints means accepted."""

    round: int
    words_per_sentence: float
    complaints: list[Complaint]


class Request(TypedDict):
    """A topic, and notes as free text: paragraphs with or without `# headings`."""

    topic: str
    notes: str


class Article(TypedDict):
    """The text, and how it came to be: one review a round."""

    article: str
    reviews: Annotated[list[Review], operator.add]
    rounds: int


class State(Request, Article):
    """The request, the article, and the parts it is made of."""

    sections: list[Section]
    intro: str
    body: list[Section]


# --- The nodes --------------------------------------------------------------------------------------------------------


def plan(state: State) -> dict[str, object]:
    """Find the sections of the notes."""
    sections = outline(state["notes"])
    if not sections:
        raise ValueError(f"the notes on {state['topic']!r} are empty: there is nothing to write about")
    return {"sections": sections}


def write_intro(state: State) -> dict[str, object]:
    """Open with the best sentence of every other section, and say what follows."""
    weights = word_weights(state["sections"])
    highlights = [summarise(section["text"], 1, weights) for section in state["sections"][::2]]
    return {"intro": " ".join([*highlights, f"What follows is in {len(state['sections'])} parts."])}


def write_body(state: State) -> dict[str, object]:
    """Shorten every section to its most telling sentences."""
    weights = word_weights(state["sections"])
    return {"body": [shorten(section, weights) for section in state["sections"]]}


def assemble(state: State) -> dict[str, object]:
    """Put the parts together. The writers worked apart, so drop from the body what the intro already says."""
    said = set(sentences(state["intro"]))
    parts = [f"# {state['topic']}", state["intro"]]
    for section in state["body"]:
        if rest := [sentence for sentence in sentences(section["text"]) if sentence not in said]:
            parts += [f"## {section['title']}", " ".join(rest)]
    return {"article": "\n\n".join(parts), "rounds": 0}


def review(state: State) -> Command[Literal["revise", "__end__"]]:
    """Read the draft; accept it, or send it to be revised unless this was the last round."""
    number = state["rounds"] + 1
    prose = [sentence for line in state["article"].splitlines() if is_prose(line) for sentence in sentences(line)]
    complaints = [complaint for sentence in prose for complaint in criticise(sentence)]
    words = sum(len(sentence.split()) for sentence in prose)
    verdict = Review(round=number, words_per_sentence=round(words / len(prose), 1), complaints=complaints)
    return Command(
        update={"reviews": [verdict], "rounds": number},
        goto="revise" if complaints and number < MAX_ROUNDS else END,
    )


def revise(state: State) -> dict[str, object]:
    """Mend every sentence the last review complained about."""
    article = state["article"]
    for complaint in state["reviews"][-1]["complaints"]:
        article = article.replace(complaint["text"], REMEDIES[complaint["about"]](complaint["text"]), 1)
    return {"article": article}


builder = StateGraph(State, input_schema=Request, output_schema=Article)
builder.add_node("plan", plan)
builder.add_node("write_intro", write_intro)
builder.add_node("write_body", write_body)
builder.add_node("assemble", assemble)
builder.add_node("review", review)
builder.add_node("revise", revise)
builder.add_edge(START, "plan")
builder.add_edge("plan", "write_intro")
builder.add_edge("plan", "write_body")
builder.add_edge(["write_intro", "write_body"], "assemble")
builder.add_edge("assemble", "review")
builder.add_edge("revise", "review")
graph = builder.compile(name="article")


# --- Writing ----------------------------------------------------------------------------------------------------------


def outline(notes: str) -> list[Section]:
    """Split notes into sections: by `# headings`, else by paragraphs, titled by their most frequent word."""
    sections: list[Section] = []
    title = ""
    for block in re.split(r"\n\s*\n", notes.strip()):
        lines = [line.strip() for line in block.splitlines()]
        if lines and lines[0].startswith("#"):
            title = lines.pop(0).lstrip("# ")
        if not (text := " ".join(lines)):
            continue
        if title and sections and sections[-1]["title"] == title:
            sections[-1]["text"] += " " + text
        else:
            sections.append(Section(title=title or keyword(text), text=text))
    return sections


def keyword(text: str) -> str:
    """Return the most frequent word of a text that is long enough to mean something."""
    words = Counter(content_words(text))
    return max(words, key=lambda word: (words[word], word)).capitalize() if words else "Notes"


def sentences(text: str) -> list[str]:
    """Split a paragraph after every full stop, question or exclamation mark that a capital follows."""
    return re.split(r"(?<=[.!?])\s+(?=[A-Z])", text.strip())


def content_words(text: str) -> list[str]:
    """Return the words of five letters and more, in lower case; the shorter ones are mostly grammar."""
    return re.findall(r"[a-z]{5,}", text.lower())


def word_weights(sections: list[Section]) -> Counter[str]:
    """Count how often each word is used in all sections."""
    return Counter(word for section in sections for word in content_words(section["text"]))


def summarise(text: str, number: int, weights: Counter[str]) -> str:
    """Return the `number` sentences whose words weigh most on average, in their own order."""

    def weight(sentence: str) -> float:
        words = content_words(sentence)
        return sum(weights[word] for word in words) / (len(words) + 2)  # + 2: a short sentence is not thereby the best

    every = sentences(text)
    best = sorted(range(len(every)), key=lambda position: -weight(every[position]))[:number]
    return " ".join(every[position] for position in sorted(best))


def shorten(section: Section, weights: Counter[str]) -> Section:
    """Keep the best part of a section."""
    number = max(1, round(len(sentences(section["text"])) * KEEP))
    return Section(title=section["title"], text=summarise(section["text"], number, weights))


# --- Reviewing and revising -------------------------------------------------------------------------------------------

FILLERS = {"in order to ": "to ", "in truth, ": "", "of course, ": "", "very ": "", "really ": "", "quite ": ""}
FILLER = re.compile(r"\b(" + "|".join(FILLERS) + ")", re.IGNORECASE)
DOUBLED = re.compile(r"\b(\w+)(\s+\1\b)+", re.IGNORECASE)
JOINTS = {"; ": "", ", and ": "", ", but ": "But ", ", so ": "So ", ", which ": "This "}
JOINT = re.compile("(?:" + "|".join(JOINTS) + ")(?!that )")


def is_prose(line: str) -> bool:
    """Tell prose from headings and blank lines."""
    return bool(line) and not line.startswith("#")


def criticise(sentence: str) -> list[Complaint]:
    """List what is wrong with a sentence: one fault at a time, the smallest first."""
    if DOUBLED.search(sentence):
        return [Complaint(about="repeated word", text=sentence)]
    if FILLER.search(sentence):
        return [Complaint(about="filler", text=sentence)]
    if len(sentence.split()) > MAX_WORDS:
        return [Complaint(about="long sentence", text=sentence)]
    return []


def say_once(sentence: str) -> str:
    """Take back a word that was said twice."""
    return DOUBLED.sub(r"\1", sentence)


def strip_fillers(sentence: str) -> str:
    """Leave out the words that say nothing."""
    return capital(FILLER.sub(lambda found: FILLERS[found[0].lower()], sentence))


def split_in_two(sentence: str) -> str:
    """Break a sentence at the joint nearest its middle, if both halves can stand alone."""
    joints = [
        joint
        for joint in JOINT.finditer(sentence)
        if min(len(sentence[: joint.start()].split()), len(sentence[joint.end() :].split())) >= MIN_CLAUSE
    ]
    if not joints:
        return sentence
    joint = min(joints, key=lambda joint: abs(joint.start() + joint.end() - len(sentence)))
    return f"{sentence[: joint.start()]}. {capital(JOINTS[joint[0]] + sentence[joint.end() :])}"


def capital(sentence: str) -> str:
    """Begin with a capital letter and leave the rest alone."""
    return sentence[:1].upper() + sentence[1:]


REMEDIES: dict[str, Callable[[str], str]] = {
    "repeated word": say_once,
    "filler": strip_fillers,
    "long sentence": split_in_two,
}


def main() -> None:
    """Write an article from the command line."""
    parser = argparse.ArgumentParser(description="Write an article from notes.")
    parser.add_argument("--topic", default="How lighthouses worked")
    parser.add_argument("--notes", type=Path, default=Path(__file__).parent / "data" / "notes.txt", help="a text file")
    options = parser.parse_args()
    result = graph.invoke({"topic": options.topic, "notes": options.notes.read_text(encoding="utf-8")})
    print("\n".join(textwrap.fill(line, 100) for line in result["article"].splitlines()))
    print()
    for verdict in result["reviews"]:
        faults = ", ".join(f"{n} x {fault}" for fault, n in Counter(c["about"] for c in verdict["complaints"]).items())
        print(f"Review {verdict['round']}: {verdict['words_per_sentence']} words a sentence; {faults or 'accepted'}")


if __name__ == "__main__":
    main()
